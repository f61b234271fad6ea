/* core/base/tsan.h - tells ThreadSanitizer of an order that it cannot see.
 *
 * For memory that passes between two of our threads through a library that is not built with it (gRPC): the
 * giver calls td_tsan_release after its last access, the taker td_tsan_acquire before its first. Elsewhere
 * both are nothing: the library's own locks make the order, these calls only name it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_TSAN_H
#define TD_CORE_BASE_TSAN_H

#ifdef __has_feature
#define TD_TSAN_CHECKED __has_feature(thread_sanitizer)
#elif defined __SANITIZE_THREAD__
#define TD_TSAN_CHECKED 1
#else
#define TD_TSAN_CHECKED 0
#endif

#if TD_TSAN_CHECKED
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#endif

static inline void td_tsan_release(void *at)
{
#if TD_TSAN_CHECKED
    __tsan_release(at);
#else
    (void)at;
#endif
}

static inline void td_tsan_acquire(void *at)
{
#if TD_TSAN_CHECKED
    __tsan_acquire(at);
#else
    (void)at;
#endif
}

#endif
