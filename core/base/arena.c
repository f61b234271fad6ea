/* core/base/arena.c - chained blocks of growing size, filled from the front; cleanups in a list inside the
 * arena.
 *
 *   arena -> block being filled [used | room] -> full block -> ... -> first block (4 KiB)
 *
 * td_arena_alloc takes from the newest block inline; only when that has no room is td_arena_more called here.
 * A block is twice the one before, up to a megabyte, or as large as the request; behind that a large arena
 * grows by huge pages. What is left in a block that was left behind is lost, but not counted: the limit
 * bounds what was handed out. Blocks are zeroed when they are made, so nothing is zeroed twice.
 *
 * Freeing runs the cleanups, last first, then frees the blocks; a cleanup may still read everything. One
 * thread at a time.
 * Does not: give single blocks back, shrink, or move anything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"

struct td_arena_block {
    struct td_arena_block *next;
    size_t size;
    alignas(16) unsigned char bytes[];
};

struct td_arena_cleanup {
    struct td_arena_cleanup *next;
    void (*fn)(void *);
    void *data;
};

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct td_arena *td_arena_new(size_t limit_bytes)
{
    struct td_arena *a = td_calloc(1, sizeof *a);
    if (a != NULL) {
        a->at = (unsigned char *)(a + 1); /* for blocks of no bytes */
        a->account = td_work_account();
        a->left = limit_bytes > SIZE_MAX - 15 ? SIZE_MAX - 15 : (limit_bytes + 15) & ~(size_t)15;
    }
    return a;
}

void td_arena_free(struct td_arena *a)
{
    if (a == NULL) {
        return;
    }
    for (struct td_arena_cleanup *c = a->cleanups; c != NULL; c = c->next) {
        c->fn(c->data);
    }
    for (struct td_arena_block *b = a->blocks; b != NULL;) {
        struct td_arena_block *next = b->next;
        td_account_give(a->account, b->size);
        td_budget_note(TD_MEMORY_ARENAS, -(int64_t)b->size);
        td_free(b);
        b = next;
    }
    td_free(a);
}

static struct td_arena_block *block_new(struct td_account *account, size_t before, size_t need)
{
    struct td_arena_block *b = NULL;
    size_t size = before == 0 ? FIRST_BLOCK : before * 2;
    const bool pages = size > LARGEST_BLOCK && need <= TD_HUGE_PAGE - sizeof *b;
    size = pages ? TD_HUGE_PAGE - sizeof *b : size > LARGEST_BLOCK ? LARGEST_BLOCK : size;
    size = size < need ? need : size;
    if (td_account_take(account, size, "an arena", NULL)) {
        return NULL;
    }
    b = pages ? td_calloc_pages(TD_HUGE_PAGE) : td_calloc(1, sizeof *b + size);
    if (b == NULL) {
        td_account_give(account, size);
        return NULL;
    }
    b->size = size;
    td_budget_note(TD_MEMORY_ARENAS, (int64_t)size);
    return b;
}

void *td_arena_more(struct td_arena *a, size_t bytes)
{
    const size_t left = a->left - (a->begun - a->room); /* without what the last block has given */
    if (bytes > left) {
        return NULL;
    }
    struct td_arena_block *b = block_new(a->account, a->blocks == NULL ? 0 : a->blocks->size, bytes);
    if (b == NULL) {
        return NULL;
    }
    b->next = a->blocks;
    a->blocks = b;
    a->at = b->bytes + bytes;
    a->left = left;
    a->begun = b->size < left ? b->size : left;
    a->room = a->begun - bytes;
    return b->bytes;
}

size_t td_arena_bytes(const struct td_arena *a)
{
    size_t sum = sizeof *a;
    for (const struct td_arena_block *b = a->blocks; b != NULL; b = b->next) {
        sum += sizeof *b + b->size;
    }
    return sum;
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
    struct td_arena_cleanup *c = td_arena_alloc(a, 1, sizeof *c);
    if (c == NULL) {
        return -1;
    }
    *c = (struct td_arena_cleanup){a->cleanups, fn, data};
    a->cleanups = c;
    return 0;
}
