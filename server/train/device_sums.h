/* server/train/device_sums.h - the sums of a data-parallel job whose processes have a GPU each: made on the
 * GPUs, where they reach each other (core/run/device_module.h, struct td_device_groups), instead of on the
 * host.
 *
 *   step   --add-->  slots 0 1 2 3 ..  --bucket [0..2]-->  the group's stream
 *          <-take--                    (the run's stream waits there)
 *
 * Buckets are those of server/train/ranks.c, by numbers, sizes and marks alone, but nothing is copied into
 * one: its sums are one group of calls, in place where nobody else holds the values. All sums of a run go
 * there, also those whose values the host has: where one lies may differ from process to process.
 *
 * Threads: as the process's collective (core/base/collective.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_DEVICE_SUMS_H
#define TD_SERVER_TRAIN_DEVICE_SUMS_H

#include "server/models/devices.h"
#include "server/train/ranks.h"

struct td_device_sums;

/* Called by all processes of r. Takes the place of the process's collective where all have a GPU of their
 * own and the same library to sum by; else *out stays NULL, sums are the host's, and where there are GPUs a
 * line of process 0's log says why. FAILED_PRECONDITION: `wanted` GPUs were asked for, and processes have
 * to share one. Returns new. */
TD_MUST enum td_code td_device_sums_open(struct td_ranks *r, const struct td_devices *d, int wanted,
                                         struct td_device_sums **out, struct td_err *err);
/* Before the device is closed; accepts NULL. The host's collective is back. */
void td_device_sums_close(struct td_device_sums *x);

#endif
