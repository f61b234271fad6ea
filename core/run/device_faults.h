/* core/run/device_faults.h - data that a kernel on a device refuses: an index outside of what it indexes.
 *
 * Such a kernel (td_kernel.judged) neither reads nor writes where the data says, and puts 1 into the word
 * that its launch names (td_launch.fault). The words are looked at whenever the run waits for the device.
 * Where one is set the host's kernel of the node is run for its error, with the judged inputs, and zeros for
 * what else is not on the host: a request is refused with the same text on either side. So a row may judge
 * inputs only where nothing else is refused when it runs.
 *
 * A run has one of these from its first such launch on. Threads: one run's, as its frame is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_FAULTS_H
#define TD_CORE_RUN_DEVICE_FAULTS_H

#include "core/run/device_run.h"

struct td_device_faults;

enum { TD_DEVICE_FAULTS_MOST = 64 }; /* launches between two looks */

/* event: to wait with; borrowed. Words lie in the order of the stream. Returns new. */
TD_MUST enum td_code td_device_faults_new(const struct td_device *d, struct td_stream *stream,
                                          struct td_event *event, struct td_device_faults **out,
                                          struct td_err *err);
void td_device_faults_free(struct td_device_faults *x); /* accepts NULL */
/* How many words are left before the next look. */
int td_device_faults_left(const struct td_device_faults *x);
/* Gives the launch its word, and keeps of its inputs what the host's kernel will ask for. here[i]: the same
 * values on the host, in buffers of their own; NULL: they are not there. */
TD_MUST enum td_code td_device_faults_add(struct td_device_faults *x, struct td_launch *l,
                                          const struct td_tensor *const *here, struct td_err *err);
/* Queues the words' way back: before the wait that td_device_faults_look comes after. */
TD_MUST enum td_code td_device_faults_bring(struct td_device_faults *x, struct td_err *err);
/* The error of the first launch whose word is set; and forgets all of them. */
TD_MUST enum td_code td_device_faults_look(struct td_device_faults *x, struct td_err *err);

#endif
