/* core/base/budget.c - the common sum, a remainder of it in each thread, and accounts that count themselves.
 *
 *   held = common sum + what threads have not told yet (less than TD_BUDGET_STEP each, either way)
 *
 * An account's word holds its bytes and, while it is open, one more: whoever brings it to nothing frees it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/budget.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/mem.h"
#include "core/base/work.h"

static atomic_int_fast64_t common;
static atomic_uint_fast64_t limit, refusals;
static atomic_uint shortages;
static _Atomic(const char *) limit_name = "the memory limit";
static __thread int64_t untold; /* taken (or given, below 0) by this thread */
static atomic_int_fast64_t noted[TD_MEMORY_KINDS];
static __thread int64_t unnoted[TD_MEMORY_KINDS];

/* ------------------------------------------------------------------ the process */

static struct {
    pthread_mutex_t mu; /* held while fn runs */
    void (*fn)(void *ctx, size_t bytes);
    void *ctx;
} shortage = {.mu = PTHREAD_MUTEX_INITIALIZER};
static __thread bool shrinking; /* this thread runs shortage.fn, which may allocate */

void td_budget_limit(uint64_t bytes, const char *name)
{
    atomic_store(&limit_name, name);
    atomic_store(&limit, bytes);
}

void td_budget_on_shortage(void (*fn)(void *ctx, size_t bytes), void *ctx)
{
    pthread_mutex_lock(&shortage.mu);
    shortage.fn = fn;
    shortage.ctx = ctx;
    pthread_mutex_unlock(&shortage.mu);
}

#ifndef TD_NO_BUFFER_CACHE
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static __thread bool tells_at_exit;

static void note_all(void)
{
    for (int kind = 0; kind < TD_MEMORY_KINDS; kind++) {
        atomic_fetch_add_explicit(&noted[kind], unnoted[kind], memory_order_relaxed);
        unnoted[kind] = 0;
    }
}

static void tell_at_exit(void *unused)
{
    (void)unused;
    tells_at_exit = false;
    note_all();
    atomic_fetch_add_explicit(&common, untold, memory_order_relaxed);
    untold = 0;
}

static void make_key(void)
{
    (void)pthread_key_create(&exit_key, tell_at_exit);
}
#endif

/* Adds to the remainder; a thread that does so for the first time will tell it when it ends, be it small:
 * threads that end are many. */
static inline void note(int64_t bytes)
{
#ifndef TD_NO_BUFFER_CACHE
    if (!tells_at_exit) {
        pthread_once(&exit_once, make_key);
        tells_at_exit = pthread_setspecific(exit_key, &untold) == 0;
    }
#endif
    untold += bytes;
}

static void tell(void)
{
    atomic_fetch_add_explicit(&common, untold, memory_order_relaxed);
    untold = 0;
}

uint64_t td_budget_held(void)
{
    const int64_t sum = atomic_load_explicit(&common, memory_order_relaxed) + untold;
    return sum > 0 ? (uint64_t)sum : 0;
}

uint64_t td_budget_allowed(void)
{
    return atomic_load_explicit(&limit, memory_order_relaxed);
}

bool td_budget_fits(size_t bytes)
{
    const uint64_t most = td_budget_allowed(), held = td_budget_held();
    return most == 0 || (held <= most && bytes <= most - held);
}

/* Asks the caches to shrink. The threads that come meanwhile wait for the one that asks. */
static void shrink(size_t bytes)
{
    atomic_fetch_add(&shortages, 1);
    if (shrinking) {
        return;
    }
    pthread_mutex_lock(&shortage.mu);
    if (shortage.fn != NULL) {
        shrinking = true;
        shortage.fn(shortage.ctx, bytes);
        shrinking = false;
    }
    pthread_mutex_unlock(&shortage.mu);
}

void td_budget_short(void)
{
    shrink(0);
}

bool td_budget_take(size_t bytes)
{
    if (bytes < TD_BUDGET_STEP && untold + (int64_t)bytes < TD_BUDGET_STEP) {
        note((int64_t)bytes);
        return true;
    }
    if (!td_budget_fits(bytes)) {
        shrink(bytes);
        if (!td_budget_fits(bytes)) {
            atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
            return false;
        }
    }
    td_budget_add(bytes);
    return true;
}

