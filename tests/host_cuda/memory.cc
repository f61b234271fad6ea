/* tests/host_cuda/memory.cc - allocations: each a mapping of its own with red zones.
 *
 *   | red zone, 256 bytes | the allocation | red zone to the page's end, at least 256 bytes |
 *
 * Red zones are poisoned under ASan, else filled and looked at when the memory is freed. In the debugging
 * mode freed memory is filled with 0xFF and kept for a while (poisoned under ASan), so that its addresses do
 * not come back at once and a late write is seen.
 *
 * Protection keys: device memory has one; a thread may touch it when its rights say so. Linux gives a new
 * thread its maker's rights, and every process begins without any to keys but the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/memory.h"

#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/settings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

struct CUmemPoolHandle_st {
    int device;
    unsigned long long threshold;
};

namespace host_cuda
{
namespace
{

constexpr size_t RED = 256, KEPT = size_t{64} << 20;
constexpr int FILL = 0xA5;

/* All under mu, and for ever: streams' threads outlive main. */
auto &allocations = *new std::map<uintptr_t, allocation>;
auto &kept = *new std::deque<uintptr_t>;       /* freed and emptied, oldest first */
auto &gone = *new std::map<uintptr_t, size_t>; /* of contexts that were reset: bytes by their place */
auto &clock_of_host = *new vector_clock;
size_t kept_bytes, used[MAX_DEVICES];
CUmemPoolHandle_st pools[MAX_DEVICES];

int device_key()
{
    static const int key = config().debug ? pkey_alloc(0, PKEY_DISABLE_ACCESS) : -1;
    return key;
}

void check_red_zones(const allocation &a)
{
    const char *const first = reinterpret_cast<const char *>(a.at), *const end = first + a.bytes;
    for (const char *p = a.map; !ASAN && p < a.map + a.map_bytes; p = p + 1 == first ? end : p + 1) {
        if (static_cast<unsigned char>(*p) != FILL) {
            report(std::max(a.device, 0), cudaErrorIllegalAddress,
                   text("somebody wrote %td bytes %s an allocation of %zu bytes",
                        p < first ? first - p : p - end, p < first ? "before" : "behind", a.bytes));
            return;
        }
    }
}

void give_map_back(const allocation &a)
{
    ASAN_UNPOISON_MEMORY_REGION(a.map, a.map_bytes);
    munmap(a.map, a.map_bytes);
}

void check_untouched(allocation *a)
{
    const auto *const p = reinterpret_cast<const unsigned char *>(a->at);
    for (size_t i = 0; !ASAN && i < a->bytes; i++) {
        if (p[i] != 0xFF) {
            report(a->device, cudaErrorIllegalAddress,
                   text("somebody wrote to byte %zu of an allocation of %zu bytes after it was freed", i,
                        a->bytes));
            memset(reinterpret_cast<void *>(a->at), 0xFF, a->bytes);
            return;
        }
    }
}

void keep_freed(allocation *a)
{
    a->emptied = true;
    memset(reinterpret_cast<void *>(a->at), 0xFF, a->bytes);
    ASAN_POISON_MEMORY_REGION(reinterpret_cast<void *>(a->at), a->bytes);
    kept.push_back(a->at);
    kept_bytes += a->map_bytes;
    while (kept_bytes > KEPT) {
        const auto oldest = allocations.find(kept.front());
        kept.pop_front();
        kept_bytes -= oldest->second.map_bytes;
        check_untouched(&oldest->second);
        give_map_back(oldest->second);
        allocations.erase(oldest);
    }
}

void fill_fresh(const allocation &a)
{
    if (!ASAN) {
        memset(a.map, FILL, RED);
        memset(reinterpret_cast<char *>(a.at) + a.bytes, FILL, a.map_bytes - RED - a.bytes);
    }
    if (config().debug) {
        memset(reinterpret_cast<char *>(a.at), 0xFF, a.bytes);
    }
    ASAN_POISON_MEMORY_REGION(a.map, a.map_bytes);
    ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<char *>(a.at), a.bytes);
}

} // namespace

vector_clock &host_clock()
{
    return clock_of_host;
}

void open_device_memory()
{
    if (device_key() >= 0) {
        pkey_set(device_key(), 0);
    }
}

device_memory_open::device_memory_open() : rights(device_key() >= 0 ? pkey_get(device_key()) : 0)
{
    open_device_memory();
}

device_memory_open::~device_memory_open()
{
    if (device_key() >= 0) {
        pkey_set(device_key(), static_cast<unsigned>(rights));
    }
}

allocation *find_allocation(uintptr_t at)
{
    auto it = allocations.upper_bound(at);
    if (it == allocations.begin()) {
        return nullptr;
    }
    --it;
    return at < it->second.at + std::max<size_t>(it->second.bytes, 1) ? &it->second : nullptr;
}

