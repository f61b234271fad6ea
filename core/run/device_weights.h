/* core/run/device_weights.h - what a model holds on its device between runs: its constants, and its variables
 * as they were last read. Each is sent once, and every plan's runs share it.
 *
 * A kernel may ask for one swapped, its last axis first (struct td_kernel_offer): as a library wants a
 * filter, which it would else put in that order in every call. It is swapped here, on the host, once, when it
 * is sent, and lies on the device so and in no other way, unless another step wants it as it is. That is done
 * where weights are sent, and not where a plan is made, because most weights are variables: they are no
 * constants of a plan, yet what they hold is the same from run to run; and because which kernel runs, and so
 * what it asks for, is known only for shapes.
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
 * is. The reference is kept until all queued work that reads it is done. here->buf is not NULL. swapped: with
 * its last axis first, under the shape that it had. */
TD_MUST enum td_code td_device_weights_get(struct td_device_weights *w, const struct td_tensor *here,
                                           bool swapped, struct td_tensor *there, struct td_err *err);
/* Drops what no run uses, of all models on the device: when it is short of memory. Returns the bytes. */
size_t td_device_weights_trim(const struct td_device *d);
size_t td_device_weights_bytes(const struct td_device_weights *w); /* on the device */

#endif
