/* core/run/device_loop.c - which loops are recorded, and how they are launched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_loop.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/timings.h"
#include "core/base/work.h"
#include "core/graph/attr.h"

/* Rounds a launch: the first time; and between launches so many that one takes about these times. */
enum { FIRST_ROUNDS = 16, MOST_ROUNDS = 1 << 24, SHORT_NS = 20000000, LONG_NS = 80000000 };

/* ------------------------------------------------------------------ which can be recorded */

/* Whether step k does the same in each round, but for the bytes of its inputs. */
static bool is_steady(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    if (l->mode[k] == TD_STEP_SKIP || (s->n_rows == 0 && s->n_out == 0)) {
        return true;
    }
    const bool checks = l->mode[k] == TD_STEP_DEVICE_CHECK;
    bool ok = (checks || l->mode[k] == TD_STEP_DEVICE) && td_stretch_is_same(l, k);
    for (int i = 0; checks && ok && i < s->n_in; i++) { /* but for what the kernel judges itself */
        const int v = s->in[i];
        ok = td_stretch_is_fixed(l, v) || !td_bound_plan_judges(&l->shape[v], l->plan->dtype[v]) ||
             (i < 32 && (l->choice[k].kernel->judged >> i & 1));
    }
    return ok;
}

static enum td_code check_plan(const struct td_bound_plan *l, struct td_err *err)
{
    TD_FAIL_IF(l->plan->dead_values, err, UNIMPLEMENTED, "it has values that may be dead");
    for (int k = 0; k < l->plan->n_steps; k++) {
        TD_FAIL_IF(!is_steady(l, k), err, UNIMPLEMENTED, "%s is not the same on the device in each round",
                   TD_NODE_STR(l->plan->steps[k].node));
    }
    for (int i = 0; i < l->plan->n_fetches; i++) {
        TD_FAIL_IF(l->plan->is_ref[l->plan->fetches[i]], err, UNIMPLEMENTED, "it carries a reference");
    }
    return TD_OK;
}

static bool same(const struct td_bound_plan *l, int fetch, enum td_dtype dtype, const struct td_shape *shape)
{
    const int v = l->plan->fetches[fetch];
    return l->plan->dtype[v] == dtype && td_shape_equal(&l->shape[v], shape);
}

static enum td_code check(const struct td_recorded_loop *x, struct td_err *err)
{
    const struct td_bound_plan *body = x->bound[TD_LOOP_BODY];
    const struct td_shape scalar = td_shape_scalar();
    TD_TRY(check_plan(x->bound[TD_LOOP_COND], err));
    TD_TRY(check_plan(body, err));
    TD_FAIL_IF(!same(x->bound[TD_LOOP_COND], 0, TD_BOOL, &scalar), err, UNIMPLEMENTED,
               "its condition is not a bool");
    for (int i = 0; i < x->n; i++) {
        TD_FAIL_IF(!same(body, i, body->plan->dtype[i], &body->key[i]), err, UNIMPLEMENTED,
                   "value %d is of another shape or dtype after a round", i);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what it is made of */

void td_device_loop_free(struct td_recorded_loop *x)
{
    if (x != NULL) {
        for (int p = 0; p < TD_LOOP_PARTS; p++) {
            td_bound_plan_unref(x->bound[p]);
        }
        td_free(x->place);
        td_free(x->from);
        td_free(x);
    }
}

void td_recorded_loop_drop(const struct td_device *d, struct td_recorded_loop *x)
{
    for (int p = 0; x != NULL && p < TD_LOOP_PARTS; p++) {
        td_recorded_drop(d, &x->part[p]);
    }
}

/* The plan of the function that the loop's node names so, for its inputs as they are in this run. */
static enum td_code bind(const struct td_frame *f, const struct td_step *s, const char *attr, int n_out,
                         const struct td_run *run, struct td_bound_plan **out, struct td_err *err)
{
    const struct td_func_ref *name = td_attr_func(s->node, attr, 0);
    const struct td_callable_calls *calls = td_model_calls(run->model);
    struct td_callable *fn;
    TD_FAIL_IF(name == NULL, err, INVALID_ARGUMENT, "attribute '%s' names no function", attr);
    TD_TRY(calls->function(run->model, name->name, s->n_in, n_out, &fn, err));
    const struct td_tensor **in = td_calloc((size_t)s->n_in, sizeof *in);
    if (in == NULL) {
        return td_no_memory(err, (size_t)s->n_in, "a loop's inputs");
    }
    for (int i = 0; i < s->n_in; i++) {
        in[i] = f->dev->at[s->in[i]].buf != NULL ? &f->dev->at[s->in[i]] : &f->slots[s->in[i]];
    }
    const enum td_code rc = calls->bind(fn, in, run, out, err);
    td_free(in);
    return rc;
}

/* A value's bytes after a round are those of this value before it; -1: they are new. */
static int comes_from(const struct td_bound_plan *l, int v)
{
    for (int k = l->plan->n_steps - 1; k >= 0; k--) {
        const struct td_step *s = &l->plan->steps[k];
        if (td_stretch_runs(l, k) && td_stretch_hands_on(l, k) && s->out0 == v) {
            v = s->in[0];
        }
    }
    return v < l->plan->n_feeds ? v : -1;
}

/* *out as far as it may be freed. */
static enum td_code loop_new(const struct td_frame *f, const struct td_step *s, const struct td_run *run,
                             struct td_recorded_loop **out, struct td_err *err)
{
    const struct td_op_branch *b = &s->node->op->branch;
    struct td_recorded_loop *x = *out = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "a loop");
    }
    x->n = s->n_in;
    x->rounds = FIRST_ROUNDS;
    x->place = td_calloc((size_t)x->n, sizeof *x->place);
    x->from = td_calloc((size_t)x->n, sizeof *x->from);
    if (x->place == NULL || x->from == NULL) {
        return td_no_memory(err, sizeof *x, "a loop");
    }
    TD_TRY(bind(f, s, b->loop_cond, 1, run, &x->bound[TD_LOOP_COND], err));
    TD_TRY(bind(f, s, b->loop_body, x->n, run, &x->bound[TD_LOOP_BODY], err));
    TD_TRY(check(x, err));
    for (int i = 0; i < x->n; i++) {
        x->from[i] = comes_from(x->bound[TD_LOOP_BODY], x->bound[TD_LOOP_BODY]->plan->fetches[i]);
    }
    return TD_OK;
}

