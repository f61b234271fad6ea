/* proto/request/infer_pb.c - ModelInferRequest into parts, parts into tensors, outputs into
 * ModelInferResponse.
 *
 * The request is walked once to count its parts, once to read them into arrays of the arena, and where there
 * are raw contents once more to hand those out: they belong to the inputs in their order, without those in
 * shared memory. A tensor is made later, when the model is known: its size is checked against the bytes that
 * are there before it is allocated. Raw numbers are copied as a block, bools made 0 or 1, strings cut by
 * their lengths; typed contents are read value by value from the one field that the datatype may use.
 *
 * One table ties the protocol's datatypes to ours. The answer reserves room for its raw bytes once.
 *
 * Does not: find models, read or write shared memory (server/request/shm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/infer_pb.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/request/predict_pb.h"

#define MAX_PARTS 4096 /* inputs, outputs and raw contents of a request */

/* name, our dtype, the field of InferTensorContents that may carry it (0: raw only) */
static const struct {
    const char *name;
    enum td_dtype dtype;
    uint32_t field;
} types[] = {
    {"BOOL", TD_BOOL, 1},     {"INT8", TD_INT8, 2},     {"INT16", TD_INT16, 2},   {"INT32", TD_INT32, 2},
    {"INT64", TD_INT64, 3},   {"UINT8", TD_UINT8, 4},   {"UINT16", TD_UINT16, 4}, {"UINT32", TD_UINT32, 4},
    {"UINT64", TD_UINT64, 5}, {"FP32", TD_FLOAT, 6},    {"FP64", TD_DOUBLE, 7},   {"BYTES", TD_STRING, 8},
    {"FP16", TD_HALF, 0},     {"BF16", TD_BFLOAT16, 0},
};
#define N_TYPES (sizeof types / sizeof types[0])

enum td_dtype td_v2_dtype(const char *name)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return types[i].dtype;
        }
    }
    return TD_DTYPE_NONE;
}

const char *td_v2_name(enum td_dtype t)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == t) {
            return types[i].name;
        }
    }
    return NULL;
}

static uint32_t contents_field(enum td_dtype t)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == t) {
            return types[i].field;
        }
    }
    return 0;
}

/* ---- reading the request ---- */

static enum td_code add_dim(struct td_infer_in *in, uint64_t dim, struct td_err *err)
{
    TD_FAIL_IF(in->shape.rank == TD_MAX_RANK || (int64_t)dim < 0, err, INVALID_ARGUMENT,
               "input '%s': shape has a negative size or more than %d dimensions", in->name, TD_MAX_RANK);
    in->shape.dim[in->shape.rank++] = (int64_t)dim;
    return TD_OK;
}

static enum td_code read_shape(struct td_field *f, struct td_infer_in *in, struct td_err *err)
{
    if (f->type == TD_WIRE_VARINT) {
        return add_dim(in, f->value, err);
    }
    while (f->type == TD_WIRE_BYTES && f->sub.left > 0) {
        uint64_t dim;
        TD_FAIL_IF(!td_wire_varint(&f->sub, &dim), err, INVALID_ARGUMENT,
                   "input '%s': its shape is malformed", in->name);
        TD_TRY(add_dim(in, dim, err));
    }
    return TD_OK;
}

static enum td_code read_place(struct td_wire entry, struct td_arena *a, const char *name,
                               struct td_infer_place *place, struct td_err *err)
{
    struct td_infer_param p;
    TD_TRY(td_infer_param_read(entry, a, &p, err));
    return td_infer_place_set(place, name, &p, err);
}

static enum td_code read_input(struct td_wire w, struct td_arena *a, struct td_infer_in *in,
                               struct td_err *err)
{
    struct td_field f;
    *in = (struct td_infer_in){.name = "", .datatype = "", .shape = td_shape_scalar()};
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return td_infer_place_check(&in->place, in->name, err);
        }
        if (f.number == 3) {
            TD_TRY(read_shape(&f, in, err));
        } else if (f.type == TD_WIRE_BYTES && f.number == 1) {
            TD_TRY(td_wire_text(f.sub, a, &in->name, err));
        } else if (f.type == TD_WIRE_BYTES && f.number == 2) {
            TD_TRY(td_wire_text(f.sub, a, &in->datatype, err));
        } else if (f.type == TD_WIRE_BYTES && f.number == 4) {
            TD_TRY(read_place(f.sub, a, in->name, &in->place, err));
        } else if (f.type == TD_WIRE_BYTES && f.number == 5) {
            in->typed = true;
            in->data = f.sub;
        }
    }
}

