/* kernels/cuda/base/nccl.c - the library, and groups.
 *
 * ncclCommInitRank waits for all processes, for ever where one does not come. So a thread makes that call,
 * and what it shares with the group is of who lets go of it last: a group may leave without that thread.
 *
 * A later call may wait for other processes on the host, too, when it first connects them; whoever wants to
 * end a group meanwhile (abort) waits for that call a while, and then leaves the group as it is: the
 * process has to be ended.
 *
 * Threads: mu guards the communicator, from the group's own calls and from abort; a joining's own mu what
 * the thread of ncclCommInitRank tells.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/nccl_api.h"
#include "kernels/cuda/base/shared_object.h"

/* ncclGetLastError came with 2.13; 21300 is 2.13.0. */
enum { LEAST_VERSION = 21300, ABORT_WAIT_S = 2 };

static const char *const SYMBOLS[] = {
#define CALL(type, name, parameters) #name,
#include "kernels/cuda/base/nccl_api.def"
    NULL};
_Static_assert(sizeof(struct td_nccl_api) == sizeof SYMBOLS - sizeof *SYMBOLS, "a pointer each");
_Static_assert((int)TD_NCCL_ID_BYTES == (int)TD_DEVICE_GROUP_NAME, "a group's name is NCCL's id");

/* A call of ncclCommInitRank's. */
struct joining {
    struct td_nccl_api api;
    int number; /* the device's */
    int rank, size;
    struct td_nccl_id id;
    pthread_mutex_t mu;    /* guards what follows */
    bool ended, forgotten; /* the call; by the group */
    int result;
    void *comm;
};

struct td_device_group {
    struct td_nccl_api api;
    int number; /* the device's */
    struct joining *joining;
    void *comm; /* NULL: not joined yet, or aborted */
    pthread_mutex_t mu;
    struct td_cuda_stream *stream;
    struct td_cuda_event *ready;
    struct td_cuda_event **mark; /* by number; NULL: not made yet */
    int n_marks;
};

/* ------------------------------------------------------------------ the library */

static bool load(const char *const *names, struct td_nccl_api *api, int *version, char *said, size_t room)
{
    const struct td_shared_object library = {.names = names, .symbols = SYMBOLS};
    const char *file = NULL;
    *version = 0;
    if (!td_shared_object_open(&library, api, &file, said, room)) {
        return false;
    }
    if (api->ncclGetVersion(version) != TD_NCCL_SUCCESS || *version < LEAST_VERSION || *version >= 30000) {
        (void)snprintf(said, room, "%s has version %d, wanted are %d to 29999", file, *version,
                       LEAST_VERSION);
        *version = 0;
        return false;
    }
    (void)snprintf(said, room, "NCCL %d.%d.%d (%s)", *version / 10000, *version / 100 % 100, *version % 100,
                   file);
    return true;
}

int td_nccl_version_of(const char *const *names, char *said, size_t room)
{
    struct td_nccl_api api;
    int version;
    return load(names, &api, &version, said, room) ? version : 0;
}

static const char *const NAMES[] = {"libnccl.so.2", NULL};

static int version(const struct td_device *d, char *said, size_t room)
{
    (void)d;
    return td_nccl_version_of(NAMES, said, room);
}

static enum td_code open_library(struct td_nccl_api *api, struct td_err *err)
{
    char said[200];
    int number;
    TD_FAIL_IF(!load(NAMES, api, &number, said, sizeof said), err, FAILED_PRECONDITION, "%s", said);
    return TD_OK;
}

/* What NCCL answered, as the call's outcome. */
static enum td_code said(const struct td_nccl_api *api, void *comm, int result, const char *call,
                         struct td_err *err)
{
    if (result == TD_NCCL_SUCCESS) {
        return TD_OK;
    }
    const char *more = api->ncclGetLastError(comm);
    TD_FAIL(err, UNAVAILABLE, "NCCL: %s: %s%s%.300s", call, api->ncclGetErrorString(result),
            more != NULL && more[0] != '\0' ? ": " : "", more != NULL ? more : "");
}

static enum td_code name(const struct td_device *d, char out[TD_DEVICE_GROUP_NAME], struct td_err *err)
{
    struct td_nccl_api api;
    struct td_nccl_id id;
    TD_TRY(open_library(&api, err));
    (void)td_cuda_use(td_cuda_device_index(d));
    TD_TRY(said(&api, NULL, api.ncclGetUniqueId(&id), "ncclGetUniqueId", err));
    memcpy(out, id.bytes, sizeof id.bytes);
    return TD_OK;
}

/* ------------------------------------------------------------------ joining */

