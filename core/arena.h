/* core/arena.h - a bump allocator: many small blocks with one lifetime (a graph, a request), freed together.
 *
 * Not safe for concurrent use. An arena has a byte limit, so that hostile input cannot grow it for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_ARENA_H
#define TD_CORE_ARENA_H

#include <stddef.h>

struct td_arena;

/* NULL without memory. limit_bytes bounds the sum of all blocks. */
struct td_arena *td_arena_new(size_t limit_bytes);
/* Runs the deferred cleanups, last first, and frees all blocks. Accepts NULL. */
void td_arena_free(struct td_arena *a);
/* Zeroed, aligned for any type. NULL without memory or past the limit. */
void *td_arena_alloc(struct td_arena *a, size_t n, size_t size);
char *td_arena_strndup(struct td_arena *a, const char *s, size_t n);
char *td_arena_strdup(struct td_arena *a, const char *s);
/* Calls fn(data) when the arena is freed. Returns 0, or -1 without memory (fn is then not called). */
int td_arena_defer(struct td_arena *a, void (*fn)(void *), void *data);

#endif
