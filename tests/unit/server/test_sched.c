/* tests/unit/server/test_sched.c - properties of the scheduler on random schedules, in simulated time.
 *
 * A simulation has a few models with a few signatures each, workers, and an event loop: tasks arrive (some
 * with a deadline, some cancelled later), batches start when a worker is free and end after fixed + each *
 * rows, and some borrow a worker for a while. After every event the properties of server/sched/sched.h are
 * checked; a seed that breaks one is printed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/sched.h"

#include "core/base/mem.h"
#include "tests/test.h"

enum { MAX_TASKS = 600, MAX_QUEUES = 6, MAX_WORKERS = 4, MAX_DEVICE = 6, SEEDS = 400 };
enum fate { WAITING, RUNNING, DONE, DROPPED, REFUSED };

struct one {
    struct td_sched_task task; /* first */
    td_stop stop;
    struct td_run_opts run;
    enum fate fate;
    int number;
};

struct worker {
    bool busy;
    struct td_sched_queue *borrower; /* NULL: it runs the batch */
    struct td_batch batch;
    int64_t from_ns, ends_ns;
};

struct world {
    struct td_sched s;
    struct td_sched_queue queue[MAX_QUEUES];
    uint32_t devices[MAX_QUEUES]; /* that it is confined to; 0: all */
    int64_t fixed_ns[MAX_QUEUES], each_ns[MAX_QUEUES], last_started[MAX_QUEUES][TD_LEVELS][3];
    int n_queues, n_tasks;
    struct one task[MAX_TASKS];
    struct worker worker[MAX_WORKERS + MAX_DEVICE]; /* the host's, then the device's */
    int64_t now_ns;
    uint64_t random;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % below;
}

static int n_workers(const struct world *w)
{
    return w->s.workers + w->s.device_runs;
}

static int queue_index(const struct world *w, const struct td_sched_queue *f)
{
    return (int)(f - w->queue);
}

/* ------------------------------------------------------------------ properties */

static void check_batch(struct world *w, const struct td_batch *b)
{
    const int f = queue_index(w, b->queue);
    int64_t rows = 0;
    int n = 0;
    const struct td_sched_task *first = b->tasks;
    for (const struct td_sched_task *t = b->tasks; t != NULL; t = t->next, n++) {
        const struct one *o = (const struct one *)t;
        CHECK_INT(o->fate, WAITING);
        CHECK(t->queue == b->queue && t->like == first->like);
        CHECK(!t->alone || b->n_tasks == 1);
        CHECK(td_sched_alive(t, w->now_ns));
        int64_t *last = &w->last_started[f][t->level][t->like];
        CHECK(t->late || o->number > *last); /* its turn: none of its kind came before and still waits */
        *last = t->late ? *last : o->number;
        rows += t->rows;
        CHECK(t->max_rows == 0 || b->n_tasks == 1 || b->rows <= t->max_rows);
    }
    CHECK_INT(rows, b->rows);
    CHECK_INT(n, b->n_tasks);
    if (n > 1) {
        CHECK(b->queue->rule.merges);
        CHECK(b->queue->rule.max_rows == 0 || rows <= b->queue->rule.max_rows);
    }
}

/* Of its flow, no task of a level before the first one's waits, nor one in time behind which that is late. */
static void check_first(const struct world *w, const struct td_batch *b)
{
    const struct td_sched_task *first = b->tasks;
    CHECK(first->late == (first->late_ns != 0 && first->late_ns <= w->now_ns));
    for (int q = 0; q < 2 * first->level + first->late; q++) {
        for (const struct td_sched_task *t = b->queue->waiting[q].first; t != NULL; t = t->next) {
            CHECK(!td_sched_alive(t, w->now_ns));
        }
    }
}

/* What these devices could run, less what runs on none but them. */
static int room_on(const struct world *w, uint32_t devices)
{
    int room = w->s.each_device * __builtin_popcount(devices);
    for (int i = w->s.workers; i < n_workers(w); i++) {
        const uint32_t of = w->worker[i].busy ? w->devices[queue_index(w, w->worker[i].batch.queue)] : 0;
        room -= of != 0 && (of & ~devices) == 0;
    }
    return room;
}

