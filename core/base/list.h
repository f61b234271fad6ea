/* core/base/list.h - a doubly linked list through its members: a struct that can be on one embeds a
 * struct td_link, and whoever walks the list finds the struct around a link with td_link_owner.
 *
 *   struct thing { int x; struct td_link link; };
 *   struct td_link *first = NULL;
 *   td_link_in(&first, &t->link);
 *   for (struct td_link *l = first; l != NULL; l = l->next) use(td_link_owner(l, struct thing, link));
 *
 * A zeroed link is on no list. Neither allocates nor fails. Threads: the list's lock is the caller's; a link
 * is written also when its neighbours come and go.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_LIST_H
#define TD_CORE_BASE_LIST_H

#include <stddef.h>

struct td_link {
    struct td_link *next;
    struct td_link **at; /* what points at this one: the list's first or a next; NULL: on no list */
};

#define td_link_owner(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Becomes the first. */
static inline void td_link_in(struct td_link **first, struct td_link *l)
{
    l->next = *first;
    l->at = first;
    if (l->next != NULL) {
        l->next->at = &l->next;
    }
    *first = l;
}

/* Does nothing to one that is on no list. */
static inline void td_link_out(struct td_link *l)
{
    if (l->at != NULL) {
        *l->at = l->next;
        if (l->next != NULL) {
            l->next->at = l->at;
        }
        *l = (struct td_link){0};
    }
}

#endif
