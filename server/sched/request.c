/* server/sched/request.c - the life of a request: opened, resolved, bound, handed to the workers, ended.
 *
 * A request is not allocated here; it lies in what carries it. What it needs besides comes from its arena,
 * which is made when it is opened and freed by td_request_fini() with the tensors and the reference to the
 * servable. Each step may be taken early by a front end (a codec resolves before it decodes, to see the
 * dtypes); td_request_start() does what is left.
 *
 * There is one way out. A request that cannot be bound goes straight to encode and done; one that ran goes
 * through td_request_end(): statistics, outputs by name, ended, encode, done. Without workers it is run on
 * the calling thread. A caller that wants to wait gets a done that signals a condition on its own stack.
 *
 * Threads: start is the front end's thread, end perhaps a worker's; the request itself has no lock, as one of
 * them has it at a time.
 *
 * Does not: split into chunks, or wait in a queue (server/sched/worker_enter.c), or know any wire format.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/request.h"

#include <pthread.h>

#include "core/base/arena.h"
#include "core/base/check.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/sched/workers.h"

#define APART_BYTES ((size_t)1 << 20)   /* of outputs: as JSON some 10 ms */
#define ARENA_LIMIT ((size_t)256 << 20) /* names and filters; tensors have their own limit */

void td_request_init(struct td_request *r)
{
    r->model = "";
    r->signature = "";
    r->id = "";
    r->run.work.stop = &r->stop;
    r->run.work.trace = &r->trace.ids;
}

enum td_code td_request_open(struct td_request *r, struct td_err *err)
{
    r->opened_ns = td_clock_ns();
    r->run.work.account = td_account_open();
    if (r->run.work.account == NULL) {
        return td_no_memory(err, ARENA_LIMIT, "a request");
    }
    const struct td_work *before = td_work_enter(&r->run.work);
    r->arena = td_arena_new(ARENA_LIMIT);
    td_work_enter(before);
    return r->arena != NULL ? TD_OK : td_no_memory(err, ARENA_LIMIT, "a request");
}

static void clear_all(struct td_named *t, int *n)
{
    for (int i = 0; i < *n; i++) {
        td_tensor_clear(&t[i].t);
    }
    *n = 0;
}

void td_request_again(struct td_request *r)
{
    clear_all(r->in, &r->n_in);
    clear_all(r->out, &r->n_out);
    td_gradient_unref(r->gradient);
    r->gradient = NULL;
    r->sig = NULL;
}

void td_request_fini(struct td_request *r)
{
    td_request_again(r);
    td_servable_unref(r->servable);
    r->servable = NULL;
    td_cold_fini(&r->cold);
    td_trace_end(&r->trace);
    td_arena_free(r->arena);
    r->arena = NULL;
    td_account_close(r->run.work.account);
    r->run.work.account = NULL;
}

enum td_code td_request_find(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    if (r->servable != NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(r->has_version && r->version <= 0, err, NOT_FOUND,
               "Servable not found for request: Specific(%s, %lld)", r->model, (long long)r->version);
    return td_registry_find(reg, r->model, r->version, r->label, &r->cold, &r->servable, err);
}

/* On the registry's thread. */
static void go(void *ctx, struct td_servable *s, const struct td_err *err)
{
    struct td_request *r = ctx;
    struct td_err outcome = *err;
    r->servable = s;
    r->resumed = true;
    td_cold_fini(&r->cold);
    r->resume(r, &outcome);
}

bool td_request_await(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    struct td_cold cold = r->cold; /* once it waits, r is go's */
    r->cold = (struct td_cold){0};
    td_request_again(r);
    *err = (struct td_err){0};
    const bool waits = td_registry_await(reg, &cold, &r->run.work, go, r, err) == TD_OK;
    td_cold_fini(&cold);
    return waits;
}

enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    if (r->sig != NULL) {
        return TD_OK;
    }
    TD_TRY(td_request_find(r, reg, err));
    r->sig = td_servable_signature(r->servable, r->signature);
    TD_FAIL_IF(r->sig == NULL, err, FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
               r->signature != NULL && *r->signature != '\0' ? r->signature : "serving_default");
    return TD_OK;
}

