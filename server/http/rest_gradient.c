/* server/http/rest_gradient.c - :gradient: JSON to an ask and its tensors, a run, gradients to JSON.
 *
 * The members that :predict reads are read as there, the others by proto/json/gradient_json.c. Gradients by
 * weights need a scope of their own, which is asked for as soon as the names are read.
 *
 * Does not: find targets and sources (server/models/gradient_make.c), run (server/sched/request.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/gradient_json.h"
#include "server/http/rest.h"
#include "server/request/gradient.h"

/* What is given for targets, or for sources, which are tensors of the dtypes these have. */
static enum td_code add_tensors(struct td_request *r, const struct td_gradient_json_tensors *t, bool vector,
                                struct td_err *err)
{
    const int n = t->names.n;
    struct td_json_field *fields = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *fields);
    struct td_named *made = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *made);
    int *input = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *input), n_made = 0;
    if (fields == NULL || made == NULL || input == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *made, "a request");
    }
    for (int i = 0; i < n; i++) {
        fields[i].name = t->names.name[i];
        TD_TRY(td_request_gradient_input(r, vector, fields[i].name, &input[i], &fields[i].dtype, err));
    }
    if (n > 0 && td_json_inputs(&t->body, fields, n, made, &n_made, err)) {
        return td_err_wrap(err, "'%s'", vector ? "vector" : "output_gradients");
    }
    for (int i = 0; i < n_made; i++) { /* as many as fields, in their order */
        td_request_gradient_add(r, input[i], &made[i].t);
    }
    return TD_OK;
}

static enum td_code encode(struct td_request *r, struct td_err *err)
{
    struct td_named *gradients;
    int n, n_outputs;
    TD_TRY(td_request_gradients(r, &gradients, &n, &n_outputs, err));
    const enum td_code rc =
        td_gradient_json_write(&td_exchange_of(r)->out, gradients, n, r->out, n_outputs, err);
    td_request_gradients_clear(gradients, n);
    return rc;
}

static enum td_code read_ask(const struct td_gradient_json *json, struct td_gradient_ask *out,
                             struct td_err *err)
{
    *out = (struct td_gradient_ask){.targets = json->target.name,
                                    .n_targets = json->target.n,
                                    .wrt = json->wrt.name,
                                    .n_wrt = json->wrt.n,
                                    .seeded = json->output_gradients.names.name,
                                    .n_seeded = json->output_gradients.names.n,
                                    .vectors = json->vector.names.name,
                                    .n_vectors = json->vector.names.n,
                                    .recompute = json->recompute};
    return td_gradient_kind(json->kind, &out->kind, err);
}

enum td_code td_rest_gradient(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    struct td_gradient_json json;
    struct td_gradient_ask ask;
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    TD_TRY(td_gradient_json_read(body.root, r->arena, &json, err));
    TD_TRY(read_ask(&json, &ask, err));
    if (td_gradient_ask_by_weights(&ask)) {
        TD_TRY(td_rest_admit(rest, x, TD_SCOPE_GRADIENT, r->model, err));
    }
    r->signature = body.signature;
    TD_TRY(td_rest_resolve(rest, x, err));
    TD_TRY(td_servable_closed(r->servable, r->sig, err));
    TD_TRY(td_rest_inputs(r, &body, err));
    TD_TRY(td_request_gradient_find(r, &ask, NULL, err));
    TD_TRY(add_tensors(r, &json.output_gradients, false, err));
    TD_TRY(add_tensors(r, &json.vector, true, err));
    td_request_gradient_ready(r, json.zeros);
    r->encode = encode;
    return TD_OK;
}
