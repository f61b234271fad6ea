/* server/http/duration_hint.c - a table of slots, each one kind's, read and written with relaxed atomics.
 *
 * A kind's hash picks its slot; another kind that falls on the same slot takes it over. Of each two times
 * behind each other the shorter one counts: where clients and server share the processors, a thread that
 * loses its own in the middle of a brief request finds that this took milliseconds, once in a hundred
 * requests. If that was believed, the next twenty would pay for being handed over, which is what makes
 * threads lose their processors. What counts and is longer is believed at once, what is shorter moves the
 * remembered time an eighth of the way: so a kind must be short for a while before it counts as such again.
 * Kind and times of a slot are stores of their own, so another thread may see the time of one kind with the
 * name of another; that is one wrong guess.
 *
 * Does not: measure (server/http/http_exchange.c does), look at what a request asks for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/duration_hint.h"

#include "core/base/timings.h"

uint64_t td_duration_hint_kind(const char *method, const char *target, size_t body_bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)method[0]; /* FNV-1a */
    for (const char *c = target; *c != '\0'; c++) {
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    h ^= (uint64_t)(64 - __builtin_clzll(body_bytes | 1)) << 56;
    return (h * UINT64_C(0x9e3779b97f4a7c15)) | 1; /* 0 is an empty slot */
}

bool td_duration_hint_is_short(const struct td_duration_hints *p, uint64_t kind, int64_t limit_ns)
{
    const size_t at = (kind >> 20) % TD_DURATION_HINT_SLOTS;
    return atomic_load_explicit(&p->slots[at].kind, memory_order_relaxed) == kind &&
           atomic_load_explicit(&p->slots[at].ns, memory_order_relaxed) < limit_ns;
}

void td_duration_hint_remember(struct td_duration_hints *p, uint64_t kind, int64_t ns)
{
    const size_t at = (kind >> 20) % TD_DURATION_HINT_SLOTS;
    const uint32_t last = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
    const bool same = atomic_load_explicit(&p->slots[at].kind, memory_order_relaxed) == kind;
    const uint32_t before = same ? atomic_load_explicit(&p->slots[at].last_ns, memory_order_relaxed) : last;
    const uint32_t took = last < before ? last : before;
    const uint32_t old = same ? atomic_load_explicit(&p->slots[at].ns, memory_order_relaxed) : took;
    atomic_store_explicit(&p->slots[at].last_ns, last, memory_order_relaxed);
    atomic_store_explicit(&p->slots[at].ns, td_timing_peak(old, took), memory_order_relaxed);
    if (!same) {
        atomic_store_explicit(&p->slots[at].kind, kind, memory_order_relaxed);
    }
}
