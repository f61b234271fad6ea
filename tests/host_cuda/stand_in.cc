/* tests/host_cuda/stand_in.cc - on the runtime's own state: allocations, streams, reports.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/stand_in.h"

#include "tests/host_cuda/memory.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdlib>
#include <cstring>

namespace stand_in
{

size_t size_of(number type)
{
    return type == number::DOUBLE ? 8 : type == number::FLOAT ? 4 : type == number::NONE ? 0 : 2;
}

namespace
{

template <class T, class F> std::vector<double> load_as(const void *from, size_t n, F value)
{
    std::vector<double> all(n);
    const T *const at = static_cast<const T *>(from);
    for (size_t i = 0; i < n; i++) {
        all[i] = value(at[i]);
    }
    return all;
}

} // namespace

std::vector<double> load(number type, const void *from, size_t n)
{
    switch (type) {
    case number::FLOAT:
        return load_as<float>(from, n, [](float x) { return x; });
    case number::DOUBLE:
        return load_as<double>(from, n, [](double x) { return x; });
    case number::HALF:
        return load_as<__half>(from, n, [](__half x) { return __half2float(x); });
    case number::BFLOAT16:
        return load_as<__nv_bfloat16>(from, n, [](__nv_bfloat16 x) { return __bfloat162float(x); });
    default:
        return {};
    }
}

void store(number type, void *to, size_t i, double value)
{
    switch (type) {
    case number::FLOAT:
        static_cast<float *>(to)[i] = static_cast<float>(value);
        break;
    case number::DOUBLE:
        static_cast<double *>(to)[i] = value;
        break;
    case number::HALF:
        static_cast<__half *>(to)[i] = __float2half_rn(static_cast<float>(value));
        break;
    case number::BFLOAT16:
        static_cast<__nv_bfloat16 *>(to)[i] = __float2bfloat16_rn(static_cast<float>(value));
        break;
    default:
        break;
    }
}

/* 13 of a float's 23 bits of mantissa go, to the nearest, halves away from zero. */
double to_tf32(double value)
{
    float x = static_cast<float>(value);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7F800000u) != 0x7F800000u) {
        bits = (bits + 0x1000u) & ~0x1FFFu;
        memcpy(&x, &bits, sizeof x);
    }
    return x;
}

bool usable(const char *library)
{
    const char *const set = getenv("HOST_CUDA_LIBRARIES");
    return set == nullptr || strstr(set, library) != nullptr;
}

bool wrong(const char *call, const std::string &what)
{
    host_cuda::report(host_cuda::current_device(), cudaErrorInvalidValue, std::string(call) + ": " + what);
    return false;
}

int current_device()
{
    return host_cuda::current_device();
}

unsigned current_context()
{
    return host_cuda::context_of(current_device());
}

bool device_works()
{
    return host_cuda::sticky(current_device()) == cudaSuccess;
}

bool check_place(const char *call, const place &p, size_t aligned)
{
    if (p.at == nullptr) {
        return wrong(call, host_cuda::text("%s is NULL", p.name));
    }
    const auto address = reinterpret_cast<uintptr_t>(p.at);
    if (address % aligned != 0) {
        return wrong(call, host_cuda::text("%s is aligned to %zu bytes, %zu are wanted", p.name,
                                           static_cast<size_t>(address & (~address + 1)), aligned));
    }
    std::string what;
    {
        const host_cuda::quiet q;
        const host_cuda::locked l(host_cuda::mu);
        const host_cuda::allocation *const a = host_cuda::find_allocation(address);
        if (a == nullptr || a->device != host_cuda::current_device()) {
            what = host_cuda::text("%s is no memory of the device's", p.name);
        } else if (a->freed) {
            what = host_cuda::text("%s was freed before", p.name);
        } else if (p.bytes > a->at + a->bytes - address) {
            what = host_cuda::text("%s wants %zu bytes, and its allocation has %zu from there on", p.name,
                                   p.bytes, static_cast<size_t>(a->at + a->bytes - address));
        }
    }
    return what.empty() || wrong(call, what);
}

bool check_apart(const char *call, const std::vector<place> &places)
{
    for (const place &a : places) {
        for (const place &b : places) {
            const host_cuda::use one = {reinterpret_cast<uintptr_t>(a.at), a.bytes, true},
                                 other = {reinterpret_cast<uintptr_t>(b.at), b.bytes, true};
            if (&a != &b && a.writes && a.bytes > 0 && b.bytes > 0 && host_cuda::overlap(one, other)) {
                return wrong(call, host_cuda::text("%s and %s share bytes", a.name, b.name));
            }
        }
    }
    return true;
}

bool check_stream(const char *call, cudaStream_t stream)
{
    std::string what;
    {
        const host_cuda::quiet q;
        const host_cuda::locked l(host_cuda::mu);
        const CUstream_st *const s = stream == nullptr ? nullptr : host_cuda::find_stream(stream);
        what = s == nullptr                               ? "it is no stream of one's own"
               : s->device != host_cuda::current_device() ? "its stream is another device's"
                                                          : "";
    }
    return what.empty() || wrong(call, what);
}

cudaError_t queue(cudaStream_t stream, const char *what, const std::vector<place> &places,
                  std::function<void()> run)
{
    return host_cuda::call([&](host_cuda::locked &) {
        CUstream_st *const s = host_cuda::find_stream(stream);
        if (s == nullptr) {
            return cudaErrorInvalidResourceHandle;
        }
        auto o = std::make_shared<host_cuda::op>();
        o->what = what;
        for (const place &p : places) {
            if (p.bytes > 0) {
                o->uses.push_back({reinterpret_cast<uintptr_t>(p.at), p.bytes, p.writes});
            }
        }
        o->run = std::move(run);
        return host_cuda::submit(s, o);
    });
}

} // namespace stand_in
