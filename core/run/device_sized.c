/* core/run/device_sized.c - steps on the device whose results are as large as values say: the host asks once.
 *
 *   count  ->  numbers on the device  --copy, wait-->  shapes  ->  outputs  ->  run
 *
 * (struct td_kernel_sized). The wait is for all that the run has queued, as any value that the host reads
 * costs one. It is no dearer than the way back of the inputs that a run of the step on the host would wait
 * for, and spares the copies; but where the host has all inputs already, it would be for nothing: the step
 * goes to the device only where an input lies there alone. Steps behind it find its results there.
 *
 * Such steps are chosen in the run, with the values of what stays on the host, and end what is recorded
 * (core/run/stretch.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_run_impl.h"

bool td_device_sized_may(const struct td_step *s)
{
    bool may = false;
    for (int i = 0; i < s->n_device_rows; i++) {
        may = may || s->device_rows[i]->sized != NULL;
    }
    return may;
}

bool td_device_sized_goes(const struct td_device_run *dev, const struct td_step *s, const struct td_choice *c,
                          bool known)
{
    bool goes = c->kernel->sized == NULL && known;
    for (int i = 0; c->kernel->sized != NULL && i < s->n_in; i++) {
        goes = goes || (dev->only_there[s->in[i]] && !s->on_host[i]);
    }
    return goes;
}

/* here: so many numbers, behind all that is queued. */
static enum td_code bring(struct td_device_run *dev, const struct td_buffer *counts, struct td_tensor *here,
                          struct td_err *err)
{
    dev->queued = true;
    TD_TRY(td_device_run_hold(&dev->pins, here->buf, err));
    TD_TRY(dev->device->copy(dev->device, dev->stream, TD_COPY_TO_HOST, here->data, counts->data,
                             td_tensor_bytes(here), err));
    return td_device_run_wait(dev, err);
}

static enum td_code shapes_of(struct td_frame *f, const struct td_launch *l, const struct td_tensor *here,
                              struct td_shape *out, struct td_err *err)
{
    for (int i = 0; i < l->n_in; i++) {
        f->in[i] = &l->in[i];
    }
    const struct td_call c = {.node = l->node, .n_in = l->n_in, .n_out = l->n_out, .in = f->in};
    return l->kernel->sized->shapes(&c, TD_DATA(here, const int64_t), out, err);
}

enum td_code td_device_sized_find(struct td_frame *f, const struct td_launch *l, struct td_shape *out,
                                  struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    struct td_buffer *counts;
    struct td_tensor here;
    const struct td_shape shape = td_shape_vector(l->kernel->sized->n_counts(l->node));
    TD_TRY(td_tensor_new_pinned(&here, dev->device, TD_INT64, &shape, err));
    enum td_code rc = td_device_run_allocate(dev, td_tensor_bytes(&here), &counts, err);
    if (rc == TD_OK) {
        struct td_launch first = *l;
        first.counts = counts->data;
        rc = td_device_run_queue(f, &first, err);
        rc = rc ? rc : bring(dev, counts, &here, err);
        td_buffer_unref(counts);
    }
    rc = rc ? rc : shapes_of(f, l, &here, out, err);
    td_tensor_clear(&here);
    return rc;
}
