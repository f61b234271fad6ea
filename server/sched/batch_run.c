/* server/sched/batch_run.c - how a batch runs: inputs joined, outputs split by rows, chunks of a request put
 * together.
 *
 *   chunk, chunk, ..   --rows of each input-->   join (+ rows to an allowed size)   --run-->   made
 *   made   --rows of each output-->   chunk.made, ...   --of one request, in order-->   request.made
 *
 * Splits are views of the batch's output; only joins copy. A batch that fails together is run again one chunk
 * at a time, so that one bad request spoils no other. The first chunk of a request that fails has its error;
 * the last one to end, on whatever worker, ends the request.
 *
 * A batch of several has a stop word of its own, set when all of its members have gone
 * (server/sched/workers.c), and the latest of their deadlines.
 *
 * Threads: a batch is one worker's. left and failed of a request are atomic, as its chunks may end on several
 * at once; the lock is taken only to look at what is proved of padded shapes.
 *
 * Does not: choose what runs together (server/sched/sched.c), copy bytes (server/models/batch.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/models/batch.h"
#include "server/base/clock.h"
#include "server/sched/workers_impl.h"
#include "server/models/servable_run.h"

static void clear_all(struct td_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&t[i]);
    }
}

/* ------------------------------------------------------------------ ends */

/* made of a request = its chunks' rows one after the other. */
static enum td_code assemble(struct td_request *r, struct td_err *err)
{
    const struct td_tensor **parts = td_calloc((size_t)r->n_chunks, sizeof *parts);
    if (parts == NULL) {
        return td_no_memory(err, (size_t)r->n_chunks * sizeof *parts, "a split request");
    }
    enum td_code rc = TD_OK;
    int n = 0;
    for (; rc == TD_OK && n < r->sig->n_out; n++) {
        for (int i = 0; i < r->n_chunks; i++) {
            parts[i] = &r->chunks[i].made[n];
        }
        rc = td_batch_join(parts, r->n_chunks, 0, false, NULL, &r->made[n], err);
    }
    if (rc) {
        clear_all(r->made, n - 1);
        memset(r->made, 0, (size_t)r->sig->n_out * sizeof *r->made);
    }
    td_free(parts);
    return rc;
}

static void end_request(struct td_request *r)
{
    struct td_err err = r->err;
    if (err.code == TD_OK && r->n_chunks > 1) {
        err.code = assemble(r, &err);
    }
    for (int i = 0; r->n_chunks > 1 && i < r->n_chunks; i++) {
        clear_all(r->chunks[i].made, r->sig->n_out);
    }
    td_request_end(r, &err);
}

void td_chunk_fail(struct td_chunk *p, const struct td_err *err)
{
    if (!atomic_flag_test_and_set(&p->request->failed)) {
        p->request->err = *err;
    }
}

void td_chunk_end(struct td_chunk *p)
{
    if (atomic_fetch_sub_explicit(&p->request->left, 1, memory_order_acq_rel) == 1) {
        end_request(p->request);
    }
}

void td_chunk_end_list(struct td_sched_task *first)
{
    struct td_sched_task *next;
    for (struct td_sched_task *t = first; t != NULL; t = next) {
        next = t->next;
        td_chunk_end(td_chunk_of(t));
    }
}

/* ------------------------------------------------------------------ one chunk by itself */

enum td_code td_batch_run_compute(struct td_worker_queue *q, const struct td_request *r,
                                  const struct td_tensor *in, const struct td_run_opts *opts, bool once,
                                  struct td_tensor *made, struct td_err *err)
{
    struct td_device_room *room = &q->workers->room;
    struct td_room_try t = {.work = &opts->work};
    if (!q->of_device) {
        return td_servable_compute(r->servable, r->sig, in, opts, made, err);
    }
    td_device_room_enter(room, &t);
    enum td_code rc = td_servable_compute(r->servable, r->sig, in, opts, made, err);
    while (rc == TD_RESOURCE_EXHAUSTED && !once &&
           td_callable_repeats(td_servable_callable(r->servable, r->sig)) && td_device_room_again(room, &t)) {
        *err = (struct td_err){0};
        rc = td_servable_compute(r->servable, r->sig, in, opts, made, err);
    }
    td_device_room_leave(room, &t);
    return rc;
}

