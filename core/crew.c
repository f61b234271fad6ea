/* core/crew.c - see crew.h: the heap of pieces, and its helpers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/crew.h"

#include <stdatomic.h>
#include <stddef.h>

#include "core/float_mode.h"

struct heap {
    struct td_crew *crew;
    int n;
    atomic_int next; /* the piece to be taken */
    void (*fn)(void *arg, int i, int who);
    void *arg;
};

struct helper {
    struct td_crew_task task; /* first */
    struct heap *heap;
    int who;
};

static void work(struct heap *h, int who)
{
    for (int i; (i = atomic_fetch_add(&h->next, 1)) < h->n;) {
        h->fn(h->arg, i, who);
        if (who > 0 && h->crew->wanted(h->crew)) {
            return;
        }
    }
}

static void help(struct td_crew_task *t)
{
    const struct helper *me = (const struct helper *)t;
    const unsigned long mode = td_float_mode_enter();
    work(me->heap, me->who);
    td_float_mode_leave(mode);
}

void td_crew_each(struct td_crew *c, int n, void (*fn)(void *arg, int i, int who), void *arg)
{
    struct helper helpers[TD_CREW_MOST];
    struct heap h = {.crew = c, .n = n, .fn = fn, .arg = arg};
    int lent = 0;
    for (; c != NULL && lent < n - 1 && lent < TD_CREW_MOST; lent++) {
        helpers[lent] = (struct helper){.task = {.run = help}, .heap = &h, .who = lent + 1};
        if (!c->lend(c, &helpers[lent].task)) {
            break;
        }
    }
    work(&h, 0);
    while (lent > 0) {
        c->settle(c, &helpers[--lent].task);
    }
}
