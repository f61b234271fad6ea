/* server/models/servable_run.h - a call of a signature, in three steps so that a batcher can stand between
 * them.
 *
 *   bind      named inputs -> the signature's order, names and dtypes checked, SignatureDef defaults filled
 *             in
 *   compute   inputs -> outputs, in the signature's order
 *   deliver   outputs -> those that were asked for, by name
 *
 * Shapes are the graph's affair unless strict_shapes. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_SERVABLE_RUN_H
#define TD_SERVER_MODELS_SERVABLE_RUN_H

#include "server/models/servable.h"

struct td_servable_call {
    const struct td_signature *sig;
    const struct td_named *in; /* borrowed */
    int n_in;
    const char *const *filter; /* outputs wanted, in this order; none: all, in key order */
    int n_filter;
    bool strict_shapes;
    bool check_method;             /* refuse a signature whose method is not predict, classify or regress */
    const struct td_run_opts *run; /* borrowed; NULL: none */
};

/* in[sig->n_in] borrows from the call and the signature. INVALID_ARGUMENT with TF Serving's words ("input
 * size does not match signature: ..."); the signature's own error when it cannot be called. */
TD_MUST enum td_code td_servable_bind(struct td_servable *s, const struct td_servable_call *call,
                                      struct td_tensor *in, struct td_err *err);
/* The first part of it, of inputs that need not hold bytes yet: names, dtypes (NONE: not known yet) and,
 * where they are held to them, shapes (of unknown rank: likewise). */
TD_MUST enum td_code td_servable_check(struct td_servable *s, const struct td_servable_call *call,
                                       struct td_err *err);
/* made[sig->n_out]: owned by the caller, nothing on failure. DATA_LOSS when a mapped file lost bytes
 * meanwhile. */
TD_MUST enum td_code td_servable_compute(struct td_servable *s, const struct td_signature *sig,
                                         const struct td_tensor *in, const struct td_run_opts *opts,
                                         struct td_tensor *made, struct td_err *err);
/* Moves the outputs wanted from made[sig->n_out] to out, which has room for max(sig->n_out, n_filter), and
 * clears the others. Names are borrowed from the signature. */
void td_servable_deliver(const struct td_servable_call *call, struct td_tensor *made, struct td_named *out,
                         int *n_out);

/* All three, on this thread. */
TD_MUST enum td_code td_servable_run(struct td_servable *s, const struct td_servable_call *call,
                                     struct td_named *out, int *n_out, struct td_err *err);

#endif
