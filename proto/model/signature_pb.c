/* proto/model/signature_pb.c - copies SignatureDefs out of the unpacked message into sorted arrays.
 *
 * inputs and outputs of a signature are maps whose entries protobuf-c gives one memory layout, so one
 * function reads both (a static assertion holds them together). Each array is sorted by key after reading,
 * which brings equal keys together, and they are refused. The parts of a sparse or composite tensor are
 * listed depth first into one flat list of names. A default value belongs to the input of its key; of several
 * the first counts, of no input it is ignored.
 *
 * Does not: look at the graph: whether the tensors exist is asked where a signature is called.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/signature_pb.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/shape_pb.h"
#include "proto/pb/tensor_pb.h"

enum { MAX_TENSORS = 1 << 16, MAX_PARTS = 1 << 12 };

typedef Tensorflow__TensorInfo tensor_info;

static enum td_code copy_text(struct td_arena *a, const char *s, const char **out, struct td_err *err)
{
    *out = td_arena_strdup(a, s);
    return *out == NULL ? td_no_memory(err, strlen(s), "signature") : TD_OK;
}

/* ---- one tensor */

/* Tensor names of a composite, depth first; the guard has bounded the depth. */
static enum td_code list_parts(const tensor_info *p, const char **parts, int *n, struct td_err *err)
{
    switch (p->encoding_case) {
    case TENSORFLOW__TENSOR_INFO__ENCODING_NAME:
        TD_FAIL_IF(*n == MAX_PARTS, err, INVALID_ARGUMENT, "a composite tensor has more than %d parts",
                   MAX_PARTS);
        parts[(*n)++] = p->name;
        return TD_OK;
    case TENSORFLOW__TENSOR_INFO__ENCODING_COO_SPARSE:
        TD_FAIL_IF(*n > MAX_PARTS - 3, err, INVALID_ARGUMENT, "a composite tensor has more than %d parts",
                   MAX_PARTS);
        parts[(*n)++] = p->coo_sparse->values_tensor_name;
        parts[(*n)++] = p->coo_sparse->indices_tensor_name;
        parts[(*n)++] = p->coo_sparse->dense_shape_tensor_name;
        return TD_OK;
    case TENSORFLOW__TENSOR_INFO__ENCODING_COMPOSITE_TENSOR:
        for (size_t i = 0; i < p->composite_tensor->n_components; i++) {
            TD_TRY(list_parts(p->composite_tensor->components[i], parts, n, err));
        }
        return TD_OK;
    default:
        return TD_OK;
    }
}

static enum td_code read_parts(const tensor_info *p, struct td_arena *a, struct td_tensor_info *out,
                               struct td_err *err)
{
    const char **parts = td_calloc(MAX_PARTS, sizeof *parts);
    int n = 0;
    if (parts == NULL) {
        return td_no_memory(err, MAX_PARTS * sizeof *parts, "signature");
    }
    enum td_code rc = list_parts(p, parts, &n, err);
    const char **kept = td_arena_alloc(a, (size_t)n + 1, sizeof *kept);
    if (rc == TD_OK && kept == NULL) {
        rc = td_no_memory(err, (size_t)n, "signature");
    }
    for (int i = 0; rc == TD_OK && i < n; i++) {
        rc = copy_text(a, parts[i], &kept[i], err);
    }
    out->parts = kept;
    out->n_parts = n;
    td_free(parts);
    return rc;
}

static enum td_code read_info(const char *key, const tensor_info *p, struct td_arena *a,
                              struct td_tensor_info *out, struct td_err *err)
{
    static const tensor_info nothing = TENSORFLOW__TENSOR_INFO__INIT;
    p = p == NULL ? &nothing : p;
    TD_TRY(copy_text(a, key, &out->key, err));
    TD_TRY(td_dtype_from_number((int)p->dtype, &out->dtype, err));
    TD_TRY(td_shape_from_proto(p->tensor_shape, &out->shape, err));
    out->is_ref = p->dtype > 100;
    out->tensor = "";
    if (p->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME) {
        return copy_text(a, p->name, &out->tensor, err);
    }
    return read_parts(p, a, out, err);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct td_tensor_info *)a)->key, ((const struct td_tensor_info *)b)->key);
}

/* protobuf-c gives the entries of both maps the same layout; see the assertion. */
typedef Tensord__Loader__SignatureDef__InputsEntry info_entry;
_Static_assert(sizeof(info_entry) == sizeof(Tensord__Loader__SignatureDef__OutputsEntry) &&
                   offsetof(info_entry, key) == offsetof(Tensord__Loader__SignatureDef__OutputsEntry, key) &&
                   offsetof(info_entry, value) ==
                       offsetof(Tensord__Loader__SignatureDef__OutputsEntry, value),
               "entries of the maps of a SignatureDef have one layout");

