/* server/base/stats.c - relaxed atomics, each added to on its own.
 *
 * Batch sizes have a short list of rows without order: the row of a size is the first that carries it, or the
 * first free one, whose size is exchanged for 0; of two threads that want the same free row one wins and the
 * other sees what it became. Rows are never given back. When all are taken a run counts in the totals only.
 *
 * A time that is not above 0 adds nothing. Does not: keep quantiles (server/base/metrics.c has histograms),
 * reset.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/stats.h"

#include <time.h>

static void add(atomic_uint_fast64_t *to, int64_t n)
{
    if (n > 0) {
        atomic_fetch_add_explicit(to, (uint64_t)n, memory_order_relaxed);
    }
}

void td_stats_request(struct td_stats *s, bool ok, int64_t rows, int64_t total_ns, const struct td_times *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&s->last_ms, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                          memory_order_relaxed);
    add(ok ? &s->ok : &s->failed, 1);
    add(ok ? &s->ok_ns : &s->failed_ns, total_ns);
    if (ok) {
        add(&s->inferences, rows > 0 ? rows : 1);
        add(&s->queue_ns, t->queue_ns);
        add(&s->input_ns, t->input_ns);
        add(&s->infer_ns, t->infer_ns);
        add(&s->output_ns, t->output_ns);
    }
}

/* The row of a batch size: the one that has it, or the first free one. NULL when all are taken by others. */
static struct td_stats_size *row_of(struct td_stats *s, int64_t rows)
{
    for (int i = 0; i < TD_STATS_SIZES; i++) {
        int_fast64_t size = atomic_load_explicit(&s->sizes[i].size, memory_order_relaxed);
        if (size == rows ||
            (size == 0 && (atomic_compare_exchange_strong(&s->sizes[i].size, &size, rows) || size == rows))) {
            return &s->sizes[i];
        }
    }
    return NULL;
}

void td_stats_batch(struct td_stats *s, int64_t rows, const struct td_times *t)
{
    add(&s->executions, 1);
    struct td_stats_size *row = rows > 0 ? row_of(s, rows) : NULL;
    if (row != NULL) {
        add(&row->n, 1);
        add(&row->input_ns, t->input_ns);
        add(&row->infer_ns, t->infer_ns);
        add(&row->output_ns, t->output_ns);
    }
}