struct td_servable_call td_request_call(const struct td_request *r, struct td_registry *reg)
{
    return (struct td_servable_call){
        .sig = r->sig,
        .in = r->in,
        .n_in = r->n_in,
        .filter = r->filter,
        .n_filter = r->n_filter,
        .strict_shapes = reg != NULL && td_registry_options(reg)->strict_shapes,
        .check_method = reg != NULL && td_registry_options(reg)->check_methods,
        .run = &r->run,
    };
}

/* Bytes of a tensor that is not there yet; 0 where it will be refused. */
static uint64_t bytes_to_come(const struct td_tensor *t)
{
    size_t bytes = 0;
    const int64_t n = t->dtype == TD_DTYPE_NONE || t->shape.rank < 0 ? 0 : td_shape_count(&t->shape);
    return n > 0 && td_size_mul((size_t)n, td_dtype_size(t->dtype), &bytes) ? bytes : n > 0 ? UINT64_MAX : 0;
}

enum td_code td_request_has_room(struct td_request *r, uint64_t max_bytes, struct td_err *err)
{
    uint64_t sum = 0;
    for (int i = 0; i < r->n_in; i++) {
        const uint64_t bytes = bytes_to_come(&r->in[i].t);
        TD_FAIL_IF(
            bytes > max_bytes, err, INVALID_ARGUMENT,
            "tensor parsing error: %.200s: a %s tensor of shape %s takes more than the %llu bytes allowed",
            r->in[i].name, td_dtype_name(r->in[i].t.dtype), TD_SHAPE_STR(&r->in[i].t.shape),
            (unsigned long long)max_bytes);
        sum += bytes;
        TD_FAIL_IF(sum > max_bytes, err, RESOURCE_EXHAUSTED,
                   "the request's %d inputs take %llu bytes and more, --max_request_bytes is %llu", r->n_in,
                   (unsigned long long)sum, (unsigned long long)max_bytes);
    }
    if (sum < TD_BUDGET_STEP) {
        return TD_OK;
    }
    TD_TRY(td_account_take(r->run.work.account, (size_t)sum, "inputs", err));
    td_account_give(r->run.work.account, (size_t)sum); /* each is charged when it is made */
    if (!td_budget_take((size_t)sum)) {
        return td_no_memory(err, (size_t)sum, "the request's inputs");
    }
    td_budget_give((size_t)sum);
    return TD_OK;
}

enum td_code td_request_expect(struct td_request *r, struct td_registry *reg, uint64_t max_bytes,
                               struct td_err *err)
{
    const struct td_servable_call call = td_request_call(r, reg);
    TD_TRY(td_servable_check(r->servable, &call, err));
    return td_request_has_room(r, max_bytes, err);
}

enum td_code td_request_bind(struct td_request *r, const struct td_servable_call *call, struct td_err *err)
{
    const size_t n_in = (size_t)r->sig->n_in, n_out = (size_t)r->sig->n_out;
    const size_t room = (n_out > (size_t)r->n_filter ? n_out : (size_t)r->n_filter) + 1;
    r->bound = td_arena_alloc(r->arena, n_in + n_out + 1, sizeof *r->bound);
    struct td_named *out = td_arena_alloc(r->arena, room, sizeof *out);
    if (r->bound == NULL || out == NULL) {
        return td_no_memory(err, (n_in + n_out) * sizeof *r->bound + room * sizeof *out,
                            "the outputs of a request");
    }
    r->made = r->bound + n_in;
    clear_all(r->out, &r->n_out);
    r->out = out;
    return td_servable_bind(r->servable, call, r->bound, err);
}

/* The request's batch size: 1 where the signature has none. */
static int64_t rows_of(const struct td_request *r)
{
    return r->n_in > 0 && r->in[0].t.shape.rank > 0 && td_model_config_has_rows(r->sig)
               ? r->in[0].t.shape.dim[0]
               : 1;
}

/* ------------------------------------------------------------------ the end */

/* At its end no chunk of it is the workers' any more. */
TD_CHECK_FN enum td_code request_check(const struct td_request *r, struct td_err *err)
{
    TD_WANT(r->done != NULL && atomic_load(&r->left) == 0, err, "a request ends with %d chunks under way",
            atomic_load(&r->left));
    return TD_OK;
}

