/* server/http/rest_call.h - an inference over HTTP: decoded on one thread, answered there or later on
 * another.
 *
 *   worker idle, job short:  decode, run, encode on the handler's thread
 *
 *   else:                  decode, hold the exchange, return; on a worker's thread then: run, encode, finish
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_REST_CALL_H
#define TD_SERVER_HTTP_REST_CALL_H

#include "server/http/rest.h"

struct td_rest_call;
/* Makes c->r of the exchange; what encode needs besides goes into c->r.detail. args are there while decoding
 * only. */
typedef enum td_code td_rest_decode_fn(struct td_rest_call *c, const struct td_route_args *args,
                                       struct td_err *err);
/* Writes the answer of c->r's outputs into c->x. */
typedef enum td_code td_rest_encode_fn(struct td_rest_call *c, struct td_err *err);

struct td_rest_call {
    struct td_request r; /* first */
    struct td_rest *rest;
    struct td_exchange *x;
    td_rest_encode_fn *encode;
    bool *held; /* the handler's caller is told so */
    int64_t from_ns;
};

/* What a handler does. TD_OK also when the exchange is held. */
TD_MUST enum td_code td_rest_call_run(struct td_rest *rest, struct td_exchange *x,
                                      const struct td_route_args *args, td_rest_decode_fn *decode,
                                      td_rest_encode_fn *encode, struct td_err *err);

#endif
