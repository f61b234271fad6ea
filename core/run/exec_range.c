/* core/run/exec_range.c - a range of steps, one after the other, or a stretch of them by what a device has
 * recorded (core/run/device_graph.h).
 *
 * In graphs with dead values (TF1 Switch) a step with a dead input does not run and its outputs are dead;
 * Merge sees NULL for dead inputs.
 *
 * Around a stretch that is launched as a whole stand what it reads and takes of variables, in the order of
 * its steps, and behind it what it assigns. Where it turns out that it cannot be launched, its steps run one
 * by one, without those that have read and taken already.
 *
 * Threads: a range of steps is one thread's; plan and bound plan are shared and immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/timings.h"
#include "core/run/device_graph.h"
#include "core/run/exec_impl.h"
#include "core/run/stretch.h"

enum { CLOCK_EVERY = 8 };

/* Deadness: any dead input or control input kills the step; Merge lives while one input does. */
static bool step_is_dead(const struct td_exec *x)
{
    const struct td_step *s = x->step;
    const struct td_frame *f = x->frame;
    for (int i = 0; i < s->n_after; i++) {
        if (f->step_dead[s->after[i]]) {
            return true;
        }
    }
    bool all = s->n_in > 0, any = false;
    for (int i = 0; i < s->n_in; i++) {
        any |= f->dead[s->in[i]];
        all &= f->dead[s->in[i]];
    }
    return s->flags & TD_OP_DEAD_OK ? all : any;
}

/* A dead output has no value, only what an earlier run left in its slot: an observer sees no dtype there. */
static void show_dead(struct td_exec *x, bool hide)
{
    for (int v = x->step->out0; x->plan->dead_values && v < x->step->out0 + x->step->n_out; v++) {
        if (x->frame->dead[v]) {
            x->frame->slots[v].dtype = hide ? TD_DTYPE_NONE : x->plan->dtype[v];
        }
    }
}

static enum td_code run_step(struct td_exec *x, struct td_err *err)
{
    const struct td_step *s = x->step;
    if (x->plan->dead_values && step_is_dead(x)) {
        x->frame->step_dead[x->step_index] = true;
        for (int i = 0; i < s->n_out; i++) {
            x->frame->dead[s->out0 + i] = true;
        }
        return TD_OK;
    }
    const struct td_run_opts *o = x->run->opts;
    if (o->observe == NULL) {
        return td_exec_step(x, err);
    }
    int64_t start = td_now_ns();
    TD_TRY(td_exec_step(x, err));
    int64_t ns = td_now_ns() - start;
    show_dead(x, true);
    const char *kernel = x->queued != NULL ? x->queued
                         : s->n_rows > 0   ? td_choice_name(x->choice)
                                           : "nothing";
    const char *device = x->queued != NULL ? td_model_opts_of(x->run->model)->device->name : "cpu";
    o->observe(o->ctx, &(struct td_observed){s->node, x->frame->in, &x->frame->slots[s->out0], s->n_out, ns,
                                             kernel, device});
    show_dead(x, false);
    return TD_OK;
}

/* ------------------------------------------------------------------ what is recorded */

static void release_values(struct td_exec *x, const struct td_step *s)
{
    for (int i = 0; i < s->n_release; i++) {
        td_exec_release(x, s->release[i]);
        if (x->frame->dev != NULL) {
            td_device_run_release(x->frame, s->release[i]);
        }
    }
}

/* Whether the step reads or takes variables. */
static bool reads_variables(const struct td_exec *x, int k)
{
    const enum td_stretch_use use = td_stretch_use(x->bound, k);
    return use == TD_USES_READ || use == TD_USES_TAKE;
}

/* The steps of a stretch that read and take variables, or those that assign them. */
static enum td_code move_variables(struct td_exec *x, const struct td_stretch *of, bool assign,
                                   struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int k = of->first; k < of->end && rc == TD_OK; k++) {
        if (x->bound->mode[k] != TD_STEP_SKIP &&
            (assign ? td_stretch_use(x->bound, k) == TD_USES_ASSIGN : reads_variables(x, k))) {
            x->step = &x->plan->steps[k];
            x->step_index = k;
            x->done = assign ? of->end - 1 : of->first - 1; /* nothing is launched before what is read */
            rc = td_exec_step(x, err);
            td_exec_end_step(x);
        }
    }
    return rc;
}

/* What is recorded on a device from step k on; *next: the step behind it; *read: variables of steps before
 * that are read. */
static enum td_code run_stretch(struct td_exec *x, int k, int *next, int *read, struct td_err *err)
{
    const struct td_stretch *of;
    if (x->frame->dev == NULL || x->bound->n_stretches == 0 || x->run->opts->observe != NULL) {
        return TD_OK;
    }
    TD_TRY(td_device_graph_due(x->frame, x->bound, k, &of, err));
    if (of == NULL) {
        return TD_OK;
    }
    TD_TRY(move_variables(x, of, false, err));
    *read = of->end;
    TD_TRY(td_device_graph_run(x->frame, x->bound, of, x->run, next, err));
    TD_TRY(*next > k ? move_variables(x, of, true, err) : TD_OK);
    for (int i = k; i < *next; i++) {
        if (x->bound->mode[i] != TD_STEP_SKIP) {
            release_values(x, &x->plan->steps[i]);
        }
    }
    return TD_OK;
}

/* Step k, unless it only reads variables, and has before. */
static enum td_code run_alone(struct td_exec *x, int k, int read, struct td_err *err)
{
    enum td_code rc = TD_OK;
    x->step = &x->plan->steps[k];
    x->step_index = x->done = k;
    if (k >= read || !reads_variables(x, k)) {
        rc = run_step(x, err);
        td_exec_end_step(x);
    }
    if (rc == TD_OK) {
        release_values(x, x->step);
    }
    return rc;
}

/* ------------------------------------------------------------------ a range of steps */

enum td_code td_exec_steps(struct td_exec *x, int from, int to, struct td_err *err)
{
    int read = from;
    for (int k = from, ran = 0; k < to; k++) {
        if (x->bound->mode[k] == TD_STEP_SKIP ||
            (x->frame->settled_step != NULL && x->frame->settled_step[k])) {
            continue;
        }
        bool look = x->run->opts->work.deadline_ns == 0 || ran++ % CLOCK_EVERY == 0;
        if (look && td_call_stop_reason(x->run) != TD_OK) {
            return td_call_stop_error(x->run, err);
        }
        int next = k;
        TD_TRY(run_stretch(x, k, &next, &read, err));
        if (next > k) {
            k = next - 1;
            continue;
        }
        TD_TRY(run_alone(x, k, read, err));
    }
    return TD_OK;
}
