/* proto/json/gradient_json.h - what a body of :gradient asks for beside the inputs, and its answer.
 *
 *   {"signature_name": "s", "inputs" or "instances": ..,        as :predict (proto/json/json_tensor.h)
 *    "target": "y" or ["y", "z"],  "wrt": "x" or ["x", "var:w"],
 *    "kind": "gradient",                                        or "jacobian", "hessian", "hvp"
 *    "output_gradients": {"y": [..]},  "vector": {"x": [..]},
 *    "unconnected": "none" or "zero",  "recompute": true}
 *   -> {"gradients": {"x": [..], "var:w": null}, "outputs": {"y": [..]}}
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_GRADIENT_JSON_H
#define TD_PROTO_JSON_GRADIENT_JSON_H

#include "proto/json/json_tensor.h"

#define TD_GRADIENT_JSON_NAMES 4096 /* of each list, and members of each object */

struct td_gradient_json_names {
    const char **name; /* the arena's */
    int n, cap;
};
/* Tensors by name, still text: body is for td_json_inputs, once it is known what dtypes they have. */
struct td_gradient_json_tensors {
    struct td_gradient_json_names names;
    struct td_json_body body;
};
struct td_gradient_json {
    struct td_gradient_json_names target, wrt;
    const char *kind; /* "" not given */
    struct td_gradient_json_tensors output_gradients, vector;
    bool zeros, recompute;
};

/* Reads the members of the object that `members` stands in, behind its brace; others are skipped.
 * INVALID_ARGUMENT names the member and what it may be. */
TD_MUST enum td_code td_gradient_json_read(struct td_json members, struct td_arena *arena,
                                           struct td_gradient_json *out, struct td_err *err);
/* A gradient of no dtype is null, and so is an output that JSON has no form for: nobody asked for that. */
TD_MUST enum td_code td_gradient_json_write(struct td_sink *s, const struct td_named *gradients,
                                            int n_gradients, const struct td_named *outputs, int n_outputs,
                                            struct td_err *err);

#endif
