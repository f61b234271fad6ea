/* kernels/cuda/base/device.h - a GPU as the engine's device (core/base/device.h).
 *
 * Memory is counted against a limit: past it, and where the GPU has none left, what was kept for later is
 * given back and the allocation is tried once more; then the run that asked fails with RESOURCE_EXHAUSTED,
 * and no other. Runs share a number of streams, or have one each; these and events are kept for the next run.
 * An error that leaves the GPU unusable for this process is remembered: from then on everything asked of the
 * device fails with UNAVAILABLE, until it was restarted (device_restart.c).
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_DEVICE_H
#define TD_KERNELS_CUDA_BASE_DEVICE_H

#include "core/run/device_module.h"

/* Of struct td_device_module. */
TD_MUST enum td_code td_cuda_device_open(const struct td_device_opts *o, struct td_device **out,
                                         struct td_err *err);
void td_cuda_device_close(struct td_device *d);
TD_MUST enum td_code td_cuda_device_restart(struct td_device *d, unsigned wait_ms, struct td_err *err);
bool td_cuda_device_library(const struct td_device *d, int i, char *text, size_t room, bool *there);
void td_cuda_device_count(const struct td_device *d, struct td_device_counts *out);

struct td_cuda_makers;
/* Of kernels that are made at run time (made.h); NULL: none can be. */
struct td_cuda_makers *td_cuda_device_makers(const struct td_device *d);

/* Its number among CUDA's; and a stream of its as CUDA has it. */
int td_cuda_device_index(const struct td_device *d);
struct td_cuda_stream *td_cuda_stream_at(const struct td_stream *s);

/* The code for CUDA's error number, OK for 0; text: what was done. */
enum td_code td_cuda_fail(int error, const char *what, struct td_err *err);

#endif
