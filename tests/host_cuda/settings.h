/* tests/host_cuda/settings.h - the environment's settings (host_cuda.h), read once; and the draws of the
 * debugging mode.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_SETTINGS_H
#define TD_TESTS_HOST_CUDA_SETTINGS_H

#include <cstddef>
#include <cstdint>

namespace host_cuda
{

struct settings {
    int devices, workers, driver;
    size_t memory;
    bool debug;
    uint64_t seed;
    unsigned delay_us;
    unsigned long fail_at;
    int old, no_streams;
    bool resets, conditions, switches;
};

const settings &config();

/* Draws that depend on the seed and on what they are for alone, not on which OS thread came first. */
struct draws {
    uint64_t state;
    draws(uint64_t what, uint64_t which);
    uint64_t below(uint64_t n); /* 0 .. n-1 */
};

} // namespace host_cuda

#endif
