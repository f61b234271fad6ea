/* kernels/dense/tile_posts.c - which epilogues tiles take, and loops of the costly ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/tile_posts.h"

#include "kernels/cpu/vecmath.h"

static bool is_cheap(const struct td_post *p)
{
    return p->kind == TD_POST_BIAS || p->kind == TD_POST_AFFINE || p->kind == TD_POST_RELU ||
           p->kind == TD_POST_RELU6 || (p->kind == TD_POST_ADD && p->operand == TD_POST_ELEMENT);
}

/* Or behind one that is. A bias only comes first. */
static bool is_costly(const struct td_post *p)
{
    return p->kind == TD_POST_SIGMOID || p->kind == TD_POST_TANH || p->kind == TD_POST_SWISH ||
           p->kind == TD_POST_GELU_ERF || (is_cheap(p) && p->kind < TD_POST_BIAS);
}

struct td_tile_posts td_tile_posts_taken(const struct td_kernel_query *q, int64_t channels)
{
    struct td_tile_posts p = {.channels = channels};
    int n = 0;
    while (n < q->n_post && n < TD_TILE_POSTS && is_cheap(&q->post[n])) {
        n++;
    }
    p.n_cheap = n;
    while (n < q->n_post && n < TD_TILE_POSTS && is_costly(&q->post[n])) {
        n++;
    }
    p.n = n;
    for (int i = 0; i < n; i++) {
        p.post[i] = q->post[i];
    }
    return p;
}

#define LOOP(name, expression)                                                                               \
    TD_CLONES static void name(float *y, int64_t n)                                                          \
    {                                                                                                        \
        TD_INDEPENDENT for (int64_t i = 0; i < n; i++)                                                       \
        {                                                                                                    \
            const float x = y[i];                                                                            \
            y[i] = (expression);                                                                             \
        }                                                                                                    \
    }
LOOP(swish, x *td_fast_sigmoid_f32(x))
LOOP(gelu_erf, 0.5f * x * (1 + td_fast_erf_f32(x * 0.70710678f)))
LOOP(relu, x < 0 ? 0 : x)
LOOP(relu6, x<0 ? 0 : x> 6 ? 6 : x)

TD_CLONES static void add(float *y, const float *with, int64_t n)
{
    TD_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
        y[i] += with[i];
    }
}

TD_CLONES static void affine(float *y, const float *scale, const float *shift, int64_t n)
{
    TD_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
        y[i] = y[i] * scale[i] + shift[i];
    }
}

void td_tile_posts_finish(const struct td_tile_posts *p, int first, int64_t at, int64_t from, int64_t to)
{
    float *row = p->y + at + from;
    const int64_t n = to - from;
    for (int k = first; k < p->n; k++) {
        switch (p->post[k].kind) {
        case TD_POST_BIAS:
            add(row, p->operand[k] + from, n);
            break;
        case TD_POST_AFFINE:
            affine(row, p->operand[k] + from, p->operand[k] + p->channels + from, n);
            break;
        case TD_POST_SIGMOID:
            td_vec_sigmoid_f32(row, row, n);
            break;
        case TD_POST_TANH:
            td_vec_tanh_f32(row, row, n);
            break;
        case TD_POST_SWISH:
            swish(row, n);
            break;
        case TD_POST_GELU_ERF:
            gelu_erf(row, n);
            break;
        case TD_POST_RELU:
            relu(row, n);
            break;
        case TD_POST_RELU6:
            relu6(row, n);
            break;
        default:
            add(row, p->operand[k] + at + from, n);
        }
    }
}
