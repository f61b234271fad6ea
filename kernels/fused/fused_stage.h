/* kernels/fused/fused_stage.h - how one element-wise op is computed inside a fused node.
 *
 * An op that may follow in a fused node says so in its row with a stage of its own, which is mostly the float
 * loop that its kernel runs anyway:
 *
 *   .fuse = {.stage = TD_STAGE_ONE(exp_f32)}
 *
 * The stages named here are those that kernels/fused/fused_program.c knows patterns of (swish, GELU, scale
 * and shift), or makes instructions of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_FUSED_FUSED_STAGE_H
#define TD_KERNELS_FUSED_FUSED_STAGE_H

#include "kernels/cpu/elementwise.h"

/* y = f(a), or f(a, b), where a scalar operand is its element 0, and a parameter of the node. y may be a or
 * b. */
typedef void td_stage_fn(const float *a, const float *b, float *y, int64_t n, enum td_operands how,
                         float parameter);

/* One of the loops, all of floats; none may keep state or look at more than the elements it is given. */
struct td_stage {
    td_unary_fn *one;
    td_binary_fn *two;
    td_stage_fn *with;
    const char *parameter;  /* of `with`: the float attribute that it is given */
    enum td_post_kind post; /* what a head's kernel may be asked to do instead (core/graph/kernel.h); NONE */
};

#define TD_STAGE_ONE(loop) (&(const struct td_stage){.one = (loop)})
#define TD_STAGE_TWO(loop) (&(const struct td_stage){.two = (loop)})
/* One that some kernels can take over. */
#define TD_STAGE_POST(loop, kind) (&(const struct td_stage){.one = (loop), .post = (kind)})

extern const struct td_stage td_stage_add, td_stage_sub, td_stage_mul, td_stage_div;
extern const struct td_stage td_stage_neg, td_stage_sigmoid, td_stage_erf, td_stage_erfc;
/* Batch norm with given mean and variance: five inputs, attribute epsilon. As an instruction a / sqrt(b +
 * epsilon). */
extern const struct td_stage td_stage_norm;
bool td_stage_norm_refuses(const struct td_node *n); /* one that trains: it works mean and variance out */
#define TD_FUSE_NORM                                                                                         \
    {                                                                                                        \
        .stage = &td_stage_norm, .first_only = true, .refuse = td_stage_norm_refuses                         \
    }

#endif
