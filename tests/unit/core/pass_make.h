/* tests/unit/core/pass_make.h - graphs of real ops before and after the compiler's passes.
 *
 * A graph is text (tests/fuzz/op_graph.h); its feeds are the Placeholders named x and y, floats of any shape.
 * passed() compiles the value `fetch` with the passes of `only` alone ("a,b"; "" none, NULL all).
 * same_results() runs it with all passes on, and off, and compares.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_CORE_PASS_MAKE_H
#define TD_TESTS_UNIT_CORE_PASS_MAKE_H

#include <math.h>

#include "core/graph/fused.h"
#include "core/compile/ir.h"
#include "core/compile/loops.h"
#include "core/compile/rewrite.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_graph.h"
#include "tests/test.h"

#define PLACEHOLDER "Placeholder {dtype:type=float} ()\n"
#define X "x = " PLACEHOLDER
#define XY X "y = " PLACEHOLDER

struct passed {
    struct op_graph g;
    struct td_op_table *ops;
    struct td_ir ir;
    struct td_value feed[2];
    struct td_callable_opts how;
    struct td_value fetch;
    struct td_err err;
};

/* One for all of a process's graphs, for ever: with a sanitizer it is most of what a small test takes. */
static inline struct td_op_table *passed_ops(void)
{
    static struct td_op_table *ops;
    struct td_err err = {0};
    if (ops == NULL) {
        CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    }
    return ops;
}

static inline void passed_open_with(struct passed *t, struct td_op_table *ops, const char *text,
                                    const char *fetch)
{
    static const char *const names[] = {"x", "y"};
    *t = (struct passed){.ops = ops};
    CHECK(op_graph_open(&t->g));
    test_check_ok(__FILE__, __LINE__, text, op_graph_read(&t->g, text, true, &t->err), &t->err);
    test_check_ok(__FILE__, __LINE__, text, td_graph_resolve(&t->g.graph, &t->g.lib, t->ops, &t->err),
                  &t->err);
    test_check_ok(__FILE__, __LINE__, fetch, td_graph_value(&t->g.graph, fetch, &t->fetch, &t->err), &t->err);
    t->how = (struct td_callable_opts){.name = "f", .feeds = t->feed, .fetches = &t->fetch, .n_fetches = 1};
    for (int i = 0; i < 2; i++) {
        struct td_node *n = td_graph_find(&t->g.graph, names[i], 1);
        if (n != NULL) {
            t->feed[t->how.n_feeds++] = (struct td_value){n, 0};
        }
    }
}

static inline void passed_open(struct passed *t, const char *text, const char *fetch)
{
    passed_open_with(t, passed_ops(), text, fetch);
}

static inline void passed_close(struct passed *t)
{
    op_graph_close(&t->g);
}

/* The names of all passes that `only` does not have. */
static inline void all_but(const char *only, char *off, size_t bytes)
{
    off[0] = '\0';
    for (const struct td_pass_info *p = td_rewrite_passes(); only != NULL && p->name != NULL; p++) {
        if (!td_rewrite_is_off(only, p->name)) {
            snprintf(off + strlen(off), bytes - strlen(off), "%s,", p->name);
        }
    }
}

static inline void passed(struct passed *t, const char *text, const char *fetch, const char *only)
{
    char off[256];
    passed_open(t, text, fetch);
    all_but(only, off, sizeof off);
    struct td_model *m;
    struct td_model_opts opts = {.ops = t->ops};
    CHECK_INT(td_model_new(&opts, NULL, &t->g.graph, &t->g.lib, &m, &t->err), TD_OK);
    CHECK_INT(td_ir_build(&t->ir, t->g.arena, &t->g.graph, &t->g.lib, &t->how,
                          td_rewrite_is_off(off, "inline") ? 0 : TD_IR_INLINE, &t->err),
              TD_OK);
    CHECK_INT(td_ir_check_types(&t->ir, &t->err), TD_OK);
    CHECK_INT(td_loops_lift(&t->ir, m, &t->err), TD_OK);
    test_check_ok(__FILE__, __LINE__, text, td_rewrite_run(&t->ir, m, off, &t->err), &t->err);
    td_model_unref(m);
}

/* How many nodes have this op; a fused node's op is those of its parts: "Relu+Neg". */
static inline int count(const struct passed *t, const char *op)
{
    int n = 0;
    for (int i = 0; i < t->ir.n_nodes; i++) {
        n += strcmp(t->ir.nodes[i]->op_name, op) == 0;
    }
    return n;
}

static inline const struct td_node *result(const struct passed *t)
{
    return t->ir.fetches[0].node;
}

static inline struct td_tensor ramp(const struct td_shape *shape, float first, float step)
{
    struct td_tensor t;
    struct td_err err = {0};
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, shape, &err));
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        TD_DATA(&t, float)[i] = first + step * (float)(i * 7 % 23);
    }
    return t;
}

static inline struct td_tensor run_with(const char *text, const char *fetch, const char *off,
                                        enum td_kernel_choice kernels, const struct td_tensor *in)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor out;
    passed_open(&t, text, fetch);
    struct td_model_opts opts = {.ops = t.ops, .passes_off = off, .kernels = kernels};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    for (int round = 0; round < 3;
         round++) { /* the first packs nothing, the second does, the third uses it */
        test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, in, &out, NULL, &t.err), &t.err);
        if (round < 2) {
            td_tensor_clear(&out);
        }
    }
    td_model_unref(m);
    passed_close(&t);
    return out;
}

/* x and y ("" for none) as shapes: "2,3". */
static inline void same_results(const char *text, const char *fetch, struct td_shape x, struct td_shape y)
{
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, 0.125f)};
    for (int k = TD_KERNELS_FAST; k <= TD_KERNELS_OPENBLAS; k++) {
        struct td_tensor want = run_with(text, fetch, "all", (enum td_kernel_choice)k, in);
        struct td_tensor got = run_with(text, fetch, NULL, (enum td_kernel_choice)k, in);
        CHECK(td_shape_equal(&want.shape, &got.shape) && want.dtype == got.dtype);
        for (int64_t i = 0; want.dtype == TD_FLOAT && i < td_tensor_count(&want); i++) {
            float a = TD_DATA(&want, float)[i], b = TD_DATA(&got, float)[i];
            if (!(fabsf(a - b) <= 1e-5f * (1 + fabsf(a)) || (isnan(a) && isnan(b)) || a == b)) {
                fprintf(stderr, "%s\nelement %lld: %g with passes, %g without\n", text, (long long)i,
                        (double)b, (double)a);
                exit(1);
            }
        }
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

static inline struct td_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (struct td_shape){.rank = 4, .dim = {a, b, c, d}};
}

#endif
