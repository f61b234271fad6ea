/* tests/second_device.h - a device made of nothing but the CPU, for tests: a memory of its own and an
 * asynchronous stream.
 *
 * Its addresses are disguised, so that the host faults on touching them; new bytes, and host bytes that a
 * queued copy will fill, read as 0xFF (NaN, -1) until the work is done. Its kernels are the host's, run on a
 * thread of its own in queue order.
 *
 *   LAZY   the thread works only as far as somebody waits: whoever reads early reads 0xFF, in every run alike
 *   EAGER  the thread works at once, beside the host: for ThreadSanitizer
 *
 * Threads: any number of streams may be used from any threads; their work is done by one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SECOND_DEVICE_H
#define TD_TESTS_SECOND_DEVICE_H

#include "core/base/device.h"

enum second_device_speed { SECOND_DEVICE_LAZY, SECOND_DEVICE_EAGER };

/* What has been asked for so far; and which request (counted from 1; 0 none) to leave out without a word. A
 * wait that is left out also calls off what it would have waited for: the host's bytes may be gone when that
 * would run. */
struct second_device_counts {
    long copies, waits, launches;
};

/* Returns new. */
TD_MUST enum td_code td_second_device_new(enum second_device_speed speed, struct td_device **out,
                                          struct td_err *err);
void td_second_device_free(struct td_device *d); /* every stream must be closed */
void td_second_device_leave_out(struct td_device *d, struct second_device_counts which); /* counts from now */
struct second_device_counts td_second_device_counts(struct td_device *d);

#endif
