/* core/base/budget.h - one budget for all that the process holds, and accounts for what one request holds of
 * it.
 *
 *   core/base/mem.c      every block that is asked of the C library is charged before, and given back after
 *   core/base/buffer.c   a tensor's bytes are charged to the account of the work at hand as well
 *   core/base/arena.c    and so are an arena's blocks
 *   others               what lies in a library's memory (bodies, answers) is charged by td_account_take
 *
 * Past the budget the caches are asked to shrink, once; then the allocation fails, and with it the work that
 * it was for: RESOURCE_EXHAUSTED, naming the limit as the one who set it calls it. Nothing else is affected.
 *
 * An account lives as long as something is charged to it: a tensor may outlive the request that made it.
 *
 * Threads: any. A thread hands what it takes and gives to the common sum in steps of TD_BUDGET_STEP bytes, so
 * that small blocks cost no shared word; the sum is that exact, for each thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_BUDGET_H
#define TD_CORE_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum { TD_BUDGET_STEP = 64 << 10 };

/* ------------------------------------------------------------------ the process */

/* bytes 0: no limit. name: what errors call it, such as "--max_memory"; a constant. */
void td_budget_limit(uint64_t bytes, const char *name);
/* fn(ctx, bytes) is called by a thread that needs so many bytes more than is left (0: the system has none),
 * with none of our locks below those that it came with; it frees what can be made again, by try-locks alone.
 * One at a time. */
void td_budget_on_shortage(void (*fn)(void *ctx, size_t bytes), void *ctx);
/* Whether bytes more would be within the limit. */
bool td_budget_fits(size_t bytes);
/* Bytes held now. */
uint64_t td_budget_held(void);
uint64_t td_budget_allowed(void); /* 0: no limit */

/* Charges bytes, about to be allocated. False: they may not be; nothing is charged. */
TD_MUST bool td_budget_take(size_t bytes);
/* Charges bytes that are there already: what an allocator gave beyond what it was asked for. */
void td_budget_add(size_t bytes);
void td_budget_give(size_t bytes);
/* Times that td_budget_take said no. */
uint64_t td_budget_refusals(void);
/* RESOURCE_EXHAUSTED for bytes that were not to be had: past the limit, or the system has no more. */
enum td_code td_budget_error(struct td_err *err, size_t bytes, const char *what);
/* What the bytes are for, for those who watch: noted by who charges them, in steps as above. Tensors are
 * counted by core/base/buffer.h. */
enum td_memory_kind {
    TD_MEMORY_ANSWERS, /* and other texts that are being written */
    TD_MEMORY_BODIES,  /* of requests, as they came and unpacked */
    TD_MEMORY_ARENAS,
    TD_MEMORY_STRINGS,   /* elements of string tensors */
    TD_MEMORY_LIBRARIES, /* core/base/foreign.h */
    TD_MEMORY_PACKED,    /* weights in an order that kernels like; they are tensors too */
    TD_MEMORY_KINDS
};
void td_budget_note(enum td_memory_kind kind, int64_t more); /* fewer: below 0 */
uint64_t td_budget_noted(enum td_memory_kind kind);
/* The system has no more, whatever the budget says: the caches are asked to shrink, and the caller may try
 * once more. */
void td_budget_short(void);
/* Counts up whenever memory was short: a thread that keeps a cache compares, and empties it. */
unsigned td_budget_shortages(void);

/* ------------------------------------------------------------------ one request */

struct td_account;

/* The limit of accounts that are opened from now on; 0: none. name as above. */
void td_account_limit(uint64_t bytes, const char *name);
/* Returns new, or NULL without memory. (Where one is taken, NULL is an account without limit.) */
struct td_account *td_account_open(void);
/* The same without a limit: of what is no request's, but shall be known, such as a loaded model's. */
struct td_account *td_account_open_free(void);
/* Its opener will charge nothing more; it goes with the last byte. Accepts NULL. */
void td_account_close(struct td_account *a);
/* Charges bytes to the account alone, not to the process: td_budget_take is another matter. Accepts NULL.
 * RESOURCE_EXHAUSTED: they would pass its limit, and are not charged. what: they are for, "a tensor". */
TD_MUST enum td_code td_account_take(struct td_account *a, size_t bytes, const char *what,
                                     struct td_err *err);
/* Accepts NULL, and of no bytes one that is gone. */
void td_account_give(struct td_account *a, size_t bytes);
uint64_t td_account_held(const struct td_account *a); /* NULL: 0 */

#endif
