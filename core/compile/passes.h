/* core/compile/passes.h - the compiler's passes: one function each, over an IR whose nodes are in topological
 * order.
 *
 * A pass may leave nodes unreachable and out of order; the driver (core/compile/rewrite.c) sorts after each.
 * It counts what it changed in ir->changes. m may be NULL (tests): rules that need the model's ops or
 * variables do not fire then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PASSES_H
#define TD_CORE_COMPILE_PASSES_H

#include "core/compile/ir.h"

typedef enum td_code td_pass_fn(struct td_ir *ir, struct td_model *m, struct td_err *err);

#define PASS_AT_BUILD(name, what)
#define PASS_ON_STEPS(name, what)
#define PASS(name, when, what) td_pass_fn td_pass_##name;
#include "core/compile/passes.def"
#undef PASS
#undef PASS_AT_BUILD
#undef PASS_ON_STEPS

/* Folds nodes of constant inputs: those that make resource handles, or all others. */
TD_MUST enum td_code td_pass_fold_nodes(struct td_ir *ir, struct td_model *m, bool handles,
                                        struct td_err *err);
/* What a node made of constants, before it is read in the node's place: of its types, and a handle has its
 * object. A node with effects, but for making handles, makes none. (pass_fold.c) */
TD_MUST enum td_code td_literal_check(const struct td_node *n, const struct td_tensor *out,
                                      struct td_err *err);
/* The part of dead_branch that deals with TF1's Switch and Merge. */
td_pass_fn td_pass_dead_switch;

#endif
