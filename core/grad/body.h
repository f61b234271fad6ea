/* core/grad/body.h - functions of the library while they are differentiated: opened as an IR, and IRs made
 * functions again.
 *
 *   td_grad_open_part part of a model's graph as an IR
 *   td_grad_open      a function's body as an IR: feeds are its arguments, fetches its results
 *   td_grad_backward  adds the gradients (core/grad/backward.h)
 *   td_grad_split     says what the backward part needs of the forward part (core/grad/split.h)
 *   td_grad_freeze    each part becomes a function of its own
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_BODY_H
#define TD_CORE_GRAD_BODY_H

#include "core/grad/backward.h"

/* Sorts ir (td_ir_sort) without dropping what these values need. */
TD_MUST enum td_code td_grad_order(struct td_ir *ir, const struct td_value *keep, int n_keep,
                                   struct td_err *err);
/* *ir: a part of base's graph, calls inlined, TF1 loops made functional ones, in order. *ctx: what its
 * transformation shares; functions are added to a library of its own, which ends with the arena. */
TD_MUST enum td_code td_grad_open_part(struct td_model *base, const struct td_callable_opts *part,
                                       struct td_arena *arena, struct td_grad_context *ctx, struct td_ir *ir,
                                       struct td_err *err);
/* *ir: the body of the function `name`, calls inlined, TF1 loops made functional ones, in order. Its feeds
 * are the arguments, fetches the results, roots what must have run. */
TD_MUST enum td_code td_grad_open(struct td_grad_context *ctx, struct td_arena *arena, const char *name,
                                  struct td_ir *ir, struct td_err *err);
/* A node that is fed from outside, no feed of the IR itself: an argument of what will be frozen. */
struct td_value td_grad_feed(struct td_emitter *e, const char *name, enum td_dtype dtype);

struct td_grad_part {
    const char *of;              /* told by the function's name; */
    const struct td_value *args; /* any values of the IR: nothing above them runs */
    int n_args;
    const struct td_value *rets;
    int n_rets;
    struct td_node *const *roots; /* run for their effects */
    int n_roots;
};
/* Adds a function to ctx->lib: a copy of the part of ir that rets and roots need below args. *name, unique,
 * is the arena's. ir stays as it is, in order or not. */
TD_MUST enum td_code td_grad_freeze(struct td_grad_context *ctx, struct td_ir *ir,
                                    const struct td_grad_part *part, const char **name, struct td_err *err);

#endif
