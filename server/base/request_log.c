/* server/base/request_log.c - rows of models under one lock, and a queue that one thread empties.
 *
 *   rows     {model, prefix, rate, number and size of its file}, freed at the stop: a record in the queue
 *            names one
 *   queue    record -> record -> ...; at most TD_REQUEST_LOG_QUEUE bytes, the one in hand included
 *
 * The writer takes the whole queue, then writes record after record with the lock let go. It has one file
 * open at a time; a record that is not written whole is cut off again, so that a file always ends with one.
 * What the directory holds is summed up at the start and, when the quota is reached, every ten seconds: who
 * takes files away makes room.
 *
 * `active` is true while any model is logged, and all that a request reads otherwise.
 *
 * Does not: make records (server/request/prediction_log.c), delete files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/request_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"

enum { MAX_FILES = 100000, MAX_ROWS = 100000 };
#define LOOK_AGAIN_NS INT64_C(10000000000)

struct td_request_log {
    struct td_request_log *next;
    char *model, *prefix;
    bool on;
    double rate;
    /* the writer's */
    int number; /* of the file; 0 none yet, else one more */
    int64_t bytes;
};
struct record {
    struct record *next;
    struct td_request_log *row;
    struct td_sink bytes;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards rows, the queue, stop */
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct td_request_log *rows;
static int n_rows;
static struct record *first, **last = &first;
static size_t waiting; /* bytes */
static bool stop, started;
static pthread_t writer;
static atomic_bool active;

static char dir[PATH_MAX]; /* set before requests */
static int64_t quota;

/* The writer's. */
static int fd = -1;
static const struct td_request_log *open_for;
static int64_t used, looked_ns;
static bool said;

/* ------------------------------------------------------------------ files */

static int64_t bytes_in(const char *path)
{
    int64_t sum = 0;
    DIR *d = opendir(path);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
            sum += st.st_size;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return sum;
}

static bool has_room(size_t n)
{
    if (quota == 0 || used + (int64_t)n <= quota) {
        return true;
    }
    if (td_clock_ns() - looked_ns > LOOK_AGAIN_NS) {
        looked_ns = td_clock_ns();
        used = bytes_in(dir);
    }
    return used + (int64_t)n <= quota;
}

/* The row's file, or its next one; false with errno. */
static bool open_file(struct td_request_log *r)
{
    char path[PATH_MAX + 300];
    const bool full = r->number > 0 && r->bytes >= TD_REQUEST_LOG_FILE;
    if (open_for == r && fd >= 0 && !full) {
        return true;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    open_for = r;
    if (r->number > 0 && !full) {
        (void)snprintf(path, sizeof path, "%s/%s-%05d.tfrecord", dir, r->prefix, r->number - 1);
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            return true;
        }
    }
    do { /* one that was taken away is not made again */
        (void)snprintf(path, sizeof path, "%s/%s-%05d.tfrecord", dir, r->prefix, r->number++);
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    } while (fd < 0 && errno == EEXIST && r->number < MAX_FILES);
    r->bytes = 0;
    r->number -= fd < 0;
    return fd >= 0;
}

/* Whole, or not at all. */
static bool put(struct td_request_log *r, const struct td_sink *s)
{
    size_t done = 0;
    while (done < s->n) {
        const ssize_t n = write(fd, s->p + done, s->n - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            const int why = n < 0 ? errno : ENOSPC;
            (void)(ftruncate(fd, (off_t)r->bytes) == 0);
            errno = why;
            return false;
        }
        done += (size_t)n;
    }
    r->bytes += (int64_t)s->n;
    used += (int64_t)s->n;
    return true;
}

static void write_record(struct td_request_log *r, const struct td_sink *s)
{
    const bool room = has_room(s->n);
    const bool ok = room && open_file(r) && put(r, s);
    if (!ok && !said) {
        td_log(TD_LOG_WARNING, NULL, "requests of model '%s' are not logged: %s%s", r->model,
               room ? "" : "the files take --request_log_quota: ", room ? strerror(errno) : dir);
    }
    said = !ok;
    td_metrics_logged(td_metrics_model(r->model), ok ? TD_OK : room ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED);
}

static void *writer_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&mu);
    while (!stop || first != NULL) {
        if (first == NULL) {
            pthread_cond_wait(&filled, &mu);
            continue;
        }
        struct record *list = first;
        first = NULL;
        last = &first;
        while (list != NULL) {
            struct record *r = list;
            const size_t n = r->bytes.n;
            list = r->next;
            pthread_mutex_unlock(&mu);
            write_record(r->row, &r->bytes);
            td_sink_fini(&r->bytes);
            td_free(r);
            pthread_mutex_lock(&mu);
            waiting -= n;
        }
    }
    pthread_mutex_unlock(&mu);
    return NULL;
}

enum td_code td_request_log_start(const char *where, int64_t bytes, struct td_err *err)
{
    quota = bytes;
    dir[0] = '\0';
    if (*where == '\0') {
        return TD_OK;
    }
    TD_FAIL_IF(strlen(where) >= sizeof dir, err, INVALID_ARGUMENT, "--request_log_dir: a path of %zu bytes",
               strlen(where));
    if (mkdir(where, 0700) != 0 && errno != EEXIST) {
        TD_FAIL(err, FAILED_PRECONDITION, "--request_log_dir '%s' cannot be made: %s", where,
                strerror(errno));
    }
    (void)snprintf(dir, sizeof dir, "%s", where);
    return TD_OK;
}