bool within_bounds(const void *at, size_t bytes)
{
    const auto address = reinterpret_cast<uintptr_t>(at);
    const allocation *const a = find_allocation(address);
    if (is_gone(address)) {
        used_when_gone("memory");
        return false;
    }
    return a == nullptr || (!a->freed && bytes <= a->at + a->bytes - address);
}

residence where_is(const void *at)
{
    const allocation *const a = find_allocation(reinterpret_cast<uintptr_t>(at));
    return a == nullptr ? residence::PAGEABLE : a->device < 0 ? residence::PINNED : residence::DEVICE;
}

bool is_the_hosts(uintptr_t at)
{
    const auto page = static_cast<uintptr_t>(getpagesize());
    auto it = allocations.upper_bound(at);
    if (it != allocations.begin()) {
        const allocation &a = std::prev(it)->second;
        if (at < reinterpret_cast<uintptr_t>(a.map) + a.map_bytes) { /* its end, of nothing that lies there */
            return false;
        }
    }
    unsigned char there;
    return at >= page && !is_shadow(at) &&
           mincore(reinterpret_cast<void *>(at / page * page), 1, &there) == 0;
}

bool in_use(const void *at, size_t bytes)
{
    const use u = {reinterpret_cast<uintptr_t>(at), bytes, true};
    const allocation *const a = find_allocation(u.at);
    return a != nullptr && std::any_of(a->past.begin(), a->past.end(), [&](const past_use &p) {
               return overlap(u, p.u) && !host_clock().knows(p.when);
           });
}

void check_uses(const op &o, int device, const moment &when, const vector_clock &before)
{
    if (!config().debug) {
        return;
    }
    for (const use &u : o.uses) {
        allocation *const a = find_allocation(u.at);
        if (a == nullptr) {
            continue;
        }
        if (a->freed) {
            report(device, cudaErrorIllegalAddress,
                   text("%s on stream %d uses %p, which was freed before", o.what.c_str(), when.stream,
                        reinterpret_cast<void *>(u.at)));
            continue;
        }
        const std::string meets = find_unordered(a->past, u, when, before);
        if (!meets.empty()) {
            report(device, cudaErrorIllegalAddress,
                   text("%s on stream %d %s", o.what.c_str(), when.stream, meets.c_str()));
        }
        remember_use(&a->past, {u, when, o.what}, host_clock());
    }
}

cudaError_t allocate(int device, size_t bytes, void **out)
{
    *out = nullptr;
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (device >= 0 && bytes > config().memory - used[device]) {
        return cudaErrorMemoryAllocation;
    }
    const auto page = static_cast<size_t>(getpagesize());
    const size_t all = (bytes + 2 * RED + page - 1) / page * page;
    void *const map =
        mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return cudaErrorMemoryAllocation;
    }
    const device_memory_open open;
    if (device >= 0 && device_key() >= 0) {
        pkey_mprotect(map, all, PROT_READ | PROT_WRITE, device_key());
    }
    allocation a = {};
    a.map = static_cast<char *>(map);
    a.map_bytes = all;
    a.at = reinterpret_cast<uintptr_t>(a.map + RED);
    a.bytes = bytes;
    a.device = device;
    a.owner = current_device();
    fill_fresh(a);
    if (device >= 0) {
        used[device] += bytes;
    }
    *out = reinterpret_cast<void *>(a.at);
    allocations[a.at] = a;
    return cudaSuccess;
}

void retire(allocation *a)
{
    const device_memory_open open;
    check_red_zones(*a);
    if (config().debug && a->device >= 0) {
        keep_freed(a);
        return;
    }
    give_map_back(*a);
    allocations.erase(a->at);
}

bool is_gone(uintptr_t at)
{
    const auto after = gone.upper_bound(at);
    return after != gone.begin() && at < std::prev(after)->first + std::prev(after)->second;
}

