/* core/grad/backward.h - the transformation: nodes that compute the gradients of some values of an IR by
 * others.
 *
 * The same for a whole signature (core/grad/program.h) and for the body of a loop or a branch, whose op's
 * gradient calls it again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_BACKWARD_H
#define TD_CORE_GRAD_BACKWARD_H

#include "core/compile/ir.h"
#include "core/grad/grad.h"

struct td_grad_value { /* none: dense.node and slices.values.node are NULL */
    struct td_value dense;
    struct td_slices slices;
};

/* What every transformation of one program shares. */
struct td_grad_context {
    struct td_model *model; /* the model that the IR was built from: its ops */
    struct td_library *lib; /* where functions are looked up, and added */
    const struct td_grad_formulas *formulas;
    int functions;  /* added so far: names them */
    int order;      /* which differentiation of the program it is: what gradients share by name goes by it */
    bool recompute; /* rather compute forward values again than keep them */
};

struct td_grad_query {
    const struct td_value *targets; /* of ir */
    const struct td_value *seeds;   /* by target: the gradient that comes from above; no node: ones */
    int n_targets;
    const struct td_value *sources;
    int n_sources;
};

/* Adds nodes to ir, which is in order (td_ir_sort) and is not any more afterwards; result[i] gets the sum
 * over all targets of the gradients by sources[i], none where nothing leads there. UNIMPLEMENTED names a node
 * on the way whose op has no gradient, and its function; INVALID_ARGUMENT a target that is no float. */
TD_MUST enum td_code td_grad_backward(struct td_grad_context *ctx, struct td_ir *ir,
                                      const struct td_grad_query *q, struct td_grad_value *result,
                                      struct td_err *err);
typedef void td_grad_rule_fn(struct td_grad *g);
/* How n is differentiated: by its op's gradient, or by the one that it names. UNIMPLEMENTED: by none. */
TD_MUST enum td_code td_grad_rule(const struct td_op_table *ops, const struct td_node *n,
                                  td_grad_rule_fn **rule, struct td_err *err);
/* A gradient as a dense value. */
struct td_value td_grad_dense(const struct td_grad_context *ctx, struct td_emitter *e,
                              const struct td_grad_value *v);
/* A node "FOLDERNAME/OP_NUMBER" of the device, function and path of `at` (NULL: none), NAME that of `at`
 * without the folder where it has it; folder is "" or ends with '/'. What an emitter's add is made of. */
TD_MUST enum td_code td_grad_add_under(struct td_ir *ir, const char *folder, const struct td_node *at,
                                       const char *op_name, struct td_node **out, struct td_err *err);
/* Adds nodes to ir under "gradients/", NAME that of the node at hand. */
struct td_emitter td_grad_emitter(struct td_grad_context *ctx, struct td_ir *ir,
                                  const struct td_ir_shapes *shapes, struct td_err *err);

/* What a node's gradient may ask of the transformation it is part of. */
struct td_grad_context *td_grad_context_of(const struct td_grad *g);
struct td_ir *td_grad_ir_of(const struct td_grad *g);

#endif
