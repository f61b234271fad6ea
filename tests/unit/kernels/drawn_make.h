/* tests/unit/kernels/drawn_make.h - drawn tensors, and graphs of floats by the fast kernels against the
 * loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_DRAWN_MAKE_H
#define TD_TESTS_UNIT_KERNELS_DRAWN_MAKE_H

#include <math.h>

#include "core/base/thread_pool.h"
#include "tests/unit/core/pass_make.h"

/* Uniform in [-1, 1). */
static inline struct td_tensor drawn(const struct td_shape *shape, uint32_t seed)
{
    struct td_tensor t;
    struct td_err err = {0};
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, shape, &err));
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        seed = seed * 1664525u + 1013904223u;
        TD_DATA(&t, float)[i] = (float)(seed >> 8) / 0x1p23f - 1;
    }
    return t;
}

static inline float largest(const struct td_tensor *t)
{
    float most = 0;
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        const float v = fabsf(TD_DATA(t, float)[i]);
        most = v > most && isfinite(v) ? v : most;
    }
    return most;
}

/* got within so much of the largest wanted; what is not finite is the same. */
static inline void check_same(const struct td_tensor *want, const struct td_tensor *got, float off,
                              const char *what)
{
    const float most = largest(want);
    CHECK(td_shape_equal(&want->shape, &got->shape));
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        const float a = TD_DATA(want, float)[i], b = TD_DATA(got, float)[i];
        if (!(fabsf(a - b) <= off * most || a == b || (isnan(a) && isnan(b)))) {
            fprintf(stderr, "%s\nelement %lld: %.9g, %.9g by the loops\n", what, (long long)i, (double)b,
                    (double)a);
            exit(1);
        }
    }
}

/* A graph "r" of x and y by the fast kernels and by the reference. */
static inline void compare(const char *text, struct td_tensor in[2], float off)
{
    struct td_tensor want = run_with(text, "r", NULL, TD_KERNELS_REFERENCE, in);
    struct td_tensor got = run_with(text, "r", NULL, TD_KERNELS_FAST, in);
    check_same(&want, &got, off, text);
    td_tensor_clear(&want);
    td_tensor_clear(&got);
}

/* A graph "r" of x, or of x and y. Often enough for the weights to be met, on several threads if there is a
 * pool. */
static inline struct td_tensor run_on(struct td_thread_pool *pool, const char *text,
                                      const struct td_tensor *in)
{
    enum { RUNS = 3 };
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor out = {0};
    const struct td_run_opts opts = {.pool = pool};
    passed_open(&t, text, "r");
    const struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    for (int i = 0; i < RUNS; i++) {
        td_tensor_clear(&out);
        CHECK_INT(td_callable_run(f, in, &out, &opts, &t.err), TD_OK);
    }
    td_model_unref(m);
    passed_close(&t);
    return out;
}

#endif
