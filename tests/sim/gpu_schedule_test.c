/* tests/sim/gpu_schedule_test.c - properties of how the daemon keeps a GPU busy, on random loads: the real
 * scheduler with its real threads, on a simulated clock and GPU (sim_clock.h, sim_gpu.h).
 *
 *   1  no stream idles while a batch could run           looked at whenever time passes
 *   2  copies of one batch go on while another computes
 *   3  memory never passes the limit; a run that would fails alone
 *   4  models that want the GPU at once get like parts of it
 *   5  who is late or has gone frees the stream, and launches nothing more
 *
 * Other loads: TD_SEED=n; longer: TD_SEEDS=500 gpu_schedule_test random_loads
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>

#include "core/base/mem.h"
#include "core/base/tsan.h"
#include "tests/sim/sim_load.h"
#include "tests/test.h"

enum { POOL = 64, CELLS = 64, CLASSES = 10, MAX_ROWS = 7, MAX_CLIENTS = 16, MODELS = 2 };
enum { REAP_NS = 10000000 }; /* server/sched/workers.c looks so often */

static struct sim_load load;
static struct td_servable *model[MODELS];
static struct td_tensor pool; /* [POOL, 8, 8] */
static float answer[POOL][CLASSES];
static int n_streams;

/* What a pass of time has found. */
static struct {
    bool looks;           /* from now on */
    double idle_ns;       /* streams that idled while a batch could run, summed up */
    double starved_ns;    /* had a run, and no work from it, while others waited */
    double ns, waited_ns; /* that passed; with batches waiting */
    bool broken;
    struct td_err why;
} seen;

/* Slow enough that a row costs something, and that copies do. */
static const struct sim_gpu_costs slow = {.flops_per_ns = 2,
                                          .bytes_per_ns = 8,
                                          .copy_bytes_per_ns = 0.02,
                                          .stage_bytes_per_ns = 10,
                                          .kernel_ns = 20000,
                                          .copy_ns = 5000,
                                          .launch_ns = 4000,
                                          .call_ns = 500,
                                          .processors = 16,
                                          .memory = 1 << 30};

static uint64_t seed(void)
{
    const char *text = getenv("TD_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 11;
}

/* ------------------------------------------------------------------ the world */

/* All threads wait: what the scheduler and the device hold now they hold until to_ns. */
static void look(void *ctx, int64_t from_ns, int64_t to_ns)
{
    const struct td_sched *s = &load.workers->sched;
    const double ns = (double)(to_ns - from_ns);
    (void)ctx;
    if (!seen.looks || sim_load_encoding() > s->workers) {
        return; /* answers keep the processors busy: who would run a batch is not served either */
    }
    if (!seen.broken && td_sched_idle_check(s, from_ns, &seen.why)) {
        seen.broken = true;
    }
    seen.ns += ns;
    if (s->n_tasks > 0) {
        seen.waited_ns += ns;
        seen.idle_ns += ns * (n_streams - sim_gpu_open_streams());
        seen.starved_ns += ns * (sim_gpu_open_streams() - sim_gpu_busy_streams());
    }
}

static void look_from_now(void)
{
    sim_enter();
    memset(&seen, 0, sizeof seen);
    seen.looks = true;
    sim_leave();
}

static void answer_on_the_host(void)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    const struct td_servable_opts opts = {.ops = load.engine.ops};
    struct td_tensor made[2] = {{0}};
    CHECK_OK(td_servable_load("host", 1, DIGITS_DIR, &opts, &s, &err));
    CHECK_OK(td_callable_run(td_servable_callable(s, td_servable_signature(s, "")), &pool, made, NULL, &err));
    memcpy(answer, made[made[0].shape.rank == 2 ? 0 : 1].data, sizeof answer);
    td_tensor_clear(&made[0]);
    td_tensor_clear(&made[1]);
    td_servable_unref(s);
}

static void part_of_pool(struct td_tensor *x, int from, int rows)
{
    td_tensor_rows(x, &pool, from, from + rows);
}

