/* core/run/device_bring.c - a tensor of the device's that no run has on its way comes to the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_run.h"

static enum td_code is_there(const struct td_tensor *there, struct td_err *err)
{
    TD_FAIL_IF(td_buffer_is_gone(there->buf), err, DATA_LOSS,
               "its value was on %s alone when that was restarted, and is lost", there->device->name);
    return TD_OK;
}

/* Copies on a stream of its own, and waits, also behind an error: a part of the copy may be queued. */
static enum td_code copy_back(const struct td_tensor *there, struct td_tensor *here, struct td_err *err)
{
    const struct td_device *d = there->device;
    struct td_stream *stream = NULL;
    struct td_event *event = NULL;
    enum td_code rc = d->stream_open(d, &stream, err);
    rc = rc ? rc : is_there(there, err); /* no restart from here on */
    rc = rc ? rc : d->event_open(d, &event, err);
    if (rc == TD_OK) {
        struct td_err later = {0};
        rc = d->copy(d, stream, TD_COPY_TO_HOST, here->data, there->data, td_tensor_bytes(here), err);
        enum td_code waited = d->event_record(d, stream, event, rc ? &later : err);
        waited = waited ? waited : d->event_wait(d, event, rc ? &later : err);
        rc = rc ? rc : waited;
    }
    if (event != NULL) {
        d->event_close(d, event);
    }
    if (stream != NULL) {
        d->stream_close(d, stream);
    }
    return rc;
}

enum td_code td_device_bring(const struct td_tensor *there, struct td_event *made, struct td_tensor *here,
                             struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(is_there(there, err));
    if (made != NULL) {
        TD_TRY(there->device->event_wait(there->device, made, err));
    }
    TD_TRY(td_tensor_new(&t, there->dtype, &there->shape, err));
    const enum td_code rc = td_tensor_bytes(&t) == 0 ? TD_OK : copy_back(there, &t, err);
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    *here = t;
    return TD_OK;
}