static enum td_code read_infos(info_entry *const *entries, size_t n, struct td_arena *a,
                               struct td_tensor_info **out, int *n_out, struct td_err *err)
{
    TD_FAIL_IF(n > MAX_TENSORS, err, INVALID_ARGUMENT, "%zu tensors, at most %d are allowed", n, MAX_TENSORS);
    *out = td_arena_alloc(a, n + 1, sizeof **out);
    if (*out == NULL) {
        return td_no_memory(err, n * sizeof **out, "signature");
    }
    for (size_t i = 0; i < n; i++) {
        if (read_info(entries[i]->key, entries[i]->value, a, &(*out)[i], err)) {
            return td_err_wrap(err, "tensor '%s'", entries[i]->key);
        }
    }
    qsort(*out, n, sizeof **out, by_key);
    for (size_t i = 1; i < n; i++) {
        TD_FAIL_IF(strcmp((*out)[i - 1].key, (*out)[i].key) == 0, err, INVALID_ARGUMENT,
                   "tensor '%s' is given twice", (*out)[i].key);
    }
    *n_out = (int)n;
    return TD_OK;
}

/* ---- default values of inputs */

static enum td_code read_default(const Tensord__Loader__SignatureDef__DefaultsEntry *e, uint64_t tensor_bytes,
                                 struct td_arena *a, struct td_signature *s, struct td_err *err)
{
    for (int i = 0; i < s->n_in; i++) {
        if (strcmp(s->in[i].key, e->key) != 0 || e->value.len == 0 || s->defaults[i].dtype != TD_DTYPE_NONE) {
            continue;
        }
        if (td_tensor_from_bytes(e->value.data, e->value.len, tensor_bytes, &s->defaults[i], err)) {
            return td_err_wrap(err, "default of input '%s'", e->key);
        }
        TD_TRY(td_tensor_keep(a, &s->defaults[i], err));
    }
    return TD_OK;
}

/* ---- signatures */

static enum td_code read_signature(const Tensord__Loader__SignatureDef *p, uint64_t tensor_bytes,
                                   struct td_arena *a, struct td_signature *s, struct td_err *err)
{
    TD_TRY(copy_text(a, p->method_name, &s->method, err));
    TD_TRY(read_infos(p->inputs, p->n_inputs, a, &s->in, &s->n_in, err));
    TD_TRY(read_infos((info_entry *const *)p->outputs, p->n_outputs, a, &s->out, &s->n_out, err));
    s->defaults = td_arena_alloc(a, (size_t)s->n_in + 1, sizeof s->defaults[0]);
    if (s->defaults == NULL) {
        return td_no_memory(err, sizeof s->defaults[0], "signature");
    }
    for (size_t i = 0; i < p->n_defaults && i < MAX_PARTS; i++) {
        TD_TRY(read_default(p->defaults[i], tensor_bytes, a, s, err));
    }
    return TD_OK;
}

static int by_signature_key(const void *a, const void *b)
{
    return strcmp(((const struct td_signature *)a)->key, ((const struct td_signature *)b)->key);
}

enum td_code td_signatures_from_proto(const Tensord__Loader__MetaGraphDef *p, uint64_t tensor_bytes,
                                      struct td_saved_model *m, struct td_err *err)
{
    static const Tensord__Loader__SignatureDef nothing = TENSORD__LOADER__SIGNATURE_DEF__INIT;
    size_t n = p->n_signature_def;
    TD_FAIL_IF(n > MAX_TENSORS, err, INVALID_ARGUMENT, "%zu signatures, at most %d are allowed", n,
               MAX_TENSORS);
    m->signatures = td_arena_alloc(m->arena, n + 1, sizeof m->signatures[0]);
    if (m->signatures == NULL) {
        return td_no_memory(err, n * sizeof m->signatures[0], "signatures");
    }
    for (size_t i = 0; i < n; i++) {
        const Tensord__Loader__SignatureDef *def = p->signature_def[i]->value;
        TD_TRY(copy_text(m->arena, p->signature_def[i]->key, &m->signatures[i].key, err));
        if (read_signature(def == NULL ? &nothing : def, tensor_bytes, m->arena, &m->signatures[i], err)) {
            return td_err_wrap(err, "signature '%s'", m->signatures[i].key);
        }
    }
    m->n_signatures = (int)n;
    qsort(m->signatures, n, sizeof m->signatures[0], by_signature_key);
    for (size_t i = 1; i < n; i++) {
        TD_FAIL_IF(strcmp(m->signatures[i - 1].key, m->signatures[i].key) == 0, err, INVALID_ARGUMENT,
                   "signature '%s' is given twice", m->signatures[i].key);
    }
    return TD_OK;
}
