/* proto/model/signature_write.c - a signature, field by field into a sink.
 *
 * Messages are written inside out: fields first, then td_put_end puts the head in front of them. What was
 * loaded is written as it was declared: references get their number (+100) back, a tensor of three parts is a
 * coo_sparse, one of another number of parts a composite_tensor. Tensors go in the order of their keys.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/signature_write.h"

#include "proto/model/graph_write.h"
#include "proto/pb/wire.h"

#define REF_TYPE 100 /* DataType of a reference = that of its value + 100 */

/* A coo_sparse = 4 { values = 1, indices = 2, dense_shape = 3 }, or composite_tensor = 5 { components = 2 {
 * name = 1 } } otherwise. */
static enum td_code write_parts(struct td_sink *s, const struct td_tensor_info *t, struct td_err *err)
{
    size_t at = td_put_mark(s);
    for (int i = 0; i < t->n_parts; i++) {
        if (t->n_parts == 3) {
            TD_TRY(td_put_text(s, (uint32_t)i + 1, t->parts[i], err));
            continue;
        }
        size_t part = td_put_mark(s);
        TD_TRY(td_put_text(s, 1, t->parts[i], err));
        TD_TRY(td_put_end(s, 2, part, err));
    }
    return td_put_end(s, t->n_parts == 3 ? 4 : 5, at, err);
}

/* TensorInfo { name = 1, dtype = 2, tensor_shape = 3, coo_sparse = 4, composite_tensor = 5 } under its key,
 * as a map entry */
static enum td_code write_info(struct td_sink *s, uint32_t field, const struct td_tensor_info *t,
                               struct td_err *err)
{
    size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, t->key, err));
    size_t at = td_put_mark(s);
    if (t->n_parts > 0) {
        TD_TRY(write_parts(s, t, err));
    } else if (*t->tensor) {
        TD_TRY(td_put_text(s, 1, t->tensor, err));
    }
    if (t->dtype != TD_DTYPE_NONE) {
        TD_TRY(td_put_int(s, 2, t->dtype + (t->is_ref ? REF_TYPE : 0), err));
    }
    size_t shape = td_put_mark(s);
    TD_TRY(td_shape_write(s, &t->shape, err));
    TD_TRY(td_put_end(s, 3, shape, err));
    TD_TRY(td_put_end(s, 2, at, err));
    return td_put_end(s, field, entry, err);
}

static enum td_code write_default(struct td_sink *s, const char *key, const struct td_tensor *t,
                                  struct td_err *err)
{
    size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, key, err));
    size_t at = td_put_mark(s);
    TD_TRY(td_tensor_to_bytes(t, false, s, err));
    TD_TRY(td_put_end(s, 2, at, err));
    return td_put_end(s, 4, entry, err);
}

/* SignatureDef { inputs = 1, outputs = 2, method_name = 3, defaults = 4 } */
enum td_code td_signature_write(struct td_sink *s, uint32_t field, const struct td_signature *sig,
                                struct td_err *err)
{
    size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, sig->key, err));
    size_t at = td_put_mark(s);
    for (int i = 0; i < sig->n_in; i++) {
        TD_TRY(write_info(s, 1, &sig->in[i], err));
    }
    for (int i = 0; i < sig->n_out; i++) {
        TD_TRY(write_info(s, 2, &sig->out[i], err));
    }
    if (*sig->method) {
        TD_TRY(td_put_text(s, 3, sig->method, err));
    }
    for (int i = 0; i < sig->n_in && sig->defaults != NULL; i++) {
        if (sig->defaults[i].dtype != TD_DTYPE_NONE) {
            TD_TRY(write_default(s, sig->in[i].key, &sig->defaults[i], err));
        }
    }
    TD_TRY(td_put_end(s, 2, at, err));
    return td_put_end(s, field, entry, err);
}
