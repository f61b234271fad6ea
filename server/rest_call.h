/* server/rest_call.h - an inference over HTTP: decoded on one thread, answered there or later on another.
 *
 *   handler:  td_rest_call_new -> decode into call->r -> td_rest_call_run
 *   run:      lane idle -> run, encode, return   else hold the exchange, return; then on the lane's thread:
 * encode, finish
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REST_CALL_H
#define TD_SERVER_REST_CALL_H

#include "server/rest.h"

struct td_rest_call {
    struct td_request r; /* first */
    struct td_rest *rest;
    struct td_exchange *x;
    /* Writes the answer of r's outputs into x. */
    enum td_code (*encode)(struct td_rest_call *c, struct td_err *err);
    bool *held;   /* the handler's caller is told so */
    int64_t from_ns;
};

/* Returns new, for the model that args name (copied). */
TD_MUST enum td_code td_rest_call_new(struct td_rest *rest, struct td_exchange *x,
                                      const struct td_route_args *args, struct td_rest_call **out,
                                      struct td_err *err);
void td_rest_call_free(struct td_rest_call *c);
/* Takes the call over. What it returns is the handler's outcome: TD_OK also when the exchange is held. */
TD_MUST enum td_code td_rest_call_run(struct td_rest_call *takes, struct td_err *err);

#endif
