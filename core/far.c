/* core/far.c - which steps may run on a device, and a run's side there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/far.h"

#include <string.h>

#include "core/mem.h"
#include "core/model_impl.h"
#include "core/placer.h"

struct td_far {
    const struct td_device *device;
    struct td_model *model;
    struct td_stream *stream;
    struct td_event *event;
    struct td_tensor *at;    /* n_values: where a value lies on the device; buf NULL: nowhere */
    bool *only_there;        /* n_values: and its slot has no bytes */
    struct td_tensor *args;  /* max_in: inputs of the step being launched */
    struct td_buffer **pins; /* host bytes that queued copies read */
    int n_values, n_pins, room;
    bool queued; /* work was queued since the last wait */
};

/* ------------------------------------------------------------------ compiling */

static int arg_length(const struct td_node *n, const struct td_arg_def *a)
{
    if (a->number_attr != NULL) {
        return (int)td_attr_int(n, a->number_attr);
    }
    return a->list_attr != NULL ? td_attr_len(n, a->list_attr) : 1;
}

enum td_code td_far_choose(struct td_plan *p, struct td_step *s, struct td_err *err)
{
    const struct td_model_opts *o = td_model_opts_of(p->model);
    const struct td_node *n = s->node;
    const struct td_kernel *kernel = s->deref != NULL ? NULL : td_placer_far_kernel(o, n);
    if (kernel == NULL) {
        return TD_OK;
    }
    bool *near = td_arena_alloc(p->arena, (size_t)n->n_in + 1, sizeof *near);
    if (near == NULL) {
        return td_no_memory(err, (size_t)n->n_in, "compiling a plan");
    }
    for (int a = 0, i = 0; a < n->def->n_in; a++) {
        int end = i + arg_length(n, &n->def->in[a]);
        for (; i < end && i < n->n_in; i++) {
            near[i] = a < 32 && (n->op->host_in >> a & 1) != 0;
        }
    }
    s->far_kernel = kernel;
    s->near = near;
    return TD_OK;
}

/* ------------------------------------------------------------------ a frame's side */

enum td_code td_far_open(const struct td_plan *p, struct td_far **out, struct td_err *err)
{
    struct td_far *far = td_calloc(1, sizeof *far);
    if (far == NULL) {
        return td_no_memory(err, sizeof *far, "a run's side on a device");
    }
    far->device = td_model_opts_of(p->model)->device;
    far->model = p->model;
    far->n_values = p->n_values;
    far->at = td_calloc((size_t)p->n_values + 1, sizeof *far->at);
    far->only_there = td_calloc((size_t)p->n_values + 1, 1);
    far->args = td_calloc((size_t)p->max_in + 1, sizeof *far->args);
    enum td_code rc = far->at && far->only_there && far->args
                          ? TD_OK
                          : td_no_memory(err, sizeof *far->at, "a run's side on a device");
    rc = rc ? rc : far->device->stream_open(far->device, &far->stream, err);
    rc = rc ? rc : far->device->event_open(far->device, &far->event, err);
    if (rc) {
        td_far_close(far);
        return rc;
    }
    *out = far;
    return TD_OK;
}

void td_far_close(struct td_far *far)
{
    if (far == NULL) {
        return;
    }
    if (far->event != NULL) {
        far->device->event_close(far->device, far->event);
    }
    if (far->stream != NULL) {
        far->device->stream_close(far->device, far->stream);
    }
    td_free(far->at);
    td_free(far->only_there);
    td_free(far->args);
    td_free(far->pins);
    td_free(far);
}

static enum td_code make_at(const struct td_far *far, enum td_dtype dtype, const struct td_shape *shape,
                            struct td_tensor *t, struct td_err *err)
{
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)td_shape_count(shape), td_dtype_size(dtype), &bytes), err,
               INVALID_ARGUMENT, "tensor of shape %s and dtype %s: its size overflows", TD_SHAPE_STR(shape),
               td_dtype_name(dtype));
    struct td_buffer *b;
    TD_TRY(td_buffer_new_on(far->device, far->stream, bytes, &b, err));
    *t =
        (struct td_tensor){.buf = b, .data = b->data, .dtype = dtype, .device = far->device, .shape = *shape};
    return TD_OK;
}

static enum td_code pin(struct td_far *far, struct td_buffer *b, struct td_err *err)
{
    if (b == NULL) {
        return TD_OK; /* planned bytes stay as they are until the run's end */
    }
    if (far->n_pins == far->room) {
        int room = far->room * 2 + 16;
        struct td_buffer **more = td_realloc(far->pins, (size_t)room, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, sizeof *more, "a copy to a device");
        }
        far->pins = more;
        far->room = room;
    }
    far->pins[far->n_pins++] = td_buffer_ref(b);
    return TD_OK;
}

static enum td_code wait(struct td_far *far, struct td_err *err)
{
    if (!far->queued) {
        return TD_OK;
    }
    enum td_code rc = far->device->event_record(far->device, far->stream, far->event, err);
    rc = rc ? rc : far->device->event_wait(far->device, far->event, err);
    far->queued = false;
    while (far->n_pins > 0) {
        td_buffer_unref(far->pins[--far->n_pins]);
    }
    return rc;
}

/* ------------------------------------------------------------------ to the device */

/* Infers s's output shapes from the input shapes of this run. Brings what shape functions judge by value, integer
 * scalars and vectors, and leaves out what lies over there. *known: every output's shape is. */