static enum td_code run_chunk(struct td_worker_queue *q, struct td_chunk *p, struct td_err *err)
{
    struct td_request *r = p->request;
    if (r->n_chunks == 1) {
        return td_batch_run_compute(q, r, r->bound, &r->run, false, r->made, err);
    }
    struct td_tensor *in = td_calloc((size_t)r->sig->n_in + 1, sizeof *in);
    if (in == NULL) {
        return td_no_memory(err, (size_t)r->sig->n_in * sizeof *in, "a split request");
    }
    for (int i = 0; i < r->sig->n_in; i++) {
        td_tensor_rows(&in[i], &r->bound[i], p->from, p->to);
    }
    const enum td_code rc = td_batch_run_compute(q, r, in, &r->run, false, p->made, err);
    clear_all(in, r->sig->n_in);
    td_free(in);
    return rc;
}

/* ------------------------------------------------------------------ several together */

/* TF Serving's allowed_batch_sizes: rows to add so that the batch has one of them, where it may have so
 * many. */
static int64_t extra_rows(const struct td_worker_queue *q, const struct td_batch *b)
{
    for (int i = 0; q->ruled && i < q->params.n_allowed; i++) {
        const int64_t size = q->params.allowed_batch_sizes[i];
        if (size >= b->rows) {
            return b->max_rows == 0 || size <= b->max_rows ? size - b->rows : 0;
        }
    }
    return 0;
}

static enum td_code join_inputs(const struct td_worker_queue *q, const struct td_batch *b,
                                struct td_tensor *in, struct td_err *err)
{
    const bool pad = q->ruled && q->params.pad_variable_length_inputs;
    struct td_model *model = td_servable_engine(td_chunk_of(b->tasks)->request->servable);
    const struct td_device *d = q->of_device ? td_model_opts_of(model)->device : NULL;
    struct td_tensor *rows = td_calloc((size_t)b->n_tasks, sizeof *rows);
    const struct td_tensor **parts = td_calloc((size_t)b->n_tasks, sizeof *parts);
    enum td_code rc = rows && parts ? TD_OK : td_no_memory(err, (size_t)b->n_tasks * sizeof *rows, "a batch");
    for (int i = 0; rc == TD_OK && i < q->sig->n_in; i++) {
        int n = 0;
        for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next, n++) {
            const struct td_chunk *p = td_chunk_of(t);
            td_tensor_rows(&rows[n], &p->request->bound[i], p->from, p->to);
            parts[n] = &rows[n];
        }
        rc = td_batch_join(parts, n, extra_rows(q, b), pad, d, &in[i], err);
        clear_all(rows, n);
    }
    td_free(parts);
    td_free(rows);
    return rc;
}

static enum td_code split_outputs(const struct td_worker_queue *q, const struct td_batch *b,
                                  const struct td_tensor *made, int64_t rows, struct td_err *err)
{
    for (int i = 0; i < q->sig->n_out; i++) {
        TD_FAIL_IF(made[i].shape.rank < 1 || made[i].shape.dim[0] != rows, err, FAILED_PRECONDITION,
                   "output '%s' of a batch of %lld rows has shape %s", q->sig->out[i].key, (long long)rows,
                   TD_SHAPE_STR(&made[i].shape));
    }
    int64_t row = 0;
    for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        struct td_chunk *p = td_chunk_of(t);
        for (int i = 0; i < q->sig->n_out; i++) {
            td_tensor_rows(&p->made[i], &made[i], row, row + t->rows);
        }
        row += t->rows;
    }
    return TD_OK;
}

