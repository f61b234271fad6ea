/* server/http/rest_gradient.c - :gradient: JSON to an ask and its tensors, a run, gradients to JSON.
 *
 * The members that :predict reads are read as there, the others by proto/json/gradient_json.c. Gradients by
 * weights need a scope of their own, which is asked for as soon as the names are read. One that has to be
 * made waits for its turn among what is lengthy, and is read again then.
 *
 * Does not: find targets and sources (server/models/gradient_make.c), run (server/sched/request.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rest.h"
#include "server/models/gradient_inputs.h"
#include "server/request/gradient.h"

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

enum td_code td_rest_gradient(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    struct td_gradient_json json;
    struct td_gradient_ask ask;
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    TD_TRY(td_gradient_json_read(body.root, r->arena, &json, err));
    TD_TRY(td_gradient_ask_read(&json, &ask, err));
    if (td_gradient_ask_by_weights(&ask)) {
        TD_TRY(td_rest_admit(rest, x, TD_SCOPE_GRADIENT, r->model, err));
    }
    r->signature = body.signature;
    TD_TRY(td_rest_resolve(rest, x, err));
    TD_TRY(td_servable_closed(r->servable, r->sig, err));
    if (!td_request_gradient_known(r, &ask) && !td_exchange_is_lengthy(x)) {
        x->lengthy_ahead = true;
        return TD_OK;
    }
    TD_TRY(td_rest_inputs(r, &body, err));
    TD_TRY(td_request_gradient_find(r, &ask, NULL, err));
    TD_TRY(td_gradient_json_inputs(r->gradient, r->servable, &json, r->arena, r->in, &r->n_in, err));
    td_request_gradient_ready(r, json.zeros);
    r->encode = encode;
    return TD_OK;
}