/* Nobody may touch it, nor gets the addresses again. */
static void reserve(const allocation &a)
{
    const device_memory_open open;
    check_red_zones(a);
    ASAN_UNPOISON_MEMORY_REGION(a.map, a.map_bytes);
    mmap(a.map, a.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* What was freed and what was not, as nothing that is queued will empty it any more. */
void end_allocations(int device)
{
    std::vector<uintptr_t> all;
    for (const auto &a : allocations) {
        if (a.second.owner == device && !a.second.emptied) {
            all.push_back(a.first);
        }
    }
    for (const uintptr_t at : all) {
        allocation *const a = find_allocation(at);
        gone[at] = a->bytes;
        if (!a->freed && a->device >= 0) {
            used[device] -= a->bytes;
        }
        reserve(*a);
        allocations.erase(at);
    }
}

void check_freed(int device)
{
    const device_memory_open open;
    for (const uintptr_t at : kept) {
        allocation *const a = find_allocation(at);
        if (a->device == device) {
            check_untouched(a);
        }
    }
}

} // namespace host_cuda

using namespace host_cuda;

namespace
{

/* A living allocation that begins here; the program may not use it any more. */
allocation *take_back(void *at, bool pinned)
{
    allocation *const a = find_allocation(reinterpret_cast<uintptr_t>(at));
    if (a == nullptr || a->freed || a->at != reinterpret_cast<uintptr_t>(at) || (a->device < 0) != pinned) {
        if (is_gone(reinterpret_cast<uintptr_t>(at))) {
            used_when_gone("memory");
        }
        return nullptr;
    }
    a->freed = true;
    if (!pinned) {
        used[a->device] -= a->bytes;
    }
    return a;
}

cudaError_t free_now(locked &l, void *at, bool pinned)
{
    if (at == nullptr) {
        return cudaSuccess;
    }
    const cudaError_t unsafe = unsafe_in_capture();
    if (unsafe != cudaSuccess) {
        return unsafe;
    }
    wait_for_device(l, current_device());
    allocation *const a = take_back(at, pinned);
    if (a == nullptr) {
        return cudaErrorInvalidValue;
    }
    retire(a);
    return cudaSuccess;
}

cudaError_t allocate_now(int device, void **at, size_t bytes)
{
    const cudaError_t unsafe = unsafe_in_capture();
    return at == nullptr           ? cudaErrorInvalidValue
           : unsafe != cudaSuccess ? unsafe
                                   : allocate(device, bytes, at);
}

/* The free's part on the stream's thread: TSan is to see the fill as what the stream does to the memory. */
void free_in_order(uintptr_t at, size_t bytes)
{
    if (config().debug) {
        memset(reinterpret_cast<void *>(at), 0xFF, bytes);
    }
    const quiet q;
    const locked l(mu);
    retire(find_allocation(at));
}

} // namespace

extern "C" {

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    return call([&](locked &) {
        *total = config().memory;
        *free = config().memory - used[current_device()];
        return cudaSuccess;
    });
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    return call([&](locked &) { return allocate_now(current_device(), at, bytes); });
}

cudaError_t cudaFree(void *at)
{
    return call([&](locked &l) { return free_now(l, at, false); });
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned)
{
    return call([&](locked &) { return allocate_now(-1, at, bytes); });
}

cudaError_t cudaMallocHost(void **at, size_t bytes)
{
    return cudaHostAlloc(at, bytes, 0);
}

cudaError_t cudaFreeHost(void *at)
{
    return call([&](locked &l) { return free_now(l, at, true); });
}

cudaError_t cudaMallocAsync(void **at, size_t bytes, cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || at == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        if (s->capturing != nullptr) {
            return spoil_capture(s);
        }
        const cudaError_t e = allocate(s->device, bytes, at);
        if (e != cudaSuccess || bytes == 0) {
            return e;
        }
        auto o = std::make_shared<op>();
        o->what = "cudaMallocAsync";
        o->uses = {{reinterpret_cast<uintptr_t>(*at), bytes, true}};
        return submit(s, o);
    });
}

cudaError_t cudaFreeAsync(void *at, cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || at == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
        }
        if (s->capturing != nullptr) {
            return spoil_capture(s);
        }
        allocation *const a = take_back(at, false);
        if (a == nullptr) {
            return cudaErrorInvalidValue;
        }
        auto o = std::make_shared<op>();
        o->what = "cudaFreeAsync";
        o->uses = {{a->at, a->bytes, true}};
        o->run = [first = a->at, bytes = a->bytes] { free_in_order(first, bytes); };
        a->freed = false; /* to the check of uses this one is the last that may */
        const cudaError_t e = submit(s, o);
        a->freed = true;
        return e;
    });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    if (device < 0 || device >= config().devices) {
        return note(cudaErrorInvalidDevice);
    }
    pools[device].device = device;
    *pool = &pools[device];
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value)
{
    return call([&](locked &) {
        if (attr != cudaMemPoolAttrReleaseThreshold) {
            return cudaErrorInvalidValue;
        }
        pool->threshold = *static_cast<unsigned long long *>(value);
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value)
{
    return call([&](locked &) {
        *static_cast<unsigned long long *>(value) =
            attr == cudaMemPoolAttrReleaseThreshold ? pool->threshold : used[pool->device];
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t)
{
    return call([&](locked &) { return cudaSuccess; }); /* nothing is held back */
}
}
