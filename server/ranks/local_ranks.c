/* server/ranks/local_ranks.c - fork, a barrier and rooms in shared memory, and a thread that watches.
 *
 * A sum goes by chunks: each process writes its own to its room, all meet, each adds up all rooms in the
 * order of ranks (so that all have the same bits), all meet again.
 *
 *   here   how many have come to the meeting under way
 *   round   meetings that were held; a futex
 *
 * The last who comes ends the meeting. Who waits looks up every LOOK_MS for one that has left or was lost:
 * `left` is read before `round`, as who ends a meeting may leave right after it.
 *
 * A child holds the only writing end of a pipe, which closes with it, however it ends.
 *
 * Threads: calls come from one at a time (ranks.c); the watching one is rank 0's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/ranks/local_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"

enum { MOST = TD_LOCAL_RANKS_MOST, ROOM = 1 << 18 /* bytes of a chunk */ };
enum { LOOK_MS = 20, WATCH_MS = 200, LEAVE_S = 60, LOST_S = 30 };
enum { NO_PROCESSES = -1, GONE = -2 };

struct shared {
    atomic_uint round, here;
    atomic_int left[MOST]; /* 1: it has finished, and comes to no meeting any more */
    atomic_int lost;       /* 1 + the rank of who is gone; 0: none */
    atomic_int how;        /* its end, as waitpid has it */
};

static struct {
    int rank, size;
    struct shared *all;
    char *rooms; /* of ROOM bytes, by rank */
    pid_t pid[MOST];
    int alive[MOST]; /* reading ends; -1: it has ended */
    pthread_t watcher;
    atomic_int finishing;
    pthread_mutex_t mu; /* guards what follows */
    void (*told)(void *ctx);
    void *ctx;
} self = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ meeting */

static bool somebody_left(void)
{
    bool left = atomic_load(&self.all->lost) != 0;
    for (int i = 0; i < self.size; i++) {
        left = left || atomic_load(&self.all->left[i]) != 0;
    }
    return left;
}

static void sleep_on(atomic_uint *word, unsigned value)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, value, &look, NULL, 0);
}

static int meet(void)
{
    struct shared *s = self.all;
    const unsigned round = atomic_load(&s->round);
    if (atomic_fetch_add(&s->here, 1) + 1 == (unsigned)self.size) {
        atomic_store(&s->here, 0);
        atomic_fetch_add(&s->round, 1);
        (void)syscall(SYS_futex, &s->round, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return 0;
    }
    for (;;) {
        const bool left = somebody_left();
        if (atomic_load(&s->round) != round) {
            return 0;
        }
        if (left) {
            return GONE;
        }
        sleep_on(&s->round, round);
    }
}

static char *room_of(int rank)
{
    return self.rooms + (size_t)rank * ROOM;
}

/* ------------------------------------------------------------------ sums */

/* to += part, of n numbers. */
typedef void add_fn(void *to, const void *part, int64_t n);

static void add_floats(void *to, const void *part, int64_t n)
{
    float *sum = to;
    const float *more = part;
    for (int64_t i = 0; i < n; i++) {
        sum[i] += more[i];
    }
}

static void add_doubles(void *to, const void *part, int64_t n)
{
    double *sum = to;
    const double *more = part;
    for (int64_t i = 0; i < n; i++) {
        sum[i] += more[i];
    }
}

/* n numbers of so many bytes. */
static int sum(void *v, int64_t n, size_t bytes, add_fn *add)
{
    const int64_t chunk = (int64_t)(ROOM / bytes);
    int rc = 0;
    for (int64_t at = 0; at < n && rc == 0; at += chunk) {
        const int64_t count = n - at < chunk ? n - at : chunk;
        char *to = (char *)v + (size_t)at * bytes;
        memcpy(room_of(self.rank), to, (size_t)count * bytes);
        rc = meet();
        memcpy(to, room_of(0), (size_t)count * bytes);
        for (int r = 1; r < self.size; r++) {
            add(to, room_of(r), count);
        }
        rc = rc ? rc : meet();
    }
    return rc;
}

static int sum_floats(float *v, int64_t n)
{
    return sum(v, n, sizeof *v, add_floats);
}

static int sum_doubles(double *v, int64_t n)
{
    return sum(v, n, sizeof *v, add_doubles);
}

static int share(void *bytes, size_t n)
{
    int rc = 0;
    for (size_t at = 0; at < n && rc == 0; at += ROOM) {
        const size_t count = n - at < ROOM ? n - at : ROOM;
        if (self.rank == 0) {
            memcpy(room_of(0), (char *)bytes + at, count);
        }
        rc = meet();
        if (rc == 0 && self.rank != 0) {
            memcpy((char *)bytes + at, room_of(0), count);
        }
        rc = rc ? rc : meet();
    }
    return rc;
}

/* ------------------------------------------------------------------ who is gone */

static bool lost(char *text, size_t room)
{
    const int who = atomic_load(&self.all->lost) - 1, how = atomic_load(&self.all->how);
    if (who < 0) {
        return false;
    }
    if (WIFSIGNALED(how)) {
        (void)snprintf(text, room, "process %d of %d of the job was ended by signal %d (%s)", who, self.size,
                       WTERMSIG(how), strsignal(WTERMSIG(how)));
    } else {
        (void)snprintf(text, room, "process %d of %d of the job has ended, with exit status %d", who,
                       self.size, WEXITSTATUS(how));
    }
    return true;
}

/* In rank 0, once somebody is lost. */
static void tell(void)
{
    pthread_mutex_lock(&self.mu);
    void (*const told)(void *ctx) = self.told;
    self.told = NULL;
    if (told != NULL) {
        told(self.ctx);
    }
    pthread_mutex_unlock(&self.mu);
}

static void on_loss(void (*told)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&self.mu);
    self.told = told;
    self.ctx = ctx;
    pthread_mutex_unlock(&self.mu);
    if (self.rank == 0 && atomic_load(&self.all->lost) != 0) {
        tell(); /* it was before */
    }
}