/* A worker for the queue, or a run on its devices: no queue's devices would have too many. */
static bool has_room(const struct world *w, const struct td_sched_queue *q)
{
    const uint32_t own = w->devices[queue_index(w, q)];
    if (!q->on_device) {
        return w->s.running < w->s.workers;
    }
    for (int f = 0; own != 0 && f < w->n_queues; f++) {
        const uint32_t other = w->devices[f];
        if (other != 0 && (own & ~other) == 0 && room_on(w, other) <= 0) {
            return false;
        }
    }
    return w->s.device_running < w->s.device_runs;
}

/* No high task that could run waits when a normal one starts. */
static void check_level(const struct world *w, const struct td_batch *b)
{
    if (b->tasks->level == TD_LEVEL_HIGH) {
        return;
    }
    for (int f = 0; f < w->n_queues; f++) {
        const struct td_sched_queue *other = &w->queue[f];
        const bool full =
            !has_room(w, other) || (other->rule.max_running > 0 && other->running >= other->rule.max_running);
        for (int q = 0; q < 2; q++) {
            const struct td_sched_task *h = other->waiting[2 * TD_LEVEL_HIGH + q].first;
            CHECK(other == b->queue || h == NULL || full || other->rule.timeout_ns > 0 ||
                  !td_sched_alive(h, w->now_ns));
        }
    }
}

static void check_idle(const struct world *w)
{
    for (int f = 0; f < w->n_queues; f++) {
        const struct td_sched_queue *x = &w->queue[f];
        const bool full = x->rule.max_running > 0 && x->running >= x->rule.max_running;
        CHECK(x->n_tasks == 0 || full || x->rule.timeout_ns > 0 || !has_room(w, x));
    }
}

static void check_counts(const struct world *w)
{
    int64_t waiting = 0, of_level[MAX_QUEUES][TD_LEVELS] = {{0}};
    int running = 0, device_running = 0;
    for (int i = 0; i < w->n_tasks; i++) {
        const struct td_sched_task *t = &w->task[i].task;
        waiting += w->task[i].fate == WAITING;
        of_level[queue_index(w, t->queue)][t->level] += w->task[i].fate == WAITING;
    }
    for (int f = 0; f < w->n_queues; f++) {
        CHECK(memcmp(of_level[f], w->queue[f].n_of_level, sizeof of_level[f]) == 0);
        for (int q = 0; q < 2 * TD_LEVELS; q++) {
            CHECK((w->queue[f].waiting[q].first != NULL) == (w->queue[f].filled >> q & 1));
        }
    }
    for (int i = 0; i < n_workers(w); i++) {
        *(i < w->s.workers ? &running : &device_running) += w->worker[i].busy;
    }
    CHECK_INT(w->s.n_tasks, waiting);
    CHECK_INT(w->s.running, running);
    CHECK_INT(w->s.device_running, device_running);
    for (int f = 0; f < w->n_queues; f++) {
        CHECK(room_on(w, w->devices[f]) >= 0);
    }
}

/* ------------------------------------------------------------------ events */

static void drop(struct td_sched_list *l, const struct world *w)
{
    for (struct td_sched_task *t = l->first; t != NULL; t = t->next) {
        struct one *o = (struct one *)t;
        CHECK_INT(o->fate, WAITING);
        CHECK(!td_sched_alive(t, w->now_ns));
        o->fate = DROPPED;
    }
}

static int64_t duration(const struct world *w, const struct td_batch *b)
{
    const int f = queue_index(w, b->queue);
    return w->fixed_ns[f] + w->each_ns[f] * b->rows;
}

static struct worker *free_worker(struct world *w, bool on_device)
{
    const int from = on_device ? w->s.workers : 0, to = on_device ? n_workers(w) : w->s.workers;
    for (int i = from; i < to; i++) {
        if (!w->worker[i].busy) {
            return &w->worker[i];
        }
    }
    CHECK(!"a lane is free");
    return NULL;
}

static void occupy(struct world *w, const struct td_batch *b)
{
    struct worker *l = free_worker(w, b->on_device);
    *l = (struct worker){
        .busy = true, .batch = *b, .from_ns = w->now_ns, .ends_ns = w->now_ns + duration(w, b)};
}

