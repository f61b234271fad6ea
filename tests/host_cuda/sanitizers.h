/* tests/host_cuda/sanitizers.h - what the runtime tells AddressSanitizer and ThreadSanitizer; nothing without
 * them.
 *
 * ThreadSanitizer is to see the order that CUDA promises and no other. The runtime's own locks would order
 * far more (every call takes the same one), so its code runs `quiet`: neither its locks nor its accesses
 * count. What CUDA orders is said by hand, with release and acquire, outside of quiet stretches. The library
 * itself is compiled without TSan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_SANITIZERS_H
#define TD_TESTS_HOST_CUDA_SANITIZERS_H

#include <cstddef>
#include <cstdint>

#ifdef HOST_CUDA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#ifdef HOST_CUDA_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#endif

namespace host_cuda
{

#ifdef HOST_CUDA_TSAN
constexpr bool TSAN = true;
inline void hush()
{
    AnnotateIgnoreSyncBegin("", 0);
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
}
inline void speak()
{
    AnnotateIgnoreWritesEnd("", 0);
    AnnotateIgnoreReadsEnd("", 0);
    AnnotateIgnoreSyncEnd("", 0);
}
inline void tell_release(void *at)
{
    __tsan_release(at);
}
inline void tell_acquire(void *at)
{
    __tsan_acquire(at);
}
#else
constexpr bool TSAN = false;
inline void hush() {}
inline void speak() {}
inline void tell_release(void *) {}
inline void tell_acquire(void *) {}
#endif

/* Whether ASan keeps what it knows of all other memory there: from 2 GiB on, where two small numbers in one
 * word point to. */
#ifdef HOST_CUDA_ASAN
constexpr bool ASAN = true;
inline bool is_shadow(uintptr_t at)
{
    constexpr uintptr_t ADDRESSES = uintptr_t{1} << 47;
    size_t scale, first;
    __asan_get_shadow_mapping(&scale, &first);
    return at >= first && at - first < ADDRESSES >> scale;
}
#else
constexpr bool ASAN = false;
inline bool is_shadow(uintptr_t)
{
    return false;
}
#endif

struct quiet {
    quiet() { hush(); }
    ~quiet() { speak(); }
    quiet(const quiet &) = delete;
};

/* Inside of a quiet stretch: what the caller's program does there counts again. */
struct loud {
    loud() { speak(); }
    ~loud() { hush(); }
    loud(const loud &) = delete;
};

} // namespace host_cuda

#endif
