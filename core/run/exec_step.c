/* core/run/exec_step.c - one step, and what kernels see of it.
 *
 * Inputs are gathered (a reference edge gives a snapshot of its variable), shapes are inferred now if the
 * bound plan could not, and the kernel runs. A step whose kernel needs shapes that are found only now chooses
 * it now (core/run/late_choice.h).
 *
 * Steps of mode DEVICE and DEVICE_CHECK are queued on the model's device instead; core/run/device_run.h has
 * that side.
 *
 * A slot is UNSET, SET (planned bytes, or bytes somebody else owns) or OWNED (this run holds a reference).
 * Threads: a range of steps is one thread's; plan and bound plan are shared and immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/exec_impl.h"

#include <string.h>

#include "core/base/check.h"
#include "core/run/device_run.h"
#include "core/run/late_choice.h"
#include "core/base/float_mode.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/model.h"
#include "core/run/select.h"
#include "core/run/variable.h"

/* ------------------------------------------------------------------ slots */

void td_exec_release(struct td_exec *x, int v)
{
    struct td_frame *f = x->frame;
    if (f->state[v] != TD_SLOT_OWNED) {
        return;
    }
    td_buffer_unref(f->slots[v].buf);
    f->state[v] = TD_SLOT_UNSET;
    if (x->bound != NULL && x->bound->offset[v] >= 0) {
        f->slots[v] = (struct td_tensor){.data = (char *)f->block->data + x->bound->offset[v],
                                         .dtype = x->plan->dtype[v],
                                         .shape = x->bound->shape[v]};
    }
}

static void slot_own(struct td_exec *x, int v, const struct td_tensor *t)
{
    td_exec_release(x, v);
    x->frame->slots[v] = *t;
    x->frame->state[v] = TD_SLOT_OWNED;
}

/* ------------------------------------------------------------------ what kernels call */

static struct td_exec *exec_of(const struct td_call *c)
{
    return c->step;
}

struct td_tensor *td_out_made(struct td_call *c, int i)
{
    return &exec_of(c)->frame->slots[exec_of(c)->step->out0 + i];
}

static enum td_code wrong_shape(const struct td_exec *x, const struct td_shape *got,
                                const struct td_shape *want, struct td_err *err)
{
    return td_fail(err, TD_INTERNAL, "%s made an output of shape %s where %s was inferred",
                   TD_NODE_STR(x->step->node), TD_SHAPE_STR(got), TD_SHAPE_STR(want));
}

/* Takes over the bytes of an input that dies with this elementwise step. */
static bool take_input(struct td_exec *x, int v, enum td_dtype dtype, const struct td_shape *shape)
{
    const struct td_step *s = x->step;
    if (!(s->flags & TD_OP_ELEMENTWISE) || x->bound == NULL) {
        return false;
    }
    for (int i = 0; i < s->n_in; i++) {
        int u = s->in[i];
        struct td_tensor *t = &x->frame->slots[u];
        if (x->frame->state[u] == TD_SLOT_OWNED && x->plan->last_use[u] == x->step_index &&
            (s->deref == NULL || !s->deref[i]) && td_dtype_size(t->dtype) == td_dtype_size(dtype) &&
            !td_dtype_is_object(t->dtype) && td_shape_equal(&t->shape, shape) && td_buffer_unique(t->buf)) {
            struct td_tensor mine = {
                .buf = td_buffer_ref(t->buf), .data = t->data, .dtype = dtype, .shape = *shape};
            slot_own(x, v, &mine);
            return true;
        }
    }
    return false;
}

static enum td_code make_out(struct td_call *c, int i, const struct td_shape *shape, struct td_tensor **out,
                             struct td_err *err)
{
    struct td_exec *x = exec_of(c);
    int v = x->step->out0 + i;
    enum td_dtype dtype = x->step->node->out_type[i];
    const struct td_shape *planned = x->bound != NULL ? &x->bound->shape[v] : NULL;
    if (shape == NULL) {
        shape = x->shapes != NULL ? &x->shapes[i] : planned;
        TD_FAIL_IF(shape == NULL || !td_shape_known(shape), err, INTERNAL,
                   "%s: the shape of output %d was not inferred", TD_NODE_STR(c->node), i);
    } else if (planned != NULL && td_shape_known(planned) && !td_shape_equal(planned, shape)) {
        return wrong_shape(x, shape, planned, err);
    }
    *out = &x->frame->slots[v];
    if (x->outputs_given && !td_shape_equal(shape, &(*out)->shape)) {
        return wrong_shape(x, shape, &(*out)->shape, err);
    }
    if (x->outputs_given || (x->bound != NULL && x->bound->offset[v] >= 0)) {
        x->frame->state[v] = TD_SLOT_SET;
        return TD_OK;
    }
    if (take_input(x, v, dtype, shape)) {
        return TD_OK;
    }
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, dtype, shape, err));
    slot_own(x, v, &t);
    return TD_OK;
}

