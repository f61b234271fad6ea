/* kernels/math/fft_grad.h - gradients of the ops in fft.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_FFT_GRAD_H
#define TD_KERNELS_MATH_FFT_GRAD_H

#include "core/grad/grad.h"

typedef void td_fft_grad_fn(struct td_grad *g);

td_fft_grad_fn td_fft_grad, td_fft2d_grad, td_fft3d_grad, td_ifft_grad, td_ifft2d_grad, td_ifft3d_grad;
td_fft_grad_fn td_rfft_grad, td_rfft2d_grad, td_rfft3d_grad, td_irfft_grad, td_irfft2d_grad, td_irfft3d_grad;

#endif
