/* kernels/cpu/vecmath.c - the array loops of vecmath.h, one clone an instruction set.
 *
 * Every loop body is branch-free, so the compiler vectorises it; sums keep 16 partial results (the widest
 * vector of floats), folded in blocks so that the error grows with log n, not n.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/vecmath.h"

#define MAP(name, fn)                                                                                        \
    TD_CLONES void name(const float *x, float *y, int64_t n)                                                 \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = fn(x[i]);                                                                                 \
        }                                                                                                    \
    }
MAP(td_vec_tanh_f32, td_fast_tanh_f32)
MAP(td_vec_sigmoid_f32, td_fast_sigmoid_f32)

#define LANES 16
#define BLOCK 1024 /* elements summed before a partial result joins the total */

TD_INLINE float fold_sum(const float *lane)
{
    float s[LANES];
    memcpy(s, lane, sizeof s);
    for (int w = LANES / 2; w > 0; w /= 2) {
        for (int i = 0; i < w; i++) {
            s[i] += s[i + w];
        }
    }
    return s[0];
}

TD_INLINE float block_sum(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lane[k] += x[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        lane[k] += x[i];
    }
    return fold_sum(lane);
}

TD_CLONES float td_vec_sum_f32(const float *x, int64_t n)
{
    double total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        total += block_sum(x + i, n - i < BLOCK ? n - i : BLOCK);
    }
    return (float)total;
}

/* NaN is looked for beside the maximum, not in it: so both are vector code. */
TD_CLONES float td_vec_max_f32(const float *x, int64_t n)
{
    float lane[2 * LANES], m = -INFINITY;
    int32_t nan[2 * LANES] = {0}, any = 0;
    for (int k = 0; k < 2 * LANES; k++) {
        lane[k] = -INFINITY;
    }
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        for (int k = 0; k < 2 * LANES; k++) {
            const float v = x[i + k];
            lane[k] = v > lane[k] ? v : lane[k];
            nan[k] |= v != v;
        }
    }
    for (; i < n; i++) {
        m = x[i] > m ? x[i] : m;
        any |= x[i] != x[i];
    }
    for (int k = 0; k < 2 * LANES; k++) {
        m = lane[k] > m ? lane[k] : m;
        any |= nan[k];
    }
    return any ? NAN : m;
}

TD_CLONES float td_vec_exp_sum_f32(const float *x, float shift, float *y, int64_t n)
{
    double total = 0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < m; i++) {
            y[at + i] = td_fast_exp_f32(x[at + i] - shift);
        }
        total += block_sum(y + at, m);
    }
    return (float)total;
}
