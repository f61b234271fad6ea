/* core/compile/loop.c - the op that stands for a lifted loop, and its one kernel.
 *
 * Condition and body are callables with plans of their own; the kernel calls them in turn, one level deeper
 * than the node's own run, and moves what the body made into the variables. Whether the run shall stop is
 * asked once a round.
 *
 * Does not: find loops in graphs (loop_frames.c), make their callables (loops.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loop.h"

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "core/run/lone.h"

static enum td_code truth(const struct td_tensor *t, bool *out, struct td_err *err)
{
    TD_FAIL_IF(t->dtype != TD_BOOL || td_tensor_count(t) != 1, err, INVALID_ARGUMENT,
               "the condition of a loop must be a boolean scalar, but is %s of shape %s",
               td_dtype_name(t->dtype), TD_SHAPE_STR(&t->shape));
    *out = TD_DATA(t, td_bool)[0] != 0;
    return TD_OK;
}

/* Runs the condition, or the body. */
static enum td_code call(const struct td_loop *l, bool cond, struct td_tensor *values,
                         const struct td_tensor **in, struct td_tensor *out, struct td_run *run,
                         struct td_err *err)
{
    const int *from = cond ? l->cond_from : l->body_from;
    const int n_feeds = cond ? l->n_cond_feeds : l->n_body_feeds;
    for (int k = 0; k < n_feeds; k++) {
        in[k] = &values[from == NULL ? k : from[k]];
    }
    if (!cond && from == NULL &&
        !l->by_reference) { /* each variable is fed once, and made anew: a list in it grows in place */
        run->gives = values;
        run->n_gives = l->n_vars;
    }
    return l->calls->run_inside(cond ? l->cond : l->body, in, out, run, err);
}

static enum td_code iterate(const struct td_loop *l, struct td_call *c, struct td_tensor *values,
                            const struct td_tensor **in, struct td_tensor *next, struct td_err *err)
{
    struct td_run inner = *c->run;
    inner.depth++;
    for (;;) {
        struct td_tensor cond = {0};
        bool yes = false;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_TRY(call(l, true, values, in, &cond, &inner, err));
        enum td_code rc = truth(&cond, &yes, err);
        td_tensor_clear(&cond);
        if (rc || !yes) {
            return rc;
        }
        TD_TRY(call(l, false, values, in, next, &inner, err));
        for (int i = 0; i < l->n_vars; i++) {
            td_tensor_clear(&values[i]);
            values[i] = next[i];
            next[i] = (struct td_tensor){0};
        }
    }
}

/* All tensors are the caller's. */
static enum td_code run_with(const struct td_loop *l, struct td_call *c, struct td_tensor *values,
                             const struct td_tensor **in, struct td_tensor *next, struct td_err *err)
{
    for (int i = 0; i < c->n_in; i++) {
        TD_TRY(td_keep(c, i, &values[i], err));
    }
    TD_TRY(iterate(l, c, values, in, next, err));
    for (int i = 0; i < l->n_vars; i++) {
        td_out_move(c, i, &values[i]);
    }
    return TD_OK;
}

enum td_code td_run_loop(struct td_call *c, struct td_err *err)
{
    const struct td_loop *l = c->node->loop;
    size_t n = (size_t)(l->n_vars + l->n_consts) + 1;
    size_t feeds = (size_t)(l->n_body_feeds > l->n_cond_feeds ? l->n_body_feeds : l->n_cond_feeds) + 1;
    struct td_tensor *values = td_calloc(n, sizeof *values), *next = td_calloc(n, sizeof *next);
    const struct td_tensor **in = td_calloc(feeds, sizeof *in);
    enum td_code rc =
        values && next && in ? run_with(l, c, values, in, next, err) : td_no_memory(err, n, "loop variables");
    for (size_t i = 0; values != NULL && i < n; i++) {
        td_tensor_clear(&values[i]);
    }
    td_free(values);
    td_free(next);
    td_free(in);
    return rc;
}

enum td_code td_run_listed(struct td_call *c, const struct td_tensor *const *in, struct td_tensor *out,
                           struct td_err *err)
{
    return td_lone_inside(c, c->node->loop->listed, in, out, err);
}

static const struct td_kernel kernels[] = {{.name = "loop", .device = TD_CPU, .run = td_run_loop},
                                           {.name = NULL}};
const struct td_op td_loop_op = {
    .name = "_Loop", .flags = TD_OP_KEEPS | TD_OP_STATEFUL | TD_OP_NO_FOLD, .kernels = kernels};
const struct td_op td_reading_loop_op = {
    .name = "_Loop", .flags = TD_OP_KEEPS | TD_OP_STATEFUL | TD_OP_READS | TD_OP_NO_FOLD, .kernels = kernels};

struct td_loop_parts td_loop_parts(const struct td_loop *l)
{
    return (struct td_loop_parts){.cond = l->cond,
                                  .body = l->body,
                                  .n_vars = l->n_vars,
                                  .n_cond_feeds = l->n_cond_feeds,
                                  .n_body_feeds = l->n_body_feeds,
                                  .cond_from = l->cond_from,
                                  .body_from = l->body_from};
}

void td_loop_free(void *loop)
{
    struct td_loop *l = loop;
    l->calls->free(l->cond);
    l->calls->free(l->body);
}
