/* core/run/device_run.c - which steps may run on a device, and a run's side there.
 *
 * By value number, a run keeps the tensor on the device and whether its slot on the host is empty. A step is
 * queued in four moves: inputs are sent that are not there, outputs are allocated, the workspace is, and the
 * device is told to launch. None of them waits, but for an input that the kernel or the shape function wants
 * on the host.
 *
 *   host slot   --send-->   at[v]   --launch-->   at[out]   --fetch, wait-->   host slot
 *
 * All work of a run is in one stream. Host bytes that a queued copy reads or writes are held, and kernels
 * that were chosen in the run are kept, until the next wait. A step whose shapes are found only now
 * (DEVICE_INFER) has the host as its way out: where no row serves them, *kernel stays NULL and nothing was
 * queued.
 *
 * Threads: one run's, as its frame is.
 *
 * Does not: know any device: core/base/device.h has the functions that one brings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_run.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/run/device_graph.h"
#include "core/run/device_run_impl.h"
#include "core/run/model.h"
#include "core/run/device_weights.h"
#include "core/run/select.h"

/* ------------------------------------------------------------------ a frame's side */

static void find_lasting(struct td_device_run *dev, const struct td_plan *p)
{
    for (int i = 0; i < p->n_consts; i++) {
        dev->lasts[p->first_const + i] = true;
    }
    for (int k = 0; k < p->n_steps; k++) {
        const struct td_step *s = &p->steps[k];
        const uint32_t flags = s->node->op->flags, snapshot = TD_OP_READS | TD_OP_FREE;
        /* what keeps its one input hands parts of that on */
        const bool part = (flags & (TD_OP_KEEPS | TD_OP_STATEFUL)) == TD_OP_KEEPS && s->n_in == 1;
        const bool view = ((flags & TD_OP_VIEW) != 0 || part) && dev->lasts[s->in[0]];
        const bool carried = (flags & TD_OP_ANYWHERE) != 0 && (flags & (TD_OP_READS | TD_OP_KEEPS)) != 0;
        for (int i = 0; i < s->n_out; i++) {
            dev->lasts[s->out0 + i] = (flags & snapshot) == snapshot || (view && i == 0) || carried;
        }
    }
}

enum td_code td_device_run_open(const struct td_plan *p, struct td_device_run **out, struct td_err *err)
{
    struct td_device_run *dev = td_calloc(1, sizeof *dev);
    if (dev == NULL) {
        return td_no_memory(err, sizeof *dev, "a run's side on a device");
    }
    dev->device = td_model_opts_of(p->model)->device;
    dev->model = p->model;
    dev->n_values = p->n_values;
    dev->at = td_calloc((size_t)p->n_values + 1, sizeof *dev->at);
    dev->only_there = td_calloc((size_t)p->n_values + 1, 1);
    dev->lasts = td_calloc((size_t)p->n_values + 1, 1);
    dev->args = td_calloc((size_t)p->max_in + 1, sizeof *dev->args);
    dev->here = td_calloc((size_t)p->max_in + 1, sizeof *dev->here);
    enum td_code rc = dev->at && dev->only_there && dev->lasts && dev->args && dev->here
                          ? TD_OK
                          : td_no_memory(err, sizeof *dev->at, "a run's side on a device");
    rc = rc ? rc : dev->device->event_open(dev->device, &dev->event, err);
    if (rc) {
        td_device_run_close(dev);
        return rc;
    }
    find_lasting(dev, p);
    *out = dev;
    return TD_OK;
}

void td_device_run_close(struct td_device_run *dev)
{
    if (dev == NULL) {
        return;
    }
    td_device_graphs_free(dev->graphs);
    if (dev->event != NULL) {
        dev->device->event_close(dev->device, dev->event);
    }
    td_free(dev->at);
    td_free(dev->only_there);
    td_free(dev->lasts);
    td_free(dev->args);
    td_free(dev->here);
    td_free(dev->pins.list);
    td_free(dev->weights.list);
    td_free(dev->late);
    td_free(dev);
}

enum td_code td_device_run_allocate(const struct td_device_run *dev, size_t bytes, struct td_buffer **out,
                                    struct td_err *err)
{
    struct td_err first = {0};
    const enum td_code rc = td_buffer_new_on(dev->device, dev->stream, bytes, out, &first);
    if (rc == TD_RESOURCE_EXHAUSTED &&
        td_device_graphs_trim(dev->device) + td_device_weights_trim(dev->device) > 0) {
        return td_buffer_new_on(dev->device, dev->stream, bytes, out, err);
    }
    return rc ? td_fail(err, rc, "%s", first.msg) : TD_OK;
}