static void dispatch(struct world *w)
{
    struct td_batch b;
    struct td_sched_list dropped = {NULL, NULL};
    while (td_sched_next(&w->s, w->now_ns, &b, &dropped)) {
        drop(&dropped, w);
        dropped = (struct td_sched_list){NULL, NULL};
        check_batch(w, &b);
        check_first(w, &b);
        check_level(w, &b);
        for (struct td_sched_task *t = b.tasks; t != NULL; t = t->next) {
            ((struct one *)t)->fate = RUNNING;
        }
        occupy(w, &b);
    }
    drop(&dropped, w);
    check_idle(w);
    check_counts(w);
}

static void arrive(struct world *w)
{
    struct one *o = &w->task[w->n_tasks];
    struct td_sched_queue *f = &w->queue[draw(w, (uint64_t)w->n_queues)];
    struct td_err err = {0};
    *o = (struct one){.number = ++w->n_tasks};
    o->run = (struct td_run_opts){.work.stop = &o->stop,
                                  .work.deadline_ns =
                                      draw(w, 6) == 0 ? w->now_ns + 1 + (int64_t)draw(w, 4000) : 0};
    const int level = draw(w, 4) == 0   ? TD_LEVEL_HIGH
                      : draw(w, 3) == 0 ? (int)draw(w, TD_LEVELS)
                                        : TD_LEVEL_NORMAL;
    o->task =
        (struct td_sched_task){.queue = f,
                               .level = level,
                               .late_ns = draw(w, 6) == 0 ? w->now_ns + 1 + (int64_t)draw(w, 2000) : 0,
                               .rows = 1 + (int64_t)(draw(w, 4) == 0 ? draw(w, 6) : 0),
                               .like = draw(w, 5) == 0 ? 1 + draw(w, 2) : 0,
                               .alone = draw(w, 8) == 0,
                               .max_rows = draw(w, 3) == 0 ? 6 + (int64_t)draw(w, 4) : 0,
                               .start_by_ns = draw(w, 6) == 0 ? w->now_ns + 1 + (int64_t)draw(w, 4000) : 0,
                               .run = &o->run};
    const int64_t most = f->rule.max_of_level[level];
    const bool full = (f->rule.max_tasks > 0 && f->n_tasks >= f->rule.max_tasks) ||
                      (most > 0 && f->n_of_level[level] >= most);
    const bool full_batches =
        f->rule.max_batches > 0 &&
        (f->n_rows + o->task.rows + f->rule.max_rows - 1) / f->rule.max_rows > f->rule.max_batches;
    const enum td_code rc = td_sched_add(&w->s, &o->task, w->now_ns, &err);
    CHECK_INT(rc, full || full_batches ? TD_RESOURCE_EXHAUSTED : TD_OK);
    o->fate = rc ? REFUSED : WAITING;
}

static void end_due(struct world *w)
{
    for (int i = 0; i < n_workers(w); i++) {
        struct worker *l = &w->worker[i];
        if (l->busy && l->ends_ns <= w->now_ns && l->borrower != NULL) {
            td_sched_back(&w->s, l->borrower, l->ends_ns - l->from_ns);
            l->busy = false;
        } else if (l->busy && l->ends_ns <= w->now_ns) {
            for (struct td_sched_task *t = l->batch.tasks; t != NULL; t = t->next) {
                ((struct one *)t)->fate = DONE;
            }
            td_sched_done(&w->s, &l->batch, l->ends_ns - l->from_ns, true);
            l->busy = false;
        }
    }
}

static void cancel_one(struct world *w)
{
    if (w->n_tasks > 0) {
        atomic_store(&w->task[draw(w, (uint64_t)w->n_tasks)].stop, TD_CANCELLED);
    }
    if (draw(w, 2) == 0) {
        struct td_sched_list dropped = {NULL, NULL};
        td_sched_reap(&w->s, w->now_ns, &dropped);
        drop(&dropped, w);
    }
}

/* A batch that runs borrows a worker, for less time than it takes itself: only one that nothing else could
 * use.
 */
static void borrow(struct world *w)
{
    for (int i = 0; i < n_workers(w); i++) {
        const struct worker *from = &w->worker[i];
        if (from->busy && from->borrower == NULL) {
            const bool idle = w->s.running < w->s.workers;
            const bool borrowed = td_sched_take_worker(&w->s, w->now_ns);
            CHECK(borrowed || !idle || w->s.n_tasks > 0);
            CHECK(idle || !borrowed);
            if (borrowed) {
                *free_worker(w, false) =
                    (struct worker){.busy = true,
                                    .borrower = from->batch.queue,
                                    .from_ns = w->now_ns,
                                    .ends_ns = w->now_ns + (from->ends_ns - w->now_ns) / 2};
            }
            return;
        }
    }
}