/* An output taken over from an input has two references until the input's slot is released: both are this
 * step's. Values of a recording lie in one block of the device (core/run/device_arena.h). */
TD_CHECK_FN enum td_code out_check(const struct td_tensor *out, struct td_err *err)
{
    TD_WANT(out->buf == NULL || out->buf->device != NULL ||
                (!out->buf->read_only && atomic_load(&out->buf->refs) <= 2),
            err, "an output's bytes have %d references", atomic_load(&out->buf->refs));
    return TD_OK;
}

enum td_code td_out(struct td_call *c, int i, const struct td_shape *shape, struct td_tensor **out,
                    struct td_err *err)
{
    TD_TRY(make_out(c, i, shape, out, err));
    if (c->seen_as != NULL) {
        (*out)->shape = *c->seen_as;
    }
    TD_HOLDS(out_check, *out);
    return TD_OK;
}

enum td_code td_out_obj(struct td_call *c, int i, struct td_obj *takes, struct td_err *err)
{
    struct td_tensor *out;
    const enum td_code rc = td_out(c, i, NULL, &out, err);
    if (rc) {
        td_obj_unref(takes);
        return rc;
    }
    td_tensor_set_obj(out, 0, takes);
    return TD_OK;
}

void td_out_move(struct td_call *c, int i, struct td_tensor *t)
{
    struct td_exec *x = exec_of(c);
    if (t->device != NULL) {
        td_device_run_put(x->frame, x->step->out0 + i, t);
        return;
    }
    slot_own(x, x->step->out0 + i, t);
    memset(t, 0, sizeof *t);
}

enum td_code td_out_view(struct td_call *c, int i, int j, const struct td_shape *shape, struct td_err *err)
{
    struct td_exec *x = exec_of(c);
    int v = x->step->out0 + i;
    struct td_tensor t = *c->in[j];
    t.dtype = x->step->node->out_type[i];
    if (shape != NULL) {
        t.shape = *shape;
    } else if (x->shapes != NULL) {
        t.shape = x->shapes[i];
    } else if (x->bound != NULL) {
        t.shape = x->bound->shape[v];
    }
    TD_FAIL_IF(!td_shape_known(&t.shape) || td_tensor_bytes(&t) != td_tensor_bytes(c->in[j]), err,
               INVALID_ARGUMENT,
               "%s: Input to reshape is a tensor with %lld values, but the requested shape %s has %lld",
               TD_NODE_STR(c->node), (long long)td_tensor_count(c->in[j]), TD_SHAPE_STR(&t.shape),
               (long long)td_shape_count(&t.shape));
    td_exec_release(x, v);
    td_buffer_ref(t.buf);
    x->frame->slots[v] = t;
    x->frame->state[v] = t.buf != NULL ? TD_SLOT_OWNED : TD_SLOT_SET;
    return TD_OK;
}

enum td_code td_take(struct td_call *c, int i, struct td_tensor *out, struct td_err *err)
{
    struct td_exec *x = exec_of(c);
    int u = x->step->in[i];
    bool last = x->plan != NULL && x->plan->last_use[u] == x->step_index &&
                x->frame->state[u] == TD_SLOT_OWNED && c->in[i] == &x->frame->slots[u];
    for (int k = 0; last && k < x->step->n_in; k++) {
        last = k == i || x->step->in[k] != u;
    }
    if (last && td_buffer_unique(c->in[i]->buf)) {
        *out = x->frame->slots[u];
        td_buffer_ref(out->buf);
        td_exec_release(x, u); /* the reference moves to the caller; the slot's tensor stays readable */
        return TD_OK;
    }
    return td_tensor_copy(out, c->in[i], err);
}

enum td_code td_call_bring(const struct td_call *c, int i, const struct td_tensor **out, struct td_err *err)
{
    const struct td_exec *x = c->step;
    const int v = x->step->in[i];
    TD_TRY(td_device_run_fetch(x->frame, &v, 1, err));
    *out = &x->frame->slots[v];
    return TD_OK;
}

enum td_code td_scratch(struct td_call *c, size_t bytes, void **out, struct td_err *err)
{
    struct td_exec *x = exec_of(c);
    TD_CHECK(x->n_scratch < TD_EXEC_SCRATCH);
    TD_TRY(td_buffer_new(bytes, false, &x->scratch[x->n_scratch], err));
    *out = x->scratch[x->n_scratch++]->data;
    return TD_OK;
}

/* ------------------------------------------------------------------ one step */