static void *init_rank(void *arg)
{
    struct joining *j = arg;
    void *comm = NULL;
    (void)td_cuda_use(j->number);
    const int result = j->api.ncclCommInitRank(&comm, j->size, j->id, j->rank);
    pthread_mutex_lock(&j->mu);
    const bool forgotten = j->forgotten;
    j->ended = true;
    j->result = result;
    j->comm = comm;
    pthread_mutex_unlock(&j->mu);
    if (forgotten) {
        if (result == TD_NCCL_SUCCESS) {
            (void)j->api.ncclCommAbort(comm);
        }
        (void)pthread_mutex_destroy(&j->mu);
        td_free(j);
    }
    return NULL;
}

/* Accepts NULL. */
static void forget(struct joining *j)
{
    if (j == NULL) {
        return;
    }
    pthread_mutex_lock(&j->mu);
    const bool ended = j->ended;
    j->forgotten = true;
    pthread_mutex_unlock(&j->mu);
    if (ended) { /* else it is the thread's */
        (void)pthread_mutex_destroy(&j->mu);
        td_free(j);
    }
}

static bool start_thread(struct joining *j)
{
    pthread_attr_t alone;
    pthread_t thread;
    if (pthread_attr_init(&alone) != 0) {
        return false;
    }
    const bool made = pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED) == 0 &&
                      pthread_create(&thread, &alone, init_rank, j) == 0;
    (void)pthread_attr_destroy(&alone);
    return made;
}

static enum td_code join(struct td_device_group *g, const struct td_device_seat *seat, struct td_err *err)
{
    struct joining *j = td_calloc(1, sizeof *j);
    if (j == NULL || pthread_mutex_init(&j->mu, NULL) != 0) {
        td_free(j);
        return td_no_memory(err, sizeof *j, "a group of devices");
    }
    j->api = g->api;
    j->number = g->number;
    j->rank = seat->rank;
    j->size = seat->size;
    memcpy(j->id.bytes, seat->name, sizeof j->id.bytes);
    if (!start_thread(j)) {
        (void)pthread_mutex_destroy(&j->mu);
        td_free(j);
        TD_FAIL(err, RESOURCE_EXHAUSTED, "no thread can be made to join a group of devices");
    }
    g->joining = j;
    return TD_OK;
}

static enum td_code ended(struct td_err *err)
{
    TD_FAIL(err, UNAVAILABLE, "the sums over devices were ended");
}

static enum td_code joined(struct td_device_group *g, bool *in, struct td_err *err)
{
    struct joining *const j = g->joining;
    *in = j == NULL;
    if (j == NULL) {
        return TD_OK;
    }
    pthread_mutex_lock(&j->mu);
    const bool over = j->ended;
    pthread_mutex_unlock(&j->mu);
    if (!over) {
        return TD_OK;
    }
    g->joining = NULL;
    const enum td_code rc = said(&g->api, NULL, j->result, "ncclCommInitRank", err);
    pthread_mutex_lock(&g->mu);
    g->comm = rc == TD_OK ? j->comm : NULL;
    *in = rc == TD_OK;
    pthread_mutex_unlock(&g->mu);
    forget(j);
    return rc;
}

/* ------------------------------------------------------------------ opening and leaving */

static void leave(struct td_device_group *g)
{
    if (g == NULL) {
        return;
    }
    forget(g->joining);
    (void)td_cuda_use(g->number);
    if (g->stream != NULL) {
        (void)td_cuda_stream_wait(g->number, g->stream);
    }
    if (g->comm != NULL) {
        (void)g->api.ncclCommDestroy(g->comm);
    }
    for (int i = 0; i < g->n_marks; i++) {
        if (g->mark[i] != NULL) {
            (void)td_cuda_event_free(g->mark[i]);
        }
    }
    if (g->ready != NULL) {
        (void)td_cuda_event_free(g->ready);
    }
    if (g->stream != NULL) {
        (void)td_cuda_stream_free(g->stream);
    }
    (void)pthread_mutex_destroy(&g->mu);
    td_free(g->mark);
    td_free(g);
}

static enum td_code open_group(const struct td_device *d, struct td_device_group **out, struct td_err *err)
{
    struct td_device_group *g = td_calloc(1, sizeof *g);
    if (g == NULL || pthread_mutex_init(&g->mu, NULL) != 0) {
        td_free(g);
        return td_no_memory(err, sizeof *g, "a group of devices");
    }
    g->number = td_cuda_device_index(d);
    enum td_code rc = open_library(&g->api, err);
    rc = rc ? rc : td_cuda_fail(td_cuda_stream_new(g->number, &g->stream), "opening a stream for sums", err);
    rc = rc ? rc : td_cuda_fail(td_cuda_event_new(g->number, &g->ready), "making an event", err);
    if (rc) {
        leave(g);
        return rc;
    }
    *out = g;
    return TD_OK;
}