static enum td_code read_output(struct td_wire w, struct td_arena *a, struct td_infer_out *out,
                                struct td_err *err)
{
    struct td_field f;
    *out = (struct td_infer_out){.name = ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->name, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(read_place(f.sub, a, out->name, &out->place, err));
        }
    } while (f.number != 0);
    return td_infer_place_check(&out->place, out->name, err);
}

static enum td_code read_option(struct td_wire entry, struct td_arena *a, struct td_infer_options *out,
                                struct td_err *err)
{
    struct td_infer_param p;
    TD_TRY(td_infer_param_read(entry, a, &p, err));
    return td_infer_option_set(out, &p, err);
}

struct counts {
    int in, out, raw;
};

static enum td_code count(struct td_wire w, struct counts *c, struct td_err *err)
{
    struct td_field f;
    *c = (struct counts){0};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        c->in += f.number == 5 && f.type == TD_WIRE_BYTES;
        c->out += f.number == 6 && f.type == TD_WIRE_BYTES;
        c->raw += f.number == 7 && f.type == TD_WIRE_BYTES;
        TD_FAIL_IF(c->in > MAX_PARTS || c->out > MAX_PARTS || c->raw > MAX_PARTS, err, INVALID_ARGUMENT,
                   "reading a ModelInferRequest: more than %d inputs, outputs or raw contents", MAX_PARTS);
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code read_part(struct td_field *f, struct td_arena *a, struct td_infer_pb *out,
                              struct td_err *err)
{
    switch (f->type == TD_WIRE_BYTES ? f->number : 0) {
    case 1:
        return td_wire_text(f->sub, a, &out->model, err);
    case 2:
        return td_wire_text(f->sub, a, &out->version, err);
    case 3:
        return td_wire_text(f->sub, a, &out->id, err);
    case 4:
        return read_option(f->sub, a, &out->opts, err);
    case 5:
        return read_input(f->sub, a, &out->in[out->n_in++], err);
    case 6:
        return read_output(f->sub, a, &out->out[out->n_out++], err);
    default:
        return TD_OK;
    }
}

/* Raw contents belong to the inputs in their order, without those in shared memory; with them no input has
 * contents of its own. */
static enum td_code give_raw(struct td_wire w, struct td_infer_pb *out, int n_raw, struct td_err *err)
{
    int n = 0, i = 0;
    for (int k = 0; k < out->n_in; k++) {
        n += out->in[k].place.region == NULL;
        TD_FAIL_IF(
            out->in[k].typed, err, INVALID_ARGUMENT,
            "contents field must not be specified when using raw_input_contents for '%s' for model '%s'",
            out->in[k].name, out->model);
    }
    TD_FAIL_IF(n_raw != n, err, INVALID_ARGUMENT, "raw_input_contents has %d entries for %d inputs", n_raw,
               n);
    struct td_field f;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 7 && f.type == TD_WIRE_BYTES) {
            while (out->in[i].place.region != NULL) {
                i++;
            }
            out->in[i++].data = f.sub;
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code check_typed(struct td_infer_pb *out, struct td_err *err)
{
    for (int i = 0; i < out->n_in; i++) {
        TD_FAIL_IF(out->in[i].typed && out->in[i].place.region != NULL, err, INVALID_ARGUMENT,
                   "input '%s': contents and 'shared_memory_region' exclude each other", out->in[i].name);
        out->in[i].typed = true; /* no contents at all: an input without elements */
    }
    return TD_OK;
}

enum td_code td_infer_read(struct td_wire w, struct td_arena *a, struct td_infer_pb *out, struct td_err *err)
{
    struct counts c;
    TD_TRY(count(w, &c, err));
    *out = (struct td_infer_pb){.model = "", .version = "", .id = "", .opts.signature = ""};
    out->in = td_arena_alloc(a, (size_t)c.in + 1, sizeof *out->in);
    out->out = td_arena_alloc(a, (size_t)c.out + 1, sizeof *out->out);
    if (out->in == NULL || out->out == NULL) {
        return td_no_memory(err, (size_t)c.in * sizeof *out->in, "a ModelInferRequest");
    }
    struct td_wire again = w;
    struct td_field f;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        TD_TRY(read_part(&f, a, out, err));
    } while (f.number != 0);
    return c.raw > 0 ? give_raw(again, out, c.raw, err) : check_typed(out, err);
}

/* ---- tensors ---- */

static enum td_code raw_strings(const struct td_infer_in *in, struct td_tensor *out, struct td_err *err)
{
    struct td_wire w = in->data;
    const int64_t n = td_tensor_count(out);
    int64_t i = 0;
    for (; i < n && w.left > 0; i++) {
        uint64_t len;
        TD_FAIL_IF(!td_wire_fixed(&w, 4, &len) || len > w.left, err, INVALID_ARGUMENT,
                   "input '%s': element %lld of its BYTES is cut short", in->name, (long long)i);
        struct td_wire text = w;
        text.left = len;
        td_wire_advance(&w, len);
        struct td_str *s = td_str_new(NULL, (size_t)len);
        if (s == NULL) {
            return td_no_memory(err, (size_t)len, "a string");
        }
        td_wire_copy(text, s->bytes);
        s->bytes[len] = 0;
        td_tensor_set_obj(out, i, &s->obj);
    }
    TD_FAIL_IF(i != n || w.left > 0, err, INVALID_ARGUMENT,
               "input '%s': its BYTES do not hold the %lld elements of shape %s", in->name, (long long)n,
               TD_SHAPE_STR(&in->shape));
    return TD_OK;
}

static enum td_code raw_tensor(const struct td_infer_in *in, struct td_tensor *out, struct td_err *err)
{
    if (out->dtype == TD_STRING) {
        return raw_strings(in, out, err);
    }
    const size_t want = td_tensor_bytes(out);
    TD_FAIL_IF(in->data.left != want, err, INVALID_ARGUMENT,
               "input byte size mismatch for input '%s': expected %zu bytes for shape %s of %s, got %llu",
               in->name, want, TD_SHAPE_STR(&in->shape), in->datatype, (unsigned long long)in->data.left);
    td_wire_copy(in->data, out->data);
    for (size_t i = 0; out->dtype == TD_BOOL && i < want; i++) {
        TD_DATA(out, td_bool)[i] = TD_DATA(out, td_bool)[i] != 0;
    }
    return TD_OK;
}

/* Integers and floats lie in the low bytes of v, as a little-endian tensor wants them. */
static enum td_code put_value(const struct td_infer_in *in, struct td_tensor *out, int64_t *i, uint64_t v,
                              struct td_err *err)
{
    TD_FAIL_IF(*i >= td_tensor_count(out), err, INVALID_ARGUMENT,
               "input '%s': more values than shape %s has elements", in->name, TD_SHAPE_STR(&in->shape));
    const size_t size = td_dtype_size(out->dtype);
    v = out->dtype == TD_BOOL ? v != 0 : v;
    memcpy((char *)out->data + (size_t)*i * size, &v, size);
    (*i)++;
    return TD_OK;
}

static enum td_code put_text(struct td_wire text, const struct td_infer_in *in, struct td_tensor *out,
                             int64_t *i, struct td_err *err)
{
    TD_FAIL_IF(*i >= td_tensor_count(out), err, INVALID_ARGUMENT,
               "input '%s': more values than shape %s has elements", in->name, TD_SHAPE_STR(&in->shape));
    struct td_str *s = td_str_new(NULL, (size_t)text.left);
    if (s == NULL) {
        return td_no_memory(err, (size_t)text.left, "a string");
    }
    td_wire_copy(text, s->bytes);
    s->bytes[text.left] = 0;
    td_tensor_set_obj(out, (*i)++, &s->obj);
    return TD_OK;
}

static enum td_code put_packed(struct td_wire w, const struct td_infer_in *in, struct td_tensor *out,
                               int64_t *i, struct td_err *err)
{
    const size_t fixed = out->dtype == TD_FLOAT ? 4 : out->dtype == TD_DOUBLE ? 8 : 0;
    while (w.left > 0) {
        uint64_t v;
        const bool ok = fixed ? td_wire_fixed(&w, fixed, &v) : td_wire_varint(&w, &v);
        TD_FAIL_IF(!ok, err, INVALID_ARGUMENT, "input '%s': its contents are malformed", in->name);
        TD_TRY(put_value(in, out, i, v, err));
    }
    return TD_OK;
}

/* The wire type of one value that is not packed. */
static enum td_wire_type single_type(enum td_dtype t)
{
    return t == TD_STRING   ? TD_WIRE_BYTES
           : t == TD_FLOAT  ? TD_WIRE_FIXED32
           : t == TD_DOUBLE ? TD_WIRE_FIXED64
                            : TD_WIRE_VARINT;
}

static enum td_code typed_tensor(const struct td_infer_in *in, struct td_tensor *out, struct td_err *err)
{
    struct td_wire w = in->data;
    struct td_field f;
    const uint32_t field = contents_field(out->dtype);
    int64_t i = 0;
    TD_FAIL_IF(field == 0, err, INVALID_ARGUMENT, "input '%s': %s travels only in raw_input_contents",
               in->name, in->datatype);
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        TD_FAIL_IF(f.number != 0 && f.number <= 8 && f.number != field, err, INVALID_ARGUMENT,
                   "input '%s': its contents are not those of %s", in->name, in->datatype);
        TD_FAIL_IF(f.number == field && f.type != TD_WIRE_BYTES && f.type != single_type(out->dtype), err,
                   INVALID_ARGUMENT, "input '%s': its contents are malformed", in->name);
        if (f.number == field && f.type == TD_WIRE_BYTES && out->dtype == TD_STRING) {
            TD_TRY(put_text(f.sub, in, out, &i, err));
        } else if (f.number == field && f.type == TD_WIRE_BYTES) {
            TD_TRY(put_packed(f.sub, in, out, &i, err));
        } else if (f.number == field) {
            TD_TRY(put_value(in, out, &i, f.value, err));
        }
    } while (f.number != 0);
    TD_FAIL_IF(i != td_tensor_count(out), err, INVALID_ARGUMENT,
               "input '%s': %lld values for the %lld elements of shape %s", in->name, (long long)i,
               (long long)td_tensor_count(out), TD_SHAPE_STR(&in->shape));
    return TD_OK;
}

