/* kernels/cuda/base/refuse.cu - a word that is set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/refuse.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

__global__ void refuse(int32_t *fault)
{
    if (threadIdx.x == 0) {
        *fault = 1;
    }
}

} // namespace

int td_cuda_refuse_call(int32_t *fault, struct td_cuda_stream *stream)
{
    return td_cuda_blocks(refuse, 1, stream, fault);
}
