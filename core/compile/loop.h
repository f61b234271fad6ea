/* core/compile/loop.h - a loop whose functions the compiler made, lifted from a TF1 graph or rewritten
 * (core/compile/pass_hoist.c): what its node runs.
 *
 *     values = start[0 .. n_vars), constants          the node's inputs
 *     while cond(values): values[0 .. n_vars) = body(values)
 *     out = values[0 .. n_vars)
 *
 * Condition and body are fed some of the values, in an order of their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_LOOP_H
#define TD_CORE_COMPILE_LOOP_H

#include "core/graph/op.h"
#include "core/run/model.h"

struct td_loop {
    const struct td_callable_calls *calls;
    struct td_callable *cond, *body; /* owned */
    int n_vars, n_consts;
    /* Feed k is variable or constant number from[k]; constants follow variables. NULL stands for 0, 1, 2 ..
     */
    int *cond_from, *body_from;
    int n_cond_feeds, n_body_feeds;
    bool by_reference; /* a variable is TF1's, handed on as itself */
    /* What condition and body were made of, in the arena of the loop's node; NULL: that is not kept. Feeds of
     * either are all values, in their order. */
    const struct td_graph *graph;
    struct td_callable_opts cond_opts, body_opts;
    /* Of a node that has tensors for lists (core/compile/pass_unlist.c): the one that has the lists; else
     * NULL. */
    const struct td_node *listed;
};

extern const struct td_op td_loop_op;
extern const struct td_op td_reading_loop_op; /* condition and body have no effects but that they read */

/* Gives up what a loop owns; its memory is an arena's, which calls this (td_arena_defer). */
void td_loop_free(void *loop);

/* What a lifted loop runs, for analyses: feed k of the condition is variable or constant number cond_from[k];
 * constants follow the n_vars variables. */
struct td_loop_parts {
    struct td_callable *cond, *body;
    int n_vars, n_cond_feeds, n_body_feeds;
    const int *cond_from, *body_from;
};
struct td_loop_parts td_loop_parts(const struct td_loop *l); /* borrowed, as long as the loop's node */

#endif