static void encode_and_end(struct td_request *r, struct td_err *err)
{
    TD_HOLDS(request_check, r);
    if (err->code == TD_OK && r->encode != NULL) {
        const struct td_work *before = td_work_enter(&r->run.work);
        err->code = r->encode(r, err);
        td_work_enter(before);
    }
    r->done(r, err);
}

void td_request_encode(struct td_request *r)
{
    struct td_err err = {0};
    encode_and_end(r, &err);
}

static bool has_much_to_encode(const struct td_request *r)
{
    size_t bytes = 0;
    for (int i = 0; i < r->n_out; i++) {
        bytes += td_tensor_bytes(&r->out[i].t);
    }
    return bytes > APART_BYTES;
}

static void finish(struct td_request *r, struct td_err *err)
{
    if (err->code == TD_OK && r->encode_apart != NULL && has_much_to_encode(r)) {
        r->encode_apart(r);
    } else {
        encode_and_end(r, err);
    }
}

void td_request_count(const struct td_request *r, enum td_entry_point entry, enum td_code code)
{
    const struct td_signature *sig = r->api != TD_API_MULTI ? r->sig : NULL; /* that is several */
    struct td_latency_row *row = r->servable != NULL ? td_servable_latency(r->servable, sig)
                                                     : &td_metrics_latency(td_metrics_model(r->model))->none;
    td_latency_count(row, r->api, entry, code, td_clock_us_since(r->opened_ns));
}

void td_request_end(struct td_request *r, struct td_err *err)
{
    const bool ok = err->code == TD_OK;
    td_stats_request(td_servable_stats(r->servable), ok, rows_of(r), td_clock_ns() - r->started_ns,
                     &r->times);
    if (ok) {
        const struct td_servable_call call = td_request_call(r, NULL);
        td_metrics_runtime(td_servable_metrics(r->servable), r->api, r->times.infer_ns / 1000);
        td_servable_deliver(&call, r->made, r->out, &r->n_out);
    }
    if (r->ended != NULL) {
        r->ended(r, err);
    }
    finish(r, err);
}

/* ------------------------------------------------------------------ the start */

/* Without workers: on this thread, alone. */
static enum td_code run_directly(struct td_request *r, struct td_err *err)
{
    const int64_t from_ns = td_clock_ns();
    TD_TRY(td_servable_compute(r->servable, r->sig, r->bound, &r->run, r->made, err));
    r->times = (struct td_times){.infer_ns = td_clock_ns() - from_ns};
    td_stats_batch(td_servable_stats(r->servable), rows_of(r), &r->times);
    td_metrics_graph_run(r->times.infer_ns / 1000);
    return TD_OK;
}

static enum td_code prepare(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    TD_TRY(td_request_resolve(r, reg, err));
    r->sig = td_servable_fewer_outputs(r->servable, r->sig, r->filter, r->n_filter);
    r->started_ns = td_clock_ns();
    r->times = (struct td_times){0};
    const struct td_servable_call call = td_request_call(r, reg);
    if (td_request_bind(r, &call, err)) {
        td_stats_request(td_servable_stats(r->servable), false, 0, 0, &r->times);
    }
    return err->code;
}

void td_request_start(struct td_request *r, struct td_registry *reg)
{
    struct td_workers *workers = td_registry_options(reg)->workers;
    struct td_err err = {0};
    if (prepare(r, reg, &err)) {
        finish(r, &err);
    } else if (workers != NULL) {
        td_workers_run(workers, r, &err);
    } else {
        err.code = run_directly(r, &err);
        td_request_end(r, &err);
    }
}

/* What a caller waits on that wants to be kept. */
struct waiter {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool over;
    struct td_err *err;
};

static void wake(struct td_request *r, struct td_err *err)
{
    struct waiter *w = r->waiter;
    pthread_mutex_lock(&w->mu);
    *w->err = *err;
    w->over = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mu);
}

enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    struct waiter w = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .err = err};
    r->waiter = &w;
    r->done = wake;
    r->queued = NULL;
    td_request_start(r, reg);
    pthread_mutex_lock(&w.mu);
    while (!w.over) {
        pthread_cond_wait(&w.cond, &w.mu);
    }
    pthread_mutex_unlock(&w.mu);
    return err->code;
}
