/* core/run/device_weights.h - what a model holds on its device between runs: its constants, and its variables
 * as they were last read. Each is sent once, and every plan's runs share it.
 *
 * A tensor is known by its bytes on the host, which are kept (a counted reference) and so stay as they are:
 * whoever assigns a variable, or writes it in place, gives it other bytes (core/run/variable.h). What nobody
 * on the host holds any more is dropped when the next tensor is sent, as is what went with a context of the
 * device's (core/base/device.h), which is sent again.
 *
 * Threads: any; a lock of the model's own is held while a tensor is sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_WEIGHTS_H
#define TD_CORE_RUN_DEVICE_WEIGHTS_H

#include "core/base/device.h"
#include "core/base/tensor.h"

struct td_device_weights;

TD_MUST enum td_code td_device_weights_new(const struct td_device *d, struct td_device_weights **out,
                                           struct td_err *err);
void td_device_weights_free(struct td_device_weights *w); /* no run is on its way; accepts NULL */
/* `here` on the device, sent now if it was not: *there is the caller's (a reference), whole, and stays as it
 * is. The reference is kept until all queued work that reads it is done. here->buf is not NULL. */
TD_MUST enum td_code td_device_weights_get(struct td_device_weights *w, const struct td_tensor *here,
                                           struct td_tensor *there, struct td_err *err);
/* Drops what no run uses, of all models on the device: when it is short of memory. Returns the bytes. */
size_t td_device_weights_trim(const struct td_device *d);
size_t td_device_weights_bytes(const struct td_device_weights *w); /* on the device */

#endif