/* Bytes for the step at hand. */
static enum td_code take(const struct td_device_run *dev, size_t bytes, struct td_buffer **out, void **data,
                         struct td_err *err)
{
    if (dev->record != NULL) {
        td_device_recorder_take(dev->record, out, data);
        return TD_OK;
    }
    TD_TRY(td_device_run_allocate(dev, bytes, out, err));
    *data = (*out)->data;
    return TD_OK;
}

enum td_code td_device_run_make(const struct td_device_run *dev, enum td_dtype dtype,
                                const struct td_shape *shape, struct td_tensor *t, struct td_err *err)
{
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)td_shape_count(shape), td_dtype_size(dtype), &bytes), err,
               INVALID_ARGUMENT, "tensor of shape %s and dtype %s: its size overflows", TD_SHAPE_STR(shape),
               td_dtype_name(dtype));
    struct td_buffer *b;
    void *data;
    TD_TRY(take(dev, bytes, &b, &data, err));
    *t = (struct td_tensor){.buf = b, .data = data, .dtype = dtype, .device = dev->device, .shape = *shape};
    return TD_OK;
}

enum td_code td_device_run_stream(struct td_device_run *dev, struct td_err *err)
{
    return dev->stream != NULL ? TD_OK : dev->device->stream_open(dev->device, &dev->stream, err);
}

enum td_code td_device_run_hold(struct td_held *h, struct td_buffer *b, struct td_err *err)
{
    if (b == NULL) {
        return TD_OK; /* planned bytes stay as they are until the run's end */
    }
    if (h->n == h->room) {
        const int room = h->room * 2 + 16;
        struct td_buffer **more = td_realloc(h->list, (size_t)room, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, sizeof *more, "a copy to a device");
        }
        h->list = more;
        h->room = room;
    }
    h->list[h->n++] = td_buffer_ref(b);
    return TD_OK;
}

static void let_go(struct td_held *h)
{
    while (h->n > 0) {
        td_buffer_unref(h->list[--h->n]);
    }
}

static enum td_code wait_for_stream(const struct td_device_run *dev, struct td_err *err)
{
    TD_TRY(dev->device->event_record(dev->device, dev->stream, dev->event, err));
    return dev->device->event_wait(dev->device, dev->event, err);
}

enum td_code td_device_run_wait(struct td_device_run *dev, struct td_err *err)
{
    if (!dev->queued) {
        return TD_OK;
    }
    struct td_err later = {0};
    enum td_code rc = dev->faults != NULL ? td_device_faults_bring(dev->faults, err) : TD_OK;
    const enum td_code waited = wait_for_stream(dev, rc ? &later : err); /* also behind an error */
    rc = rc ? rc : waited;
    rc = rc || dev->faults == NULL ? rc : td_device_faults_look(dev->faults, err);
    dev->queued = false;
    let_go(&dev->pins);
    while (dev->n_late > 0) {
        td_choice_fini(&dev->late[--dev->n_late]);
    }
    return rc;
}

/* ------------------------------------------------------------------ to the device */

/* Infers s's output shapes from the input shapes of this run. Brings what shape functions judge by value,
 * integer scalars and vectors, and leaves out what lies over there, as what a kernel judges may, and what is
 * not the host's of an op that has a sized kernel. *known: every output's shape is. */
