/* server/train/batches.c - an epoch's batches, made one ahead by a thread of their own.
 *
 *   reader   makes a batch, waits until the slot is free, puts it there
 *   caller   waits until the slot is full, takes it
 *
 * mu guards slot, full, closing and fault; both sides wait on the same condition. The reader stops behind the
 * last batch, at an error (which is given to every later call) and when it is told to close. It touches
 * nothing of the caller's: td_rows is immutable, the cells are its own.
 *
 * Threads: one caller at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/train/rows_impl.h"
#include "server/train/shuffle.h"

struct td_batches {
    struct td_epoch e;
    struct td_shuffle order;
    struct td_row_reader reader; /* the thread's */
    int64_t next;                /* batch; the thread's */
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool started, full, closing;
    struct td_batch slot;
    struct td_fault fault; /* of the slot: there is no batch but this */
};

/* ------------------------------------------------------------------ making a batch */

/* Rows [from, to) of a batch of n that are this process's: as even as can be. */
static void share(const struct td_epoch *e, int64_t n, int64_t *from, int64_t *to)
{
    *from = n * e->part / e->n_parts;
    *to = n * (e->part + 1) / e->n_parts;
}

static int64_t row_at(const struct td_batches *b, int64_t place)
{
    return b->e.shuffle ? (int64_t)td_shuffle_at(&b->order, (uint64_t)place) : place;
}

/* Rows [from, to) of the batch that begins with row `first`. */
static enum td_code read_rows(struct td_batches *b, int64_t first, int64_t from, int64_t to,
                              struct td_batch *out, struct td_fault *f)
{
    int64_t bad;
    struct td_err err = {0};
    for (int64_t i = from; i < to; i++) {
        TD_TRY(td_row_reader_row(&b->reader, row_at(b, first + i), !b->e.shuffle, f));
    }
    if (td_row_cells_take(b->reader.cells, out, &bad, &err)) {
        b->reader.line = false;
        return bad < 0 ? TD_FAULT(f, "server_error", "", "%s", err.msg)
                       : td_row_reader_fault(&b->reader, row_at(b, first + from + bad), &err, f);
    }
    return TD_OK;
}

/* Whether rows of a batch look at each other: the longest says how far others are filled up, the first what
 * an input of rank 0 is. Then a share is cut out of the whole batch. */
static bool rows_depend(const struct td_row_cells *c)
{
    for (int i = 0; i < c->n; i++) {
        if (!c->cell[i].fixed) {
            return true;
        }
    }
    return false;
}

static void cut_out(struct td_batch *batch, int64_t from, int64_t to)
{
    for (int i = 0; i < batch->n; i++) {
        if (batch->tensor[i].shape.rank > 0) {
            struct td_tensor all = batch->tensor[i];
            td_tensor_rows(&batch->tensor[i], &all, from, to);
            td_tensor_clear(&all);
        }
    }
}

static enum td_code make(struct td_batches *b, struct td_batch *out, struct td_fault *f)
{
    const int64_t first = b->next * b->e.batch_size, left = td_rows_count(b->e.rows) - first;
    const int64_t n = left < b->e.batch_size ? left : b->e.batch_size;
    int64_t from, to;
    *out = (struct td_batch){0};
    if (n <= 0) {
        return TD_OK;
    }
    share(&b->e, n, &from, &to);
    const int64_t rows = to - from, begin = rows > 0 ? from : 0, end = rows > 0 ? to : 1;
    const bool whole = end - begin < n && rows_depend(b->reader.cells);
    TD_TRY(read_rows(b, first, whole ? 0 : begin, whole ? n : end, out, f));
    if (whole) {
        cut_out(out, begin, end);
    }
    out->rows = rows;
    out->all_rows = n;
    out->first = begin;
    b->next++;
    return TD_OK;
}

/* ------------------------------------------------------------------ the thread */

/* Waits for the slot; false: to end. */
static bool put(struct td_batches *b, struct td_batch *batch, const struct td_fault *f)
{
    pthread_mutex_lock(&b->mu);
    while (b->full && !b->closing) {
        pthread_cond_wait(&b->changed, &b->mu);
    }
    const bool goes_on = !b->closing;
    if (goes_on) {
        b->slot = *batch;
        b->fault = *f;
        b->full = true;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->mu);
    return goes_on;
}

static void *read_ahead(void *arg)
{
    struct td_batches *b = arg;
    struct td_fault f = {.err.code = TD_OK};
    struct td_batch batch;
    bool goes_on = true;
    while (goes_on) {
        const enum td_code rc = make(b, &batch, &f);
        const bool last = rc || batch.all_rows == 0;
        goes_on = put(b, &batch, &f);
        if (!goes_on) {
            td_batch_clear(&batch);
        }
        goes_on = goes_on && !last;
    }
    td_buffer_trim();
    return NULL;
}

/* ------------------------------------------------------------------ the caller's side */

static enum td_code start(struct td_batches *b, struct td_fault *f)
{
    TD_TRY(td_row_reader_open(b->e.rows, &b->reader, f));
    if (pthread_create(&b->thread, NULL, read_ahead, b) != 0) {
        return TD_FAULT(f, "server_error", "", "no thread for reading rows");
    }
    b->started = true;
    return TD_OK;
}

enum td_code td_batches_open(const struct td_epoch *e, struct td_batches **out, struct td_fault *f)
{
    struct td_batches *b = td_calloc(1, sizeof *b);
    if (b == NULL) {
        return TD_FAULT(f, "server_error", "", "no memory for batches");
    }
    b->e = *e;
    b->e.n_parts = e->n_parts > 0 ? e->n_parts : 1;
    b->next = e->from_batch;
    b->order = td_shuffle_make((uint64_t)td_rows_count(e->rows), e->seed, (uint64_t)e->epoch);
    pthread_mutex_init(&b->mu, NULL);
    pthread_cond_init(&b->changed, NULL);
    const enum td_code rc = start(b, f);
    if (rc) {
        td_batches_close(b);
        return rc;
    }
    *out = b;
    return TD_OK;
}

enum td_code td_batches_next(struct td_batches *b, struct td_batch *out, struct td_fault *f)
{
    pthread_mutex_lock(&b->mu);
    while (!b->full) {
        pthread_cond_wait(&b->changed, &b->mu);
    }
    *out = b->slot;
    const enum td_code rc = b->fault.err.code;
    if (rc) {
        *f = b->fault;
    } else if (out->all_rows > 0) { /* the end stays where it is, for who asks again */
        b->slot = (struct td_batch){0};
        b->full = false;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->mu);
    return rc;
}

void td_batches_close(struct td_batches *b)
{
    if (b == NULL) {
        return;
    }
    pthread_mutex_lock(&b->mu);
    b->closing = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mu);
    if (b->started) {
        (void)pthread_join(b->thread, NULL);
    }
    td_batch_clear(&b->slot);
    td_row_reader_close(&b->reader);
    pthread_mutex_destroy(&b->mu);
    pthread_cond_destroy(&b->changed);
    td_free(b);
}
