/* tests/unit/server/test_workers.c - workers with real threads on the bundled model: every request gets its
 * own rows back.
 *
 * Longer, under ThreadSanitizer: TD_TEST_SECONDS=200 test_workers random_load
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/workers.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>

#include "core/base/arena.h"
#include "core/base/thread_pool.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "server/base/clock.h"
#include "server/sched/request.h"
#include "tests/test.h"

enum { POOL = 64, MAX_ROWS = 7, CALLERS = 6 };

/* What all callers share: the model, images, and what a lone run says of each. */
static struct td_op_table *ops;
static struct td_servable *model;
static struct td_workers *workers;
static struct td_tensor pool, answers; /* [POOL, 8, 8], [POOL, 10] */

static void start(const struct td_workers_opts *opts)
{
    struct td_err err = {0};
    const struct td_servable_opts how = {.ops = NULL};
    struct td_servable_opts with = how;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    with.ops = ops;
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &with, &model, &err));
    CHECK_OK(td_workers_start(opts, &workers, &err));
    CHECK_OK(td_workers_admit(workers, model, &err));
    const struct td_shape shape = {.rank = 3, .dim = {POOL, 8, 8}};
    CHECK_OK(td_tensor_new(&pool, TD_FLOAT, &shape, &err));
    for (int i = 0; i < POOL * 64; i++) {
        TD_DATA(&pool, float)[i] = (float)((i * 7919 + i / 64 * 31) % 17);
    }
    const struct td_signature *sig = td_servable_signature(model, "");
    struct td_tensor made[2] = {{0}};
    CHECK_OK(td_callable_run(td_servable_callable(model, sig), &pool, made, NULL, &err));
    answers = made[made[0].shape.rank == 2 ? 0 : 1];
    td_tensor_clear(&made[made[0].shape.rank == 2 ? 1 : 0]);
}

static void finish(void)
{
    td_tensor_clear(&pool);
    td_tensor_clear(&answers);
    td_servable_unref(model);
    td_workers_stop(workers);
    td_op_table_free(ops);
}

/* A request for rows [from, from + rows) of the pool. */
struct ask {
    struct td_request r; /* first */
    struct td_named in;
    int from, rows;
    sem_t ended;
    struct td_err err;
};

static void on_done(struct td_request *r, struct td_err *err)
{
    struct ask *a = (struct ask *)r;
    a->err = *err;
    sem_post(&a->ended);
}

static void make(struct ask *a, int from, int rows, int64_t thread_ns)
{
    struct td_err err = {0};
    memset(a, 0, sizeof *a);
    a->from = from;
    a->rows = rows;
    sem_init(&a->ended, 0, 0);
    struct td_request *r = &a->r;
    td_request_init(r);
    CHECK_OK(td_request_open(r, &err));
    r->servable = td_servable_ref(model);
    r->sig = td_servable_signature(model, "");
    a->in.name = r->sig->in[0].key;
    td_tensor_rows(&a->in.t, &pool, from, from + rows);
    r->in = &a->in;
    r->n_in = 1;
    r->thread_ns = thread_ns;
    r->done = on_done;
    const struct td_servable_call call = td_request_call(r, NULL);
    CHECK_OK(td_request_bind(r, &call, &err));
}

static void drop(struct ask *a)
{
    td_request_fini(&a->r);
    sem_destroy(&a->ended);
}

/* The rows are those of the images asked for: the blocking of a matrix product may round differently, nothing
 * else. */
static void check_rows(const struct ask *a)
{
    const struct td_tensor *t = &a->r.out[a->r.out[0].t.shape.rank == 2 ? 0 : 1].t;
    CHECK_INT(t->shape.dim[0], a->rows);
    const float *got = TD_DATA(t, float), *want = TD_DATA(&answers, float) + a->from * 10;
    for (int i = 0; i < a->rows * 10; i++) {
        CHECK(fabsf(got[i] - want[i]) <= 1e-5f);
    }
}

static void enter(struct ask *a)
{
    struct td_err scratch = {0};
    td_workers_run(workers, &a->r, &scratch);
}

static bool has_ended(struct ask *a)
{
    int n = 0;
    sem_getvalue(&a->ended, &n);
    return n > 0;
}

