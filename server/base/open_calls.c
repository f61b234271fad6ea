/* server/base/open_calls.c - a count in all, and two counters for each address that others may share.
 *
 * An address has a counter in each of two rows, by halves of its keyed hash, and has as many calls open as
 * the lesser of them says: more than it has only where others meet it in both, of N addresses about one in
 * (COUNTERS / N) squared. So nothing is allocated or locked for an address,
 * and nobody can choose whom to meet.
 *
 *   0 .. max_per_address / 2     calls that nobody's address was asked for: an address may have all of them
 *   and the other half           what it may have by its counters
 *
 * `charged` calls are paid for: STEP are taken when there are more, and given back when two steps are spare,
 * so that a call that comes and goes charges nothing. The first STEP are free.
 *
 * Threads: the counts are atomic; mu is held while the charge changes, the budget's own locks below it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/open_calls.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "server/base/peer_address.h"

#define DEFAULT_MAX 32768
#define BUDGET_SHARE 8
#define COUNTERS 4096
#define STEP 64
#define MAX_UNANSWERED 1024 /* refused calls; of one connection as many come at once */

struct td_open_calls {
    _Atomic int64_t open, charged, refused_all, refused_address, refused_memory;
    _Atomic int64_t unanswered; /* refused calls that have not left */
    pthread_mutex_t mu;         /* guards changes of charged */
    int64_t max, max_per_address;
    uint64_t key;
    _Atomic int32_t by_address[2][COUNTERS];
};

enum td_code td_open_calls_new(int64_t max, int64_t max_per_address, struct td_open_calls **out,
                               struct td_err *err)
{
    struct td_open_calls *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return td_no_memory(err, sizeof *c, "counting gRPC calls");
    }
    const uint64_t allowed = td_budget_allowed(), bears = allowed / BUDGET_SHARE / TD_OPEN_CALL_BYTES;
    const bool all = allowed == 0 || bears > DEFAULT_MAX;
    c->max = max > 0 ? max : all ? DEFAULT_MAX : bears > STEP ? (int64_t)bears : STEP;
    c->max_per_address = max_per_address > 0 ? max_per_address : (c->max + 3) / 4;
    c->max_per_address = c->max_per_address < c->max ? c->max_per_address : c->max;
    c->charged = STEP;
    c->key = td_peer_key();
    pthread_mutex_init(&c->mu, NULL);
    *out = c;
    return TD_OK;
}

void td_open_calls_free(struct td_open_calls *c)
{
    if (c == NULL) {
        return;
    }
    td_budget_give((size_t)(c->charged - STEP) * TD_OPEN_CALL_BYTES);
    pthread_mutex_destroy(&c->mu);
    td_free(c);
}

bool td_open_calls_ask(const struct td_open_calls *c)
{
    return atomic_load_explicit(&c->open, memory_order_relaxed) >= c->max_per_address / 2;
}

/* Which counters are the address's. */
static void counters_of(struct td_open_calls *c, uint64_t hash, _Atomic int32_t *out[2])
{
    out[0] = &c->by_address[0][hash % COUNTERS];
    out[1] = &c->by_address[1][(hash >> 32) % COUNTERS];
}

/* False when the address has as many as it may, and nothing is counted. */
static bool count_address(struct td_open_calls *c, uint64_t hash)
{
    _Atomic int32_t *n[2];
    counters_of(c, hash, n);
    const int64_t most = c->max_per_address - c->max_per_address / 2;
    const int64_t a = atomic_fetch_add(n[0], 1), b = atomic_fetch_add(n[1], 1);
    if ((a < b ? a : b) < most) {
        return true;
    }
    atomic_fetch_sub(n[0], 1);
    atomic_fetch_sub(n[1], 1);
    return false;
}

static void uncount_address(struct td_open_calls *c, uint64_t hash)
{
    _Atomic int32_t *n[2];
    counters_of(c, hash, n);
    atomic_fetch_sub(n[0], 1);
    atomic_fetch_sub(n[1], 1);
}

/* n calls are paid for. */
static bool charge(struct td_open_calls *c, int64_t n)
{
    if (n <= atomic_load_explicit(&c->charged, memory_order_relaxed)) {
        return true;
    }
    pthread_mutex_lock(&c->mu);
    bool ok = true;
    while (ok && n > c->charged) {
        ok = td_budget_take((size_t)STEP * TD_OPEN_CALL_BYTES);
        c->charged += ok ? STEP : 0;
    }
    pthread_mutex_unlock(&c->mu);
    return ok;
}

static void discharge(struct td_open_calls *c, int64_t n)
{
    if (atomic_load_explicit(&c->charged, memory_order_relaxed) - n <= 2 * STEP) {
        return;
    }
    pthread_mutex_lock(&c->mu);
    while (c->charged > STEP && c->charged - atomic_load(&c->open) > 2 * STEP) {
        td_budget_give((size_t)STEP * TD_OPEN_CALL_BYTES);
        c->charged -= STEP;
    }
    pthread_mutex_unlock(&c->mu);
}

enum td_code td_open_calls_enter(struct td_open_calls *c, const struct sockaddr *peer,
                                 struct td_open_call *call, struct td_err *err)
{
    struct td_peer_address at;
    const bool by_address = peer != NULL && td_peer_address(peer, &at);
    const uint64_t hash = by_address ? td_peer_hash(&at, c->key) : 0;
    const int64_t n = atomic_fetch_add(&c->open, 1) + 1;
    enum td_code rc = TD_OK;
    if (n > c->max) {
        atomic_fetch_add(&c->refused_all, 1);
        rc =
            td_fail(err, TD_RESOURCE_EXHAUSTED,
                    "%lld gRPC calls are open: as many as may be (--grpc_max_open_calls)", (long long)c->max);
    } else if (by_address && !count_address(c, hash)) {
        atomic_fetch_add(&c->refused_address, 1);
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED,
                     "more gRPC calls are open from this address than may be, which is %lld "
                     "(--grpc_max_open_calls_per_address)",
                     (long long)c->max_per_address);
    } else if (!charge(c, n)) {
        atomic_fetch_add(&c->refused_memory, 1);
        if (by_address) {
            uncount_address(c, hash);
        }
        rc = td_budget_error(err, (size_t)STEP * TD_OPEN_CALL_BYTES, "more open gRPC calls");
    }
    if (rc) {
        atomic_fetch_sub(&c->open, 1);
        atomic_fetch_add(&c->unanswered, 1);
        *call = (struct td_open_call){.refused = true};
        return rc;
    }
    *call = (struct td_open_call){.entered = true, .by_address = by_address, .hash = hash};
    return TD_OK;
}

void td_open_calls_leave(struct td_open_calls *c, struct td_open_call *call)
{
    if (call->refused) {
        atomic_fetch_sub(&c->unanswered, 1);
    } else if (call->entered) {
        if (call->by_address) {
            uncount_address(c, call->hash);
        }
        discharge(c, atomic_fetch_sub(&c->open, 1) - 1);
    }
    *call = (struct td_open_call){.entered = false};
}

bool td_open_calls_flooded(const struct td_open_calls *c)
{
    return atomic_load(&c->unanswered) > MAX_UNANSWERED;
}

void td_open_calls_count(const struct td_open_calls *c, struct td_open_calls_counts *out)
{
    *out = (struct td_open_calls_counts){.open = c->open,
                                         .max = c->max,
                                         .max_per_address = c->max_per_address,
                                         .refused_all = c->refused_all,
                                         .refused_address = c->refused_address,
                                         .refused_memory = c->refused_memory};
}