static int64_t next_end(const struct world *w)
{
    int64_t at = INT64_MAX;
    for (int i = 0; i < n_workers(w); i++) {
        at = w->worker[i].busy && w->worker[i].ends_ns < at ? w->worker[i].ends_ns : at;
    }
    return at;
}

/* To the end of the next batch, or a little on. */
static void pass(struct world *w, int64_t most)
{
    const int64_t at = next_end(w);
    w->now_ns = at - w->now_ns < most ? at : w->now_ns + most;
    end_due(w);
}

static void make_world(struct world *w, uint64_t seed)
{
    static const char *const models[] = {"a", "b", "c"};
    struct td_err err = {0};
    *w = (struct world){.now_ns = 1000, .random = seed * 7919 + 1};
    const int devices = 1 + (int)draw(w, 3), each = (int)draw(w, (uint64_t)(MAX_DEVICE / devices) + 1);
    td_sched_init(&w->s, 1 + (int)draw(w, MAX_WORKERS), devices, each);
    w->n_queues = 1 + (int)draw(w, MAX_QUEUES);
    for (int f = 0; f < w->n_queues; f++) {
        struct td_rule *r = &w->queue[f].rule;
        CHECK_OK(td_sched_join(&w->s, &w->queue[f], models[draw(w, 3)], &err));
        w->queue[f].on_device = w->s.device_runs > 0 && draw(w, 2) == 0;
        w->devices[f] = (uint32_t)draw(w, UINT64_C(1) << devices) % ((UINT32_C(1) << devices) - 1);
        td_sched_confine(&w->s, &w->queue[f], w->devices[f]);
        r->merges = draw(w, 4) != 0;
        r->max_rows = draw(w, 2) == 0 ? 0 : 6 + (int64_t)draw(w, 8);
        r->timeout_ns = r->max_rows > 0 && draw(w, 3) == 0 ? (int64_t)draw(w, 2000) : 0;
        r->max_tasks = draw(w, 3) == 0 ? 1 + (int64_t)draw(w, 20) : 0;
        r->max_of_level[draw(w, TD_LEVELS)] = (int64_t)draw(w, 5);
        r->max_of_level[TD_LEVEL_NORMAL] = draw(w, 3) == 0 ? 1 + (int64_t)draw(w, 20) : 0;
        r->max_batches = r->max_rows > 0 && draw(w, 3) == 0 ? 1 + (int64_t)draw(w, 4) : 0;
        r->max_running = draw(w, 4) == 0 ? 1 : 0;
        w->fixed_ns[f] = (int64_t)draw(w, 1000);
        w->each_ns[f] = 1 + (int64_t)draw(w, 300);
    }
}

static void free_world(struct world *w)
{
    for (int f = 0; f < w->n_queues; f++) {
        td_sched_leave(&w->s, &w->queue[f]);
    }
    CHECK(w->s.shares == NULL);
    td_sched_fini(&w->s);
}

TEST(random_schedules_keep_the_properties)
{
    static struct world w;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        make_world(&w, seed);
        while (w.n_tasks < MAX_TASKS) {
            const uint64_t what = draw(&w, 10);
            if (what < 6) {
                arrive(&w);
            } else if (what < 9) {
                pass(&w, 500);
            } else if (draw(&w, 3) == 0) {
                struct td_sched_queue *q = &w.queue[draw(&w, (uint64_t)w.n_queues)];
                q->on_device = w.s.device_runs > 0 && !q->on_device;
            } else if (draw(&w, 2) == 0) {
                borrow(&w);
            } else {
                cancel_one(&w);
            }
            dispatch(&w);
        }
        for (int i = 0; i < 100000 && (w.s.n_tasks > 0 || w.s.running + w.s.device_running > 0); i++) {
            pass(&w, 500);
            dispatch(&w);
        }
        for (int i = 0; i < w.n_tasks; i++) {
            if (w.task[i].fate == WAITING || w.task[i].fate == RUNNING) {
                fprintf(stderr, "seed %llu: task %d never ended\n", (unsigned long long)seed, i);
                CHECK(false);
            }
        }
        free_world(&w);
    }
}