/* Input i may be where it is: what is assigned, and what a loop carries but for what decides shapes. */
static bool may_stay(const struct td_exec *x, int i)
{
    const struct td_step *s = x->step;
    const bool loop = s->node->op != NULL && s->node->op->branch.loop_body != NULL;
    return (s->flags & TD_OP_ANYWHERE) != 0 &&
           (!loop || td_dtype_in(x->plan->dtype[s->in[i]], TD_SET_FLOATS));
}

/* Brings the inputs that must be on the host. */
static enum td_code fetch_inputs(struct td_exec *x, struct td_err *err)
{
    for (int i = 0; x->frame->dev != NULL && i < x->step->n_in; i++) {
        if (!may_stay(x, i)) {
            TD_TRY(td_device_run_fetch(x->frame, &x->step->in[i], 1, err));
        }
    }
    return TD_OK;
}

static enum td_code gather(struct td_exec *x, struct td_err *err)
{
    const struct td_step *s = x->step;
    struct td_frame *f = x->frame;
    for (int i = 0; i < s->n_in; i++) {
        int v = s->in[i];
        const struct td_tensor *there = may_stay(x, i) ? td_device_run_at(f->dev, v) : NULL;
        f->in[i] = f->dead != NULL && x->plan != NULL && x->plan->dead_values && f->dead[v] ? NULL
                   : there != NULL                                                          ? there
                                                                                            : &f->slots[v];
        if (s->deref == NULL || !s->deref[i] || f->in[i] == NULL) {
            continue;
        }
        struct td_obj *o = td_tensor_count(f->in[i]) == 1 ? td_tensor_obj(f->in[i], 0) : NULL;
        if (o != NULL && o->type == &td_variable_type) {
            if (td_variable_read((struct td_variable *)o, &f->snapshots[i], err)) {
                return td_err_wrap(err, "%s", TD_NODE_STR(s->node));
            }
            f->in[i] = &f->snapshots[i];
            TD_FAIL_IF(f->in[i]->dtype != x->plan->dtype[v], err, INVALID_ARGUMENT,
                       "%s: input %d is variable '%s' of dtype %s, where %s is expected",
                       TD_NODE_STR(s->node), i, ((struct td_variable *)o)->name,
                       td_dtype_name(f->in[i]->dtype), td_dtype_name(x->plan->dtype[v]));
        }
    }
    return TD_OK;
}

static void drop_snapshots(struct td_exec *x)
{
    for (int i = 0; x->step->deref != NULL && i < x->step->n_in; i++) {
        td_tensor_clear(&x->frame->snapshots[i]);
    }
}

static enum td_code infer_now(struct td_exec *x, struct td_err *err)
{
    const struct td_step *s = x->step;
    struct td_shape *in = x->frame->shapes, *out = in + s->n_in;
    for (int i = 0; i < s->n_in; i++) {
        in[i] = x->frame->in[i] == NULL ? td_shape_unknown() : x->frame->in[i]->shape;
    }
    for (int i = 0; i < s->n_out; i++) {
        out[i] = td_shape_unknown();
    }
    x->shapes = out;
    struct td_infer c = {s->node, s->n_in, s->n_out, in, x->frame->in, out};
    return s->node->op == NULL || s->node->op->infer == NULL ? TD_OK : s->node->op->infer(&c, err);
}

static enum td_code check_outputs(struct td_exec *x, struct td_err *err)
{
    const struct td_step *s = x->step;
    for (int i = 0; i < s->n_out; i++) {
        int v = s->out0 + i;
        if (td_device_run_at(x->frame->dev, v) != NULL) {
            continue; /* whoever put it there has looked at it */
        }
        if (x->frame->state[v] == TD_SLOT_UNSET) {
            TD_FAIL_IF(x->plan == NULL || !x->plan->dead_values, err, INTERNAL,
                       "%s did not make its output %d", TD_NODE_STR(s->node), i);
            x->frame->dead[v] = true;
        } else if (!s->node->out_ref[i] && x->frame->slots[v].dtype != s->node->out_type[i]) {
            return td_fail(err, TD_INVALID_ARGUMENT, "%s made output %d of dtype %s where %s was declared",
                           TD_NODE_STR(s->node), i, td_dtype_name(x->frame->slots[v].dtype),
                           td_dtype_name(s->node->out_type[i]));
        } else if (x->bound != NULL && td_shape_known(&x->bound->shape[v]) && !s->node->out_ref[i] &&
                   !td_shape_equal(&x->bound->shape[v], &x->frame->slots[v].shape)) {
            return wrong_shape(x, &x->frame->slots[v].shape, &x->bound->shape[v], err);
        }
    }
    return TD_OK;
}

