/* tests/unit/kernels/run_make.h - a graph as text, made into a callable of a model with chosen kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_RUN_MAKE_H
#define TD_TESTS_UNIT_KERNELS_RUN_MAKE_H

#include "tests/unit/core/pass_make.h"

/* result: "r" */
struct run {
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
};

static inline void open_run(struct run *r, const char *text, enum td_kernel_choice kernels)
{
    passed_open(&r->t, text, "r");
    const struct td_model_opts how = {.ops = r->t.ops, .kernels = kernels};
    CHECK_INT(td_model_new(&how, NULL, &r->t.g.graph, &r->t.g.lib, &r->m, &r->t.err), TD_OK);
    CHECK_INT(td_callable_new(r->m, &r->t.how, &r->f, &r->t.err), TD_OK);
}

static inline void close_run(struct run *r)
{
    td_model_unref(r->m);
    passed_close(&r->t);
}

#endif