/* ------------------------------------------------------------------ several devices */

/* Two devices that run two batches each, models of the first, of the second, and of both. */
TEST(models_of_one_device_leave_the_others_to_others)
{
    struct td_err err = {0};
    struct td_sched s;
    struct td_sched_queue first = {.on_device = true}, second = first, both = first, later = first;
    struct td_batch b[4], none;
    td_sched_init(&s, 1, 2, 2);
    CHECK_OK(td_sched_join(&s, &first, "first", &err));
    CHECK_OK(td_sched_join(&s, &second, "second", &err));
    CHECK_OK(td_sched_join(&s, &both, "both", &err));
    td_sched_confine(&s, &first, 1);
    td_sched_confine(&s, &second, 2);
    td_sched_confine(&s, &both, 3);
    CHECK(td_sched_device_runs(&s, 1) == 2 && td_sched_device_runs(&s, 3) == 4);
    CHECK(td_sched_try(&s, &first, 1, 1, &b[0]) && td_sched_try(&s, &first, 1, 1, &b[1]));
    CHECK(!td_sched_try(&s, &first, 1, 1, &none));
    CHECK_INT(td_sched_idle_for(&s, &both), 2);
    CHECK(td_sched_try(&s, &both, 1, 1, &b[2]) && td_sched_try(&s, &second, 1, 1, &b[3]));
    CHECK(!td_sched_try(&s, &second, 1, 1, &none) && !td_sched_try(&s, &both, 1, 1, &none));
    CHECK_OK(td_sched_join(&s, &later, "later", &err));
    td_sched_confine(&s, &later, 1);
    CHECK(!td_sched_try(&s, &later, 1, 1, &none));
    td_sched_done(&s, &b[0], 1, true);
    CHECK(td_sched_try(&s, &later, 1, 1, &b[0]));
    for (int i = 0; i < 4; i++) {
        td_sched_done(&s, &b[i], 1, true);
    }
    CHECK_INT(s.device_running, 0);
    td_sched_leave(&s, &first);
    td_sched_leave(&s, &second);
    td_sched_leave(&s, &both);
    td_sched_leave(&s, &later);
    for (int i = 0; i < TD_DEVICE_SETS; i++) {
        CHECK(s.sets[i].n_queues == 0 && s.sets[i].running == 0);
    }
    td_sched_fini(&s);
}

/* ------------------------------------------------------------------ fairness */

/* Two models on one worker: a is flooded, b asks now and then. */
struct flood {
    struct td_sched s;
    struct td_sched_queue a, b;
    int64_t now_ns, used_a, used_b, longest_wait_b;
};

static void flood_task(struct flood *x, struct td_sched_queue *f, struct one *o)
{
    struct td_err err = {0};
    *o = (struct one){.task = {.queue = f, .level = TD_LEVEL_NORMAL, .rows = 1, .run = &o->run}};
    CHECK_OK(td_sched_add(&x->s, &o->task, x->now_ns, &err));
}

static void flood_step(struct flood *x, int64_t ns_a, int64_t ns_b)
{
    struct td_batch b;
    struct td_sched_list none = {NULL, NULL};
    CHECK(td_sched_next(&x->s, x->now_ns, &b, &none));
    const int64_t ns = b.queue == &x->a ? ns_a : ns_b;
    if (b.queue == &x->b && x->now_ns - b.tasks->since_ns > x->longest_wait_b) {
        x->longest_wait_b = x->now_ns - b.tasks->since_ns;
    }
    *(b.queue == &x->a ? &x->used_a : &x->used_b) += ns;
    x->now_ns += ns;
    td_sched_done(&x->s, &b, ns, true);
}

static void flood_start(struct flood *x)
{
    struct td_err err = {0};
    *x = (struct flood){.now_ns = 1};
    td_sched_init(&x->s, 1, 0, 0);
    CHECK_OK(td_sched_join(&x->s, &x->a, "a", &err));
    CHECK_OK(td_sched_join(&x->s, &x->b, "b", &err));
}

static void flood_end(struct flood *x)
{
    td_sched_leave(&x->s, &x->a);
    td_sched_leave(&x->s, &x->b);
    td_sched_fini(&x->s);
}