/* The step's kernel, when that is found in the run: its shapes are known only now, or no row served them
 * before. */
static enum td_code choose_now(struct td_exec *x, bool inferred, struct td_err *err)
{
    const struct td_step *s = x->step;
    if (!inferred) {
        TD_TRY(infer_now(x, err));
    }
    const struct td_kernel_query q = {.node = s->node,
                                      .n_in = s->n_in,
                                      .n_out = s->n_out,
                                      .in = x->frame->shapes,
                                      .out = x->frame->shapes + s->n_in,
                                      .value = x->frame->in,
                                      .target = td_target_host(td_model_opts_of(x->run->model))};
    const struct td_choice *kept =
        x->bound == NULL ? NULL : td_late_choice(x->frame, x->bound, x->step_index, &q);
    if (kept == NULL) {
        TD_TRY(td_select_bind(&q, s->rows, s->n_rows, &x->now, err));
    }
    x->choice = kept != NULL ? kept : &x->now;
    return TD_OK;
}

static enum td_code workspace(struct td_exec *x, struct td_call *c, struct td_err *err)
{
    const size_t bytes = x->choice->offer.workspace_bytes;
    const int64_t at = x->bound != NULL ? x->bound->workspace[x->step_index] : -1;
    if (bytes == 0 || c->workspace != NULL) {
        return TD_OK;
    }
    if (at >= 0) {
        c->workspace = (char *)x->frame->block->data + at;
        return TD_OK;
    }
    return td_scratch(c, bytes, &c->workspace, err);
}

static enum td_code call_kernel(struct td_exec *x, struct td_err *err)
{
    const struct td_step *s = x->step;
    int mode = x->bound != NULL ? x->bound->mode[x->step_index] : TD_STEP_INFER;
    x->shapes = NULL;
    TD_TRY(fetch_inputs(x, err));
    TD_TRY(gather(x, err));
    if (mode != TD_STEP_READY && s->n_rows > 0) {
        TD_TRY(infer_now(x, err));
    }
    if (s->n_rows == 0) {
        return TD_OK; /* a join, or a constant whose control inputs are alive */
    }
    if (x->choice == NULL || x->choice->kernel == NULL) {
        TD_TRY(choose_now(x, mode != TD_STEP_READY, err));
    }
    struct td_call c = {.node = s->node,
                        .n_in = s->n_in,
                        .n_out = s->n_out,
                        .in = x->frame->in,
                        .state = x->choice->offer.state,
                        .run = x->run,
                        .step = x};
    TD_TRY(workspace(x, &c, err));
    TD_TRY(x->choice->kernel->run(&c, err));
    return td_work_cut ? td_work_error(td_work_over(), err) : TD_OK;
}

static void set_constant(struct td_exec *x)
{
    const struct td_tensor *t = td_node_const(x->step->node);
    if (t != NULL) {
        struct td_tensor mine;
        td_tensor_ref(&mine, t);
        slot_own(x, x->step->out0, &mine);
    }
}

/* Who observes a run sees outputs on the host. */
static enum td_code show_outputs(struct td_exec *x, struct td_err *err)
{
    for (int i = 0; x->frame->dev != NULL && x->run->opts->observe != NULL && i < x->step->n_out; i++) {
        TD_TRY(td_device_run_fetch(x->frame, &(int){x->step->out0 + i}, 1, err));
    }
    return TD_OK;
}

/* When the step is queued, its outputs have no bytes here until something on the host asks for them. */
static enum td_code run_on_device(struct td_exec *x, struct td_err *err)
{
    TD_TRY(td_device_run_step(x->frame, x->bound, x->step_index, &x->queued, err));
    return x->queued != NULL ? show_outputs(x, err) : TD_OK;
}

enum td_code td_exec_step(struct td_exec *x, struct td_err *err)
{
    x->queued = NULL;
    enum td_code rc = TD_OK;
    if (x->bound != NULL && td_step_on_device(x->bound->mode[x->step_index])) {
        rc = run_on_device(x, err);
    } else if (x->bound != NULL) {
        x->choice = &x->bound->choice[x->step_index];
    }
    if (rc || x->queued != NULL) {
        return rc;
    }
    rc = call_kernel(x, err);
    if (rc == TD_OK && x->step->n_rows == 0) {
        set_constant(x);
    }
    rc = rc ? rc : check_outputs(x, err);
    return rc ? rc : show_outputs(x, err);
}

void td_exec_end_step(struct td_exec *x)
{
    drop_snapshots(x);
    while (x->n_scratch > 0) {
        td_buffer_unref(x->scratch[--x->n_scratch]);
    }
    if (x->now.kernel != NULL) {
        td_choice_fini(&x->now);
    }
    x->choice = NULL;
}