enum td_code td_infer_tensor(const struct td_infer_in *in, uint64_t max_bytes, struct td_tensor *out,
                             struct td_err *err)
{
    const enum td_dtype dtype = td_v2_dtype(in->datatype);
    const int64_t n = td_shape_count(&in->shape);
    size_t bytes;
    TD_FAIL_IF(dtype == TD_DTYPE_NONE, err, INVALID_ARGUMENT, "input '%s': datatype '%s' is unknown",
               in->name, in->datatype);
    TD_FAIL_IF(n < 0 || !td_size_mul((size_t)n, td_dtype_size(dtype), &bytes) || bytes > max_bytes, err,
               INVALID_ARGUMENT, "input '%s': shape %s of %s exceeds %llu bytes", in->name,
               TD_SHAPE_STR(&in->shape), in->datatype, (unsigned long long)max_bytes);
    /* every element takes a byte of the message at least, a string four in raw form and two in typed form */
    TD_FAIL_IF(
        (uint64_t)n > in->data.left, err, INVALID_ARGUMENT,
        "input byte size mismatch for input '%s': %llu bytes cannot hold the %lld elements of shape %s",
        in->name, (unsigned long long)in->data.left, (long long)n, TD_SHAPE_STR(&in->shape));
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, dtype, &in->shape, err));
    enum td_code rc = in->typed ? typed_tensor(in, &t, err) : raw_tensor(in, &t, err);
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *out = t;
    return TD_OK;
}

