/* proto/request/predict_pb.c - PredictRequest into named parts, and PredictResponse of exactly known size.
 *
 * The reader goes over the message twice: once to count inputs and filters, so that both arrays come from the
 * arena in one block each, and once to fill them. An input of a name that was there before takes its place.
 * Fields nobody here needs (client_id, request_options) are skipped. Tensors are left as readers on the
 * message's bytes.
 *
 * The writer adds up the sizes of all outputs first and allocates once, so every length is written before its
 * bytes and nothing is moved. An answer above protobuf's 2 GiB is refused before any of it is written.
 *
 * Does not: look at the signature, apply the filter (server/request).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/predict_pb.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

#define MAX_INPUTS 4096 /* looking for equal names is quadratic, in their hashes */
#define MAX_FILTERS 4096
#define MAX_MESSAGE ((size_t)INT32_MAX) /* of protobuf */

/* google.protobuf.Int64Value { value = 1 } */
static enum td_code read_int64_value(struct td_wire w, int64_t *out, struct td_err *err)
{
    struct td_field f;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_VARINT) {
            *out = (int64_t)f.value;
        }
    }
}

enum td_code td_model_spec_read(struct td_wire w, struct td_arena *a, struct td_model_spec *out,
                                struct td_err *err)
{
    *out = (struct td_model_spec){.present = true, .name = "", .signature = ""};
    struct td_field f;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.type != TD_WIRE_BYTES) {
            continue;
        }
        if (f.number == 1) {
            TD_TRY(td_wire_text(f.sub, a, &out->name, err));
        } else if (f.number == 2) { /* version and label are one choice: the last wins */
            out->label = NULL;
            out->has_version = true;
            out->version = 0;
            TD_TRY(read_int64_value(f.sub, &out->version, err));
        } else if (f.number == 3) {
            TD_TRY(td_wire_text(f.sub, a, &out->signature, err));
        } else if (f.number == 4) {
            out->has_version = false;
            TD_TRY(td_wire_text(f.sub, a, &out->label, err));
        }
    }
}

static size_t field_size(size_t n)
{
    return 1 + td_wire_varint_size(n) + n; /* all field numbers here take one byte */
}

static size_t version_size(int64_t version)
{
    return version == 0 ? 0 : 1 + td_wire_varint_size((uint64_t)version);
}

static size_t spec_size(const char *name, const char *signature, int64_t version)
{
    return (*name ? field_size(strlen(name)) : 0) + field_size(version_size(version)) +
           (*signature ? field_size(strlen(signature)) : 0);
}

enum td_code td_model_spec_write(struct td_sink *s, uint32_t field, const char *name, const char *signature,
                                 int64_t version, struct td_err *err)
{
    TD_TRY(td_put_head(s, field, spec_size(name, signature, version), err));
    if (*name) {
        TD_TRY(td_put_text(s, 1, name, err));
    }
    TD_TRY(td_put_head(s, 2, version_size(version), err));
    if (version) {
        TD_TRY(td_put_int(s, 1, version, err));
    }
    return *signature ? td_put_text(s, 3, signature, err) : TD_OK;
}

enum td_code td_map_entry_read(struct td_wire w, struct td_arena *a, const char **key, struct td_wire *value,
                               struct td_err *err)
{
    struct td_field f;
    *key = "";
    *value = (struct td_wire){0};
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, key, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            *value = f.sub;
        }
    }
}

static enum td_code count(struct td_wire w, int *n_in, int *n_filter, struct td_err *err)
{
    struct td_field f;
    *n_in = *n_filter = 0;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        *n_in += f.number == 2 && f.type == TD_WIRE_BYTES;
        *n_filter += f.number == 3 && f.type == TD_WIRE_BYTES;
        TD_FAIL_IF(*n_in > MAX_INPUTS || *n_filter > MAX_FILTERS, err, INVALID_ARGUMENT,
                   "reading a PredictRequest: more than %d inputs or %d output filters", MAX_INPUTS,
                   MAX_FILTERS);
    }
}

static enum td_code add_input(struct td_wire entry, struct td_arena *a, struct td_predict_pb *out,
                              struct td_err *err)
{
    struct td_named_wire in;
    TD_TRY(td_map_entry_read(entry, a, &in.name, &in.tensor, err));
    in.hash = td_hash_bytes(in.name, strlen(in.name));
    for (int i = 0; i < out->n_in; i++) {
        if (out->in[i].hash == in.hash && strcmp(out->in[i].name, in.name) == 0) {
            out->in[i] = in;
            return TD_OK;
        }
    }
    out->in[out->n_in++] = in;
    return TD_OK;
}

enum td_code td_predict_read(struct td_wire w, struct td_arena *a, struct td_predict_pb *out,
                             struct td_err *err)
{
    int n_in, n_filter;
    TD_TRY(count(w, &n_in, &n_filter, err));
    *out = (struct td_predict_pb){.spec = {.name = "", .signature = ""}};
    out->in = td_arena_alloc(a, (size_t)n_in + 1, sizeof *out->in);
    out->filter = td_arena_alloc(a, (size_t)n_filter + 1, sizeof *out->filter);
    if (out->in == NULL || out->filter == NULL) {
        return td_no_memory(err, (size_t)n_in * sizeof *out->in, "a PredictRequest");
    }
    struct td_field f;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.type != TD_WIRE_BYTES) {
            continue;
        }
        if (f.number == 1) {
            TD_TRY(td_model_spec_read(f.sub, a, &out->spec, err));
        } else if (f.number == 2) {
            TD_TRY(add_input(f.sub, a, out, err));
        } else if (f.number == 3) {
            TD_TRY(td_wire_text(f.sub, a, &out->filter[out->n_filter++], err));
        }
    }
}

enum td_code td_predict_write(const struct td_predict_answer *p, struct td_sink *s, struct td_err *err)
{
    size_t total = field_size(spec_size(p->name, p->signature, p->version));
    for (int i = 0; i < p->n_out; i++) {
        size_t tensor = td_tensor_pb_size(&p->out[i].t, p->as_content);
        total += field_size(field_size(strlen(p->out[i].name)) + field_size(tensor));
        TD_FAIL_IF(total > MAX_MESSAGE, err, RESOURCE_EXHAUSTED,
                   "encoding the answer of '%s': outputs take more than a protobuf message's 2 GiB", p->name);
    }
    char *room; /* grown once, to the exact size */
    s->limit = total;
    TD_TRY(td_sink_grow(s, total, &room, err));
    s->n = 0;
    for (int i = 0; i < p->n_out; i++) {
        size_t tensor = td_tensor_pb_size(&p->out[i].t, p->as_content);
        TD_TRY(td_put_head(s, 1, field_size(strlen(p->out[i].name)) + field_size(tensor), err));
        TD_TRY(td_put_text(s, 1, p->out[i].name, err));
        TD_TRY(td_put_head(s, 2, tensor, err));
        TD_TRY(td_tensor_to_bytes(&p->out[i].t, p->as_content, s, err));
    }
    return td_model_spec_write(s, 2, p->name, p->signature, p->version, err);
}
