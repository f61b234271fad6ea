/* tests/host_cuda/goes_by.h - a graph on both sides (both_sides.h), and which kernels a GPU runs for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_GOES_BY_H
#define TD_TESTS_HOST_CUDA_GOES_BY_H

#include "core/function/callable_impl.h"
#include "tests/host_cuda/both_sides.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++ */

static inline double off_by(enum td_dtype t)
{
    return t == TD_FLOAT ? 1e-5 : t == TD_HALF ? 3e-3 : 2.4e-2;
}

/* Whether a step of the plan that ran last has a kernel whose name begins so. */
static inline bool has_step(struct td_callable *f, const char *kernel)
{
    struct td_bound_plan *b = td_callable_latest(f);
    bool has = false;
    CHECK(b != NULL);
    for (int k = 0; k < b->plan->n_steps; k++) {
        const char *const name = td_bound_plan_kernel_name(b, k);
        has = has || (name != NULL && strncmp(name, kernel, strlen(kernel)) == 0);
    }
    td_bound_plan_unref(b);
    return has;
}

/* r of the graph on the device, run twice, a step of which is that kernel's. */
static inline void compute_there(const char *text, const struct td_tensor *in, struct td_tensor *r,
                                 const char *kernel)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_err err = {0};
    passed_open_with(&t, device_ops(), text, "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device};
    CHECK_OK(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &err));
    CHECK_OK(td_callable_new(m, &t.how, &f, &err));
    CHECK_OK(td_callable_run(f, in, r, NULL, &err));
    td_tensor_clear(r);
    CHECK_OK(td_callable_run(f, in, r, NULL, &err));
    if (!has_step(f, kernel)) {
        fprintf(stderr, "%s\nno step of it is %s\n", text, kernel);
        exit(1);
    }
    td_model_unref(m);
    passed_close(&t);
}

/* The same on both sides, of n types; a step goes by a kernel whose name begins so. */
static inline void all_go_by(const enum td_dtype *of, int n, const char *kernel, const char *format,
                             struct td_shape x, struct td_shape y)
{
    for (int i = 0; i < n; i++) {
        const enum td_dtype type = of[i];
        const char *const text = graph(format, type);
        struct td_tensor in[2] = {random_of(type, x), random_of(type, y)}, got;
        struct outcome want;
        compute(text, NULL, in, &want);
        CHECK_INT(want.rc, TD_OK);
        compute_there(text, in, &got, kernel);
        check_close(text, &want.r, &got, off_by(type));
        td_tensor_clear(&want.r);
        td_tensor_clear(&got);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
    }
    CHECK_INT(host_cuda_reports(), 0);
}

#endif
