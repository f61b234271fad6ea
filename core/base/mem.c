/* core/base/mem.c - the C library's allocator behind a counter and a hook, and arithmetic that tells
 * overflow.
 *
 * Every request is counted, then refused if the hook says so: td_mem_fail_at(n) lets n - 1 more succeed and
 * fails all after that, so that tests can walk through every failure of a path. Sizes are multiplied with
 * overflow checked before anything is asked for, and a request of nothing gets a block all the same, so NULL
 * always means failure. Counter and hook are atomics; in normal operation the hook is one relaxed load.
 *
 * Each block is charged to the process's budget (core/base/budget.h) before it is asked for, a small one as
 * soon as it is there, and given back by the size that the allocator says it has.
 *
 * td_check_room is outside of count and hook: checks that run only in Debug builds must not shift the count.
 * Does not: pool, or charge a request's account (arenas and buffers do).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/budget.h"
#include "core/base/check.h"

static atomic_long fail_at;          /* 0: off; n: the n-th call from now fails; negative: all fail */
static atomic_uint_fast64_t n_calls; /* requests to the C library */

enum { MAPPED = 33 << 20 }; /* a block of so much is the C library's largest or a mapping of its own */

static bool refused(void)
{
    if (atomic_load_explicit(&fail_at, memory_order_relaxed) == 0) {
        return false;
    }
    long left = atomic_fetch_sub(&fail_at, 1);
    if (left == 1) {
        atomic_store(&fail_at, -1);
    }
    return left <= 1;
}

/* Without a bus lock: threads that ask at the same time may be counted once. */
static void count(void)
{
    const uint64_t n = atomic_load_explicit(&n_calls, memory_order_relaxed);
    atomic_store_explicit(&n_calls, n + 1, memory_order_relaxed);
}

/* What p takes beyond the bytes that were charged for it; without p those come back. */
static void *charged(void *p, size_t bytes)
{
    if (p == NULL) {
        td_budget_give(bytes);
        return NULL;
    }
    td_budget_add(malloc_usable_size(p) - bytes);
    return p;
}

/* Blocks up to this size glibc keeps by thread, for malloc alone: calloc, and then the free of its block,
 * take a lock. They are charged as soon as they are there. */
enum { SMALL = 1032 };

static void *small_block(size_t bytes)
{
    void *p = malloc(bytes);
    if (p == NULL) {
        td_budget_short();
        p = malloc(bytes);
    }
    if (p == NULL || !td_budget_take(malloc_usable_size(p))) {
        free(p);
        return NULL;
    }
    return p;
}

void *td_calloc(size_t n, size_t size)
{
    size_t bytes;
    count();
    if (refused() || !td_size_mul(n ? n : 1, size ? size : 1, &bytes)) {
        return NULL;
    }
    if (bytes <= SMALL) {
        void *small = small_block(bytes);
        return small == NULL ? NULL : memset(small, 0, bytes);
    }
    if (!td_budget_take(bytes)) {
        return NULL;
    }
    void *p = calloc(bytes, 1);
    if (p == NULL) {
        td_budget_short();
        p = calloc(bytes, 1);
    }
    return charged(p, bytes);
}

void *td_calloc_pages(size_t bytes)
{
    count();
    void *p = refused() || !td_budget_take(bytes) ? NULL : charged(aligned_alloc(TD_HUGE_PAGE, bytes), bytes);
    if (p != NULL) {
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* advice: without it the pages are small */
        memset(p, 0, bytes);
    }
    return p;
}

/* Gives back what lies behind a block that was cut to begin on a huge page, up to one of those: it would
 * count as used. A block that shrinks stays where it is. */
static void *cut_behind(void *p, size_t bytes)
{
    void *same = realloc(p, bytes);
    return same != NULL ? same : p;
}

void *td_alloc_aligned(size_t align, size_t bytes)
{
    count();
    if (refused() || !td_budget_take(bytes)) {
        return NULL;
    }
    void *p = aligned_alloc(align, bytes);
    if (p == NULL) {
        td_budget_short();
        p = aligned_alloc(align, bytes);
    }
    if (p != NULL && align >= TD_HUGE_PAGE) {
        p = cut_behind(p, bytes);
    }
    return charged(p, bytes);
}

void *td_realloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!td_size_mul(n, size, &bytes)) {
        return NULL;
    }
    count();
    bytes = bytes ? bytes : 1;
    if (p == NULL && bytes <= SMALL) {
        return refused() ? NULL : small_block(bytes);
    }
    const size_t before = p == NULL ? 0 : malloc_usable_size(p);
    const bool moves =
        before < MAPPED; /* old and new are there at once, for a while; else pages are remapped */
    const size_t more = moves ? bytes : bytes > before ? bytes - before : 0;
    if (refused() || !td_budget_take(more)) {
        return NULL;
    }
    void *grown = realloc(p, bytes);
    if (grown == NULL) {
        td_budget_short();
        grown = realloc(p, bytes);
    }
    if (grown == NULL) {
        td_budget_give(more);
        return NULL;
    }
    const size_t now = malloc_usable_size(grown);
    if (now >= before + more) {
        td_budget_add(now - before - more);
    } else {
        td_budget_give(before + more - now);
    }
    return grown;
}

void *td_check_room(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    td_budget_add(p == NULL ? 0 : malloc_usable_size(p));
    return p;
}

void td_free(void *p)
{
    if (p != NULL) {
        td_budget_give(malloc_usable_size(p));
        free(p);
    }
}

char *td_strndup(const char *s, size_t n)
{
    char *copy = td_calloc(n + 1, 1);
    if (copy != NULL && n > 0) {
        memcpy(copy, s, n);
    }
    return copy;
}

char *td_strdup(const char *s)
{
    return td_strndup(s, strlen(s));
}

bool td_i64_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

bool td_i64_add(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

enum td_code td_no_memory(struct td_err *err, size_t bytes, const char *what)
{
    return td_budget_error(err, bytes, what);
}

void td_mem_fail_at(long n)
{
    atomic_store(&fail_at, n);
}

uint64_t td_mem_allocations(void)
{
    return atomic_load(&n_calls);
}
