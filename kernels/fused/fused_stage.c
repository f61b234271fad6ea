/* kernels/fused/fused_stage.c - loops of the stages that fused_program.c knows by themselves. The scalar
 * functions are those of the ops' own kernels, so that results are equal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fused/fused_stage.h"

#include <math.h>

#include "kernels/cpu/scalar.h"
#include "kernels/cpu/vecmath.h"

TD_BINARY(TD_CLONES, add_f32, float, td_add_f32)
TD_BINARY(TD_CLONES, sub_f32, float, td_sub_f32)
TD_BINARY(TD_CLONES, mul_f32, float, td_mul_f32)
TD_BINARY(TD_CLONES, div_f32, float, td_div_f32)
TD_UNARY_LOOP(TD_CLONES, neg_f32, float, float, td_neg_f32)
TD_UNARY_LOOP(TD_CLONES, sigmoid_f32, float, float, td_fast_sigmoid_f32)
TD_UNARY_LOOP(TD_CLONES, erf_f32, float, float, td_fast_erf_f32)
TD_UNARY_LOOP(TD_CLONES, erfc_f32, float, float, td_fast_erfc_f32)

static void norm_f32(const float *a, const float *b, float *y, int64_t n, enum td_operands how, float epsilon)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = a[how == TD_LEFT_SCALAR ? 0 : i] / sqrtf(b[how == TD_RIGHT_SCALAR ? 0 : i] + epsilon);
    }
}

const struct td_stage td_stage_add = {.two = add_f32, .post = TD_POST_ADD};
const struct td_stage td_stage_sub = {.two = sub_f32, .post = TD_POST_SUB};
const struct td_stage td_stage_mul = {.two = mul_f32, .post = TD_POST_MUL};
const struct td_stage td_stage_div = {.two = div_f32};
const struct td_stage td_stage_neg = {.one = neg_f32};
const struct td_stage td_stage_sigmoid = {.one = sigmoid_f32, .post = TD_POST_SIGMOID};
const struct td_stage td_stage_erf = {.one = erf_f32};
const struct td_stage td_stage_erfc = {.one = erfc_f32};
const struct td_stage td_stage_norm = {.with = norm_f32, .parameter = "epsilon"};

bool td_stage_norm_refuses(const struct td_node *n)
{
    return td_attr_bool(n, "is_training");
}