void td_budget_add(size_t bytes)
{
    note((int64_t)bytes);
    if (untold >= TD_BUDGET_STEP) {
        tell();
    }
}

void td_budget_give(size_t bytes)
{
    note(-(int64_t)bytes);
    if (untold <= -TD_BUDGET_STEP) {
        tell();
    }
}

void td_budget_note(enum td_memory_kind kind, int64_t more)
{
    unnoted[kind] += more;
    if (unnoted[kind] >= TD_BUDGET_STEP || unnoted[kind] <= -TD_BUDGET_STEP) {
        atomic_fetch_add_explicit(&noted[kind], unnoted[kind], memory_order_relaxed);
        unnoted[kind] = 0;
    }
}

uint64_t td_budget_noted(enum td_memory_kind kind)
{
    const int64_t sum = atomic_load_explicit(&noted[kind], memory_order_relaxed) + unnoted[kind];
    return sum > 0 ? (uint64_t)sum : 0;
}

enum td_code td_budget_error(struct td_err *err, size_t bytes, const char *what)
{
    struct td_account *a = td_work_account();
    TD_TRY(td_account_take(a, bytes, what, err));
    td_account_give(a, bytes);
    if (td_budget_fits(bytes)) {
        return td_fail(err, TD_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", what, bytes);
    }
    return td_fail(err, TD_RESOURCE_EXHAUSTED,
                   "%s: no memory for %zu bytes: %llu bytes are in use, and %s is %llu", what, bytes,
                   (unsigned long long)td_budget_held(), atomic_load(&limit_name),
                   (unsigned long long)td_budget_allowed());
}

uint64_t td_budget_refusals(void)
{
    return atomic_load(&refusals);
}

unsigned td_budget_shortages(void)
{
    return atomic_load_explicit(&shortages, memory_order_relaxed);
}

/* ------------------------------------------------------------------ one request */

struct td_account {
    atomic_uint_fast64_t held; /* and one while it is open */
    uint64_t limit;            /* 0: none */
};

static atomic_uint_fast64_t account_limit;
static _Atomic(const char *) account_name = "the limit of a request";

void td_account_limit(uint64_t bytes, const char *name)
{
    atomic_store(&account_name, name);
    atomic_store(&account_limit, bytes);
}

struct td_account *td_account_open_free(void)
{
    struct td_account *a = td_calloc(1, sizeof *a);
    if (a != NULL) {
        atomic_init(&a->held, 1);
    }
    return a;
}

struct td_account *td_account_open(void)
{
    struct td_account *a = td_account_open_free();
    if (a != NULL) {
        a->limit = atomic_load_explicit(&account_limit, memory_order_relaxed);
    }
    return a;
}

static void sink(struct td_account *a, uint64_t by)
{
    if (a != NULL && atomic_fetch_sub_explicit(&a->held, by, memory_order_acq_rel) == by) {
        td_free(a);
    }
}

void td_account_close(struct td_account *a)
{
    sink(a, 1);
}

enum td_code td_account_take(struct td_account *a, size_t bytes, const char *what, struct td_err *err)
{
    if (a == NULL || bytes == 0) {
        return TD_OK;
    }
    const uint64_t before = atomic_fetch_add_explicit(&a->held, bytes, memory_order_relaxed);
    if (a->limit == 0 || (before <= a->limit && bytes <= a->limit - before + 1)) {
        return TD_OK;
    }
    sink(a, bytes);
    return td_fail(err, TD_RESOURCE_EXHAUSTED,
                   "OOM: the request holds %llu bytes, and %s of %zu more would pass %s=%llu",
                   (unsigned long long)before - 1, what, bytes, atomic_load(&account_name),
                   (unsigned long long)a->limit);
}

void td_account_give(struct td_account *a, size_t bytes)
{
    if (bytes > 0) { /* who was charged nothing does not keep it: it may be gone */
        sink(a, bytes);
    }
}

uint64_t td_account_held(const struct td_account *a)
{
    return a == NULL ? 0 : atomic_load(&a->held) - 1;
}
