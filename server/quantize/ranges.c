/* server/quantize/ranges.c - recorded requests run with somebody looking on.
 *
 * The version is loaded with a precision that marks products with their weights' names
 * (core/compile/pass_precision.c) and without fusing, so that each product is a step; after each step its
 * first operand is looked over. Infinities and NaNs say nothing of a range.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/quantize/ranges.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/quantize/recorded.h"

struct ranges {
    struct td_precision_range *range; /* weights are owned */
    int n, cap;
    bool no_memory;
};

static struct td_precision_range *range_of(struct ranges *r, const char *weights)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->range[i].weights, weights) == 0) {
            return &r->range[i];
        }
    }
    if (r->n == r->cap) {
        const int cap = r->cap == 0 ? 64 : 2 * r->cap;
        void *more = td_realloc(r->range, (size_t)cap, sizeof *r->range);
        r->no_memory = r->no_memory || more == NULL;
        if (more == NULL) {
            return NULL;
        }
        r->range = more;
        r->cap = cap;
    }
    char *name = td_strdup(weights);
    r->no_memory = r->no_memory || name == NULL;
    if (name == NULL) {
        return NULL;
    }
    r->range[r->n] = (struct td_precision_range){.weights = name, .min = FLT_MAX, .max = -FLT_MAX};
    return &r->range[r->n++];
}

static void look(void *ctx, const struct td_observed *what)
{
    const char *weights = td_attr_str(what->node, "_weights");
    if (weights[0] == 0 || what->in == NULL || what->in[0] == NULL || what->in[0]->dtype != TD_FLOAT) {
        return;
    }
    struct td_precision_range *r = range_of(ctx, weights);
    const float *x = what->in[0]->data;
    const int64_t n = td_tensor_count(what->in[0]);
    for (int64_t i = 0; r != NULL && x != NULL && i < n; i++) {
        if (isfinite(x[i])) {
            r->min = fminf(r->min, x[i]);
            r->max = fmaxf(r->max, x[i]);
        }
    }
}

static enum td_code run_one(struct td_servable *s, const struct td_recorded_request *q, struct ranges *r,
                            struct td_err *err)
{
    const struct td_run_opts run = {.observe = look, .ctx = r};
    struct td_recorded_answer answer;
    const enum td_code rc = td_recorded_run(s, q, &run, &answer, err);
    td_recorded_answer_drop(&answer);
    return rc == TD_OK && r->no_memory ? td_no_memory(err, 1, "ranges") : rc;
}

static enum td_code run_all(struct td_servable *s, const char *requests, struct ranges *r, struct td_err *err)
{
    struct td_recorded *file;
    const struct td_recorded_request *q;
    int n = 0;
    TD_TRY(td_recorded_open(requests, s, &file, err));
    enum td_code rc = td_recorded_next(file, &q, err);
    while (rc == TD_OK && q != NULL) {
        n++;
        rc = run_one(s, q, r, err) ? td_err_wrap(err, "%s: request %d", requests, n)
                                   : td_recorded_next(file, &q, err);
    }
    td_recorded_close(file);
    TD_TRY(rc);
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s holds no requests", requests);
    return TD_OK;
}

/* A range of nothing but NaNs is none. */
static void drop_empty(struct ranges *r)
{
    int kept = 0;
    for (int i = 0; i < r->n; i++) {
        if (r->range[i].min <= r->range[i].max) {
            r->range[kept++] = r->range[i];
        } else {
            td_free(r->range[i].weights);
        }
    }
    r->n = kept;
}

enum td_code td_ranges_of(const char *dir, const struct td_servable_opts *opts, const char *requests,
                          struct td_precision **out, struct td_err *err)
{
    struct td_precision *looking;
    struct td_servable *s = NULL;
    struct ranges r = {0};
    TD_TRY(td_precision_new(TD_PRECISION_LOOK, NULL, 0, &looking, err));
    struct td_servable_opts o = *opts;
    o.precision = looking;
    o.passes_off = "fuse";
    enum td_code rc = td_servable_load("model", 1, dir, &o, &s, err);
    rc = rc ? rc : run_all(s, requests, &r, err);
    drop_empty(&r);
    if (rc == TD_OK && r.n == 0) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: no request meets a product of floats with weights",
                     requests);
    }
    rc = rc ? rc : td_precision_new(TD_PRECISION_INT8, r.range, r.n, out, err);
    for (int i = 0; i < r.n; i++) {
        td_free(r.range[i].weights);
    }
    td_free(r.range);
    td_servable_unref(s);
    td_precision_unref(looking);
    return rc;
}
