/* kernels/math/random_group.h - the numbers that come of a generator's step: four floats, or two doubles.
 *
 *   uniform    a word each, of doubles two: [0, 1)
 *   normal     Box-Muller on pairs of uniforms: N(0, 1)
 *   truncated  like normal, resampled at two standard deviations; each group starts 256 steps an element
 *              after the last, so that what one rejects does not move the next
 *
 * A group leaves the generator where the next one begins: group k of one generator is what it gives after
 * td_random_skip(kind, wide, k, &g). Header-only, and read by CUDA's compiler too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_GROUP_H
#define TD_KERNELS_MATH_RANDOM_GROUP_H

#include <stdbool.h>

#include "kernels/math/philox.h"

/* Steps of the generator set aside for each output element by every op that keeps its generator between
 * calls. */
#define TD_RANDOM_STEPS 256

enum td_random_kind { TD_RANDOM_UNIFORM, TD_RANDOM_NORMAL, TD_RANDOM_TRUNCATED_NORMAL };

/* Past n groups; wide: of doubles. */
TD_PHILOX void td_random_skip(enum td_random_kind kind, bool wide, uint64_t n, struct td_philox *g)
{
    const uint64_t elements = wide ? 2 : 4;
    td_philox_skip(g, kind == TD_RANDOM_TRUNCATED_NORMAL ? n * elements * TD_RANDOM_STEPS / 4 : n);
}

/* One of 2^bits numbers; 23 bits are a float's. */
TD_PHILOX float td_random_uniform(int bits, uint32_t x)
{
    const uint32_t n = 1u << bits;
    return bits == 23 ? td_philox_float(x) : (float)(x & (n - 1)) / (float)n;
}

TD_PHILOX void td_random_truncated_f32(struct td_philox g, float out[4])
{
    struct td_philox_words w = {&g, {0, 0, 0, 0}, 0};
    float pair[2];
    for (int n = 0; n < 4;) {
        const uint32_t x0 = td_philox_word(&w), x1 = td_philox_word(&w);
        td_philox_normal_f32(x0, x1, pair);
        for (int k = 0; k < 2 && n < 4; k++) {
            if (fabsf(pair[k]) < 2.0f) {
                out[n++] = pair[k];
            }
        }
    }
}

TD_PHILOX void td_random_truncated_f64(struct td_philox g, double out[2])
{
    double pair[2];
    uint32_t x[4];
    for (int n = 0; n < 2;) {
        td_philox_next(&g, x);
        td_philox_normal_f64(x, pair);
        for (int k = 0; k < 2 && n < 2; k++) {
            if (fabs(pair[k]) < 2.0) {
                out[n++] = pair[k];
            }
        }
    }
}

/* Both return how many there are. */
TD_PHILOX int td_random_group_f32(enum td_random_kind kind, int bits, struct td_philox *g, float out[4])
{
    uint32_t x[4];
    if (kind == TD_RANDOM_TRUNCATED_NORMAL) {
        td_random_truncated_f32(*g, out);
        td_random_skip(kind, false, 1, g);
        return 4;
    }
    td_philox_next(g, x);
    if (kind == TD_RANDOM_NORMAL) {
        td_philox_normal_f32(x[0], x[1], out);
        td_philox_normal_f32(x[2], x[3], out + 2);
    } else {
        for (int i = 0; i < 4; i++) {
            out[i] = td_random_uniform(bits, x[i]);
        }
    }
    return 4;
}

TD_PHILOX int td_random_group_f64(enum td_random_kind kind, struct td_philox *g, double out[2])
{
    uint32_t x[4];
    if (kind == TD_RANDOM_TRUNCATED_NORMAL) {
        td_random_truncated_f64(*g, out);
        td_random_skip(kind, true, 1, g);
        return 2;
    }
    td_philox_next(g, x);
    if (kind == TD_RANDOM_NORMAL) {
        td_philox_normal_f64(x, out);
    } else {
        out[0] = td_philox_double(x[0], x[1]);
        out[1] = td_philox_double(x[2], x[3]);
    }
    return 2;
}

/* One integer of a step's words x: lo + bits mod range; range 0: all bits. */
TD_PHILOX uint64_t td_random_int(const uint32_t x[4], int k, bool wide, uint64_t lo, uint64_t range)
{
    const uint64_t bits = wide ? x[2 * k] | (uint64_t)x[2 * k + 1] << 32 : x[k];
    return lo + (range ? bits % range : bits);
}

#endif
