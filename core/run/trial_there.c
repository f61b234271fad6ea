/* core/run/trial_there.c - a device has no clock to ask: several launches go between two looks at ours, so
 * that the way to the device and back counts little. It counts alike for all that compete.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/trial_there.h"

#include "core/base/timings.h"
#include "core/run/device_run.h"

enum { RUNS = 5, LAUNCHES = 4 };

static enum td_code wait(const struct td_trial_there *t, struct td_err *err)
{
    const struct td_device *d = t->q->target.device;
    TD_TRY(d->event_record(d, t->stream, t->event, err));
    return d->event_wait(d, t->event, err);
}

static enum td_code make(const struct td_trial_there *t, enum td_dtype dtype, const struct td_shape *shape,
                         struct td_tensor *out, struct td_err *err)
{
    const struct td_device *d = t->q->target.device;
    struct td_buffer *b;
    TD_TRY(td_buffer_new_on(d, t->stream, (size_t)td_shape_count(shape) * td_dtype_size(dtype), &b, err));
    *out = (struct td_tensor){.buf = b, .data = b->data, .dtype = dtype, .device = d, .shape = *shape};
    return TD_OK;
}

static enum td_code send(struct td_trial_there *t, int i, const struct td_tensor *here, struct td_err *err)
{
    const struct td_device *d = t->q->target.device;
    const size_t bytes = td_tensor_bytes(here);
    if (t->q->on_host != NULL && t->q->on_host[i]) {
        td_tensor_ref(&t->in[i], here);
        return TD_OK;
    }
    TD_TRY(make(t, here->dtype, &here->shape, &t->in[i], err));
    return bytes == 0 ? TD_OK
                      : d->copy(d, t->stream, TD_COPY_TO_DEVICE, t->in[i].data, here->data, bytes, err);
}

enum td_code td_trial_there_open(struct td_trial_there *t, const struct td_kernel_query *q,
                                 const struct td_tensor *in, uint32_t weights, struct td_err *err)
{
    const struct td_device *d = q->target.device;
    *t = (struct td_trial_there){.q = q, .weights = weights};
    TD_TRY(d->stream_open(d, &t->stream, err));
    TD_TRY(d->event_open(d, &t->event, err));
    for (int i = 0; i < q->n_in; i++) {
        TD_TRY(send(t, i, &in[i], err));
    }
    TD_TRY(make(t, q->node->out_type[0], &q->out[0], &t->out, err));
    if (q->n_post > 0) {
        TD_TRY(td_buffer_new_on(d, t->stream, 2 * td_tensor_bytes(&t->out) + 64, &t->operands, err));
        for (int i = 0; i < q->n_post; i++) {
            t->post_in[i] = t->operands->data;
        }
    }
    return wait(t, err);
}

void td_trial_there_close(struct td_trial_there *t)
{
    const struct td_device *d = t->q->target.device;
    struct td_err ignored = {0};
    if (t->event != NULL) {
        (void)wait(t, &ignored);
        d->event_close(d, t->event);
    }
    for (int i = 0; i < t->q->n_in; i++) {
        td_tensor_clear(&t->in[i]);
    }
    td_tensor_clear(&t->out);
    td_buffer_unref(t->operands);
    if (t->stream != NULL) {
        d->stream_close(d, t->stream);
    }
}

static enum td_code launch(struct td_trial_there *t, const struct td_choice *c, bool leaves,
                           struct td_buffer *room, struct td_err *err)
{
    const struct td_device *d = t->q->target.device;
    const struct td_launch l = {.node = t->q->node,
                                .kernel = c->kernel,
                                .state = c->offer.state,
                                .workspace = room == NULL ? NULL : room->data,
                                .workspace_bytes = c->offer.workspace_bytes,
                                .post_in = t->post_in,
                                .stream = t->stream,
                                .swapped = c->offer.swapped & t->weights, /* whose numbers are any */
                                .in = t->in,
                                .out = &t->out,
                                .n_in = t->q->n_in,
                                .n_out = 1};
    for (int i = 0; i < LAUNCHES; i++) {
        TD_TRY(d->launch(d, t->stream, &l, err));
        if (leaves) {
            TD_TRY(d->copy(d, t->stream, TD_COPY_ON_DEVICE, t->operands->data, t->out.data,
                           td_tensor_bytes(&t->out), err));
        }
    }
    return wait(t, err);
}

int64_t td_trial_there_time(struct td_trial_there *t, const struct td_choice *c, bool leaves,
                            int64_t until_ns)
{
    const struct td_device *d = t->q->target.device;
    struct td_err ignored = {0};
    struct td_buffer *room = NULL;
    if (c->offer.workspace_bytes > 0 &&
        td_buffer_new_on(d, t->stream, c->offer.workspace_bytes, &room, &ignored)) {
        return 0;
    }
    int64_t best_ns = 0, from_ns = td_now_ns();
    for (int i = 0; i < RUNS && (i < 2 || from_ns < until_ns); i++) {
        if (launch(t, c, leaves, room, &ignored)) {
            best_ns = 0;
            break;
        }
        const int64_t now_ns = td_now_ns(), took_ns = (now_ns - from_ns) / LAUNCHES + 1;
        best_ns = i > 0 && (best_ns == 0 || took_ns < best_ns) ? took_ns : best_ns;
        from_ns = now_ns;
    }
    td_buffer_unref(room);
    return best_ns;
}
