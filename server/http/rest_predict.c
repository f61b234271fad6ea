/* server/http/rest_predict.c - :predict: JSON to tensors, a run, tensors to JSON.
 *
 * The body is looked through once for its members, before the model is known; with the signature, whose
 * dtypes say how numbers are to be read, each input is made a tensor. Whether the client wrote rows or
 * columns is kept in the arena, since the outputs take the same form.
 *
 * Does not: parse JSON (proto/json/json_tensor.c), fill in defaults or check shapes
 * (server/models/servable_run.c), run (server/sched/request.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_ahead.h"
#include "proto/json/json_parts.h"
#include "server/http/rest.h"

/* Model and signature; an unknown signature has words of its own on this API. */
enum td_code td_rest_resolve(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    TD_TRY(td_request_find(r, rest->registry, err));
    r->sig = td_servable_signature(r->servable, r->signature);
    TD_FAIL_IF(r->sig == NULL, err, INVALID_ARGUMENT,
               "Serving signature name: \"%s\" not found in signature def",
               *r->signature != '\0' ? r->signature : "serving_default");
    return TD_OK;
}

/* In the request's arena; NULL without memory. */
static struct td_json_field *fields_of(const struct td_request *r, const struct td_signature *sig)
{
    struct td_json_field *fields = td_arena_alloc(r->arena, (size_t)sig->n_in + 1, sizeof *fields);
    for (int i = 0; fields != NULL && i < sig->n_in; i++) {
        fields[i] = (struct td_json_field){.name = sig->in[i].key,
                                           .dtype = td_servable_fed_dtype(r->servable, sig, i),
                                           .optional = sig->defaults[i].dtype != TD_DTYPE_NONE};
    }
    return fields;
}

enum td_code td_rest_inputs(struct td_request *r, const struct td_json_body *body, struct td_err *err)
{
    const int n = r->sig->n_in;
    struct td_json_field *fields = fields_of(r, r->sig);
    struct td_named *in = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *in);
    if (fields == NULL || in == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *in, "a request");
    }
    int n_in = 0;
    TD_TRY(td_json_inputs(body, fields, n, in, &n_in, err));
    r->in = in;
    r->n_in = n_in;
    return TD_OK;
}

static enum td_code encode(struct td_request *r, struct td_err *err)
{
    const enum td_json_form *form = r->detail;
    return td_json_outputs(&td_exchange_of(r)->out, r->out, r->n_out, *form, err);
}

const struct td_json_field *td_rest_fields_ahead(struct td_rest *rest, struct td_exchange *x, int *n)
{
    struct td_request *r = &x->r;
    struct td_err ignored = {0};
    *n = 0;
    if (x->body_len < TD_JSON_LARGE) {
        return NULL;
    }
    if (td_request_find(r, rest->registry, &ignored)) { /* said when it is resolved */
        td_cold_fini(&r->cold);
        return NULL;
    }
    const struct td_signature *sig = td_servable_signature(r->servable, "");
    const struct td_json_field *fields = sig != NULL ? fields_of(r, sig) : NULL;
    *n = fields != NULL ? sig->n_in : 0;
    return fields;
}

static enum td_code read_body(struct td_rest *rest, struct td_exchange *x, struct td_json_ahead *ahead,
                              struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    enum td_json_form *form = td_arena_alloc(r->arena, 1, sizeof *form);
    if (form == NULL) {
        return td_no_memory(err, sizeof *form, "a request");
    }
    TD_TRY(td_json_body_ahead(x->body, x->body_len, ahead, r->arena, &body, err));
    body.value.pool = rest->pool;
    *form = body.form;
    r->signature = body.signature;
    r->detail = form;
    r->encode = encode;
    TD_TRY(td_rest_resolve(rest, x, err));
    return td_rest_inputs(r, &body, err);
}

enum td_code td_rest_predict(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_json_ahead ahead = {0};
    int n = 0;
    const struct td_json_field *fields = td_rest_fields_ahead(rest, x, &n);
    td_json_ahead_read(&ahead, x->body, fields != NULL ? x->body_len : 0, fields, n, rest->pool);
    const enum td_code rc = read_body(rest, x, &ahead, err);
    td_json_ahead_fini(&ahead);
    return rc;
}
