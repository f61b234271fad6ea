/* core/compile/inline.h - copies a function's body into an IR in place of a node that certainly runs it
 * (core/compile/pass_inline.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_INLINE_H
#define TD_CORE_COMPILE_INLINE_H

#include "core/compile/ir.h"

struct td_inlined { /* f stands in place of n, whose inputs from first_in on are its arguments */
    const struct td_node *n;
    int first_in;
    const struct td_function *f;
};

/* Adds f's nodes. outs[i]: what stands for n's output i; *after: what a
 * control edge from n means now, or NULL. n itself stays as it was. On failure nodes may have been added that
 * nothing reads. */
TD_MUST enum td_code td_inline_node(struct td_ir *ir, const struct td_library *lib,
                                    const struct td_inlined *call, struct td_value *outs,
                                    struct td_node **after, struct td_err *err);

#endif
