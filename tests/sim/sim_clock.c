/* tests/sim/sim_clock.c - one list of threads, each with the key that it waits for; wakers look for it there.
 *
 * A thread that must wait takes itself off the running ones and lets the next one go on; the one that finds
 * none lets time pass, on its own stack, until somebody is ready (maybe itself). Mutexes are the real ones,
 * tried: whoever does not get one waits for it as for any other key, because its holder may be waiting for
 * time to pass. Condition variables are nothing but their address.
 *
 * Threads: big guards everything; it is held from before a mutex is let go until its holder is listed as
 * waiting, so that no signal comes between.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_clock.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int __real_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *at);
int __real_pthread_cond_signal(pthread_cond_t *c);
int __real_pthread_cond_broadcast(pthread_cond_t *c);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __real_pthread_join(pthread_t t, void **out);
int __real_sem_wait(sem_t *s);
int __real_sem_post(sem_t *s);

enum { SPIN_LOOKS = 2000, SPIN_NS = 1000, YIELD_ONE_IN = 16, SIM_MOST_S = 600 };
static const int64_t START_NS = INT64_C(1000000000000);
enum state { READY, RUNS, WAITS };

struct thread {
    struct thread *next;
    enum state state;
    const void *key;  /* WAITS: for this; NULL: for time alone */
    int64_t until_ns; /* INT64_MAX: for ever */
    bool timed_out;
    sem_t go;
    pthread_t handle;
    void *(*fn)(void *);
    void *arg;
    int looks; /* at the clock, since its last wait */
};

static pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static atomic_bool on;
static enum sim_threads how;
static struct thread *threads, first;
static int running, ready;
static uint64_t state_of_draws;
static struct sim_source *sources;
static void (*on_pass)(void *ctx, int64_t from_ns, int64_t to_ns);
static void *on_pass_ctx;
static _Atomic int64_t now_ns;   /* read by anybody */
static atomic_int mutex_waiters; /* likewise */

static __thread struct thread *me;

/* ------------------------------------------------------------------ who runs */

static uint64_t draw(uint64_t below)
{
    state_of_draws = state_of_draws * 6364136223846793005U + 1442695040888963407U;
    return (state_of_draws >> 33) % below;
}

static void let_run(struct thread *t)
{
    t->state = RUNS;
    ready--;
    running++;
    if (t != me) {
        (void)__real_sem_post(&t->go);
    }
}

static void start_ready(void)
{
    while (ready > 0 && (how == SIM_AT_ONCE || running == 0)) {
        uint64_t which = draw((uint64_t)ready);
        struct thread *t = threads;
        while (t->state != READY || which-- > 0) {
            t = t->next;
        }
        let_run(t);
    }
}

static void make_ready(struct thread *t, bool timed_out)
{
    t->state = READY;
    t->timed_out = timed_out;
    t->looks = 0;
    ready++;
}

static void tell_and_abort(void)
{
    fprintf(stderr, "sim_clock: after %lld ns everybody waits, for nothing that will come:\n",
            (long long)(now_ns - START_NS));
    for (const struct thread *t = threads; t != NULL; t = t->next) {
        fprintf(stderr, "  thread %p waits for %p\n", (const void *)t, t->key);
    }
    abort();
}

static int64_t next_due(void)
{
    int64_t due = INT64_MAX;
    for (const struct thread *t = threads; t != NULL; t = t->next) {
        due = t->state == WAITS && t->until_ns < due ? t->until_ns : due;
    }
    for (const struct sim_source *s = sources; s != NULL; s = s->next) {
        const int64_t at = s->due_ns(s->ctx);
        due = at < due ? at : due;
    }
    return due;
}

static void pass_time(void)
{
    const int64_t due = next_due();
    if (due == INT64_MAX || due > START_NS + SIM_MOST_S * INT64_C(1000000000)) {
        tell_and_abort();
    }
    if (due > now_ns && on_pass != NULL) {
        on_pass(on_pass_ctx, now_ns, due);
    }
    now_ns = due > now_ns ? due : now_ns;
    for (const struct sim_source *s = sources; s != NULL; s = s->next) {
        if (s->due_ns(s->ctx) <= now_ns) {
            s->happen(s->ctx);
        }
    }
    for (struct thread *t = threads; t != NULL; t = t->next) {
        if (t->state == WAITS && t->until_ns <= now_ns) {
            make_ready(t, true);
        }
    }
}

