/* server/http/rest_infer.c - POST .../infer of the Open Inference Protocol.
 *
 * A body whose Inference-Header-Content-Length is 0 is nothing but the bytes of the model's only input, whose
 * shape may have one unknown size; it is answered with binary tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/request/infer_request.h"
#include "proto/json/infer_json.h"
#include "server/http/rest.h"

#define LENGTH_HEADER "Inference-Header-Content-Length"

/* What a request's message says besides its inputs; in its arena. */
struct infer {
    struct td_exchange *x;
    struct td_request *r; /* x's */
    struct td_rest *rest;
    struct td_infer_json p;
    struct td_infer_shared shared;
};

/* The bytes of JSON in the body: all of them unless a header says how many. */
static enum td_code json_length(const struct td_exchange *x, size_t *out, struct td_err *err)
{
    const char *text = td_exchange_header(x, LENGTH_HEADER);
    *out = x->body_len;
    if (text == NULL) {
        return TD_OK;
    }
    size_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && n <= x->body_len; p++) {
        n = n * 10 + (size_t)(*p - '0');
    }
    TD_FAIL_IF(n > x->body_len || *p != '\0' || p == text, err, INVALID_ARGUMENT,
               LENGTH_HEADER " is '%.40s', the body has %zu bytes", text, x->body_len);
    *out = n;
    return TD_OK;
}

static enum td_code resolve(struct infer *f, struct td_err *err)
{
    const struct td_infer_ref ref = {.name = f->r->model,
                                     .has_version = f->r->has_version,
                                     .version = f->r->version,
                                     .label = f->r->label,
                                     .signature = f->p.opts.signature};
    TD_TRY(td_infer_find(f->rest->registry, &ref, &f->r->cold, &f->r->servable, &f->r->signature, err));
    return td_request_resolve(f->r, f->rest->registry, err);
}

/* ------------------------------------------------------------------ a body of raw bytes */

/* The declared shape with its one unknown size deduced. */
static enum td_code raw_shape(const struct td_tensor_info *in, size_t bytes, struct td_shape *out,
                              struct td_err *err)
{
    int unknown = -1, n_unknown = 0;
    struct td_shape known = in->shape;
    for (int i = 0; i < known.rank; i++) {
        if (known.dim[i] < 0) {
            unknown = i;
            n_unknown++;
            known.dim[i] = 1;
        }
    }
    const int64_t count = known.rank >= 0 ? td_shape_count(&known) : -1;
    const size_t row = count > 0 ? (size_t)count * td_dtype_size(in->dtype) : 0;
    TD_FAIL_IF(n_unknown > 1 || row == 0 || bytes % row != 0, err, INVALID_ARGUMENT,
               "input '%s': a shape %s cannot be deduced from %zu bytes", in->key, TD_SHAPE_STR(&in->shape),
               bytes);
    if (unknown >= 0) {
        known.dim[unknown] = (int64_t)(bytes / row);
    }
    *out = known;
    return TD_OK;
}

/* BYTES: the body is one element. */
static enum td_code raw_text(const struct td_tensor_info *in, const struct td_exchange *x,
                             struct td_tensor *out, struct td_err *err)
{
    const struct td_shape one = td_shape_vector(1);
    struct td_tensor t;
    TD_FAIL_IF(!td_shape_compatible(&in->shape, &one), err, INVALID_ARGUMENT,
               "input '%s': a raw request needs shape [1], it has %s", in->key, TD_SHAPE_STR(&in->shape));
    TD_TRY(td_tensor_new(&t, TD_STRING, &one, err));
    if (td_tensor_set_str(&t, 0, x->body, x->body_len, err)) {
        td_tensor_clear(&t);
        return err->code;
    }
    *out = t;
    return TD_OK;
}

static enum td_code raw_input(struct infer *f, struct td_err *err)
{
    const struct td_signature *sig = f->r->sig;
    TD_FAIL_IF(sig->n_in != 1, err, INVALID_ARGUMENT,
               "raw input request: model '%s' must have one input, it has %d", f->r->model, sig->n_in);
    const struct td_tensor_info *in = &sig->in[0];
    const char *type = td_v2_name(in->dtype);
    const struct td_seg seg = {(const uint8_t *)f->x->body, f->x->body_len};
    struct td_infer_in raw = {.name = in->key, .datatype = type != NULL ? type : ""};
    struct td_tensor t;
    if (in->dtype == TD_STRING) {
        TD_TRY(raw_text(in, f->x, &t, err));
    } else {
        TD_TRY(raw_shape(in, f->x->body_len, &raw.shape, err));
        td_wire_init(&raw.data, &seg, 1);
        TD_TRY(td_infer_tensor(&raw, f->x->body_len, &t, err));
    }
    TD_TRY(td_infer_room(f->r, 1, err));
    return td_infer_add(f->r, in->key, &t, err);
}

