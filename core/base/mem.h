/* core/base/mem.h - checked allocation. The only place (with arena.c and buffer.c) that calls malloc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_MEM_H
#define TD_CORE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* Zeroed bytes, or NULL when memory is short (or the test hook says so). td_free accepts NULL. */
void *td_calloc(size_t n, size_t size);
enum { TD_HUGE_PAGE = 2 << 20 };
/* As td_calloc, for bytes that will all be used: in pages of TD_HUGE_PAGE where the system has them, each one
 * page fault and not 512. bytes is a multiple of TD_HUGE_PAGE, and so is the address. */
void *td_calloc_pages(size_t bytes);
/* Bytes not zeroed, at a multiple of align (a power of two, as bytes is a multiple of it). */
void *td_alloc_aligned(size_t align, size_t bytes);
/* As realloc; new bytes are not zeroed. On NULL the old block is still the caller's. */
void *td_realloc(void *p, size_t n, size_t size);
void td_free(void *p);
char *td_strdup(const char *s);
char *td_strndup(const char *s, size_t n);

/* false when the product or sum does not fit; *out is then untouched. */
static inline bool td_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}
bool td_i64_mul(int64_t a, int64_t b, int64_t *out);
bool td_i64_add(int64_t a, int64_t b, int64_t *out);

/* RESOURCE_EXHAUSTED with a standard text, for the caller of an allocation that returned NULL. */
enum td_code td_no_memory(struct td_err *err, size_t bytes, const char *what);

/* Test hook: the n-th allocation from now (1 = next) and all later ones return NULL; 0 switches the hook off.
 */
void td_mem_fail_at(long n);
/* Number of times the C library's allocator was asked for a block by td_calloc, td_realloc and
 * core/base/buffer.c.
 */
uint64_t td_mem_allocations(void);

#endif