static enum td_code infer_now(struct td_frame *f, const struct td_plan *p, const struct td_step *s,
                              uint32_t judged, bool *known, struct td_err *err)
{
    struct td_shape *in = f->shapes, *out = in + s->n_in;
    for (int i = 0; i < s->n_in; i++) {
        int v = s->in[i];
        in[i] = f->dev->only_there[v] ? f->dev->at[v].shape : f->slots[v].shape;
        if (td_bound_plan_judges(&in[i], p->dtype[v]) && (i >= 32 || !(judged >> i & 1)) &&
            (s->on_host[i] || !td_device_sized_may(s))) {
            TD_TRY(td_device_run_fetch(f, &v, 1, err));
        }
        f->in[i] = f->dev->only_there[v] ? NULL : &f->slots[v];
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

enum td_code td_device_run_send(struct td_device_run *dev, const struct td_tensor *here, void *there,
                                struct td_err *err)
{
    const struct td_device *d = dev->device;
    const size_t bytes = td_tensor_bytes(here);
    const bool ready = here->buf != NULL && here->buf->pinned;
    struct td_buffer *staged = ready ? NULL : td_buffer_pin(d, bytes, here->data);
    const void *from = staged != NULL ? staged->data : here->data;
    enum td_code rc = td_device_run_hold(&dev->pins, staged != NULL ? staged : here->buf, err);
    td_buffer_unref(staged);
    dev->queued = true;
    return rc ? rc : d->copy(d, dev->stream, TD_COPY_TO_DEVICE, there, from, bytes, err);
}

static enum td_code send(struct td_device_run *dev, const struct td_tensor *here, struct td_tensor *there,
                         struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(td_device_run_make(dev, here->dtype, &here->shape, &t, err));
    const enum td_code rc = td_tensor_bytes(here) > 0 ? td_device_run_send(dev, here, t.data, err) : TD_OK;
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *there = t;
    return TD_OK;
}

enum td_code td_device_run_bring(struct td_device_run *dev, const struct td_tensor *here, int v,
                                 struct td_err *err)
{
    struct td_device_weights *w = NULL;
    struct td_err ignored = {0}; /* sending it for this run alone has its own to say */
    if (dev->lasts[v] && here->buf != NULL && td_tensor_bytes(here) > 0) {
        w = td_model_device_weights(dev->model);
    }
    if (w == NULL || td_device_weights_get(w, here, false, &dev->at[v], &ignored)) {
        return send(dev, here, &dev->at[v], err);
    }
    return td_device_run_hold(&dev->weights, dev->at[v].buf, err);
}

/* A word for what the launch may refuse. */
static enum td_code expect_faults(struct td_frame *f, const struct td_step *s, struct td_launch *l,
                                  struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    if (l->kernel->judged == 0) {
        return TD_OK;
    }
    if (dev->record != NULL) {
        return td_device_recorder_judge(dev->record, s, l, err);
    }
    dev->queued = true;
    if (dev->faults == NULL) {
        TD_TRY(td_device_faults_new(dev->device, dev->stream, dev->event, &dev->faults, err));
    }
    for (int i = 0; i < s->n_in; i++) {
        const struct td_tensor *slot = &f->slots[s->in[i]];
        dev->here[i] = dev->only_there[s->in[i]] || slot->buf == NULL ? NULL : slot;
    }
    return td_device_faults_add(dev->faults, l, dev->here, err);
}

enum td_code td_device_run_queue(struct td_frame *f, const struct td_launch *l, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    enum td_code rc = TD_OK;
    dev->queued = true;
    for (int i = 0; i < l->n_in && rc == TD_OK; i++) { /* the kernel may queue a copy of it */
        rc = l->in[i].device == NULL ? td_device_run_hold(&dev->pins, l->in[i].buf, err) : TD_OK;
    }
    return rc ? rc : dev->device->launch(dev->device, l->stream, l, err);
}

/* Output i is new, of that shape. */
static enum td_code make_outputs(struct td_device_run *dev, const struct td_plan *p, const struct td_step *s,
                                 const struct td_shape *shapes, struct td_err *err)
{
    for (int i = 0; i < s->n_out; i++) {
        const int v = s->out0 + i;
        TD_TRY(td_device_run_make(dev, p->dtype[v], &shapes[i], &dev->at[v], err));
        dev->only_there[v] = true;
    }
    return TD_OK;
}

/* Makes the outputs and launches what fills them. A sized kernel says before how large they are, shapes
 * being the run's own then. The workspace may be taken for something else behind the launch, in the stream's
 * order. */
static enum td_code launch_kernel(struct td_frame *f, const struct td_plan *p, const struct td_step *s,
                                  const struct td_choice *c, uint32_t swapped, const struct td_shape *shapes,
                                  struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    struct td_stream *stream = dev->record != NULL ? td_device_recorder_stream(dev->record) : dev->stream;
    struct td_buffer *room = NULL;
    void *workspace = NULL;
    const bool sized = c->kernel->sized != NULL;
    TD_TRY(sized ? TD_OK : make_outputs(dev, p, s, shapes, err));
    if (c->offer.workspace_bytes > 0) {
        TD_TRY(take(dev, c->offer.workspace_bytes, &room, &workspace, err));
    }
    struct td_launch launch = {.model = dev->model,
                               .node = s->node,
                               .kernel = c->kernel,
                               .state = c->offer.state,
                               .workspace = workspace,
                               .workspace_bytes = c->offer.workspace_bytes,
                               .stream = stream,
                               .swapped = swapped,
                               .in = dev->args,
                               .out = &dev->at[s->out0],
                               .n_in = s->n_in,
                               .n_out = s->n_out};
    if (dev->record != NULL && c->kernel->draws) {
        launch.drawn = td_device_recorder_drawn(dev->record);
    }
    enum td_code rc = expect_faults(f, s, &launch, err);
    if (rc == TD_OK && sized) {
        rc = td_device_sized_find(f, &launch, f->shapes + s->n_in, err);
        rc = rc ? rc : make_outputs(dev, p, s, f->shapes + s->n_in, err);
        launch.fault = NULL;
    }
    rc = rc ? rc : td_device_run_queue(f, &launch, err);
    td_buffer_unref(room);
    return rc;
}

/* Output 0 has input 0's bytes: nothing is queued. */
static void hand_on(struct td_device_run *dev, const struct td_step *s, enum td_dtype dtype,
                    const struct td_shape *shape)
{
    struct td_tensor *out = &dev->at[s->out0];
    td_tensor_ref(out, &dev->args[0]);
    out->dtype = dtype;
    out->shape = *shape;
    dev->only_there[s->out0] = true;
}

enum td_code td_device_run_launch(struct td_frame *f, const struct td_plan *p, const struct td_step *s,
                                  const struct td_choice *c, const struct td_shape *shapes,
                                  struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    enum td_code rc = TD_OK;
    int placed = 0;
    uint32_t swapped = 0;
    while (rc == TD_OK && placed < s->n_in) {
        rc = td_device_run_place(f, s, c, placed, &swapped, err);
        placed += rc == TD_OK;
    }
    const bool passes = c->kernel->hands_on && !s->on_host[0];
    if (rc == TD_OK && passes) {
        hand_on(dev, s, p->dtype[s->out0], &shapes[0]);
    }
    rc = rc || passes ? rc : launch_kernel(f, p, s, c, swapped, shapes, err);
    for (int i = 0; i < placed; i++) {
        td_tensor_clear(&dev->args[i]);
    }
    return rc;
}

/* The kernel for shapes found in the run, which has room to be kept; *out is as it was: none serves. */
static enum td_code choose_late(struct td_frame *f, const struct td_plan *p, const struct td_step *s,
                                struct td_choice *out, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    if (dev->n_late == dev->late_room) {
        struct td_choice *more = td_realloc(dev->late, (size_t)dev->late_room * 2 + 8, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, sizeof *more, "a kernel's state");
        }
        dev->late = more;
        dev->late_room = dev->late_room * 2 + 8;
    }
    const struct td_kernel_query q = {.node = s->node,
                                      .n_in = s->n_in,
                                      .n_out = s->n_out,
                                      .in = f->shapes,
                                      .out = f->shapes + s->n_in,
                                      .value = f->in,
                                      .target = td_target_device(td_model_opts_of(p->model))};
    struct td_err ignored = {0}; /* the host has its own to say */
    struct td_choice c;
    if (td_select_bind(&q, s->device_rows, s->n_device_rows, &c, &ignored) == TD_OK) {
        *out = c;
    }
    return TD_OK;
}

enum td_code td_device_run_step(struct td_frame *f, const struct td_bound_plan *l, int step,
                                const char **kernel, struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[step];
    const int mode = l->mode[step];
    struct td_choice late = {0}; /* a wait before the launch is none for it */
    const struct td_choice *c = &l->choice[step];
    bool known = true;
    *kernel = NULL;
    if (f->dev->faults != NULL && td_device_faults_left(f->dev->faults) == 0) {
        TD_TRY(td_device_run_wait(f->dev, err));
    }
    if (mode != TD_STEP_DEVICE) {
        const uint32_t judged = mode == TD_STEP_DEVICE_CHECK ? c->kernel->judged : 0;
        TD_TRY(infer_now(f, l->plan, s, judged, &known, err));
    }
    if (mode == TD_STEP_DEVICE_INFER && (known || td_device_sized_may(s))) {
        TD_TRY(choose_late(f, l->plan, s, &late, err));
        c = &late;
    }
    if (c->kernel == NULL || !td_device_sized_goes(f->dev, s, c, known)) {
        td_choice_fini(&late);
        return TD_OK;
    }
    enum td_code rc = td_device_run_stream(f->dev, err);
    if (rc == TD_OK) {
        /* a late choice may be over before it is reported: its row's name stays */
        *kernel = mode == TD_STEP_DEVICE_INFER ? c->kernel->name : td_choice_name(c);
        rc = td_device_run_launch(
            f, l->plan, s, c, mode == TD_STEP_DEVICE_INFER ? f->shapes + s->n_in : &l->shape[s->out0], err);
    }
    if (late.kernel != NULL) {
        f->dev->late[f->dev->n_late++] = late;
    }
    return rc;
}

/* ------------------------------------------------------------------ and back */

enum td_code td_device_run_fetch(struct td_frame *f, const int *values, int n, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    bool copied = false;
    for (int i = 0; i < n; i++) {
        int v = values[i];
        if (!dev->only_there[v]) {
            continue;
        }
        const struct td_tensor *at = &dev->at[v];
        struct td_tensor t;
        TD_TRY(td_tensor_new_pinned(&t, dev->device, at->dtype, &at->shape, err));
        f->slots[v] = t;
        f->state[v] = TD_SLOT_OWNED;
        dev->only_there[v] = false;
        if (td_tensor_bytes(&t) > 0) {
            TD_TRY(td_device_run_stream(dev, err));
            copied = dev->queued = true;
            TD_TRY(td_device_run_hold(&dev->pins, t.buf, err));
            TD_TRY(dev->device->copy(dev->device, dev->stream, TD_COPY_TO_HOST, t.data, at->data,
                                     td_tensor_bytes(&t), err));
        }
    }
    return copied ? td_device_run_wait(dev, err) : TD_OK;
}

void td_device_run_release(struct td_frame *f, int v)
{
    td_tensor_clear(&f->dev->at[v]);
    f->dev->only_there[v] = false;
}

enum td_code td_device_run_check(const struct td_device_run *dev, struct td_err *err)
{
    TD_WANT(!dev->queued && dev->pins.n + dev->weights.n == 0 && dev->stream == NULL && dev->faults == NULL,
            err, "a run ends with %d buffers held%s%s", dev->pins.n + dev->weights.n,
            dev->queued ? " and work queued" : "", dev->stream != NULL ? " and a stream" : "");
    for (int v = 0; v < dev->n_values; v++) {
        TD_WANT(dev->at[v].buf == NULL && !dev->only_there[v], err, "a run ends with value %d on the device",
                v);
    }
    return TD_OK;
}

static bool is_float(enum td_dtype t)
{
    return td_dtype_in(t, TD_SET_FLOATS);
}

enum td_code td_device_run_finish(struct td_frame *f, const struct td_plan *p, bool anywhere, enum td_code rc,
                                  struct td_err *err)
{
    struct td_err earlier = {0};
    for (int i = 0; i < p->n_fetches && anywhere && rc == TD_OK; i++) {
        rc = is_float(p->dtype[p->fetches[i]]) ? TD_OK : td_device_run_fetch(f, &p->fetches[i], 1, err);
    }
    rc = rc || anywhere ? rc : td_device_run_fetch(f, p->fetches, p->n_fetches, err);
    if (td_device_run_wait(f->dev, &earlier)) {
        rc = earlier.code;
        if (err != NULL) {
            *err = earlier;
        }
    }
    f->dev->anywhere = anywhere;
    f->dev->is_short = rc == TD_RESOURCE_EXHAUSTED;
    return rc;
}

const struct td_tensor *td_device_run_result(struct td_frame *f, int v)
{
    struct td_device_run *dev = f->dev;
    if (dev == NULL || !dev->anywhere || dev->at[v].buf == NULL || !is_float(dev->at[v].dtype)) {
        return NULL;
    }
    td_buffer_off_stream(dev->at[v].buf);
    return &dev->at[v];
}

void td_device_run_clear(struct td_frame *f)
{
    for (int v = 0; v < f->dev->n_values; v++) {
        td_device_run_release(f, v);
    }
    let_go(&f->dev->weights);
    td_device_faults_free(f->dev->faults);
    f->dev->faults = NULL;
    if (f->dev->stream != NULL) {
        f->dev->device->stream_close(f->dev->device, f->dev->stream);
        f->dev->stream = NULL;
    }
    td_device_graphs_leave(f->dev->graphs, f->dev->is_short);
    TD_HOLDS(td_device_run_check, f->dev);
}
