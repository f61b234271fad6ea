/* kernels/math/philox.h - the Philox4x32-10 counter generator, and numbers made from its words as TensorFlow
 * makes them.
 *
 * A generator is a 128-bit counter and a 64-bit key; every step gives four 32-bit words and counts one up.
 * Seeded alike it gives the words that TensorFlow's CPU kernels see, so results agree bit for bit.
 * Header-only, and read by CUDA's compiler too: it is the inner loop of every random op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_PHILOX_H
#define TD_KERNELS_MATH_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define TD_PHILOX static inline __host__ __device__
#else
#define TD_PHILOX static inline
#endif

struct td_philox {
    uint32_t counter[4], key[2];
};

TD_PHILOX struct td_philox td_philox_make(uint64_t key, uint64_t counter_lo, uint64_t counter_hi)
{
    const struct td_philox g = {{(uint32_t)counter_lo, (uint32_t)(counter_lo >> 32), (uint32_t)counter_hi,
                                 (uint32_t)(counter_hi >> 32)},
                                {(uint32_t)key, (uint32_t)(key >> 32)}};
    return g;
}

TD_PHILOX uint64_t td_philox_lo(const struct td_philox *g)
{
    return g->counter[0] | (uint64_t)g->counter[1] << 32;
}

TD_PHILOX uint64_t td_philox_hi(const struct td_philox *g)
{
    return g->counter[2] | (uint64_t)g->counter[3] << 32;
}

/* The carry out of the high half of `steps` is lost where TensorFlow loses it: a negative RngSkip shows that.
 */
TD_PHILOX void td_philox_skip(struct td_philox *g, uint64_t steps)
{
    uint32_t lo = (uint32_t)steps, hi = (uint32_t)(steps >> 32);
    g->counter[0] += lo;
    hi += g->counter[0] < lo;
    g->counter[1] += hi;
    if (g->counter[1] < hi && ++g->counter[2] == 0) {
        ++g->counter[3];
    }
}

TD_PHILOX void td_philox_next(struct td_philox *g, uint32_t out[4])
{
    uint32_t x[4], k0 = g->key[0], k1 = g->key[1];
    memcpy(x, g->counter, sizeof x);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0, y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[0] = y0;
        x[1] = (uint32_t)b;
        x[2] = y2;
        x[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, x, sizeof x);
    td_philox_skip(g, 1);
}

/* The key and counter that a stateless op makes of its two seeds. */
TD_PHILOX struct td_philox td_philox_from_seeds(uint64_t seed0, uint64_t seed1)
{
    uint32_t mix[4];
    struct td_philox scramble = td_philox_make(0x02461e293ec8f720u, seed0, seed1);
    td_philox_next(&scramble, mix);
    return td_philox_make(mix[0] | (uint64_t)mix[1] << 32, 0, mix[2] | (uint64_t)mix[3] << 32);
}

/* ------------------------------------------------------------------ one word at a time */

struct td_philox_words {
    struct td_philox *g;
    uint32_t word[4];
    int left;
};

TD_PHILOX uint32_t td_philox_word(struct td_philox_words *w)
{
    if (w->left == 0) {
        td_philox_next(w->g, w->word);
        w->left = 4;
    }
    return w->word[4 - w->left--];
}

/* ------------------------------------------------------------------ words to numbers */

TD_PHILOX float td_philox_float(uint32_t x) /* [0, 1) */
{
    uint32_t bits = 127u << 23 | (x & 0x7fffffu);
    float f;
    memcpy(&f, &bits, 4);
    return f - 1.0f;
}

TD_PHILOX double td_philox_double(uint32_t x0, uint32_t x1) /* [0, 1) */
{
    uint64_t bits = (uint64_t)1023 << 52 | (uint64_t)(x0 & 0xfffffu) << 32 | x1;
    double f;
    memcpy(&f, &bits, 8);
    return f - 1.0;
}

/* Box-Muller; the floor keeps the logarithm finite. */
TD_PHILOX void td_philox_normal_f32(uint32_t x0, uint32_t x1, float out[2])
{
    float u = td_philox_float(x0), angle = (float)(2.0 * M_PI * (double)td_philox_float(x1));
    float r = sqrtf(-2.0f * logf(u < 1.0e-7f ? 1.0e-7f : u));
    out[0] = sinf(angle) * r;
    out[1] = cosf(angle) * r;
}

TD_PHILOX void td_philox_normal_f64(const uint32_t x[4], double out[2])
{
    double u = td_philox_double(x[0], x[1]), angle = 2.0 * M_PI * td_philox_double(x[2], x[3]);
    double r = sqrt(-2.0 * log(u < 1.0e-7 ? 1.0e-7 : u));
    out[0] = sin(angle) * r;
    out[1] = cos(angle) * r;
}

#endif
