/* proto/model/model_pb.c - signatures and metadata, written field by field into a sink.
 *
 * Messages are written inside out: fields first, then td_put_end puts the head in front of them. What was
 * loaded is written as it was declared: references get their number (+100) back, a tensor of three parts is a
 * coo_sparse, one of another number of parts a composite_tensor. Signatures and tensors go in the order of
 * their keys.
 *
 * Does not: keep the bytes it read the model from, so fields that the loader skipped do not come back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/model_pb.h"

#define TYPE_URL "type.googleapis.com/tensorflow.serving.SignatureDefMap"
#define REF_TYPE 100 /* DataType of a reference = that of its value + 100 */
#define MAX_FIELDS 256

/* TensorShapeProto { dim = 2 { size = 1 }, unknown_rank = 3 } as field 3 */
static enum td_code write_shape(struct td_sink *s, const struct td_shape *shape, struct td_err *err)
{
    size_t at = td_put_mark(s);
    if (shape->rank < 0) {
        TD_TRY(td_put_int(s, 3, 1, err));
    }
    for (int i = 0; i < shape->rank; i++) {
        size_t dim = td_put_mark(s);
        if (shape->dim[i] != 0) {
            TD_TRY(td_put_int(s, 1, shape->dim[i], err));
        }
        TD_TRY(td_put_end(s, 2, dim, err));
    }
    return td_put_end(s, 3, at, err);
}

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
    TD_TRY(write_shape(s, &t->shape, err));
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

/* SignatureDef { inputs = 1, outputs = 2, method_name = 3, defaults = 4 } under its key */
static enum td_code write_signature(struct td_sink *s, const struct td_signature *sig, struct td_err *err)
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
    return td_put_end(s, 1, entry, err);
}

/* SignatureDefMap { signature_def = 1 map<string, SignatureDef> }, every signature of the model. */
static enum td_code write_signatures(struct td_sink *s, const struct td_saved_model *m, struct td_err *err)
{
    for (int i = 0; i < m->n_signatures; i++) {
        TD_TRY(write_signature(s, &m->signatures[i], err));
    }
    return TD_OK;
}

enum td_code td_metadata_read(struct td_wire w, struct td_arena *a, struct td_metadata_pb *out,
                              struct td_err *err)
{
    struct td_field f;
    *out = (struct td_metadata_pb){.spec = {.name = "", .signature = ""}};
    out->field = td_arena_alloc(a, MAX_FIELDS, sizeof *out->field);
    TD_FAIL_IF(out->field == NULL, err, RESOURCE_EXHAUSTED, "reading a GetModelMetadataRequest: no memory");
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_model_spec_read(f.sub, a, &out->spec, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(out->n_field == MAX_FIELDS, err, INVALID_ARGUMENT,
                       "GetModelMetadataRequest: more than %d metadata fields", MAX_FIELDS);
            TD_TRY(td_wire_text(f.sub, a, &out->field[out->n_field++], err));
        }
    }
}

enum td_code td_metadata_write(struct td_sink *s, const char *name, int64_t version,
                               const struct td_saved_model *m, struct td_err *err)
{
    TD_TRY(td_model_spec_write(s, 1, name, "", version, err));
    size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, "signature_def", err));
    size_t any = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, TYPE_URL, err));
    size_t value = td_put_mark(s);
    TD_TRY(write_signatures(s, m, err));
    TD_TRY(td_put_end(s, 2, value, err));
    TD_TRY(td_put_end(s, 2, any, err));
    return td_put_end(s, 2, entry, err);
}