/* ---- writing the answer ---- */

size_t td_v2_raw_size(const struct td_tensor *t)
{
    if (t->dtype != TD_STRING) {
        return td_tensor_bytes(t);
    }
    size_t sum = 0;
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        size_t len;
        (void)td_tensor_str(t, i, &len);
        sum += 4 + len;
    }
    return sum;
}

enum td_code td_v2_raw_write(const struct td_tensor *t, struct td_sink *s, struct td_err *err)
{
    if (t->dtype != TD_STRING) {
        return td_sink_put(s, t->data, td_tensor_bytes(t), err);
    }
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        size_t len;
        const char *text = td_tensor_str(t, i, &len);
        TD_FAIL_IF(len > UINT32_MAX, err, RESOURCE_EXHAUSTED,
                   "a string of %zu bytes does not fit a BYTES element", len);
        const uint32_t head = (uint32_t)len;
        TD_TRY(td_sink_put(s, &head, sizeof head, err));
        TD_TRY(td_sink_put(s, text, len, err));
    }
    return TD_OK;
}

/* A map entry { key = 1, value = 2 { field: v } } of InferParameter; text NULL: an integer or flag. */
static enum td_code put_param(struct td_sink *s, uint32_t map, const char *key, uint32_t field, int64_t v,
                              const char *text, struct td_err *err)
{
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, key, err));
    const size_t value = td_put_mark(s);
    TD_TRY(text != NULL ? td_put_text(s, field, text, err) : td_put_int(s, field, v, err));
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, map, entry, err);
}

