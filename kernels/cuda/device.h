/* kernels/cuda/device.h - a GPU as the engine's device (core/base/device.h).
 *
 * Memory is counted against a limit: past it, and where the GPU has none left, what was kept for later is
 * given back and the allocation is tried once more; then the run that asked fails with RESOURCE_EXHAUSTED,
 * and no other. Streams and events are kept for the next run. An error that leaves the GPU unusable for this
 * process is remembered: from then on everything asked of the device fails with UNAVAILABLE.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_DEVICE_H
#define TD_KERNELS_CUDA_DEVICE_H

#include <stdint.h>

#include "core/base/device.h"

struct td_cuda_device_opts {
    int device;      /* CUDA's number */
    uint64_t limit;  /* bytes that its models may hold; 0: what the GPU has */
    double fraction; /* of the GPU's memory, when limit is 0; 0: all of it */
};
/* FAILED_PRECONDITION: there is no such GPU, or no driver, or a limit beyond what the GPU has. */
TD_MUST enum td_code td_cuda_device_open(const struct td_cuda_device_opts *o, struct td_device **out,
                                         struct td_err *err);
/* Nothing may be queued or allocated any more. Accepts NULL. */
void td_cuda_device_close(struct td_device *d);

struct td_cuda_device_counts {
    uint64_t limit, held, most;        /* bytes */
    uint64_t launches, copies, copied; /* copied: bytes */
};
void td_cuda_device_count(const struct td_device *d, struct td_cuda_device_counts *out);

/* The code for CUDA's error number, OK for 0; text: what was done. */
enum td_code td_cuda_fail(int error, const char *what, struct td_err *err);

#endif