static void end_the_others(void)
{
    for (int i = 1; i < self.size; i++) {
        if (self.alive[i] >= 0) {
            (void)kill(self.pid[i], SIGKILL);
        }
    }
}

/* Process i's end of the pipe has closed. */
static void has_ended(int i)
{
    int how = 0, none = 0;
    while (waitpid(self.pid[i], &how, 0) < 0 && errno == EINTR) {
    }
    (void)close(self.alive[i]);
    self.alive[i] = -1;
    if (atomic_load(&self.all->left[i]) != 0 || atomic_load(&self.all->lost) != 0) {
        return;
    }
    atomic_store(&self.all->how, how);
    (void)atomic_compare_exchange_strong(&self.all->lost, &none, i + 1);
    end_the_others();
    tell();
}

static int poll_all(void)
{
    struct pollfd at[MOST];
    int who[MOST], n = 0;
    for (int i = 1; i < self.size; i++) {
        if (self.alive[i] >= 0) {
            who[n] = i;
            at[n++] = (struct pollfd){.fd = self.alive[i], .events = POLLIN};
        }
    }
    if (n > 0 && poll(at, (nfds_t)n, WATCH_MS) > 0) {
        for (int k = 0; k < n; k++) {
            if (at[k].revents != 0) {
                has_ended(who[k]);
            }
        }
    }
    return n;
}

/* The seconds for which *since has been set. */
static long seconds_of(bool is, time_t *since)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *since = !is ? 0 : *since == 0 ? now.tv_sec : *since;
    return is ? (long)(now.tv_sec - *since) : 0;
}

static void *watch(void *arg)
{
    time_t finishing = 0, gone = 0;
    char text[200];
    (void)arg;
    while (poll_all() > 0 || (atomic_load(&self.finishing) == 0 && atomic_load(&self.all->lost) != 0)) {
        const bool ends = atomic_load(&self.finishing) != 0;
        if (seconds_of(ends, &finishing) > LEAVE_S) {
            end_the_others();
        }
        if (seconds_of(!ends && lost(text, sizeof text), &gone) > LOST_S) {
            td_log(TD_LOG_ERROR, NULL, "%s, and this one cannot stop waiting for it", text);
            _exit(1);
        }
        if (gone != 0) {
            (void)poll(NULL, 0, LOOK_MS); /* nothing may be left to poll */
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ making and leaving */

static int map_memory(void)
{
    const size_t head = (sizeof(struct shared) + 4095) / 4096 * 4096;
    void *m = mmap(NULL, head + (size_t)self.size * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                   -1, 0);
    if (m == MAP_FAILED) {
        return NO_PROCESSES;
    }
    self.all = m;
    self.rooms = (char *)m + head;
    return 0;
}

/* In process `rank`, right behind its fork. */
static void be_child(int rank, pid_t parent)
{
    self.rank = rank;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    for (int i = 1; i < rank; i++) {
        (void)close(self.alive[i]);
    }
}

static int start(int rank)
{
    const pid_t parent = getpid();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return NO_PROCESSES;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]); /* the other end is open until this process ends */
        be_child(rank, parent);
        return 0;
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return NO_PROCESSES;
    }
    self.pid[rank] = pid;
    self.alive[rank] = ends[0];
    return 0;
}

static int init(int *rank, int *size)
{
    int rc = map_memory();
    (void)fflush(NULL); /* what was written before is written once */
    memset(self.alive, -1, sizeof self.alive);
    for (int i = 1; i < self.size && rc == 0 && self.rank == 0; i++) {
        rc = start(i);
    }
    if (rc == 0 && self.rank == 0 && pthread_create(&self.watcher, NULL, watch, NULL) != 0) {
        rc = NO_PROCESSES;
    }
    if (rc != 0) {
        end_the_others();
    }
    *rank = self.rank;
    *size = self.size;
    return rc;
}

static int finish(void)
{
    atomic_store(&self.finishing, 1);
    atomic_store(&self.all->left[self.rank], 1);
    if (self.rank == 0) {
        (void)pthread_join(self.watcher, NULL);
    }
    return 0;
}

static void *no_room(size_t bytes)
{
    (void)bytes;
    return NULL;
}

/* The others die with rank 0, or are ended by it. */
static void abort_all(int exit_code)
{
    _exit(exit_code);
}

const struct td_mpi_module *td_local_ranks(int size)
{
    static const struct td_mpi_module module = {.version = TD_MPI_MODULE_VERSION,
                                                .init = init,
                                                .sum_floats = sum_floats,
                                                .sum_doubles = sum_doubles,
                                                .room = no_room,
                                                .share = share,
                                                .finish = finish,
                                                .abort = abort_all,
                                                .lost = lost,
                                                .on_loss = on_loss};
    self.size = size < MOST ? size : MOST;
    return &module;
}
