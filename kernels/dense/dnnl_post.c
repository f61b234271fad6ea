/* kernels/dense/dnnl_post.c - a step's epilogues, appended to a primitive's attributes one by one.
 *
 * Functions of one value become oneDNN's eltwise post-ops by a table. Those with an operand become binary
 * post-ops, whose operand is laid out as the output, or is one number, or one number a channel, told as a
 * tensor of ones in all other axes. A bias in front is no post-op: it goes in as the primitive's own bias,
 * and a scale with it into the weights (kernels/dense/dnnl_pack.c), so the numbers of later ones are counted
 * without it. Where sums are of rounded numbers they are first multiplied by what one is worth in each column
 * (kernels/dense/low.h): a bias is added behind that, so it is a post-op like the others, and a scale with it
 * is part of the steps.
 *
 * The first that oneDNN lacks makes all of it fail; the caller then tries again with one fewer.
 * Does not: run anything, keep the operands' addresses (each run gives them).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_post.h"

int td_dnnl_post_arg(const struct td_dnnl_posts *posts, int i)
{
    return DNNL_ARG_ATTR_MULTIPLE_POST_OP(i - posts->bias + posts->stepped) | DNNL_ARG_SRC_1;
}

int td_dnnl_steps_arg(void)
{
    return DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
}

static bool add_eltwise(dnnl_post_ops_t ops, const struct td_post *p)
{
    static const struct {
        dnnl_alg_kind_t alg;
        float alpha, beta;
    } rows[TD_POST_ADD] = {
        [TD_POST_RELU] = {dnnl_eltwise_relu, 0, 0},        [TD_POST_RELU6] = {dnnl_eltwise_clip, 0, 6},
        [TD_POST_LEAKY] = {dnnl_eltwise_relu, 0, 0},       [TD_POST_ELU] = {dnnl_eltwise_elu, 1, 0},
        [TD_POST_SIGMOID] = {dnnl_eltwise_logistic, 0, 0}, [TD_POST_TANH] = {dnnl_eltwise_tanh, 0, 0},
        [TD_POST_SWISH] = {dnnl_eltwise_swish, 1, 0},      [TD_POST_GELU_ERF] = {dnnl_eltwise_gelu_erf, 0, 0},
    };
    float alpha = p->kind == TD_POST_LEAKY ? p->alpha : rows[p->kind].alpha;
    return dnnl_post_ops_append_eltwise(ops, 1.0f, rows[p->kind].alg, alpha, rows[p->kind].beta) ==
           dnnl_success;
}

/* An operand of one number, or one a channel: as many axes as y has, all others 1. */
static bool small_operand(const dnnl_memory_desc_t *y, bool channels, dnnl_memory_desc_t *md)
{
    static const dnnl_format_tag_t plain[] = {
        [2] = dnnl_ab, [3] = dnnl_abc, [4] = dnnl_abcd, [5] = dnnl_abcde};
    dnnl_dims_t dims = {1, 1, 1, 1, 1};
    if (y->ndims < 2 || y->ndims > 5) {
        return false;
    }
    dims[1] = channels ? y->dims[1] : 1;
    return dnnl_memory_desc_init_by_tag(md, y->ndims, dims, dnnl_f32, plain[y->ndims]) == dnnl_success;
}

static bool add_binary(dnnl_post_ops_t ops, const struct td_post *p, const dnnl_memory_desc_t *y,
                       dnnl_memory_desc_t *md)
{
    const bool shift = p->kind >= TD_POST_BIAS;
    dnnl_alg_kind_t alg = p->kind == TD_POST_ADD || shift ? dnnl_binary_add
                          : p->kind == TD_POST_SUB        ? dnnl_binary_sub
                                                          : dnnl_binary_mul;
    const bool channel = p->operand == TD_POST_CHANNEL || shift;
    *md = *y;
    return ((p->operand == TD_POST_ELEMENT && !shift) || small_operand(y, channel, md)) &&
           dnnl_post_ops_append_binary(ops, alg, md) == dnnl_success;
}

bool td_dnnl_posts_set(dnnl_primitive_attr_t attr, const struct td_post *post, int n,
                       const dnnl_memory_desc_t *y, struct td_dnnl_posts *out)
{
    dnnl_post_ops_t ops = NULL;
    bool ok = n <= TD_DNNL_POSTS && dnnl_post_ops_create(&ops) == dnnl_success;
    out->n = n;
    out->bias = n > 0 && post[0].kind >= TD_POST_BIAS && !out->stepped;
    out->scaled = n > 0 && post[0].kind == TD_POST_AFFINE;
    if (out->stepped) {
        ok = ok && small_operand(y, true, &out->steps) &&
             dnnl_post_ops_append_binary(ops, dnnl_binary_mul, &out->steps) == dnnl_success;
    }
    for (int i = out->bias; ok && i < n; i++) {
        out->has_operand[i] = post[i].kind >= TD_POST_ADD;
        ok =
            out->has_operand[i] ? add_binary(ops, &post[i], y, &out->operand[i]) : add_eltwise(ops, &post[i]);
    }
    ok = ok && dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    (void)dnnl_post_ops_destroy(ops);
    return ok;
}
