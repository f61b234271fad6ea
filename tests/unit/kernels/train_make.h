/* tests/unit/kernels/train_make.h - formulas of kernels/train as graphs that run: Placeholders, nodes that a
 * test emits, a model, and what it gives, also differentiated.
 *
 * The shapes of what is fed are known beforehand, as where a signature tells them, or are not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_TRAIN_MAKE_H
#define TD_TESTS_UNIT_KERNELS_TRAIN_MAKE_H

#include <math.h>

#include "core/grad/program.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_graph.h"
#include "tests/test.h"

enum { FORMULA_MOST = 12 };

/* A tensor of a table; no values: none. */
struct given {
    struct td_shape shape;
    const double *v;
};

struct formula {
    struct op_graph g;
    struct td_op_table *ops;
    struct td_emitter e;
    struct td_value feed[FORMULA_MOST], fetch[FORMULA_MOST];
    struct td_tensor in[FORMULA_MOST], out[FORMULA_MOST];
    int n_feeds, n_fetches;
    struct td_model *m;
    struct td_err err;
};

/* What is fed has the shape of its tensor; of other values nothing is known. */
static inline const struct td_shape *shape_of_feed(const void *ctx, struct td_value v)
{
    static const struct td_shape unknown = {.rank = -1};
    const struct formula *f = ctx;
    for (int i = 0; i < f->n_feeds; i++) {
        if (f->feed[i].node == v.node) {
            return &f->in[i].shape;
        }
    }
    return &unknown;
}

static inline void formula_open(struct formula *f, const enum td_dtype *dtypes, int n, bool shapes_known)
{
    *f = (struct formula){.n_feeds = n};
    CHECK(op_graph_open(&f->g));
    CHECK_INT(td_op_table_new(td_op_families, &f->ops, &f->err), TD_OK);
    for (int i = 0; i < n; i++) {
        char line[96];
        snprintf(line, sizeof line, "x%d = Placeholder {dtype:type=%s} ()\n", i, td_dtype_name(dtypes[i]));
        test_check_ok(__FILE__, __LINE__, line, op_graph_read(&f->g, line, true, &f->err), &f->err);
    }
    test_check_ok(__FILE__, __LINE__, "graph", td_graph_resolve(&f->g.graph, &f->g.lib, f->ops, &f->err),
                  &f->err);
    for (int i = 0; i < n; i++) {
        f->feed[i] = (struct td_value){f->g.graph.nodes[i], 0};
    }
    f->e = td_graph_emitter(&f->g.graph, "train", f->ops, &f->err);
    if (shapes_known) {
        f->e.shapes = f;
        f->e.shape_of = shape_of_feed;
    }
}

static inline void put_number(struct td_tensor *t, int64_t i, double v)
{
    op_graph_put(t->dtype, (char *)t->data + (size_t)i * td_dtype_size(t->dtype), (int64_t)v, v);
}

static inline double get_number(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (double)TD_DATA(t, const float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, const double)[i];
    case TD_HALF:
        return (double)td_half_to_float(TD_DATA(t, const td_half)[i]);
    case TD_BFLOAT16:
        return (double)td_bf16_to_float(TD_DATA(t, const td_bf16)[i]);
    default:
        CHECK(t->dtype == TD_INT64);
        return (double)TD_DATA(t, const int64_t)[i];
    }
}

static inline void formula_set(struct formula *f, int i, enum td_dtype dtype, const struct given *x)
{
    struct td_err err = {0};
    td_tensor_clear(&f->in[i]);
    CHECK_OK(td_tensor_new(&f->in[i], dtype, &x->shape, &err));
    for (int64_t k = 0; k < td_tensor_count(&f->in[i]); k++) {
        put_number(&f->in[i], k, x->v[k]);
    }
}

/* What was emitted, run; fetch[0 .. n_fetches) into out. */
static inline void formula_run(struct formula *f)
{
    struct td_callable *c;
    const struct td_callable_opts how = {
        .name = "f", .feeds = f->feed, .n_feeds = f->n_feeds, .fetches = f->fetch, .n_fetches = f->n_fetches};
    if (f->m == NULL) {
        const struct td_model_opts opts = {.ops = f->ops};
        test_check_ok(__FILE__, __LINE__, "formula", td_emit_close(&f->e), &f->err);
        CHECK_INT(td_model_new(&opts, NULL, &f->g.graph, &f->g.lib, &f->m, &f->err), TD_OK);
    }
    test_check_ok(__FILE__, __LINE__, "callable", td_callable_new(f->m, &how, &c, &f->err), &f->err);
    test_check_ok(__FILE__, __LINE__, "run", td_callable_run(c, f->in, f->out, NULL, &f->err), &f->err);
}

/* fetch[0], a scalar, and its gradient by feed 0 into out[0] and out[1]. */
static inline void formula_differentiate(struct formula *f)
{
    const struct td_model_opts opts = {.ops = f->ops};
    const struct td_grad_source source = {.feed = 0, .dtype = td_dtype_of(f->feed[0])};
    const int target = 0;
    const char *name = "loss";
    const struct td_program_opts o = {
        .name = "f",
        .part = {.name = "f", .feeds = f->feed, .n_feeds = f->n_feeds, .fetches = f->fetch, .n_fetches = 1},
        .kind = TD_GRADIENT,
        .target = &target,
        .target_name = &name,
        .n_targets = 1,
        .source = &source,
        .n_sources = 1};
    struct td_program *p;
    test_check_ok(__FILE__, __LINE__, "formula", td_emit_close(&f->e), &f->err);
    CHECK_INT(td_model_new(&opts, NULL, &f->g.graph, &f->g.lib, &f->m, &f->err), TD_OK);
    test_check_ok(__FILE__, __LINE__, "program", td_program_new(f->m, &o, &p, &f->err), &f->err);
    test_check_ok(__FILE__, __LINE__, "run",
                  td_callable_run(td_program_callable(p), f->in, f->out, NULL, &f->err), &f->err);
    CHECK_INT(td_program_fetch(p, 0), 1);
    td_program_unref(p);
}

static inline void formula_close(struct formula *f)
{
    for (int i = 0; i < FORMULA_MOST; i++) {
        td_tensor_clear(&f->in[i]);
        td_tensor_clear(&f->out[i]);
    }
    td_model_unref(f->m);
    op_graph_close(&f->g);
    td_op_table_free(f->ops);
}

/* Element `at` of what case i (named) gives is `want` but for relative and absolute errors. */
static inline void check_number(const char *name, int i, int64_t at, double got, double want, double rtol,
                                double atol)
{
    if (!(fabs(got - want) <= atol + rtol * fabs(want))) {
        fprintf(stderr, "%s (case %d), element %lld: %.9g, want %.9g\n", name, i, (long long)at, got, want);
        exit(1);
    }
}

#endif
