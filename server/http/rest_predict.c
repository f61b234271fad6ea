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
#include "proto/json/json_tensor.h"
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

enum td_code td_rest_inputs(struct td_request *r, const struct td_json_body *body, struct td_err *err)
{
    const int n = r->sig->n_in;
    struct td_json_field *fields = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *fields);
    struct td_named *in = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *in);
    if (fields == NULL || in == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *in, "a request");
    }
    for (int i = 0; i < n; i++) {
        fields[i] = (struct td_json_field){.name = r->sig->in[i].key,
                                           .dtype = td_servable_fed_dtype(r->servable, r->sig, i),
                                           .optional = r->sig->defaults[i].dtype != TD_DTYPE_NONE};
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

enum td_code td_rest_predict(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    enum td_json_form *form = td_arena_alloc(r->arena, 1, sizeof *form);
    if (form == NULL) {
        return td_no_memory(err, sizeof *form, "a request");
    }
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    body.value.pool = rest->pool;
    *form = body.form;
    r->signature = body.signature;
    r->detail = form;
    r->encode = encode;
    TD_TRY(td_rest_resolve(rest, x, err));
    return td_rest_inputs(r, &body, err);
}
