/* core/run/device_call.c - tensors on a run's device that come from before the run, or outlive it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/device_run_impl.h"
#include "core/run/exec_impl.h"
#include "core/run/stretch.h"

const struct td_tensor *td_device_run_at(const struct td_device_run *dev, int v)
{
    return dev != NULL && dev->only_there[v] ? &dev->at[v] : NULL;
}

void td_device_run_put(struct td_frame *f, int v, struct td_tensor *takes)
{
    td_device_run_release(f, v);
    f->dev->at[v] = *takes;
    f->dev->only_there[v] = true;
    memset(takes, 0, sizeof *takes);
}

static struct td_device_run *run_of(const struct td_call *c)
{
    const struct td_exec *x = c->step;
    return x->frame->dev;
}

const struct td_device *td_call_device(const struct td_call *c)
{
    return run_of(c) == NULL ? NULL : run_of(c)->device;
}

const void *td_call_run_there(const struct td_call *c)
{
    return run_of(c);
}

enum td_code td_call_hold(const struct td_call *c, const struct td_tensor *t, struct td_err *err)
{
    TD_TRY(td_device_run_hold(&run_of(c)->weights, t->buf, err));
    td_buffer_off_stream(t->buf);
    return TD_OK;
}

/* Whether value v is used behind the step of x: what was launched as a whole may assign it yet. */
static bool is_used_yet(const struct td_exec *x, int v)
{
    bool yes = x->plan->last_use[v] > x->done;
    for (int k = x->step_index + 1; k <= x->done && !yes; k++) {
        yes = td_stretch_assigns(x->bound, k, v);
    }
    return yes;
}

int td_device_run_holds(const struct td_device_run *dev, const struct td_buffer *b)
{
    int n = 0;
    for (int i = 0; i < dev->weights.n; i++) {
        n += dev->weights.list[i] == b;
    }
    for (int v = 0; v < dev->n_values; v++) {
        n += dev->at[v].buf == b;
    }
    return n;
}

int td_call_holds(const struct td_call *c, const struct td_buffer *b)
{
    const struct td_exec *x = c->step;
    const struct td_device_run *dev = x->frame->dev;
    bool yet = false;
    for (int v = 0; v < dev->n_values && !yet; v++) {
        yet = dev->at[v].buf == b && is_used_yet(x, v);
    }
    return yet ? -1 : td_device_run_holds(dev, b);
}

enum td_code td_call_wait(const struct td_call *c, struct td_err *err)
{
    return run_of(c) == NULL ? TD_OK : td_device_run_wait(run_of(c), err);
}

enum td_code td_call_enter(const struct td_call *c, struct td_err *err)
{
    return td_device_run_stream(run_of(c), err);
}

enum td_code td_call_stream(const struct td_call *c, struct td_stream **out, struct td_err *err)
{
    TD_TRY(td_device_run_stream(run_of(c), err));
    run_of(c)->queued = true;
    *out = run_of(c)->stream;
    return TD_OK;
}

enum td_code td_device_run_feed(struct td_frame *f, int v, const struct td_tensor *t, struct td_tensor *takes,
                                struct td_err *err)
{
    struct td_tensor mine;
    if (f->dev != NULL) { /* before it is looked at: no restart from here on */
        TD_TRY(td_device_run_stream(f->dev, err));
    }
    TD_FAIL_IF(td_buffer_is_gone(t->buf), err, DATA_LOSS, "a value was on %s alone when that was restarted",
               t->device->name);
    if (f->dev == NULL) {
        TD_TRY(td_device_bring(t, NULL, &f->slots[v], err));
        f->state[v] = TD_SLOT_OWNED;
        return TD_OK;
    }
    TD_TRY(td_device_run_hold(&f->dev->weights, t->buf, err));
    td_tensor_ref(&mine, t);
    if (takes != NULL) {
        td_tensor_clear(takes);
    }
    td_device_run_put(f, v, &mine);
    return TD_OK;
}

enum td_code td_call_event(const struct td_call *c, struct td_event **out, struct td_err *err)
{
    const struct td_device_run *dev = run_of(c);
    const struct td_device *d = dev->device;
    struct td_event *event = NULL;
    if (dev->stream != NULL) {
        TD_TRY(d->event_open(d, &event, err));
        const enum td_code rc = d->event_record(d, dev->stream, event, err);
        if (rc) {
            d->event_close(d, event);
            return rc;
        }
    }
    *out = event;
    return TD_OK;
}
