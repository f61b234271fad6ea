/* server/base/name_list.h - names, one behind the other, for a sentence.
 *
 *   struct td_name_list l = {.n = 0};
 *   td_name_list_add(&l, "'%.110s'", node->name);
 *   .. "near its outputs are %s", l.s
 *
 * Plain data; a name that has no room any more is left out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_NAME_LIST_H
#define TD_SERVER_BASE_NAME_LIST_H

#include <stddef.h>

#include "core/base/status.h"

struct td_name_list {
    char s[700]; /* "" while there are none */
    size_t n;    /* its length */
};

/* One more, behind ", ". */
void td_name_list_add(struct td_name_list *l, const char *fmt, ...) TD_PRINTF(2, 3);

#endif
