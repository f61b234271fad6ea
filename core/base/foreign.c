/* core/base/foreign.c - a header in front of each block: whose it is, and how large.
 *
 *   [ account | bytes ] [ the library's block .. ]     16 bytes, so that the block is aligned as malloc's are
 *
 * Does not: know any library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/foreign.h"

#include <stdalign.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/base/work.h"

struct head {
    alignas(16) struct td_account *account;
    size_t bytes;
};
_Static_assert(sizeof(struct head) % 16 == 0, "what follows is aligned for any type");

static struct head *head_of(const void *p)
{
    return (struct head *)(uintptr_t)p - 1;
}

static void *alloc_for(struct td_account *account, size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(struct head) || td_account_take(account, bytes, "a library", NULL)) {
        return NULL;
    }
    struct head *h = td_realloc(NULL, sizeof *h + bytes, 1);
    if (h == NULL) {
        td_account_give(account, bytes);
        return NULL;
    }
    *h = (struct head){.account = account, .bytes = bytes};
    td_budget_note(TD_MEMORY_LIBRARIES, (int64_t)bytes);
    return h + 1;
}

void *td_foreign_alloc(size_t bytes)
{
    return alloc_for(td_work_account(), bytes);
}

void *td_foreign_keep(size_t bytes)
{
    return alloc_for(NULL, bytes);
}

void *td_foreign_realloc(void *p, size_t bytes)
{
    if (p == NULL) {
        return td_foreign_keep(bytes);
    }
    struct head *h = head_of(p);
    struct td_account *account = h->account;
    const size_t before = h->bytes, more = bytes > before ? bytes - before : 0;
    if (bytes > SIZE_MAX - sizeof *h || td_account_take(account, more, "a library", NULL)) {
        return NULL;
    }
    h = td_realloc(h, sizeof *h + bytes, 1);
    if (h == NULL) {
        td_account_give(account, more);
        return NULL;
    }
    h->bytes = bytes;
    td_budget_note(TD_MEMORY_LIBRARIES, (int64_t)bytes - (int64_t)before);
    td_account_give(account, before + more - bytes);
    return h + 1;
}

void td_foreign_free(void *p)
{
    if (p != NULL) {
        struct head *h = head_of(p);
        td_account_give(h->account, h->bytes);
        td_budget_note(TD_MEMORY_LIBRARIES, -(int64_t)h->bytes);
        td_free(h);
    }
}

size_t td_foreign_bytes(const void *p)
{
    return p == NULL ? 0 : head_of(p)->bytes;
}

void *td_foreign_zalloc(void *unused, unsigned n, unsigned size)
{
    (void)unused;
    return td_foreign_alloc((size_t)n * size);
}

void td_foreign_zfree(void *unused, void *p)
{
    (void)unused;
    td_foreign_free(p);
}

enum td_code td_foreign_take(struct td_foreign *f, size_t bytes, const char *what, struct td_err *err)
{
    struct td_account *account = f->bytes > 0 ? f->account : td_work_account();
    TD_TRY(td_account_take(account, bytes, what, err));
    if (!td_budget_take(bytes)) {
        td_account_give(account, bytes);
        return td_no_memory(err, bytes, what);
    }
    *f = (struct td_foreign){.account = account, .bytes = f->bytes + bytes};
    td_budget_note(TD_MEMORY_LIBRARIES, (int64_t)bytes);
    return TD_OK;
}

void td_foreign_give(struct td_foreign *f)
{
    if (f->bytes > 0) {
        td_account_give(f->account, f->bytes);
        td_budget_give(f->bytes);
        td_budget_note(TD_MEMORY_LIBRARIES, -(int64_t)f->bytes);
    }
    *f = (struct td_foreign){0};
}
