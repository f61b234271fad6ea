/* core/base/arena.h - a bump allocator: many small blocks with one lifetime (a graph, a request), freed
 * together.
 *
 * Not safe for concurrent use. An arena has a byte limit, so that hostile input cannot grow it for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_ARENA_H
#define TD_CORE_BASE_ARENA_H

#include <stddef.h>

#include "core/base/mem.h"

struct td_arena_block;
struct td_arena_cleanup;

/* Plain to see for td_arena_alloc only. */
struct td_arena {
    unsigned char *at;             /* the next byte of the block being filled */
    size_t room;                   /* bytes from there to the block's end, or to the limit */
    size_t left;                   /* of the limit, when that block was begun */
    size_t begun;                  /* room, at that time */
    struct td_arena_block *blocks; /* the one being filled first */
    struct td_arena_cleanup *cleanups;
    struct td_account *account; /* its blocks are charged to it; NULL: none */
};

/* NULL without memory. limit_bytes bounds the sum of all that is allocated from it. Its blocks are charged to
 * the account of the work at hand (core/base/work.h), now and later. */
struct td_arena *td_arena_new(size_t limit_bytes);
/* Runs the deferred cleanups, last first, and frees all blocks. Accepts NULL. */
void td_arena_free(struct td_arena *a);
/* td_arena_alloc of bytes, a multiple of 16, that the block being filled has no room for. */
void *td_arena_more(struct td_arena *a, size_t bytes);
/* Zeroed, aligned for any type. NULL without memory or past the limit, the arena's or the account's. */
static inline void *td_arena_alloc(struct td_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!td_size_mul(n, size, &bytes) || bytes > SIZE_MAX - 15) {
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > a->room) {
        return td_arena_more(a, bytes);
    }
    void *p = a->at;
    a->at += bytes;
    a->room -= bytes;
    return p;
}
/* Memory that its blocks take. */
size_t td_arena_bytes(const struct td_arena *a);
char *td_arena_strndup(struct td_arena *a, const char *s, size_t n);
char *td_arena_strdup(struct td_arena *a, const char *s);
/* Calls fn(data) when the arena is freed. Returns 0, or -1 without memory (fn is then not called). */
int td_arena_defer(struct td_arena *a, void (*fn)(void *), void *data);

#endif
