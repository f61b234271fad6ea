/* tests/host_cuda/stand_in_test.h - what the tests of the stand-ins share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_STAND_IN_TEST_H
#define TD_TESTS_HOST_CUDA_STAND_IN_TEST_H

#include "kernels/cuda/base/runtime.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/run_kernels.h"

inline td_cuda_stream *disguised(cudaStream_t s)
{
    return reinterpret_cast<td_cuda_stream *>(s);
}

/* Numbers that all element types have, few enough that sums are exact. */
inline std::vector<float> small_numbers(size_t n)
{
    std::vector<float> x(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3);
    }
    return x;
}

/* words: of the report that there must be; "": there must be none. */
inline void check_report(int before, const char *words)
{
    CHECK_INT(host_cuda_reports() - before, words[0] == '\0' ? 0 : 1);
    if (words[0] != '\0' && strstr(host_cuda_last_report(), words) == nullptr) {
        CHECK_STR(host_cuda_last_report(), words);
    }
    host_cuda_reset();
}

#endif
