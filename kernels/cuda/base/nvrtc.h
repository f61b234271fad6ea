/* kernels/cuda/base/nvrtc.h - CUDA's compiler as a library, looked for when the first kernel is to be made:
 * nothing links it, and where it is missing nothing is made.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_NVRTC_H
#define TD_KERNELS_CUDA_BASE_NVRTC_H

#include <stddef.h>

#include "core/base/status.h"

/* "NVRTC 13.0"; NULL: there is none, and td_cuda_nvrtc_missing says why. */
const char *td_cuda_nvrtc_version(void);
const char *td_cuda_nvrtc_missing(void);

/* The source's code for a GPU of compute capability 80 (8.0), ..: *code is new. INTERNAL: it does not
 * compile. */
TD_MUST enum td_code td_cuda_nvrtc_compile(const char *source, int capability, char **code, size_t *bytes,
                                           struct td_err *err);

#endif
