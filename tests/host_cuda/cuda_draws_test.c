/* tests/host_cuda/cuda_draws_test.c - ops that have kernels for a GPU, drawn as tests/fuzz/ops_fuzz.c draws
 * them: on the host-run device they end as on the host, with the same code and, where they run, nearly the
 * same numbers.
 *
 * CASES=600 draws so many of each; OP_FUZZ=Name SEED=7 OP_FUZZ_PRINT=1 looks at one of one op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/rows.h"
#include "tests/fuzz/op_maker.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/test.h"

enum { MIB = 1 << 20, CASES = 20 };

static struct td_device *device;
static struct td_engine engine;

static void open_engine(void)
{
    struct td_err err = {0};
    device_engine(&engine);
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.limit = 256 * MIB}, &device, &err));
}

struct outcome {
    bool made; /* the seed makes a case */
    bool odd;  /* of its inputs one is not finite: what comes of that is not compared */
    enum td_code code;
    struct td_err err;
    struct td_tensor out[OP_GRAPH_FETCHES];
    int n;
};

static double number_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (double)TD_DATA(t, float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, double)[i];
    case TD_HALF:
        return (double)td_half_to_float(TD_DATA(t, td_half)[i]);
    case TD_BFLOAT16:
        return (double)td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
    case TD_COMPLEX64:
        return (double)TD_DATA(t, float)[2 * i] + (double)TD_DATA(t, float)[2 * i + 1];
    case TD_COMPLEX128:
        return TD_DATA(t, double)[2 * i] + TD_DATA(t, double)[2 * i + 1];
    default:
        return 0;
    }
}

static bool is_finite(const struct td_tensor *t)
{
    bool all = true;
    for (int64_t i = 0; all && i < td_tensor_count(t); i++) {
        all = isfinite(number_at(t, i));
    }
    return all;
}

static bool is_odd(const struct op_graph *g)
{
    bool odd = false;
    for (int i = 0; i < g->n_feeds; i++) {
        odd = odd || !is_finite(&g->feed[i]);
    }
    for (int i = 0; i < g->graph.n_nodes; i++) {
        const struct td_node *n = g->graph.nodes[i];
        const struct td_tensor *t = strcmp(n->op_name, "Const") == 0 ? td_attr_tensor(n, "value") : NULL;
        odd = odd || (t != NULL && !is_finite(t));
    }
    return odd;
}

static void run_case(const struct td_op_def *def, uint64_t seed, const struct td_device *d, struct outcome *o)
{
    static struct op_graph g;
    struct op_script script;
    memset(o, 0, sizeof *o);
    CHECK(op_graph_open(&g));
    op_script_open(&script, (const uint8_t *)&seed, sizeof seed);
    o->made = op_maker_fill(&g, def, &script);
    if (o->made) {
        if (d == NULL && getenv("OP_FUZZ_PRINT") != NULL) {
            op_maker_print(&g);
        }
        o->odd = is_odd(&g);
        g.device = d;
        g.kept = o->out;
        o->code = op_graph_run(&g, engine.ops, &o->err);
        o->n = o->code == TD_OK ? g.n_kept : 0;
    }
    op_graph_close(&g);
}

static bool is_close(double a, double b, double by)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= by * (1 + fabs(a));
}

static bool same(const struct td_tensor *a, const struct td_tensor *b, int64_t *at)
{
    *at = -1;
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    if (td_dtype_is_object(a->dtype)) {
        return true;
    }
    const bool small = a->dtype == TD_HALF || a->dtype == TD_BFLOAT16;
    const bool numbers = td_dtype_in(a->dtype, TD_SET_FLOATS | TD_SET_COMPLEX);
    const size_t size = td_dtype_size(a->dtype);
    for (int64_t i = 0; i < td_tensor_count(a); i++) {
        const char *x = (const char *)a->data + (size_t)i * size,
                   *y = (const char *)b->data + (size_t)i * size;
        if (numbers ? !is_close(number_at(a, i), number_at(b, i), small ? 2e-2 : 1e-3)
                    : memcmp(x, y, size) != 0) {
            *at = i;
            return false;
        }
    }
    return true;
}

/* How many outputs there is one answer for: vectors of matrices are what they are up to a factor. */
static int told(const char *op, int n)
{
    const bool vectors = strstr(op, "SelfAdjointEig") != NULL || strstr(op, "Svd") != NULL;
    return vectors && n > 1 ? 1 : n;
}

static int compare(const char *op, uint64_t seed, const struct outcome *here, const struct outcome *there)
{
    int64_t at;
    const bool short_of =
        there->code == TD_RESOURCE_EXHAUSTED; /* it may see that before what else is wrong */
    if (here->code != there->code && (here->code == TD_OK || !short_of)) {
        fprintf(stderr, "%s %llu: host %s (%s), device %s (%s)\n", op, (unsigned long long)seed,
                td_code_name(here->code), here->err.msg, td_code_name(there->code), there->err.msg);
        return 1;
    }
    for (int i = 0; i < told(op, here->n) && there->code == TD_OK && !here->odd; i++) {
        if (!same(&here->out[i], &there->out[i], &at)) {
            fprintf(stderr, "%s %llu: output %d, %s %s and %s %s, differs at %lld: %g and %g\n", op,
                    (unsigned long long)seed, i, td_dtype_name(here->out[i].dtype),
                    TD_SHAPE_STR(&here->out[i].shape), td_dtype_name(there->out[i].dtype),
                    TD_SHAPE_STR(&there->out[i].shape), (long long)at,
                    at < 0 ? 0 : number_at(&here->out[i], at), at < 0 ? 0 : number_at(&there->out[i], at));
            return 1;
        }
    }
    return 0;
}

static void clear(struct outcome *o)
{
    for (int i = 0; i < o->n; i++) {
        td_tensor_clear(&o->out[i]);
    }
}

static int draw_op(const char *op, int cases)
{
    static struct outcome here, there;
    const struct td_op_def *def = td_op_find(engine.ops, op);
    const char *only = getenv("SEED");
    int bad = 0;
    if (def->op->flags & (TD_OP_STATEFUL | TD_OP_DRAWS)) {
        return 0;
    }
    for (int i = 0; i < cases; i++) {
        const uint64_t seed = only != NULL ? strtoull(only, NULL, 10) : (uint64_t)i + 1;
        alarm(60);
        run_case(def, seed, NULL, &here);
        if (here.made) {
            run_case(def, seed, device, &there);
            bad += compare(op, seed, &here, &there);
            clear(&there);
        }
        clear(&here);
        if (only != NULL) {
            break;
        }
    }
    return bad;
}

TEST(drawn_ops_end_as_on_the_host)
{
    const char *only = getenv("OP_FUZZ"), *cases = getenv("CASES");
    struct td_device_counts c;
    int bad = 0;
    td_log_setup(TD_LOG_ERROR, false);
    open_engine();
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            if (only == NULL || strcmp(only, r->op) == 0) {
                bad += draw_op(r->op, cases != NULL ? (int)strtol(cases, NULL, 10) : CASES);
            }
        }
    }
    td_cuda_device_count(device, &c);
    CHECK(c.launches > 0 && !c.lost);
    td_engine_fini(&engine);
    td_cuda_device_close(device);
    CHECK_INT(bad, 0);
}

TEST_MAIN(RUN(drawn_ops_end_as_on_the_host))