/* ------------------------------------------------------------------ sums */

static enum td_code mark_of(struct td_device_group *g, int number, struct td_err *err)
{
    if (number >= g->n_marks) {
        const int n = number + 1 > 2 * g->n_marks ? number + 16 : 2 * g->n_marks;
        struct td_cuda_event **more = td_calloc((size_t)n, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, (size_t)n * sizeof *more, "sums over devices");
        }
        if (g->n_marks > 0) {
            memcpy(more, g->mark, (size_t)g->n_marks * sizeof *more);
        }
        td_free(g->mark);
        g->mark = more;
        g->n_marks = n;
    }
    return g->mark[number] != NULL
               ? TD_OK
               : td_cuda_fail(td_cuda_event_new(g->number, &g->mark[number]), "making an event", err);
}

/* Under mu. */
static enum td_code reduce(struct td_device_group *g, const struct td_device_sum *s, int n,
                           struct td_err *err)
{
    if (g->comm == NULL) {
        return ended(err);
    }
    (void)td_cuda_use(g->number);
    TD_TRY(said(&g->api, g->comm, g->api.ncclGroupStart(), "ncclGroupStart", err));
    int result = TD_NCCL_SUCCESS;
    for (int i = 0; i < n && result == TD_NCCL_SUCCESS; i++) {
        if (s[i].n > 0) {
            result = g->api.ncclAllReduce(s[i].from, s[i].to, (size_t)s[i].n,
                                          s[i].dtype == TD_DOUBLE ? TD_NCCL_DOUBLE : TD_NCCL_FLOAT,
                                          TD_NCCL_SUM, g->comm, g->stream);
        }
    }
    const int end = g->api.ncclGroupEnd(); /* also after a call that failed */
    TD_TRY(said(&g->api, g->comm, result, "ncclAllReduce", err));
    return said(&g->api, g->comm, end, "ncclGroupEnd", err);
}

static enum td_code sum(struct td_device_group *g, struct td_stream *stream, const struct td_device_sum *s,
                        int n, int mark, struct td_err *err)
{
    struct td_cuda_stream *const run = td_cuda_stream_at(stream);
    TD_TRY(mark_of(g, mark, err));
    TD_TRY(td_cuda_fail(td_cuda_event_record(g->number, g->ready, run), "recording an event", err));
    TD_TRY(td_cuda_fail(td_cuda_stream_after(g->number, g->stream, g->ready), "ordering streams", err));
    pthread_mutex_lock(&g->mu);
    const enum td_code rc = reduce(g, s, n, err);
    pthread_mutex_unlock(&g->mu);
    TD_TRY(rc);
    return td_cuda_fail(td_cuda_event_record(g->number, g->mark[mark], g->stream), "recording an event", err);
}

static enum td_code after(struct td_device_group *g, struct td_stream *stream, int mark, struct td_err *err)
{
    return td_cuda_fail(td_cuda_stream_after(g->number, td_cuda_stream_at(stream), g->mark[mark]),
                        "ordering streams", err);
}

static enum td_code wait(struct td_device_group *g, struct td_err *err)
{
    return td_cuda_fail(td_cuda_stream_wait(g->number, g->stream), "waiting for sums over devices", err);
}

static enum td_code check(struct td_device_group *g, struct td_err *err)
{
    int result = TD_NCCL_SUCCESS;
    pthread_mutex_lock(&g->mu);
    const bool there = g->comm != NULL;
    const int asked = there ? g->api.ncclCommGetAsyncError(g->comm, &result) : TD_NCCL_SUCCESS;
    result = asked != TD_NCCL_SUCCESS ? asked : result;
    const enum td_code rc = there ? said(&g->api, g->comm, result, "a sum over devices", err) : ended(err);
    pthread_mutex_unlock(&g->mu);
    return rc;
}

static bool abort_group(struct td_device_group *g)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_WAIT_S;
    if (pthread_mutex_timedlock(&g->mu, &until) != 0) {
        return false;
    }
    if (g->comm != NULL) {
        (void)td_cuda_use(g->number);
        (void)g->api.ncclCommAbort(g->comm);
        g->comm = NULL;
    }
    pthread_mutex_unlock(&g->mu);
    return true;
}

const struct td_device_groups td_nccl_groups = {.version = version,
                                                .name = name,
                                                .open = open_group,
                                                .join = join,
                                                .joined = joined,
                                                .leave = leave,
                                                .sum = sum,
                                                .after = after,
                                                .wait = wait,
                                                .check = check,
                                                .abort = abort_group};
