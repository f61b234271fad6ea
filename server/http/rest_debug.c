/* server/http/rest_debug.c - :debug: a Predict body and what to look at; server/debug/debug.h has the answer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug.h"
#include "server/http/rest.h"

static enum td_code debug(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                          struct td_request *r, struct td_err *err)
{
    struct td_json_body body;
    struct td_debug_opts opts;
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    TD_TRY(td_debug_read(&body, r->arena, &opts, err));
    r->signature = body.signature;
    TD_TRY(td_rest_resolve(rest, r, args, err));
    if (opts.mode != TD_DEBUG_PLACEMENT) {
        TD_TRY(td_rest_inputs(r, &body, err));
    }
    const struct td_servable_call call = {
        .sig = r->sig,
        .in = r->in,
        .n_in = r->n_in,
        .strict_shapes = td_registry_options(rest->registry)->strict_shapes,
        .run = {.stop = r->client != NULL ? r->client : &r->stop, .deadline_ns = r->deadline_ns},
    };
    return td_debug_run(r->servable, &call, &opts, &x->out, err);
}

enum td_code td_rest_debug(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                           struct td_err *err)
{
    TD_FAIL_IF(
        !rest->debug_api, err, PERMISSION_DENIED,
        "%s: debugging shows weights and intermediate values, so it is off until the server is started with "
        "--enable_debug_api",
        x->target);
    struct td_request r;
    TD_TRY(td_rest_request(x, args, &r, err));
    const enum td_code rc = debug(rest, x, args, &r, err);
    td_request_fini(&r);
    return rc;
}
