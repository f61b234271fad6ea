/* kernels/cuda/base/libraries.h - NVIDIA's libraries, as a device has them: each there, or with a word why
 * not.
 *
 * Threads: open and close at the device's; else any. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_LIBRARIES_H
#define TD_KERNELS_CUDA_BASE_LIBRARIES_H

#include "core/base/device.h"
#include "kernels/cuda/base/cublaslt.h"
#include "kernels/cuda/base/cudnn.h"

enum { TD_CUDA_LIBRARIES = 2, TD_CUDA_SAID = 320 };

struct td_cuda_libraries {
    struct td_cublaslt *cublaslt; /* NULL: not there */
    struct td_cudnn *cudnn;
    bool tf32; /* what they were told, and our own kernels that have Tensor cores go by */
    char said[TD_CUDA_LIBRARIES][TD_CUDA_SAID]; /* its version, or what is missing */
};

/* limit: bytes that models may hold, of which a call's workspace is to be a small part. */
void td_cuda_libraries_open(int device, bool tf32, uint64_t limit, struct td_cuda_libraries *out);
/* Before the device's context goes, and when there is another; false: one does not come back. */
void td_cuda_libraries_stop(struct td_cuda_libraries *l);
bool td_cuda_libraries_start(struct td_cuda_libraries *l);
void td_cuda_libraries_close(struct td_cuda_libraries *l); /* of a zeroed one too */
/* For the log: what library i is for and what became of it; false: it is not there. */
bool td_cuda_libraries_tell(const struct td_cuda_libraries *l, int i, char *text, size_t room);

/* Of an open device. */
const struct td_cuda_libraries *td_cuda_libraries_of(const struct td_device *d);

#endif