static enum td_code ask(struct td_servable *s, int from, int rows, int64_t thread_ns)
{
    struct sim_ask a;
    struct td_tensor x;
    part_of_pool(&x, from, rows);
    sim_ask_make(&a, s, &x, thread_ns);
    const enum td_code rc = sim_ask_run(&load, &a);
    sim_ask_drop(&a);
    td_tensor_clear(&x);
    return rc;
}

/* With two models of one kind, whose weights are on the device and whose rows are proven apart. */
static void start(const struct sim_load_opts *o)
{
    struct td_err err = {0};
    const struct td_shape shape = {.rank = 3, .dim = {POOL, 8, 8}};
    sim_load_start(&load, o);
    n_streams = o->streams;
    CHECK_OK(td_tensor_new(&pool, TD_FLOAT, &shape, &err));
    for (int i = 0; i < POOL * CELLS; i++) {
        TD_DATA(&pool, float)[i] = (float)((i * 7919 + i / 64 * 31) % 17);
    }
    answer_on_the_host();
    for (int i = 0; i < MODELS; i++) {
        model[i] = sim_load_model(&load, i == 0 ? "a" : "b", DIGITS_DIR);
        for (int k = 0; k < 3; k++) {
            CHECK_INT(ask(model[i], 0, 2, 0), TD_OK);
        }
    }
    sim_on_pass(look, NULL);
    look_from_now();
}

/* Nothing is left: no run, no stream, no byte but weights, and nothing has been out of order meanwhile. */
static void finish(void)
{
    struct td_workers_counts counts;
    td_workers_count(load.workers, &counts);
    CHECK_INT(counts.running, 0);
    CHECK_INT(counts.waiting, 0);
    sim_enter();
    CHECK_INT(sim_gpu_open_streams(), 0);
    CHECK_INT(sim_gpu_busy_streams(), 0);
    sim_leave();
    for (int i = 0; i < MODELS; i++) {
        td_servable_unref(model[i]);
    }
    CHECK_INT(sim_gpu_count().held, 0);
    td_tensor_clear(&pool);
    if (seen.broken) {
        fprintf(stderr, "%s\n", seen.why.msg);
    }
    CHECK(!seen.broken);
    sim_load_stop(&load);
}

/* ------------------------------------------------------------------ clients */

enum fate { ANSWERED, LATE, GONE };

struct client {
    pthread_t thread;
    struct td_servable *of;
    uint64_t random;
    int n, most_rows;
    bool fates;       /* some are late, or go */
    int64_t think_ns; /* at most, between requests */
    int64_t until_ns; /* or n requests */
    int answered, stopped;
    int64_t longest_ns, latest_ns; /* of those answered; past its deadline */
};

