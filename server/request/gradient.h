/* server/request/gradient.h - a request for a gradient: what its wires share.
 *
 *   the wire        names -> struct td_gradient_ask; inputs of the signature -> r->in
 *   find            r->gradient, made if need be; room for the further inputs
 *   the wire        output_gradients and vectors, whose dtypes are known now -> add
 *   ready           from here on r is a request for the gradient's signature, like any other
 *   the wire        encode: td_request_gradients
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_GRADIENT_H
#define TD_SERVER_REQUEST_GRADIENT_H

#include "server/sched/request.h"

/* r->servable and r->sig are found. Whether it is kept, and so takes no time to find: then r has it. */
bool td_request_gradient_known(struct td_request *r, const struct td_gradient_ask *ask);
/* The same, made if need be. making: called before anything is built, which may take long; NULL
 * nothing. Errors as td_gradient_get. */
TD_MUST enum td_code td_request_gradient_find(struct td_request *r, const struct td_gradient_ask *ask,
                                              void (*making)(void), struct td_err *err);
/* A further input, taken. */
void td_request_gradient_add(struct td_request *r, int input, struct td_tensor *takes);
void td_request_gradient_ready(struct td_request *r, bool zeros);

/* The gradients in the order asked (*results, in the arena, counted: td_request_gradients_clear), the first
 * *n_outputs of r->out being the outputs. */
TD_MUST enum td_code td_request_gradients(struct td_request *r, struct td_named **results, int *n,
                                          int *n_outputs, struct td_err *err);
void td_request_gradients_clear(struct td_named *results, int n);

#endif
