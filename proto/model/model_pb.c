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

#include "proto/model/signature_write.h"

#define TYPE_URL "type.googleapis.com/tensorflow.serving.SignatureDefMap"
#define MAX_FIELDS 256

/* SignatureDefMap { signature_def = 1 map<string, SignatureDef> }, every signature of the model. */
static enum td_code write_signatures(struct td_sink *s, const struct td_saved_model *m, struct td_err *err)
{
    for (int i = 0; i < m->n_signatures; i++) {
        TD_TRY(td_signature_write(s, 1, &m->signatures[i], err));
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
