/* server/http/rest_debug.c - :debug: a Predict body and what to look at; server/debug/debug.h has the answer.
 *
 * The members that :predict reads are read as there, the others by td_debug_read(). The run is this thread's,
 * past the workers and their queues, whatever the signature's method, and its document is the answer. With
 * mode "placement" nothing runs, so no inputs are needed. Refused unless the server was started with
 * --enable_debug_api.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug.h"
#include "server/http/rest.h"

enum td_code td_rest_debug(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    struct td_debug_opts opts;
    TD_FAIL_IF(
        !rest->debug_api, err, PERMISSION_DENIED,
        "%s: debugging shows weights and intermediate values, so it is off until the server is started with "
        "--enable_debug_api",
        x->target);
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    TD_TRY(td_debug_read(&body, r->arena, &opts, err));
    r->signature = body.signature;
    TD_TRY(td_rest_resolve(rest, x, err));
    if (opts.mode != TD_DEBUG_PLACEMENT) {
        TD_TRY(td_rest_inputs(r, &body, err));
    }
    struct td_servable_call call = td_request_call(r, rest->registry);
    call.check_method = false;
    return td_debug_run(r->servable, &call, &opts, &x->out, err);
}
