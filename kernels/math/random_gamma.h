/* kernels/math/random_gamma.h - a number of a gamma distribution: Marsaglia and Tsang, as TensorFlow has it,
 * in double.
 *
 * Header-only, and read by CUDA's compiler too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_GAMMA_H
#define TD_KERNELS_MATH_RANDOM_GAMMA_H

#include "kernels/math/random_group.h"

/* Doubles taken from the back of each pair that a step gives, as TensorFlow takes them. */
struct td_random_uniforms {
    struct td_philox *g;
    double pair[2];
    int left;
};

TD_PHILOX double td_random_next_uniform(struct td_random_uniforms *u)
{
    if (u->left == 0) {
        u->left = td_random_group_f64(TD_RANDOM_UNIFORM, u->g, u->pair);
    }
    return u->pair[--u->left];
}

TD_PHILOX double td_random_gamma(double alpha, struct td_philox g)
{
    struct td_random_uniforms u = {&g, {0, 0}, 0};
    double normal[2];
    const double d = alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
    int normals = 0;
    if (alpha == 1.0) {
        return -log1p(-td_random_next_uniform(&u));
    }
    /* Alphas that are not positive numbers never accept; the bound ends those. */
    for (int tries = 0; tries < 10000; tries++) {
        if (normals == 0) {
            normals = td_random_group_f64(TD_RANDOM_NORMAL, &g, normal);
        }
        const double x = normal[--normals];
        double v = 1 + c * x;
        if (v <= 0) {
            continue;
        }
        v = v * v * v;
        const double b = td_random_next_uniform(&u);
        if (b < 1 - 0.0331 * (x * x) * (x * x) || log(b) < 0.5 * x * x + d * (1 - v + log(v))) {
            return alpha < 1 ? d * v * pow(td_random_next_uniform(&u), 1 / alpha) : d * v;
        }
    }
    return NAN;
}

#endif
