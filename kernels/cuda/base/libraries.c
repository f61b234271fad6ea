/* kernels/cuda/base/libraries.c - one after the other; what is missing is no error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/libraries.h"

#include <stdio.h>

/* What NVIDIA advises for cuBLASLt on large GPUs; where convolutions' faster algorithms begin to fit; and the
 * part of the device's limit that a call may have. */
enum { PRODUCT_MIB = 32, CONVOLUTION_MIB = 256, PART = 32 };

static size_t most(uint64_t limit, uint64_t mib)
{
    const uint64_t bytes = limit / PART < mib << 20 ? limit / PART : mib << 20;
    return (size_t)bytes;
}

void td_cuda_libraries_open(int device, bool tf32, uint64_t limit, struct td_cuda_libraries *out)
{
    *out = (struct td_cuda_libraries){.tf32 = tf32};
    out->cublaslt = td_cublaslt_open(&(struct td_cublaslt_opts){.device = device,
                                                                .tf32 = tf32,
                                                                .most_workspace = most(limit, PRODUCT_MIB)},
                                     out->said[0], sizeof out->said[0]);
    out->cudnn = td_cudnn_open(&(struct td_cudnn_opts){.device = device,
                                                       .tf32 = tf32,
                                                       .most_workspace = most(limit, CONVOLUTION_MIB)},
                               out->said[1], sizeof out->said[1]);
}

void td_cuda_libraries_close(struct td_cuda_libraries *l)
{
    td_cublaslt_close(l->cublaslt);
    td_cudnn_close(l->cudnn);
    *l = (struct td_cuda_libraries){.cublaslt = NULL};
}

void td_cuda_libraries_stop(struct td_cuda_libraries *l)
{
    if (l->cublaslt != NULL) {
        td_cublaslt_stop(l->cublaslt);
    }
    if (l->cudnn != NULL) {
        td_cudnn_stop(l->cudnn);
    }
}

bool td_cuda_libraries_start(struct td_cuda_libraries *l)
{
    return (l->cublaslt == NULL || td_cublaslt_start(l->cublaslt)) &&
           (l->cudnn == NULL || td_cudnn_start(l->cudnn));
}

bool td_cuda_libraries_tell(const struct td_cuda_libraries *l, int i, char *text, size_t room)
{
    static const struct {
        const char *name, *makes;
    } about[TD_CUDA_LIBRARIES] = {{"cuBLASLt", "products"}, {"cuDNN", "convolutions"}};
    const bool there = i == 0 ? l->cublaslt != NULL : l->cudnn != NULL;
    (void)snprintf(text, room, there ? "%s by %s" : "%s by our own kernels: %s: %s", about[i].makes,
                   there ? l->said[i] : about[i].name, l->said[i]);
    return there;
}