static enum td_code run(struct ask *a)
{
    enter(a);
    while (sem_wait(&a->ended) != 0) {
    }
    return a->err.code;
}

/* ------------------------------------------------------------------ tests */

TEST(a_lone_request_is_answered_here_or_later)
{
    const struct td_workers_opts opts = {.workers = 2, .batching = true};
    start(&opts);
    for (int i = 0; i < 20; i++) {
        struct ask a;
        make(&a, i, 1 + i % MAX_ROWS, i % 2 == 0 ? TD_RUN_BRIEF_NS : 0);
        CHECK_INT(run(&a), TD_OK);
        check_rows(&a);
        drop(&a);
    }
    finish();
}

static int stepped_back;
static void step_back(void)
{
    stepped_back++;
}

TEST(a_thread_steps_back_for_a_run_that_is_not_brief)
{
    const struct td_workers_opts opts = {.workers = 2, .batching = false};
    start(&opts);
    for (int i = 0; i < 8; i++) { /* of the first ones it is not known how long they take */
        struct ask a;
        make(&a, i, 1, i < 4 ? 0 : INT64_MAX);
        a.r.step_back = step_back;
        a.r.brief_ns = i % 2 == 0 ? INT64_MAX : 1;
        const int before = stepped_back;
        CHECK_INT(run(&a), TD_OK);
        CHECK(i < 4 || stepped_back == before + i % 2);
        check_rows(&a);
        drop(&a);
    }
    finish();
}

struct caller {
    pthread_t thread;
    unsigned seed;
    long n, stopped;
};

static void *call_until(void *arg)
{
    struct caller *c = arg;
    const char *seconds = getenv("TD_TEST_SECONDS");
    const int64_t until_ns = td_clock_ns() + (int64_t)((seconds != NULL ? strtod(seconds, NULL) : 1.0) * 1e9);
    while (td_clock_ns() < until_ns) {
        struct ask a;
        const int rows = 1 + rand_r(&c->seed) % MAX_ROWS;
        make(&a, rand_r(&c->seed) % (POOL - MAX_ROWS), rows, rand_r(&c->seed) % 2 == 0 ? TD_RUN_LONE_NS : 0);
        a.r.priority = rand_r(&c->seed) % 4 == 0;
        const int fate = rand_r(&c->seed) % 10;
        if (fate == 0) {
            a.r.run.work.deadline_ns = td_clock_ns() + rand_r(&c->seed) % 200000;
        } else if (fate == 1) {
            atomic_store(&a.r.stop, TD_CANCELLED);
        }
        const enum td_code rc = run(&a);
        if (rc == TD_OK) {
            check_rows(&a);
        } else {
            CHECK((fate == 0 && rc == TD_DEADLINE_EXCEEDED) || (fate == 1 && rc == TD_CANCELLED));
            c->stopped++;
        }
        c->n++;
        drop(&a);
    }
    return NULL;
}

static void load_with(const struct td_workers_opts *opts)
{
    struct caller callers[CALLERS];
    struct td_workers_counts counts;
    long n = 0, stopped = 0;
    start(opts);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.seed = (unsigned)i + 1};
        CHECK_INT(pthread_create(&callers[i].thread, NULL, call_until, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        n += callers[i].n;
        stopped += callers[i].stopped;
    }
    td_workers_count(workers, &counts);
    CHECK_INT(counts.running, 0);
    CHECK_INT(counts.waiting, 0);
    CHECK(n > 100 && stopped > 0);
    CHECK((counts.merged > 0) == opts->batching);
    printf("     %ld requests, %ld stopped, %llu batches of %llu rows, %llu of several requests\n", n,
           stopped, (unsigned long long)counts.batches, (unsigned long long)counts.rows,
           (unsigned long long)counts.merged);
    finish();
}

TEST(random_load_gets_its_own_rows)
{
    const struct td_workers_opts opts = {.workers = 1, .batching = true};
    load_with(&opts);
}

TEST(random_load_without_batching)
{
    const struct td_workers_opts opts = {.workers = 2};
    load_with(&opts);
}

