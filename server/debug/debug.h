/* server/debug/debug.h - running a signature to look inside: node by node, against the compiled plan, or not
 * at all.
 *
 *   eager      the graph as it was saved, one node after another, each with its values
 *   compare    compiled and eager with the same inputs: the first node of the eager run whose value differs
 *   placement  nothing runs: which kernel every node gets and why not those before it in the list
 *
 * The answer is one JSON document (REST, gRPC and the C API carry the same text):
 *   {"mode", "model", "version", "signature_name", "outputs": {..} or null,
 *    "error": null or {"code", "message"}, "stopped": null or why, "first_difference": null or {..},
 *    "prints": [..], "nodes_run", "truncated", "nodes": [..]}
 * A run that fails after its first node is an answer too: "error" says why, and the nodes show how far it
 * came.
 *
 * With "gradient" it is the signature's gradient that runs or is placed: nodes of its backward part are named
 * gradients/NAME/OP_NUMBER, and the gradients are among the outputs, as "gradient/SOURCE".
 *
 * A compared signature that writes variables, draws random numbers or has any other lasting effect runs twice
 * on two fresh instances of the version, made from its directory and given the variables of the one that
 * serves; "state" then says "copies". An eager run changes the state that serves, as Predict does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_DEBUG_DEBUG_H
#define TD_SERVER_DEBUG_DEBUG_H

#include "server/debug/debug_value.h"
#include "proto/json/json_tensor.h"
#include "server/models/gradient_inputs.h"
#include "server/models/servable_run.h"

enum td_debug_mode { TD_DEBUG_EAGER, TD_DEBUG_COMPARE, TD_DEBUG_PLACEMENT };

#define TD_DEBUG_MAX_WATCH 64
struct td_debug_opts {
    enum td_debug_mode mode;
    const char *watch[TD_DEBUG_MAX_WATCH]; /* globs (* and ?) of names and of name:port; the arena's */
    int n_watch;                           /* 0: every node is listed */
    enum td_debug_values values;
    int64_t max_nodes; /* listed; all run */
    bool stop_on_nonfinite;
    double rtol, atol;
    bool differentiates; /* the signature's gradient runs in its place, which these say: */
    struct td_gradient_json gradient;
    struct td_gradient_ask ask;
};

/* Reads the keys that docs/debugging.md lists out of a body; those that are not there get their defaults
 * (eager, summary, 1000 nodes, rtol 1e-4, atol 1e-5). INVALID_ARGUMENT names the key. */
TD_MUST enum td_code td_debug_read(const struct td_json_body *body, struct td_arena *arena,
                                   struct td_debug_opts *out, struct td_err *err);
/* Appends the answer to s. Inputs, filter, deadline and stop word are call's; call->run's observers are not
 * used. */
TD_MUST enum td_code td_debug_run(struct td_servable *s, const struct td_servable_call *call,
                                  const struct td_debug_opts *opts, struct td_sink *out, struct td_err *err);

#endif
