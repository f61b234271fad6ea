/* server/http/rest_predict.c - :predict: JSON to tensors, a run, tensors to JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_tensor.h"
#include "server/http/rest_call.h"

/* Model and signature; an unknown signature has words of its own on this API. */
enum td_code td_rest_resolve(struct td_rest *rest, struct td_request *r, const struct td_route_args *args,
                             struct td_err *err)
{
    TD_TRY(td_rest_find(rest, args, &r->servable, err));
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

static enum td_code encode(struct td_rest_call *c, struct td_err *err)
{
    const enum td_json_form *form = c->r.detail;
    return td_json_outputs(&c->x->out, c->r.out, c->r.n_out, *form, err);
}

static enum td_code decode(struct td_rest_call *c, const struct td_route_args *args, struct td_err *err)
{
    struct td_json_body body;
    enum td_json_form *form = td_arena_alloc(c->r.arena, 1, sizeof *form);
    if (form == NULL) {
        return td_no_memory(err, sizeof *form, "a request");
    }
    TD_TRY(td_json_body(c->x->body, c->x->body_len, c->r.arena, &body, err));
    c->r.signature = body.signature;
    *form = body.form;
    c->r.detail = form;
    TD_TRY(td_rest_resolve(c->rest, &c->r, args, err));
    return td_rest_inputs(&c->r, &body, err);
}

enum td_code td_rest_predict(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                             struct td_err *err)
{
    return td_rest_call_run(rest, x, args, decode, encode, err);
}
