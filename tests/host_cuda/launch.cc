/* tests/host_cuda/launch.cc - launches: the checks that CUDA makes at the call, and what is known of a
 * kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"
#include "tests/host_cuda/device.h"
#include "tests/host_cuda/graph.h"
#include "tests/host_cuda/memory.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/settings.h"
#include "tests/host_cuda/symbols.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

namespace host_cuda
{
namespace
{

struct kernel_facts {
    std::string name;
    size_t static_shared, most_dynamic;
    kernel_type type; /* for a launch by address, once it was remembered */
};

/* Under mu. */
auto &kernels = *new std::map<const void *, kernel_facts>;
uint64_t n_launches;

kernel_facts &facts(const void *kernel)
{
    const auto at = kernels.find(kernel);
    if (at != kernels.end()) {
        return at->second;
    }
    kernel_facts k = {kernel_name(kernel), static_shared_bytes(kernel), 0, {}};
    k.most_dynamic = SHARED - std::min(SHARED, k.static_shared);
    return kernels[kernel] = k;
}

bool within(dim3 d, dim3 most)
{
    return d.x >= 1 && d.y >= 1 && d.z >= 1 && d.x <= most.x && d.y <= most.y && d.z <= most.z;
}

cudaError_t check_shape(const launch_shape &s, const kernel_facts &k)
{
    if (!within(s.grid, {0x7FFFFFFF, 0xFFFF, 0xFFFF}) || !within(s.block, {MAX_THREADS, MAX_THREADS, 64}) ||
        s.block.x * s.block.y * s.block.z > MAX_THREADS) {
        return cudaErrorInvalidConfiguration;
    }
    return s.shared > k.most_dynamic ? cudaErrorInvalidValue : cudaSuccess;
}

std::shared_ptr<const char> copy_args(const kernel_type &type, void **args)
{
    const std::shared_ptr<char> all(static_cast<char *>(operator new(type.bytes)),
                                    [](char *at) { operator delete(at); });
    for (uint32_t i = 0; i < type.n; i++) {
        memcpy(all.get() + type.params[i].at, args[i], type.params[i].bytes);
    }
    return all;
}

uintptr_t word_at(const char *at)
{
    uintptr_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Whose memory the arguments name. */
void list_uses(const kernel_type &type, const char *values, op *o)
{
    for (uint32_t i = 0; i < type.n; i++) {
        const param &p = type.params[i];
        const char *const at = values + p.at;
        if (p.kind == param_kind::READ || p.kind == param_kind::WRITE) {
            o->uses.push_back({word_at(at), p.target, p.kind == param_kind::WRITE});
        } else if (p.kind == param_kind::STRUCT) {
            for (uint32_t w = 0; w + sizeof(uintptr_t) <= p.bytes; w += sizeof(uintptr_t)) {
                o->uses.push_back({word_at(at + w), 1, false});
            }
        }
    }
}

/* A word of a struct may be a bool, a small number or a float, and behind it what the stack had there, of
 * some address. What begins a tensor is aligned; floats that stand in structs, such as 1e-4f, seldom look
 * so. */
bool is_surely_an_address(const use &p)
{
    const bool tensors = p.at % 16 == 0 && (p.at & 0xFF) > 1;
    return p.writes || p.bytes > 1 || (tensors && static_cast<uint32_t>(p.at) >= 1u << 20);
}

/* A GPU reads no memory of the host's that is not pinned; here it would, and say nothing. */
void check_pointers(int device, const kernel_facts &k, const op &o)
{
    for (const use &p : o.uses) {
        if (is_surely_an_address(p) && is_the_hosts(p.at)) {
            report(device, cudaErrorIllegalAddress,
                   text("kernel %s is given %p, which is memory of the host's", k.name.c_str(),
                        reinterpret_cast<void *>(p.at)));
        }
    }
}

void run_launch(const kernel_type &type, const std::shared_ptr<const char> &values, const launch_shape &shape,
                moment where) /* stream: the device; place: the launch's number */
{
    grid g = {type, values, shape, where.stream, where.place, {0}, {false}, graph_of_thread(), {0}};
    run_grid(&g);
}

} // namespace

cudaError_t launch(const kernel_type &type, const launch_shape &shape, void **args, cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || type.kernel == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction;
        }
        const kernel_facts &k = facts(type.kernel);
        const cudaError_t bad = check_shape(shape, k);
        if (bad != cudaSuccess) {
            return bad;
        }
        if (s->device != current_device()) { /* CUDA has a stream's kernels launched from its own device */
            return cudaErrorInvalidResourceHandle;
        }
        const std::shared_ptr<const char> values = copy_args(type, args);
        auto o = std::make_shared<op>();
        o->what = "kernel " + k.name;
        list_uses(type, values.get(), o.get());
        if (config().debug) {
            check_pointers(s->device, k, *o);
        }
        const moment number = {s->device, ++n_launches};
        o->run = [type, values, shape, number] { run_launch(type, values, shape, number); };
        return submit(s, o);
    });
}

const void *remember(const kernel_type &type, const char *name)
{
    const quiet q;
    const locked l(mu);
    if (name != nullptr) { /* where something else was unloaded from, maybe */
        kernels[type.kernel] = {name, 0, SHARED, {}};
    }
    facts(type.kernel).type = type;
    return type.kernel;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
    kernel_type type = {};
    {
        const quiet q;
        const locked l(mu);
        const auto at = kernels.find(kernel);
        type = at != kernels.end() ? at->second.type : type;
    }
    return launch(type, {grid, block, shared}, args, stream);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attr, int value)
{
    return call([&](locked &) {
        kernel_facts &k = facts(kernel);
        if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
            if (value < 0 || static_cast<size_t>(value) + k.static_shared > SHARED_OPT_IN) {
                return cudaErrorInvalidValue;
            }
            k.most_dynamic = static_cast<size_t>(value);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *kernel)
{
    return call([&](locked &) {
        const kernel_facts &k = facts(kernel);
        *attr = {};
        attr->sharedSizeBytes = k.static_shared;
        attr->maxThreadsPerBlock = MAX_THREADS;
        attr->numRegs = 32;
        attr->ptxVersion = attr->binaryVersion = 80;
        attr->maxDynamicSharedSizeBytes = static_cast<int>(k.most_dynamic);
        return cudaSuccess;
    });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                          size_t shared)
{
    return call([&](locked &) {
        if (blocks == nullptr || threads < 1) {
            return cudaErrorInvalidValue;
        }
        const kernel_facts &k = facts(kernel);
        const size_t bytes = k.static_shared + shared + 1024; /* a block costs the device 1 KiB more */
        const int warps = (threads + 31) / 32;
        const int most = std::min({32, 64 / std::max(warps, 1), static_cast<int>(SHARED_PROCESSOR / bytes)});
        *blocks = threads > static_cast<int>(MAX_THREADS) || shared > k.most_dynamic ? 0 : most;
        return cudaSuccess;
    });
}
}