void td_request_log_stop(void)
{
    pthread_mutex_lock(&mu);
    const bool ran = started;
    stop = true;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mu);
    if (ran) {
        pthread_join(writer, NULL);
    }
    pthread_mutex_lock(&mu);
    atomic_store(&active, false);
    started = stop = false;
    while (rows != NULL) {
        struct td_request_log *r = rows;
        rows = r->next;
        td_free(r->model);
        td_free(r->prefix);
        td_free(r);
    }
    n_rows = 0;
    pthread_mutex_unlock(&mu);
    if (fd >= 0) {
        (void)close(fd);
        fd = -1;
    }
    open_for = NULL;
}

/* ------------------------------------------------------------------ settings */

const char *td_request_log_prefix(const char *model, const char *prefix, struct td_err *err)
{
    const size_t n = strlen(dir);
    const char *rest = prefix;
    if (n == 0) {
        (void)td_fail(err, TD_FAILED_PRECONDITION,
                      "model %s: logging_config needs a directory: the server was started without "
                      "--request_log_dir",
                      model);
        return NULL;
    }
    if (*prefix == '/' && strncmp(prefix, dir, n) == 0 && prefix[n] == '/') {
        rest = prefix + n + 1;
    }
    if (*rest == '\0' || *rest == '.' || strchr(rest, '/') != NULL || strlen(rest) > 200) {
        (void)td_fail(err, TD_INVALID_ARGUMENT,
                      "model %s: logging_config: filename_prefix '%.300s' must name files in "
                      "--request_log_dir, '%s'",
                      model, prefix, dir);
        return NULL;
    }
    return rest;
}

/* Caller holds mu. NULL without memory. */
static struct td_request_log *row_of(const struct td_request_log_setting *s)
{
    struct td_request_log *r = rows;
    while (r != NULL && (strcmp(r->model, s->model) != 0 || strcmp(r->prefix, s->prefix) != 0)) {
        r = r->next;
    }
    if (r != NULL || n_rows >= MAX_ROWS || (r = td_calloc(1, sizeof *r)) == NULL) {
        return r;
    }
    r->model = td_strdup(s->model);
    r->prefix = td_strdup(s->prefix);
    if (r->model == NULL || r->prefix == NULL) {
        td_free(r->model);
        td_free(r->prefix);
        td_free(r);
        return NULL;
    }
    n_rows++;
    r->next = rows;
    rows = r;
    return r;
}

enum td_code td_request_log_replace(const struct td_request_log_setting *settings, int n, struct td_err *err)
{
    bool whole = true, any = false;
    pthread_mutex_lock(&mu);
    for (struct td_request_log *r = rows; r != NULL; r = r->next) {
        r->on = false;
    }
    for (int i = 0; i < n && whole; i++) {
        struct td_request_log *r = settings[i].rate > 0 ? row_of(&settings[i]) : NULL;
        whole = r != NULL || !(settings[i].rate > 0);
        if (r != NULL) {
            r->on = any = true;
            r->rate = settings[i].rate;
        }
    }
    if (any && !started) {
        used = bytes_in(dir);
        looked_ns = td_clock_ns();
        started = pthread_create(&writer, NULL, writer_main, NULL) == 0;
        whole = whole && started;
    }
    atomic_store(&active, any && started);
    pthread_mutex_unlock(&mu);
    return whole ? TD_OK : td_no_memory(err, sizeof *rows, "the log of requests");
}

/* ------------------------------------------------------------------ requests */

/* Uniform in [0, 1): a generator of each thread's own, begun at a place of its own. */
static double draw(void)
{
    static __thread uint64_t state;
    state = state != 0 ? state : (uint64_t)(uintptr_t)&state ^ (uint64_t)td_clock_ns() ^ 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

struct td_request_log *td_request_log_due(const char *model, double *rate)
{
    if (!atomic_load_explicit(&active, memory_order_relaxed)) {
        return NULL;
    }
    pthread_mutex_lock(&mu);
    struct td_request_log *r = rows;
    while (r != NULL && !(r->on && strcmp(r->model, model) == 0)) {
        r = r->next;
    }
    *rate = r != NULL ? r->rate : 0;
    pthread_mutex_unlock(&mu);
    return r != NULL && draw() < *rate ? r : NULL;
}

void td_request_log_lost(struct td_request_log *l, enum td_code code)
{
    td_metrics_logged(td_metrics_model(l->model), code);
}

void td_request_log_put(struct td_request_log *l, struct td_sink *takes_record)
{
    struct record *r = td_calloc(1, sizeof *r);
    pthread_mutex_lock(&mu);
    const bool room = r != NULL && started && !stop && waiting + takes_record->n <= TD_REQUEST_LOG_QUEUE;
    if (room) {
        *r = (struct record){.row = l, .bytes = *takes_record};
        *takes_record = (struct td_sink){0};
        waiting += r->bytes.n;
        *last = r;
        last = &r->next;
        pthread_cond_signal(&filled);
    }
    pthread_mutex_unlock(&mu);
    if (!room) {
        td_free(r);
        td_sink_fini(takes_record);
        td_request_log_lost(l, TD_RESOURCE_EXHAUSTED);
    }
}