/* The calling thread runs no more. */
static void go_on(void)
{
    running--;
    while (running == 0 && ready == 0 && threads != NULL) {
        pass_time();
    }
    start_ready();
}

/* Until it is this thread's turn. */
static void await_go(void)
{
    while (me->state != RUNS) {
        (void)__real_pthread_mutex_unlock(&big);
        while (__real_sem_wait(&me->go) != 0) {
        }
        (void)__real_pthread_mutex_lock(&big);
    }
}

/* False: until_ns has come. */
static bool await(const void *key, int64_t until_ns)
{
    me->state = WAITS;
    me->key = key;
    me->until_ns = until_ns;
    go_on();
    await_go();
    return !me->timed_out;
}

static void wake(const void *key, bool all)
{
    int n = 0;
    for (const struct thread *t = threads; t != NULL; t = t->next) {
        n += t->state == WAITS && t->key == key;
    }
    uint64_t which = n > 1 && !all ? draw((uint64_t)n) : 0;
    for (struct thread *t = threads; t != NULL; t = t->next) {
        if (t->state == WAITS && t->key == key && (all || which-- == 0)) {
            make_ready(t, false);
        }
    }
    start_ready();
}

static bool takes_part(void)
{
    return me != NULL && atomic_load_explicit(&on, memory_order_relaxed);
}

/* ------------------------------------------------------------------ for tests */

void sim_enter(void)
{
    (void)__real_pthread_mutex_lock(&big);
}

void sim_leave(void)
{
    (void)__real_pthread_mutex_unlock(&big);
}

void sim_wait(const void *key)
{
    (void)await(key, INT64_MAX);
}

void sim_wake(const void *key)
{
    wake(key, true);
}

void sim_start(enum sim_threads which, uint64_t seed)
{
    sim_enter();
    how = which;
    state_of_draws = seed * 7919 + 1;
    now_ns = START_NS;
    first = (struct thread){.state = RUNS, .handle = pthread_self()};
    (void)sem_init(&first.go, 0, 0);
    me = threads = &first;
    running = 1;
    atomic_store(&on, true);
    sim_leave();
}

void sim_stop(void)
{
    sim_enter();
    atomic_store(&on, false);
    threads = NULL;
    sources = NULL;
    on_pass = NULL;
    running = ready = 0;
    me = NULL;
    sim_leave();
}

int64_t sim_now_ns(void)
{
    return now_ns;
}

void sim_sleep(int64_t ns)
{
    if (ns > 0) {
        sim_enter();
        (void)await(NULL, now_ns + ns);
        sim_leave();
    }
}

uint64_t sim_draw(uint64_t below)
{
    sim_enter();
    const uint64_t n = draw(below);
    sim_leave();
    return n;
}

void sim_add(struct sim_source *s)
{
    sim_enter();
    s->next = sources;
    sources = s;
    sim_leave();
}

void sim_on_pass(void (*pass)(void *ctx, int64_t from_ns, int64_t to_ns), void *ctx)
{
    sim_enter();
    on_pass = pass;
    on_pass_ctx = ctx;
    sim_leave();
}

/* ------------------------------------------------------------------ the C library's */

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *at);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_join(pthread_t t, void **out);
int __wrap_sem_wait(sem_t *s);
int __wrap_sem_post(sem_t *s);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_MONOTONIC || !atomic_load_explicit(&on, memory_order_relaxed)) {
        return __real_clock_gettime(clock, out);
    }
    if (me != NULL && ++me->looks >= SPIN_LOOKS) {
        me->looks = 0;
        sim_sleep(SPIN_NS);
    }
    const int64_t ns = now_ns;
    *out = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    if (!takes_part()) {
        return __real_nanosleep(t, left);
    }
    sim_sleep(t->tv_sec * 1000000000 + t->tv_nsec);
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    if (!takes_part()) {
        return __real_pthread_mutex_lock(m);
    }
    int rc = pthread_mutex_trylock(m);
    if (rc != EBUSY) {
        return rc;
    }
    sim_enter();
    atomic_fetch_add(&mutex_waiters, 1); /* before the next try: who unlocks then looks for waiters */
    while ((rc = pthread_mutex_trylock(m)) == EBUSY) {
        (void)await(m, INT64_MAX);
    }
    atomic_fetch_sub(&mutex_waiters, 1);
    sim_leave();
    return rc;
}