enum td_code td_device_loop_make(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                 const struct td_run *run, bool *made, bool *never, struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[r->of.first];
    struct td_err why = {0};
    *made = *never = false;
    TD_TRY(td_device_run_stream(f->dev, err));
    td_device_loop_free(r->loop); /* its device's side is gone */
    r->loop = NULL;
    enum td_code rc = loop_new(f, s, run, &r->loop, &why);
    rc = rc ? rc : td_recorded_loop_record(f, l, r, &why);
    if (rc == TD_OK) {
        td_buffer_off_stream(r->arena); /* whoever drops it has waited for what used it */
        *made = true;
        return TD_OK;
    }
    td_recorded_drop(f->dev->device, r);
    *never = rc != TD_RESOURCE_EXHAUSTED && !td_work_cut;
    td_log(TD_LOG_DEBUG, NULL, "%s does not go round on the device: %s", TD_NODE_STR(s->node), why.msg);
    return TD_OK;
}

/* ------------------------------------------------------------------ launching */

/* One launch. *more: it ended for want of rounds. told [2]: pinned. */
static enum td_code launch(struct td_frame *f, const struct td_recorded *r, struct td_tensor *told,
                           bool *more, struct td_err *err)
{
    const struct td_recorded_loop *x = r->loop;
    struct td_device_run *dev = f->dev;
    const struct td_device *d = dev->device;
    uint32_t *left = told->data;
    const size_t bytes = td_tensor_bytes(told);
    left[0] = x->rounds;
    left[1] = 0;
    dev->queued = true;
    TD_TRY(td_device_run_hold(&dev->pins, told->buf, err));
    TD_TRY(td_recorded_make_room(dev, x->part[TD_LOOP_COND].n_judges + x->part[TD_LOOP_BODY].n_judges, err));
    TD_TRY(d->copy(d, dev->stream, TD_COPY_TO_DEVICE, x->left, left, bytes, err));
    TD_TRY(d->graph_launch(d, dev->stream, r->graph, err));
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        TD_TRY(td_recorded_expect(f, NULL, &x->part[p], err));
    }
    TD_TRY(d->copy(d, dev->stream, TD_COPY_TO_HOST, left, x->left, bytes, err));
    TD_TRY(td_device_run_wait(dev, err));
    *more = left[1] != 0;
    return TD_OK;
}

/* Rounds that the next launch may take, when one of x->rounds took so long. */
static uint32_t fitting(const struct td_recorded_loop *x, int64_t ns)
{
    return ns < SHORT_NS && x->rounds < MOST_ROUNDS ? x->rounds * 2
           : ns > LONG_NS && x->rounds > 1          ? x->rounds / 2
                                                    : x->rounds;
}

enum td_code td_device_loop_run(struct td_frame *f, struct td_recorded *r, const struct td_run *run,
                                struct td_err *err)
{
    const struct td_shape two = td_shape_vector(2);
    struct td_tensor told;
    bool more = true;
    TD_TRY(td_tensor_new_pinned(&told, f->dev->device, TD_UINT32, &two, err));
    enum td_code rc = TD_OK;
    while (rc == TD_OK && more) {
        const int64_t start = td_now_ns();
        rc = td_call_stop_reason(run) != TD_OK ? td_call_stop_error(run, err)
                                               : launch(f, r, &told, &more, err);
        if (rc == TD_OK && more) {
            r->loop->rounds = fitting(r->loop, td_now_ns() - start);
        }
    }
    td_tensor_clear(&told);
    return rc;
}
