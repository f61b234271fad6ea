/* kernels/cuda/nn/adam.h - launcher of adam.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_ADAM_H
#define TD_KERNELS_CUDA_NN_ADAM_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* w, m, v, g, and what they become, [n]; rate: one on the device. All float. */
struct td_cuda_adam {
    const void *w, *m, *v, *g, *rate;
    void *new_w, *new_m, *new_v;
    float rest_1, rest_2, epsilon;
    int64_t n;
};
int td_cuda_adam_move(const struct td_cuda_adam *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