/* With big held. */
static int let_go(pthread_mutex_t *m)
{
    const int rc = __real_pthread_mutex_unlock(m);
    if (atomic_load(&mutex_waiters) > 0) {
        wake(m, true);
    }
    return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (!takes_part()) {
        return __real_pthread_mutex_unlock(m);
    }
    if (how == SIM_AT_ONCE && atomic_load(&mutex_waiters) == 0) {
        const int rc = __real_pthread_mutex_unlock(m);
        if (atomic_load(&mutex_waiters) > 0) {
            sim_enter();
            wake(m, true);
            sim_leave();
        }
        return rc;
    }
    sim_enter();
    const int rc = let_go(m);
    if (how == SIM_ONE_BY_ONE && ready > 0 && draw(YIELD_ONE_IN) == 0) {
        make_ready(me, false);
        go_on();
        await_go();
    }
    sim_leave();
    return rc;
}

static int wait_on(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at)
{
    const int64_t until_ns = at == NULL ? INT64_MAX : at->tv_sec * 1000000000 + at->tv_nsec;
    sim_enter();
    (void)let_go(m);
    const bool woken = await(c, until_ns);
    sim_leave();
    (void)__wrap_pthread_mutex_lock(m);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return takes_part() ? wait_on(c, m, NULL) : __real_pthread_cond_wait(c, m);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at)
{
    return takes_part() ? wait_on(c, m, at) : __real_pthread_cond_timedwait(c, m, at);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *at)
{
    return takes_part() ? wait_on(c, m, at) : __real_pthread_cond_clockwait(c, m, clock, at);
}

static void signal_to(const pthread_cond_t *c, bool all)
{
    if (atomic_load_explicit(&on, memory_order_relaxed)) {
        sim_enter();
        wake(c, all);
        sim_leave();
    }
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    signal_to(c, false);
    return __real_pthread_cond_signal(c);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    signal_to(c, true);
    return __real_pthread_cond_broadcast(c);
}

static void take_off(struct thread *t)
{
    struct thread **at = &threads;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
}

static void *begin(void *arg)
{
    me = arg;
    sim_enter();
    await_go();
    sim_leave();
    void *out = me->fn(me->arg);
    struct thread *t = me;
    sim_enter();
    take_off(t);
    wake(t, true);
    me = NULL;
    go_on();
    sim_leave();
    (void)sem_destroy(&t->go);
    free(t);
    return out;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    if (!takes_part()) {
        return __real_pthread_create(t, a, fn, arg);
    }
    struct thread *new = calloc(1, sizeof *new);
    if (new == NULL) {
        return EAGAIN;
    }
    *new = (struct thread){.state = READY, .until_ns = INT64_MAX, .fn = fn, .arg = arg};
    (void)sem_init(&new->go, 0, 0);
    sim_enter();
    const int rc = __real_pthread_create(t, a, begin, new);
    if (rc == 0) {
        new->handle = *t;
        struct thread **last = &threads;
        while (*last != NULL) {
            last = &(*last)->next;
        }
        *last = new;
        ready++;
        start_ready();
    } else {
        (void)sem_destroy(&new->go);
        free(new);
    }
    sim_leave();
    return rc;
}

int __wrap_pthread_join(pthread_t t, void **out)
{
    if (takes_part()) {
        sim_enter();
        for (const struct thread *x = threads; x != NULL; x = x->next) {
            if (pthread_equal(x->handle, t)) {
                (void)await(x, INT64_MAX);
                break;
            }
        }
        sim_leave();
    }
    return __real_pthread_join(t, out);
}

int __wrap_sem_wait(sem_t *s)
{
    if (!takes_part()) {
        return __real_sem_wait(s);
    }
    sim_enter();
    while (sem_trywait(s) != 0) {
        (void)await(s, INT64_MAX);
    }
    sim_leave();
    return 0;
}

int __wrap_sem_post(sem_t *s)
{
    if (!atomic_load_explicit(&on, memory_order_relaxed)) {
        return __real_sem_post(s);
    }
    sim_enter(); /* the semaphore may be gone as soon as who waits for it has seen the post */
    const int rc = __real_sem_post(s);
    wake(s, true);
    sim_leave();
    return rc;
}