static enum td_code infer_now(struct td_frame *f, const struct td_plan *p, const struct td_step *s, bool *known,
                              struct td_err *err)
{
    struct td_shape *in = f->shapes, *out = in + s->n_in;
    for (int i = 0; i < s->n_in; i++) {
        int v = s->in[i];
        in[i] = f->far->only_there[v] ? f->far->at[v].shape : f->slots[v].shape;
        if (in[i].rank <= 1 && td_dtype_in(p->dtype[v], TD_SET_INTS)) {
            TD_TRY(td_far_bring(f, &v, 1, err));
        }
        f->in[i] = f->far->only_there[v] ? NULL : &f->slots[v];
    }
    for (int i = 0; i < s->n_out; i++) {
        out[i] = td_shape_unknown();
    }
    struct td_infer c = {s->node, s->n_in, s->n_out, in, f->in, out};
    TD_TRY(s->node->op->infer(&c, err));
    *known = true;
    for (int i = 0; i < s->n_out; i++) {
        *known &= td_shape_known(&out[i]);
    }
    return TD_OK;
}

static enum td_code send(struct td_far *far, const struct td_tensor *here, struct td_tensor *there,
                         struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(make_at(far, here->dtype, &here->shape, &t, err));
    enum td_code rc = TD_OK;
    size_t bytes = td_tensor_bytes(here);
    if (bytes > 0) {
        far->queued = true;
        rc = pin(far, here->buf, err);
        rc = rc ? rc
                : far->device->copy(far->device, far->stream, t.data, true, here->data, false, bytes, err);
    }
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *there = t;
    return TD_OK;
}

/* args[i] = input i as the kernel gets it. */
static enum td_code place_input(struct td_frame *f, const struct td_step *s, int i, struct td_err *err)
{
    struct td_far *far = f->far;
    int v = s->in[i];
    if (s->near[i]) {
        TD_TRY(td_far_bring(f, &v, 1, err));
        far->args[i] = f->slots[v];
        td_buffer_ref(far->args[i].buf);
        return TD_OK;
    }
    if (far->at[v].buf == NULL) {
        TD_TRY(send(far, &f->slots[v], &far->at[v], err));
    }
    td_tensor_ref(&far->args[i], &far->at[v]);
    return TD_OK;
}

/* Queues s, whose outputs have these shapes. */
static enum td_code launch_step(struct td_frame *f, const struct td_plan *p, const struct td_step *s,
                                const struct td_shape *shapes, struct td_err *err)
{
    struct td_far *far = f->far;
    enum td_code rc = TD_OK;
    int placed = 0, made = 0;
    while (rc == TD_OK && placed < s->n_in) {
        rc = place_input(f, s, placed, err);
        placed += rc == TD_OK;
    }
    while (rc == TD_OK && made < s->n_out) {
        int v = s->out0 + made;
        rc = make_at(far, p->dtype[v], &shapes[made++], &far->at[v], err);
        far->only_there[v] = rc == TD_OK;
    }
    if (rc == TD_OK) {
        struct td_launch launch = {.model = far->model,
                                   .node = s->node,
                                   .kernel = s->far_kernel,
                                   .in = far->args,
                                   .out = &far->at[s->out0],
                                   .n_in = s->n_in,
                                   .n_out = s->n_out};
        far->queued = true;
        rc = far->device->launch(far->device, far->stream, &launch, err);
    }
    for (int i = 0; i < placed; i++) {
        td_tensor_clear(&far->args[i]);
    }
    return rc;
}

enum td_code td_far_run(struct td_frame *f, const struct td_layout *l, int step, bool *queued, struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[step];
    int mode = l->mode[step];
    *queued = true;
    if (mode != TD_STEP_FAR) {
        TD_TRY(infer_now(f, l->plan, s, queued, err));
    }
    if (!*queued) {
        return TD_OK;
    }
    return launch_step(f, l->plan, s, mode == TD_STEP_FAR_INFER ? f->shapes + s->n_in : &l->shape[s->out0], err);
}

/* ------------------------------------------------------------------ and back */

enum td_code td_far_bring(struct td_frame *f, const int *values, int n, struct td_err *err)
{
    struct td_far *far = f->far;
    bool copied = false;
    for (int i = 0; i < n; i++) {
        int v = values[i];
        if (!far->only_there[v]) {
            continue;
        }
        const struct td_tensor *at = &far->at[v];
        struct td_tensor t;
        TD_TRY(td_tensor_new(&t, at->dtype, &at->shape, err));
        f->slots[v] = t;
        f->state[v] = TD_SLOT_OWNED;
        far->only_there[v] = false;
        if (td_tensor_bytes(&t) > 0) {
            copied = far->queued = true;
            TD_TRY(pin(far, t.buf, err));
            TD_TRY(far->device->copy(far->device, far->stream, t.data, false, at->data, true,
                                     td_tensor_bytes(&t), err));
        }
    }
    return copied ? wait(far, err) : TD_OK;
}

void td_far_drop(struct td_frame *f, int v)
{
    td_tensor_clear(&f->far->at[v]);
    f->far->only_there[v] = false;
}

enum td_code td_far_finish(struct td_frame *f, const struct td_plan *p, enum td_code rc, struct td_err *err)
{
    struct td_err earlier = {0};
    rc = rc ? rc : td_far_bring(f, p->fetches, p->n_fetches, err);
    if (wait(f->far, &earlier)) {
        rc = earlier.code;
        if (err != NULL) {
            *err = earlier;
        }
    }
    for (int v = 0; v < f->far->n_values; v++) {
        td_far_drop(f, v);
    }
    return rc;
}
