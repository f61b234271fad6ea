/* core/arena.c - chained blocks of growing size, filled from the front; cleanups in a list inside the arena. A large
 * arena grows by huge pages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "core/mem.h"

struct block {
    struct block *next;
    size_t size, used;
    alignas(16) unsigned char bytes[];
};

struct cleanup {
    struct cleanup *next;
    void (*fn)(void *);
    void *data;
};

struct td_arena {
    struct block *blocks; /* the one being filled first */
    struct cleanup *cleanups;
    size_t total, limit;
};

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct td_arena *td_arena_new(size_t limit_bytes)
{
    struct td_arena *a = td_calloc(1, sizeof *a);
    if (a != NULL) {
        a->limit = limit_bytes;
    }
    return a;
}

void td_arena_free(struct td_arena *a)
{
    if (a == NULL) {
        return;
    }
    for (struct cleanup *c = a->cleanups; c != NULL; c = c->next) {
        c->fn(c->data);
    }
    for (struct block *b = a->blocks; b != NULL;) {
        struct block *next = b->next;
        td_free(b);
        b = next;
    }
    td_free(a);
}

static struct block *add_block(struct td_arena *a, size_t need)
{
    struct block *b = NULL;
    size_t size = a->blocks == NULL ? FIRST_BLOCK : a->blocks->size * 2;
    if (size > LARGEST_BLOCK && need <= TD_HUGE_PAGE - sizeof *b) {
        size = TD_HUGE_PAGE - sizeof *b;
        b = td_calloc_pages(TD_HUGE_PAGE);
    } else {
        size = size > LARGEST_BLOCK ? LARGEST_BLOCK : size;
        size = size < need ? need : size;
        b = td_calloc(1, sizeof *b + size);
    }
    if (b != NULL) {
        b->size = size;
        b->next = a->blocks;
        a->blocks = b;
    }
    return b;
}

void *td_arena_alloc(struct td_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!td_size_mul(n, size, &bytes) || bytes > a->limit || a->total > a->limit - bytes) {
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    struct block *b = a->blocks;
    if (b == NULL || b->size - b->used < bytes) {
        b = add_block(a, bytes);
        if (b == NULL) {
            return NULL;
        }
    }
    void *p = b->bytes + b->used;
    b->used += bytes;
    a->total += bytes;
    return p;
}

char *td_arena_strndup(struct td_arena *a, const char *s, size_t n)
{
    char *copy = td_arena_alloc(a, n + 1, 1);
    if (copy != NULL && n > 0) {
        memcpy(copy, s, n);
    }
    return copy;
}

char *td_arena_strdup(struct td_arena *a, const char *s)
{
    return td_arena_strndup(a, s, strlen(s));
}

int td_arena_defer(struct td_arena *a, void (*fn)(void *), void *data)
{
    struct cleanup *c = td_arena_alloc(a, 1, sizeof *c);
    if (c == NULL) {
        return -1;
    }
    *c = (struct cleanup){a->cleanups, fn, data};
    a->cleanups = c;
    return 0;
}