static uint64_t draw(struct client *c, uint64_t below)
{
    c->random = c->random * 6364136223846793005U + 1442695040888963407U;
    return (c->random >> 33) % below;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void check_rows(const struct sim_ask *a, int from, int rows)
{
    const struct td_tensor *t = &a->r.out[a->r.out[0].t.shape.rank == 2 ? 0 : 1].t;
    CHECK_INT(t->shape.dim[0], rows);
    for (int i = 0; i < rows * CLASSES; i++) {
        CHECK(fabsf(TD_DATA(t, float)[i] - (&answer[from][0])[i]) <= 1e-5F);
    }
}

static void one_request(struct client *c)
{
    struct sim_ask a;
    struct td_tensor x;
    const int rows = 1 + (int)draw(c, (uint64_t)c->most_rows), from = (int)draw(c, (uint64_t)(POOL - rows));
    const uint64_t chance = draw(c, 12);
    const enum fate fate = !c->fates || chance > 1 ? ANSWERED : chance == 0 ? LATE : GONE;
    static const int64_t threads_ns[] = {0, TD_RUN_BRIEF_NS, TD_RUN_LONE_NS};
    part_of_pool(&x, from, rows);
    sim_ask_make(&a, c->of, &x, threads_ns[draw(c, 3)]);
    a.encode_ns = (int64_t)draw(c, 3) * 20000;
    if (fate == LATE) {
        a.r.run.work.deadline_ns = sim_now_ns() + (int64_t)draw(c, 1500000);
    } else if (fate == GONE) {
        atomic_store(&a.r.stop, TD_CANCELLED);
    }
    const enum td_code rc = sim_ask_run(&load, &a);
    if (rc == TD_OK) {
        check_rows(&a, from, rows);
        c->answered++;
        c->longest_ns = most(c->longest_ns, a.took_ns);
    } else {
        CHECK_INT(rc, fate == LATE ? TD_DEADLINE_EXCEEDED : TD_CANCELLED);
        CHECK(fate != ANSWERED);
        c->stopped++;
    }
    if (fate == LATE) {
        c->latest_ns = most(c->latest_ns, a.from_ns + a.took_ns - a.r.run.work.deadline_ns);
    }
    sim_ask_drop(&a);
    td_tensor_clear(&x);
    if (c->think_ns > 0) {
        sim_sleep((int64_t)draw(c, (uint64_t)c->think_ns));
    }
}

static void *ask_on(void *arg)
{
    struct client *c = arg;
    for (int i = 0; c->until_ns > 0 ? sim_now_ns() < c->until_ns : i < c->n; i++) {
        one_request(c);
    }
    return NULL;
}

static void run_clients(struct client *clients, int n)
{
    for (int i = 0; i < n; i++) {
        clients[i].random = seed() * 1000003 + (uint64_t)i * 7919 + 1;
        CHECK_INT(pthread_create(&clients[i].thread, NULL, ask_on, &clients[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(clients[i].thread, NULL);
    }
}

/* ------------------------------------------------------------------ 1: no stream idles */

static enum sim_threads threads(void)
{
    return TD_TSAN_CHECKED ? SIM_AT_ONCE : SIM_ONE_BY_ONE;
}

struct sums {
    double ns, waited_ns;
    int requests;
    int64_t longest_ns, latest_ns;
};

static void random_load(uint64_t n, struct sums *sums)
{
    struct client world = {.random = n * 2654435761U + 7}, clients[MAX_CLIENTS];
    struct sim_load_opts o = {.threads = threads(), .seed = n, .costs = slow};
    o.streams = 1 + (int)draw(&world, 8);
    o.processors = 1 + (int)draw(&world, 3);
    o.no_batching = draw(&world, 4) == 0;
    o.costs.flops_per_ns *= 1 + (double)draw(&world, 8);
    o.costs.launch_ns = (int64_t)draw(&world, 3) * 4000;
    o.costs.pinned = draw(&world, 3) * (uint64_t)(256 << 10);
    const int n_clients = 2 + (int)draw(&world, MAX_CLIENTS - 2);
    start(&o);
    for (int i = 0; i < n_clients; i++) {
        clients[i] = (struct client){.of = model[draw(&world, MODELS)],
                                     .n = 12,
                                     .most_rows = 1 + (int)draw(&world, MAX_ROWS),
                                     .fates = true,
                                     .think_ns = (int64_t)draw(&world, 3) * 200000};
    }
    run_clients(clients, n_clients);
    for (int i = 0; i < n_clients; i++) {
        CHECK_INT(clients[i].answered + clients[i].stopped, 12);
        sums->requests += 12;
        sums->longest_ns = most(sums->longest_ns, clients[i].longest_ns);
        sums->latest_ns = most(sums->latest_ns, clients[i].latest_ns);
    }
    if (seen.idle_ns > 0) {
        fprintf(stderr, "TD_SEED=%llu: streams idled for %.0f ns while batches waited\n",
                (unsigned long long)n, seen.idle_ns);
    }
    CHECK(seen.idle_ns <= 0);
    sums->ns += seen.ns;
    sums->waited_ns += seen.waited_ns;
    finish();
}

TEST(random_loads_leave_no_stream_idle)
{
    const char *text = getenv("TD_SEEDS");
    const uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 40;
    struct sums s = {0};
    for (uint64_t i = 0; i < seeds; i++) {
        random_load(seed() + i, &s);
    }
    CHECK(s.waited_ns > s.ns / 20);
    CHECK(s.latest_ns <= REAP_NS + s.longest_ns);
    printf(
        "     %d requests in %.0f ms of the simulated clock, %.0f of them with batches waiting; the longest "
        "took %.1f ms, the latest was %.1f late\n",
        s.requests, s.ns / 1e6, s.waited_ns / 1e6, (double)s.longest_ns / 1e6, (double)s.latest_ns / 1e6);
}

/* ------------------------------------------------------------------ 2: copies overlap */

static struct sim_gpu_counts saturate(int streams)
{
    struct client clients[MAX_CLIENTS];
    const struct sim_load_opts o = {
        .threads = threads(), .seed = seed(), .processors = 2, .streams = streams, .costs = slow};
    start(&o);
    const struct sim_gpu_counts before = sim_gpu_count();
    for (int i = 0; i < MAX_CLIENTS; i++) {
        clients[i] = (struct client){.of = model[0], .n = 20, .most_rows = MAX_ROWS};
    }
    run_clients(clients, MAX_CLIENTS);
    const struct sim_gpu_counts after = sim_gpu_count();
    printf("     %d streams: %.1f ms, starved %.1f\n", streams, seen.ns / 1e6, seen.starved_ns / 1e6);
    CHECK(seen.idle_ns <= 0);
    finish();
    return (struct sim_gpu_counts){.kernels = after.kernels - before.kernels,
                                   .to_device = after.to_device - before.to_device,
                                   .to_host = after.to_host - before.to_host,
                                   .copied_meanwhile = after.copied_meanwhile - before.copied_meanwhile};
}

TEST(copies_go_on_while_others_compute)
{
    for (int streams = 1; streams <= 8; streams *= 2) {
        const struct sim_gpu_counts c = saturate(streams);
        const double copies = c.to_device + c.to_host;
        printf("     %d streams: kernels ran for %.1f ms, copies for %.1f, both for %.1f\n", streams,
               c.kernels / 1e6, copies / 1e6, c.copied_meanwhile / 1e6);
        CHECK(streams == 1 ? c.copied_meanwhile <= 0 : c.copied_meanwhile > copies * 0.5);
    }
}

/* ------------------------------------------------------------------ 3: memory */

/* What a request of so many rows needs at its most, beside *weights. */
static uint64_t need_of(int rows, uint64_t *weights)
{
    const struct sim_load_opts o = {.seed = 1, .processors = 1, .streams = 1, .costs = slow};
    start(&o);
    *weights = sim_gpu_count().held;
    sim_gpu_forget_most();
    CHECK_INT(ask(model[0], 0, rows, 0), TD_OK);
    const uint64_t most_held = sim_gpu_count().most;
    finish();
    return most_held - *weights;
}

struct greedy {
    pthread_t thread;
    int n;
};

/* Asks for more than the limit, over and over. */
static void *ask_for_too_much(void *arg)
{
    const struct greedy *g = arg;
    for (int i = 0; i < g->n; i++) {
        CHECK_INT(ask(model[1], 0, POOL, 0), TD_RESOURCE_EXHAUSTED);
        sim_sleep(50000);
    }
    return NULL;
}

static void short_of_memory(uint64_t n, uint64_t limit, int streams)
{
    enum { CLIENTS = 6 };
    struct client clients[CLIENTS];
    struct greedy g = {.n = 6};
    struct sim_load_opts o = {
        .threads = threads(), .seed = n, .processors = 2, .streams = streams, .limit = limit, .costs = slow};
    o.costs.flops_per_ns *= 64; /* no request is so long that it runs in chunks */
    o.costs.bytes_per_ns *= 8;
    o.costs.copy_bytes_per_ns *= 64;
    o.costs.kernel_ns /= 4;
    start(&o);
    sim_gpu_forget_most();
    CHECK_INT(pthread_create(&g.thread, NULL, ask_for_too_much, &g), 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.of = model[i % MODELS], .n = 12, .most_rows = 3};
    }
    run_clients(clients, CLIENTS);
    pthread_join(g.thread, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_INT(clients[i].answered, 12);
    }
    const uint64_t most = sim_gpu_count().most;
    if (most > limit) {
        fprintf(stderr, "TD_SEED=%llu: %llu bytes were held, %llu are the limit\n", (unsigned long long)n,
                (unsigned long long)most, (unsigned long long)limit);
    }
    CHECK(most <= limit);
    finish();
}

TEST(memory_stays_within_the_limit_and_who_wants_more_fails_alone)
{
    uint64_t held;
    const uint64_t small = need_of(3, &held), large = need_of(POOL, &held);
    printf("     weights %llu, 3 rows %llu, %d rows %llu\n", (unsigned long long)held,
           (unsigned long long)small, POOL, (unsigned long long)large);
    for (uint64_t i = 0; i < 12; i++) {
        short_of_memory(seed() + i, large / 2, 1 + (int)i % 5);
        short_of_memory(seed() + i, held + small + 2048, 1 + (int)i % 5);
    }
}

/* ------------------------------------------------------------------ 4: fairness */

static void add_streams(double *ns, double sign)
{
    for (int i = 0; i < MODELS; i++) {
        ns[i] += sign * sim_gpu_used_by(td_servable_engine(model[i]));
    }
}

/* Requests of many rows for one model and of one row for another, by so many clients each. Returns the
 * second's part of the time that both had of streams. */
static double part_of_second(int streams, bool no_batching, struct client *clients, int of_first,
                             int of_second)
{
    struct sim_load_opts o = {.threads = threads(), .seed = seed(), .processors = 2, .costs = slow};
    o.streams = streams;
    o.no_batching = no_batching;
    start(&o);
    for (int i = 0; i < of_first + of_second; i++) {
        const bool first = i < of_first;
        clients[i] = (struct client){.of = model[first ? 0 : 1],
                                     .most_rows = first ? MAX_ROWS : 1,
                                     .until_ns = sim_now_ns() + 300000000};
    }
    double ns[MODELS] = {0};
    add_streams(ns, -1);
    run_clients(clients, of_first + of_second);
    add_streams(ns, 1);
    finish();
    return ns[1] / (ns[0] + ns[1]);
}

static int64_t longest_of(const struct client *clients, int n)
{
    int64_t longest = 0;
    for (int i = 0; i < n; i++) {
        longest = most(longest, clients[i].longest_ns);
    }
    return longest;
}

/* One request a run: some of either always wait. A batch takes all that wait of a model, and its clients ask
 * again together: nothing of it waits when the stream is free, and the other goes, as none idles. At seed 2,
 * 37 of 42 batches of the large one began so: 0.39; where batches have 8 rows at most, 0.45 to 0.48. */
TEST(two_models_that_want_the_gpu_at_once_share_it)
{
    struct client clients[2 * MAX_CLIENTS];
    for (int i = 0; i < 6; i++) {
        const int streams = 1 << i % 4, batching = i / 4;
        const double even = batching ? 0.2 : 0.05,
                     part = part_of_second(streams, !batching, clients, MAX_CLIENTS, MAX_CLIENTS);
        printf("     %d streams, batching %d: small requests had %.2f of them\n", streams, batching, part);
        CHECK(part > 0.5 - even && part < 0.5 + even);
    }
}

TEST(a_model_that_asks_seldom_does_not_wait_for_one_that_floods)
{
    struct client clients[2 * MAX_CLIENTS];
    for (int streams = 1; streams <= 8; streams *= 2) {
        (void)part_of_second(streams, false, clients, MAX_CLIENTS, 1);
        const int64_t flood_ns = longest_of(clients, MAX_CLIENTS),
                      seldom_ns = clients[MAX_CLIENTS].longest_ns;
        printf("     %d streams: the longest wait is %.1f ms, that of the flood %.1f\n", streams,
               (double)seldom_ns / 1e6, (double)flood_ns / 1e6);
        CHECK(seldom_ns * 4 < flood_ns * 3);
    }
}

/* ------------------------------------------------------------------ 5: who is late, or has gone */

enum { LAUNCH_NS = 5000000 };

static void start_with_slow_launches(void)
{
    struct sim_load_opts o = {
        .threads = threads(), .seed = seed(), .processors = 1, .streams = 1, .costs = slow};
    o.costs.launch_ns = LAUNCH_NS;
    start(&o);
}

static void enter_rows(struct sim_ask *a, int from, int rows)
{
    struct td_tensor x;
    part_of_pool(&x, from, rows);
    sim_ask_make(a, model[0], &x, TD_RUN_BRIEF_NS);
    td_tensor_clear(&x);
    sim_ask_enter(&load, a);
}

static int64_t end_of(struct sim_ask *a, enum td_code want)
{
    CHECK_INT(sim_ask_wait(a), want);
    const int64_t took_ns = a->took_ns;
    sim_ask_drop(a);
    return took_ns;
}

TEST(who_has_gone_frees_the_stream_and_launches_no_more)
{
    struct sim_ask a, b;
    start_with_slow_launches();
    enter_rows(&b, 0, 1);
    const uint64_t before = sim_gpu_count().launches;
    const int64_t whole_ns = end_of(&b, TD_OK);
    const uint64_t all = sim_gpu_count().launches - before;
    enter_rows(&a, 0, 1);
    sim_sleep(1); /* it runs, alone */
    enter_rows(&b, 1, 1);
    sim_sleep(whole_ns / 2);
    atomic_store(&a.r.stop, TD_CANCELLED);
    const int64_t gone_ns = end_of(&a, TD_CANCELLED), next_ns = end_of(&b, TD_OK);
    const uint64_t launches = sim_gpu_count().launches - before - all;
    printf(
        "     a run of %llu launches takes %.1f ms; stopped half way it ends after %.1f, and the next %.1f "
        "later, after %llu launches\n",
        (unsigned long long)all, (double)whole_ns / 1e6, (double)gone_ns / 1e6,
        (double)(next_ns - gone_ns) / 1e6, (unsigned long long)launches);
    CHECK(gone_ns <= whole_ns / 2 + 2 * LAUNCH_NS);
    CHECK(next_ns <= gone_ns + whole_ns + LAUNCH_NS);
    CHECK(launches < 2 * all);
    finish();
}

TEST(who_is_late_in_the_queue_ends_while_others_run)
{
    struct sim_ask a, b;
    struct td_tensor x;
    start_with_slow_launches();
    enter_rows(&a, 0, 1);
    sim_sleep(1);
    part_of_pool(&x, 1, 1);
    sim_ask_make(&b, model[0], &x, TD_RUN_BRIEF_NS);
    td_tensor_clear(&x);
    b.r.run.work.deadline_ns = sim_now_ns() + LAUNCH_NS;
    sim_ask_enter(&load, &b);
    const int64_t late_ns = end_of(&b, TD_DEADLINE_EXCEEDED), whole_ns = end_of(&a, TD_OK);
    CHECK(late_ns <= LAUNCH_NS + REAP_NS && late_ns < whole_ns);
    finish();
}

TEST(a_batch_that_all_have_left_stops)
{
    enum { MEMBERS = 3 };
    struct sim_ask a, b[MEMBERS];
    start_with_slow_launches();
    enter_rows(&a, 0, 1);
    sim_sleep(1);
    for (int i = 0; i < MEMBERS; i++) {
        enter_rows(&b[i], i, 1);
    }
    const int64_t whole_ns = end_of(&a, TD_OK); /* and now they run together */
    const uint64_t before = sim_gpu_count().launches;
    sim_sleep(LAUNCH_NS);
    for (int i = 0; i < MEMBERS; i++) {
        atomic_store(&b[i].r.stop, TD_CANCELLED);
    }
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(end_of(&b[i], TD_CANCELLED) <= whole_ns + 3 * LAUNCH_NS + REAP_NS);
    }
    CHECK(sim_gpu_count().launches - before <= 3);
    CHECK_INT(ask(model[0], 0, 1, 0), TD_OK);
    finish();
}

TEST_MAIN(RUN(two_models_that_want_the_gpu_at_once_share_it)
              RUN(a_model_that_asks_seldom_does_not_wait_for_one_that_floods)
                  RUN(who_has_gone_frees_the_stream_and_launches_no_more)
                      RUN(who_is_late_in_the_queue_ends_while_others_run)
                          RUN(a_batch_that_all_have_left_stops)
                              RUN(memory_stays_within_the_limit_and_who_wants_more_fails_alone)
                                  RUN(random_loads_leave_no_stream_idle)
                                      RUN(copies_go_on_while_others_compute))
