/* core/base/foreign.h - memory that other people's libraries take, as part of the budget
 * (core/base/budget.h).
 *
 *   td_foreign_alloc ..   the allocator, of the library that lets us bring one: jansson, libpng, zlib
 *   td_foreign_keep       the same for what outlives the request that came first: ICU, SQLite
 *   td_foreign_take       of the library that does not: whoever calls it says beforehand what it will take
 *
 * Blocks are charged to the process and, but for those kept, to the account of the work at hand. One that may
 * not be had is NULL, which these libraries report as what it is; who calls them makes RESOURCE_EXHAUSTED of
 * it.
 *
 * Threads: any; a block may be freed by another than the one that asked for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_FOREIGN_H
#define TD_CORE_BASE_FOREIGN_H

#include <stddef.h>

#include "core/base/budget.h"
#include "core/base/status.h"

/* Bytes not zeroed, aligned for any type; a block also of no bytes. NULL without memory. */
void *td_foreign_alloc(size_t bytes);
/* To nobody's account. */
void *td_foreign_keep(size_t bytes);
/* As realloc, on the account that p has; p NULL: nobody's. On NULL the old block is still there. */
void *td_foreign_realloc(void *p, size_t bytes);
void td_foreign_free(void *p);          /* accepts NULL */
size_t td_foreign_bytes(const void *p); /* that were asked for; NULL: 0 */

/* As zlib's zalloc and zfree have it. */
void *td_foreign_zalloc(void *unused, unsigned n, unsigned size);
void td_foreign_zfree(void *unused, void *p);

/* Bytes of a library's own allocation; {0}: none. */
struct td_foreign {
    struct td_account *account;
    size_t bytes;
};
/* Charges bytes more to *f, process and account of the work at hand. RESOURCE_EXHAUSTED: they are not to be
 * had, and not charged. what: they are for, "a picture". */
TD_MUST enum td_code td_foreign_take(struct td_foreign *f, size_t bytes, const char *what,
                                     struct td_err *err);
/* Gives back all of *f, which is then {0}. */
void td_foreign_give(struct td_foreign *f);

#endif
