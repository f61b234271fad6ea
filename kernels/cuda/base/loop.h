/* kernels/cuda/base/loop.h - launchers of loop.cu: what a loop in a recording does besides its steps. They
 * return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_LOOP_H
#define TD_KERNELS_CUDA_BASE_LOOP_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As struct td_device_loop has it (core/base/device.h). */
struct td_cuda_loop {
    const void *go;
    uint32_t *left;
    const int32_t *fault;
    int n_faults;
};

/* Sets the condition: whether another round begins. */
int td_cuda_loop_test(uint64_t condition, const struct td_cuda_loop *l, struct td_cuda_stream *stream);
/* to [bytes] = from, unless a word of l's says that something was refused. */
int td_cuda_loop_carry(const struct td_cuda_loop *l, void *to, const void *from, size_t bytes,
                       struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