/* The batch may run as long as its most patient member; it is of a trace if all of it is one request. */
static struct td_run_opts run_opts(const struct td_batch *b, td_stop *stop)
{
    struct td_run_opts o = *b->tasks->run;
    for (const struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        const int64_t deadline_ns = t->run->work.deadline_ns;
        o.work.deadline_ns = deadline_ns == 0 || o.work.deadline_ns == 0 ? 0
                             : deadline_ns > o.work.deadline_ns          ? deadline_ns
                                                                         : o.work.deadline_ns;
    }
    o.work.stop = stop;
    o.work.trace = b->n_tasks == 1 ? o.work.trace : NULL;
    return o;
}

/* Padding may have made shapes that no member had, so nothing is known of them. */
static enum td_code check_joined(struct td_worker_queue *q, struct td_batch_run *run,
                                 const struct td_tensor *in, struct td_err *err)
{
    if (!q->ruled || !q->params.pad_variable_length_inputs) {
        return TD_OK;
    }
    const uint64_t shapes = td_batch_likeness(in, q->sig->n_in, false);
    pthread_mutex_lock(&q->workers->mu);
    const enum td_proof proof = td_worker_queue_proof(q, shapes, in[0].shape.dim[0]).proof;
    pthread_mutex_unlock(&q->workers->mu);
    if (proof == TD_PROOF_NONE) {
        td_worker_queue_ask(&run->question, q, td_chunk_of(run->batch.tasks)->request->servable, in);
    }
    TD_FAIL_IF(
        proof != TD_PROOF_ROWS, err, FAILED_PRECONDITION,
        "the padded inputs of a batch have shapes for which signature '%s' is not known to be row-wise",
        q->sig->key);
    return TD_OK;
}

static enum td_code run_together(struct td_worker_queue *q, struct td_batch_run *run, struct td_err *err)
{
    const struct td_batch *b = &run->batch;
    const size_t n_in = (size_t)q->sig->n_in, n_out = (size_t)q->sig->n_out;
    struct td_tensor *in = td_calloc(n_in + n_out + 1, sizeof *in);
    if (in == NULL) {
        return td_no_memory(err, (n_in + n_out) * sizeof *in, "a batch");
    }
    struct td_tensor *made = in + n_in;
    const struct td_run_opts opts = run_opts(b, &run->stop);
    int64_t at_ns[4] = {td_clock_ns()};
    enum td_code rc = join_inputs(q, b, in, err);
    rc = rc ? rc : check_joined(q, run, in, err);
    at_ns[1] = td_clock_ns();
    rc = rc ? rc : td_batch_run_compute(q, td_chunk_of(b->tasks)->request, in, &opts, true, made, err);
    at_ns[2] = td_clock_ns();
    rc = rc ? rc : split_outputs(q, b, made, b->rows + extra_rows(q, b), err);
    at_ns[3] = td_clock_ns();
    run->times = (struct td_times){
        .input_ns = at_ns[1] - at_ns[0], .infer_ns = at_ns[2] - at_ns[1], .output_ns = at_ns[3] - at_ns[2]};
    clear_all(in, q->sig->n_in + q->sig->n_out);
    td_free(in);
    return rc;
}

/* One by one: what made the batch fail is one member's own fault, or nobody's. */
static bool run_apart(struct td_worker_queue *q, struct td_batch *b)
{
    bool ok = true;
    for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        struct td_err err = {0};
        err.code = run_chunk(q, td_chunk_of(t), &err);
        if (err.code != TD_OK) {
            td_chunk_fail(td_chunk_of(t), &err);
            ok = false;
        }
    }
    return ok;
}

bool td_batch_run_batch(struct td_worker_queue *q, struct td_batch_run *run)
{
    const struct td_batch *b = &run->batch;
    struct td_err err = {0};
    const bool together =
        b->n_tasks > 1 || (td_chunk_of(b->tasks)->proof == TD_PROOF_ROWS && extra_rows(q, b) > 0);
    if (together && run_together(q, run, &err) == TD_OK) {
        run->padding = extra_rows(q, b);
        return true;
    }
    const int64_t from_ns = td_clock_ns();
    const bool ok = run_apart(q, &run->batch);
    run->times = (struct td_times){.infer_ns = td_clock_ns() - from_ns};
    return ok;
}
