/* kernels/cuda/base/bytes.cuh - elements as plain bytes, for kernels that do not compute with them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_BYTES_CUH
#define TD_KERNELS_CUDA_BASE_BYTES_CUH

#include "kernels/cuda/base/launch.cuh"

struct alignas(16) td_cuda_sixteen {
    uint64_t half[2];
};

/* run.with<T>() for a T of so many bytes: 1, 2, 4, 8 or 16. */
template <class F> int td_cuda_with_bytes(size_t bytes, const F &run)
{
    return bytes == 1    ? run.template with<uint8_t>()
           : bytes == 2  ? run.template with<uint16_t>()
           : bytes == 4  ? run.template with<uint32_t>()
           : bytes == 8  ? run.template with<uint64_t>()
           : bytes == 16 ? run.template with<td_cuda_sixteen>()
                         : static_cast<int>(cudaErrorInvalidValue);
}

#endif
