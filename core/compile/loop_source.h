/* core/compile/loop_source.h - what a loop's condition and body are made of, be it a loop over functions or
 * one that was lifted from a TF1 graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_LOOP_SOURCE_H
#define TD_CORE_COMPILE_LOOP_SOURCE_H

#include "core/compile/ir.h"

struct td_loop_source {
    const struct td_graph *graph;
    struct td_callable_opts opts; /* fed all inputs of the loop's node, in their order */
};

/* False: n is no loop, or is not known to be one of these. The first *n_vars inputs are variables; the
 * others are the same in every round. Feeds may lie in the arena. */
bool td_loop_sources(const struct td_model *m, struct td_arena *arena, const struct td_node *n,
                     struct td_loop_source *cond, struct td_loop_source *body, int *n_vars);
/* None of the nodes has an effect but that it reads. */
bool td_loop_only_reads(struct td_node *const *nodes, int n);
/* TF1's control flow, op by op, is in it. */
bool td_loop_has_old(const struct td_ir *ir);

#endif
