/* kernels/cuda/nn/fake_quant.h - launchers of fake_quant.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_FAKE_QUANT_H
#define TD_KERNELS_CUDA_NN_FAKE_QUANT_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [outer, depth] of floats, rounded to the levels low..high of a range a channel: min and max [depth] on
 * the device, or where min is NULL least and most for all, by the inverse of the scale. */
struct td_cuda_fake_quant {
    int64_t outer, depth;
    float low, high, least, most;
    const void *min, *max;
};
int td_cuda_fake_quant_to(const struct td_cuda_fake_quant *s, const void *x, void *y,
                          struct td_cuda_stream *stream);
/* dmin and dmax [depth], or NULL: the sums of what is cut off below and above. */
struct td_cuda_fake_quant_grad {
    const void *dy, *x;
    void *dx, *dmin, *dmax, *work;
};
size_t td_cuda_fake_quant_work(const struct td_cuda_fake_quant *s);
int td_cuda_fake_quant_back(const struct td_cuda_fake_quant *s, const struct td_cuda_fake_quant_grad *g,
                            struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
