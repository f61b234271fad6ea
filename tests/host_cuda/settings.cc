/* tests/host_cuda/settings.cc - reads the environment at the first call; draws are splitmix64.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/settings.h"

#include <cuda_runtime.h>

#include <cstdlib>

namespace host_cuda
{
namespace
{

uint64_t number(const char *name, uint64_t otherwise)
{
    const char *const text = getenv(name);
    return text != nullptr && *text != 0 ? strtoull(text, nullptr, 10) : otherwise;
}

settings read_settings()
{
    settings s = {};
    s.devices = static_cast<int>(number("HOST_CUDA_DEVICES", 1));
    s.workers = static_cast<int>(number("HOST_CUDA_WORKERS", 1));
    s.driver = static_cast<int>(number("HOST_CUDA_DRIVER", CUDART_VERSION));
    s.memory = number("HOST_CUDA_MEMORY", size_t{4} << 30);
    s.debug = number("HOST_CUDA_DEBUG", 0) != 0;
    s.seed = number("HOST_CUDA_SEED", 1);
    s.delay_us = static_cast<unsigned>(number("HOST_CUDA_DELAY_US", 200));
    s.old = static_cast<int>(number("HOST_CUDA_OLD", 99));
    s.no_streams = static_cast<int>(number("HOST_CUDA_NO_STREAMS", 99));
    s.resets = number("HOST_CUDA_RESETS", 1) != 0;
    s.conditions = number("HOST_CUDA_CONDITIONS", 1) != 0;
    s.switches = number("HOST_CUDA_SWITCHES", 1) != 0;
    s.fail_at = number("HOST_CUDA_FAIL_AT", 0);
    s.devices = s.devices > 16 ? 16 : s.devices;
    s.workers = s.workers < 1 ? 1 : s.workers;
    return s;
}

uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

} // namespace

const settings &config()
{
    static const settings s = read_settings();
    return s;
}

draws::draws(uint64_t what, uint64_t which) : state(mixed(config().seed + mixed(what + mixed(which)))) {}

uint64_t draws::below(uint64_t n)
{
    state += 0x9E3779B97F4A7C15;
    return mixed(state) % n;
}

} // namespace host_cuda

extern "C" void host_cuda_set(const char *variable, const char *value)
{
    setenv(variable, value, 1);
}