TEST(random_load_with_batching_parameters)
{
    const struct td_batching params = {.max_batch_size = 8,
                                       .batch_timeout_micros = 200,
                                       .max_enqueued_batches = 1000,
                                       .num_batch_threads = 2,
                                       .max_execution_batch_size = 4,
                                       .split_large = true,
                                       .allowed_batch_sizes = {2, 4},
                                       .n_allowed = 2};
    const struct td_workers_opts opts = {.workers = 2, .batching = true, .params = &params};
    load_with(&opts);
}

/* A step of a run that falls into pieces, some of which fall into pieces again. */
enum { CHUNKS = 12 };
struct falling {
    struct td_thread_pool *pool;
    int done[CHUNKS]; /* each written by the one thread that takes it */
    bool inner;
    atomic_int away; /* pieces that another thread did */
};

static void fall(void *arg, int i, int who)
{
    struct falling *f = arg;
    f->done[i]++;
    atomic_fetch_add(&f->away, who > 0);
    for (volatile int spin = 0; spin < 20000; spin++) {
    }
    if (!f->inner && i % 5 == 0) {
        struct falling inner = {.pool = f->pool, .inner = true};
        td_parallel_for(f->pool, CHUNKS, fall, &inner);
        for (int k = 0; k < CHUNKS; k++) {
            CHECK_INT(inner.done[k], 1);
        }
    }
}

static atomic_int chunks_away;

static void after_step(void *ctx, const struct td_observed *what)
{
    struct falling f = {.pool = ((struct ask *)ctx)->r.run.pool};
    (void)what;
    CHECK(f.pool != NULL);
    td_parallel_for(f.pool, CHUNKS, fall, &f);
    for (int i = 0; i < CHUNKS; i++) {
        CHECK_INT(f.done[i], 1);
    }
    atomic_fetch_add(&chunks_away, atomic_load(&f.away));
}

static void *borrow_until(void *arg)
{
    struct caller *c = arg;
    const char *seconds = getenv("TD_TEST_SECONDS");
    const int64_t until_ns = td_clock_ns() + (int64_t)((seconds != NULL ? strtod(seconds, NULL) : 1.0) * 1e9);
    while (td_clock_ns() < until_ns) {
        struct ask a;
        make(&a, rand_r(&c->seed) % (POOL - MAX_ROWS), 1 + rand_r(&c->seed) % MAX_ROWS, 0);
        a.r.run.observe = after_step;
        a.r.run.ctx = &a;
        CHECK_INT(run(&a), TD_OK);
        check_rows(&a);
        drop(&a);
        c->n++;
    }
    return NULL;
}

TEST(runs_borrow_workers_that_idle)
{
    const struct td_workers_opts opts = {.workers = 3, .batching = true};
    struct caller callers[4];
    struct td_workers_counts counts;
    start(&opts);
    for (int round = 0; round < 2; round++) { /* one caller, then more than there are workers */
        for (int i = 0; i < (round == 0 ? 1 : 4); i++) {
            callers[i] = (struct caller){.seed = (unsigned)i + 1};
            CHECK_INT(pthread_create(&callers[i].thread, NULL, borrow_until, &callers[i]), 0);
        }
        for (int i = 0; i < (round == 0 ? 1 : 4); i++) {
            pthread_join(callers[i].thread, NULL);
            CHECK(callers[i].n > 0);
        }
        td_workers_count(workers, &counts);
        CHECK_INT(counts.running, 0);
        CHECK(counts.borrowed > 0 && atomic_load(&chunks_away) > 0);
    }
    printf("     %llu lanes lent, %d pieces done there\n", (unsigned long long)counts.borrowed,
           atomic_load(&chunks_away));
    finish();
}

/* Two rows run; the worker, which proves the shape then, is done with that when it has run two more. */
static void prove(struct ask *first)
{
    for (int i = 0; i < 2; i++) {
        make(first, 0, 2, 0);
        CHECK_INT(run(first), TD_OK);
        drop(first);
    }
}