/* InferOutputTensor { name = 1, datatype = 2, shape = 3 packed, parameters = 4 } */
static enum td_code write_output(struct td_sink *s, const struct td_named *o,
                                 const struct td_infer_place *place, struct td_err *err)
{
    const char *type = td_v2_name(o->t.dtype);
    TD_FAIL_IF(type == NULL, err, UNIMPLEMENTED, "output '%s': %s has no form in this protocol", o->name,
               td_dtype_name(o->t.dtype));
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, o->name, err));
    TD_TRY(td_put_text(s, 2, type, err));
    const size_t shape = td_put_mark(s);
    for (int i = 0; i < o->t.shape.rank; i++) {
        TD_TRY(td_put_varint(s, (uint64_t)o->t.shape.dim[i], err));
    }
    if (o->t.shape.rank > 0) {
        TD_TRY(td_put_end(s, 3, shape, err));
    }
    if (place != NULL) {
        const int64_t bytes = (int64_t)td_v2_raw_size(&o->t);
        TD_TRY(put_param(s, 4, "shared_memory_region", 3, 0, place->region, err));
        TD_TRY(put_param(s, 4, "shared_memory_offset", 2, (int64_t)place->offset, NULL, err));
        TD_TRY(put_param(s, 4, "shared_memory_byte_size", 2, bytes, NULL, err));
    }
    return td_put_end(s, 5, at, err);
}

/* Where output i went; NULL: it goes into the answer. */
static const struct td_infer_place *shared(const struct td_infer_answer *p, int i)
{
    return p->asked != NULL && p->asked[i].place.region != NULL ? &p->asked[i].place : NULL;
}

static enum td_code write_raw(const struct td_infer_answer *p, struct td_sink *s, size_t total,
                              struct td_err *err)
{
    char *room; /* grown once: the raw bytes are the bulk of the answer */
    const size_t now = s->n;
    TD_TRY(td_sink_grow(s, total, &room, err));
    s->n = now;
    for (int i = 0; i < p->n_out; i++) {
        const bool here = shared(p, i) == NULL;
        TD_TRY(td_put_head(s, 6, here ? td_v2_raw_size(&p->out[i].t) : 0, err));
        TD_TRY(here ? td_v2_raw_write(&p->out[i].t, s, err) : TD_OK);
    }
    return TD_OK;
}

enum td_code td_infer_write(const struct td_infer_answer *p, struct td_sink *s, struct td_err *err)
{
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)p->version);
    s->limit = INT32_MAX;
    TD_TRY(td_put_text(s, 1, p->model, err));
    TD_TRY(td_put_text(s, 2, version, err));
    if (*p->id) {
        TD_TRY(td_put_text(s, 3, p->id, err));
    }
    if (p->final) {
        TD_TRY(put_param(s, 4, "triton_final_response", 1, 1, NULL, err));
    }
    size_t total = 0;
    for (int i = 0; i < p->n_out; i++) {
        const struct td_infer_place *place = shared(p, i);
        TD_TRY(write_output(s, &p->out[i], place, err));
        total += (place == NULL ? td_v2_raw_size(&p->out[i].t) : 0) + 8;
    }
    return write_raw(p, s, total, err);
}