/* ------------------------------------------------------------------ a body of JSON */

static const struct td_infer_in *input_of(void *infer, int i)
{
    return &((struct infer *)infer)->p.in[i].raw;
}

static enum td_code read_inputs(struct infer *f, struct td_err *err)
{
    const uint64_t max_bytes = UINT64_MAX; /* each element takes bytes of the body, and those are bounded */
    TD_TRY(td_infer_expect(f->r, f->rest->registry, input_of, f, f->p.n_in, err));
    for (int i = 0; i < f->p.n_in; i++) {
        struct td_tensor *t = &f->r->in[i].t;
        const struct td_infer_in *in = &f->p.in[i].raw;
        const enum td_code over = td_work_over();
        TD_TRY(over ? td_work_error(over, err) : TD_OK);
        TD_TRY(in->place.region != NULL ? td_infer_fetch(&f->shared, in, max_bytes, t, err)
                                        : td_infer_json_tensor(&f->p.in[i], max_bytes, t, err));
    }
    return TD_OK;
}

static bool uses_shared(const struct td_infer_json *p)
{
    bool any = false;
    for (int i = 0; i < p->n_in; i++) {
        any = any || p->in[i].raw.place.region != NULL;
    }
    for (int i = 0; i < p->n_out; i++) {
        any = any || p->out[i].place.region != NULL;
    }
    return any;
}

static enum td_code read_request(struct infer *f, struct td_err *err)
{
    size_t n_json = 0;
    TD_TRY(json_length(f->x, &n_json, err));
    if (n_json == 0 && td_exchange_header(f->x, LENGTH_HEADER) != NULL) {
        f->p = (struct td_infer_json){.id = "", .opts = {.signature = "", .binary_output = true}};
        TD_TRY(resolve(f, err));
        return raw_input(f, err);
    }
    struct td_infer_json_known known = {.pool = f->rest->pool};
    known.fields = td_rest_fields_ahead(f->rest, f->x, &known.n_fields);
    TD_TRY(td_infer_json_read(f->x->body, f->x->body_len, n_json, f->r->arena, &known, &f->p, err));
    td_infer_limits(f->r, &f->p.opts);
    if (uses_shared(&f->p)) {
        struct td_err ignored = {0};
        f->shared.local = f->rest->open_management || td_rest_from_here(f->x, &ignored) == TD_OK;
        td_rest_owner(f->rest, f->x, f->shared.owner);
    }
    TD_TRY(resolve(f, err));
    TD_TRY(read_inputs(f, err));
    return td_infer_filter(f->r, f->p.out, f->p.n_out, err);
}

/* ------------------------------------------------------------------ the answer */

static enum td_code encode(struct td_request *r, struct td_err *err)
{
    struct infer *f = r->detail;
    TD_TRY(td_infer_deliver(&f->shared, f->r, f->p.out, f->p.n_out, err));
    bool *binary = td_arena_alloc(f->r->arena, (size_t)f->r->n_out + 1, sizeof *binary);
    if (binary == NULL) {
        return td_no_memory(err, (size_t)f->r->n_out, "an answer");
    }
    for (int i = 0; i < f->r->n_out; i++) {
        binary[i] = i < f->p.n_out ? f->p.out[i].place.binary : f->p.opts.binary_output;
    }
    const struct td_infer_json_answer answer = {
        .model = f->r->model,
        .id = f->p.id,
        .version = td_servable_version(f->r->servable),
        .out = f->r->out,
        .binary = binary,
        .n_out = f->r->n_out,
        .asked = f->p.n_out > 0 ? f->p.out : NULL,
    };
    TD_TRY(td_infer_json_write(&answer, &f->x->out, &f->x->n_json, err));
    f->x->content_type = f->x->n_json > 0 ? "application/octet-stream" : NULL;
    return TD_OK;
}

enum td_code td_rest_v2_infer(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct infer *f = td_arena_alloc(r->arena, 1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "a request");
    }
    *f = (struct infer){.x = x, .r = r, .rest = rest, .shared = {.shm = rest->shm}};
    r->detail = f;
    r->encode = encode;
    const enum td_code rc = read_request(f, err);
    td_infer_json_fini(&f->p); /* its tensors are made */
    TD_TRY(rc);
    r->id = f->p.id;
    return td_infer_prepare(r, err);
}