TEST(a_full_queue_answers_at_once)
{
    const struct td_batching params = {.max_batch_size = 2,
                                       .batch_timeout_micros = 3000000,
                                       .max_enqueued_batches = 1,
                                       .num_batch_threads = 1};
    const struct td_workers_opts opts = {.workers = 1, .batching = true, .params = &params};
    struct ask first, a, b;
    start(&opts);
    prove(&first);
    make(&a, 0, 1, 0);
    enter(&a);
    CHECK(!has_ended(&a));
    make(&b, 0, 2, 0);
    const int64_t from_ns = td_clock_ns();
    CHECK_INT(run(&b), TD_RESOURCE_EXHAUSTED);
    CHECK(td_clock_ns() - from_ns < 500000000);
    CHECK(strstr(b.err.msg, "max_enqueued_batches is 1") != NULL);
    drop(&b);
    atomic_store(&a.r.stop, TD_CANCELLED);
    while (sem_wait(&a.ended) != 0) {
    }
    CHECK_INT(a.err.code, TD_CANCELLED);
    CHECK(td_clock_ns() - from_ns < 2000000000);
    drop(&a);
    finish();
}

TEST(a_task_larger_than_a_batch_is_refused_or_split)
{
    const struct td_batching whole = {
        .max_batch_size = 4, .max_enqueued_batches = 10, .num_batch_threads = 1};
    const struct td_workers_opts opts = {.workers = 1, .batching = true, .params = &whole};
    struct ask a;
    start(&opts);
    make(&a, 0, 5, 0);
    CHECK_INT(run(&a), TD_INVALID_ARGUMENT);
    CHECK_STR(a.err.msg, "Task size 5 is larger than maximum input batch size 4");
    drop(&a);
    finish();
}

TEST(a_task_whose_chunks_do_not_all_fit_enters_none)
{
    const struct td_batching params = {.max_batch_size = 8,
                                       .max_execution_batch_size = 2,
                                       .split_large = true,
                                       .batch_timeout_micros = 3000000,
                                       .max_enqueued_batches = 3,
                                       .num_batch_threads = 1};
    const struct td_workers_opts opts = {.workers = 1, .batching = true, .params = &params};
    struct ask first, a;
    struct td_workers_counts counts;
    start(&opts);
    prove(&first);
    make(&a, 0, 8, 0);
    enter(&a);
    CHECK(has_ended(&a));
    CHECK_INT(a.err.code, TD_RESOURCE_EXHAUSTED);
    td_workers_count(workers, &counts);
    CHECK_INT(counts.waiting + counts.running, 0);
    drop(&a);
    make(&a, 0, 6, 0);
    CHECK_INT(run(&a), TD_OK);
    check_rows(&a);
    drop(&a);
    finish();
}

static void count_chunk(void *arg, int i, int who)
{
    atomic_int *counts = arg;
    (void)i;
    atomic_fetch_add(&counts[who > 0], 1);
    const struct timespec moment = {.tv_nsec = 200000};
    (void)nanosleep(&moment, NULL);
}

/* What is no model's run gets help too, and gives it back. */
TEST(loads_borrow_workers_that_idle)
{
    enum { PARTS = 64 };
    struct td_workers_counts counts;
    start(&(struct td_workers_opts){.workers = 3});
    atomic_int made[2] = {0, 0};
    for (int tries = 0; tries < 100 && atomic_load(&made[1]) == 0; tries++) {
        atomic_store(&made[0], 0);
        td_parallel_for(td_workers_pool(workers), PARTS, count_chunk, made);
    }
    CHECK(atomic_load(&made[1]) > 0);
    CHECK_INT(atomic_load(&made[0]) + atomic_load(&made[1]), PARTS);
    td_workers_count(workers, &counts);
    CHECK(counts.borrowed > 0);
    CHECK_INT(counts.running, 0);
    finish();
}

TEST_MAIN(RUN(a_lone_request_is_answered_here_or_later) RUN(a_thread_steps_back_for_a_run_that_is_not_brief)
              RUN(random_load_gets_its_own_rows) RUN(random_load_without_batching)
                  RUN(random_load_with_batching_parameters) RUN(runs_borrow_workers_that_idle)
                      RUN(a_full_queue_answers_at_once) RUN(a_task_larger_than_a_batch_is_refused_or_split)
                          RUN(a_task_whose_chunks_do_not_all_fit_enters_none)
                              RUN(loads_borrow_workers_that_idle))