TEST(two_flooded_models_get_equal_worker_time)
{
    static struct one tasks[4000];
    struct flood x;
    flood_start(&x);
    for (int i = 0; i < 2000; i++) {
        flood_task(&x, &x.a, &tasks[2 * i]);
        flood_task(&x, &x.b, &tasks[2 * i + 1]);
    }
    for (int i = 0; i < 1000; i++) {
        flood_step(&x, 300, 1000);
    }
    CHECK(x.used_a * 10 > x.used_b * 9 && x.used_b * 10 > x.used_a * 9);
    flood_end(&x);
}

TEST(a_flooded_model_delays_another_by_no_more_than_a_run)
{
    static struct one tasks[3000], asked[300];
    struct flood x;
    flood_start(&x);
    for (int i = 0; i < 3000; i++) {
        flood_task(&x, &x.a, &tasks[i]);
    }
    for (int i = 0; i < 200; i++) {
        flood_task(&x, &x.b, &asked[i]);
        for (int k = 0; k < 4; k++) {
            flood_step(&x, 700, 100);
        }
    }
    CHECK(x.longest_wait_b <= 700);
    flood_end(&x);
}

TEST(a_lone_caller_takes_an_idle_worker_only_when_nothing_waits)
{
    struct flood x;
    struct td_batch b, c;
    struct one waiting;
    struct td_sched_list none = {NULL, NULL};
    flood_start(&x);
    CHECK(td_sched_try(&x.s, &x.a, 1, x.now_ns, &b));
    CHECK(!td_sched_try(&x.s, &x.b, 1, x.now_ns, &c));
    flood_task(&x, &x.b, &waiting);
    td_sched_done(&x.s, &b, 10, true);
    CHECK(!td_sched_try(&x.s, &x.a, 1, x.now_ns, &c));
    CHECK(td_sched_next(&x.s, x.now_ns, &c, &none));
    CHECK(c.queue == &x.b);
    flood_end(&x);
}

TEST(a_batch_waits_for_its_timeout_or_until_it_is_full)
{
    struct flood x;
    struct td_batch b;
    struct one tasks[4];
    struct td_sched_list none = {NULL, NULL};
    flood_start(&x);
    x.a.rule = (struct td_rule){.merges = true, .max_rows = 3, .timeout_ns = 1000};
    flood_task(&x, &x.a, &tasks[0]);
    CHECK(!td_sched_next(&x.s, x.now_ns + 999, &b, &none));
    CHECK_INT(td_sched_ready_at(&x.s), x.now_ns + 1000);
    flood_task(&x, &x.a, &tasks[1]);
    flood_task(&x, &x.a, &tasks[2]);
    CHECK(td_sched_next(&x.s, x.now_ns, &b, &none));
    CHECK_INT(b.rows, 3);
    td_sched_done(&x.s, &b, 10, true);
    flood_task(&x, &x.a, &tasks[3]);
    CHECK(td_sched_next(&x.s, x.now_ns + 1000, &b, &none));
    CHECK_INT(b.rows, 1);
    flood_end(&x);
}

TEST(a_task_that_shares_no_batch_waits_for_nothing)
{
    struct flood x;
    struct td_batch b;
    struct one tasks[2];
    struct td_sched_list none = {NULL, NULL};
    flood_start(&x);
    x.a.rule = (struct td_rule){.merges = true, .max_rows = 3, .timeout_ns = 1000};
    for (int i = 0; i < 2; i++) {
        flood_task(&x, &x.a, &tasks[i]);
        tasks[i].task.alone = true;
    }
    for (int i = 0; i < 2; i++) {
        CHECK_INT(td_sched_ready_at(&x.s), 0);
        CHECK(td_sched_next(&x.s, x.now_ns, &b, &none));
        CHECK(b.tasks == &tasks[i].task);
        CHECK_INT(b.n_tasks, 1);
        td_sched_done(&x.s, &b, 10, true);
    }
    flood_end(&x);
}

TEST_MAIN(RUN(random_schedules_keep_the_properties) RUN(models_of_one_device_leave_the_others_to_others)
              RUN(two_flooded_models_get_equal_worker_time)
                  RUN(a_flooded_model_delays_another_by_no_more_than_a_run)
                      RUN(a_lone_caller_takes_an_idle_worker_only_when_nothing_waits)
                          RUN(a_batch_waits_for_its_timeout_or_until_it_is_full)
                              RUN(a_task_that_shares_no_batch_waits_for_nothing))
