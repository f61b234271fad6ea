/* server/train/ranks.c - slots, buckets, and the thread that sums them.
 *
 * A slot keeps its bytes from run to run, in a block of its own until it is summed together with others: from
 * then on they are neighbours in one block, and the next sum of the same ones is made where they lie. Large
 * sums lie where the module is quickest (its rooms).
 *
 * mu guards slots and words; calls of MPI are made by one thread at a time: by the summing thread within a
 * run, by the caller between runs (nothing is in a slot then).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/ranks/local_ranks.h"

enum { BUCKET_BYTES = 4 << 20, ROOM_BYTES = 64 << 10 /* at least */, ALIGN = 64 };

enum slot_state { EMPTY, ADDED, SUMMED };

struct block {
    atomic_int n; /* slots that lie in it; it goes with the last */
    char *data;
    bool is_room; /* data is the module's */
};

struct slot {
    enum slot_state state;
    bool at_once;
    enum td_dtype dtype;
    int64_t n;
    struct block *block; /* NULL before the first sum */
    char *data;
    size_t capacity;
};

struct td_ranks {
    void *library; /* tensord_mpi.so; NULL: the processes are this machine's own */
    const struct td_mpi_module *mpi;
    struct td_collective collective;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t added, summed;
    struct slot *slots; /* TD_RANKS_SUMS */
    int next;           /* the first that is not summed */
    int wrong;          /* MPI's error number; 0: none */
    bool ending;
    bool no_rooms; /* in any process: there are no more */
};

/* ------------------------------------------------------------------ the summing thread */

static size_t bytes_of(const struct slot *s)
{
    return (size_t)s->n * td_dtype_size(s->dtype);
}

/* data: in a room; NULL: of the block's own. */
static struct block *block_of(char *data, size_t bytes)
{
    struct block *b = td_calloc(1, sizeof *b);
    if (b != NULL) {
        b->is_room = data != NULL;
        b->data = data != NULL ? data : td_alloc_aligned(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
        atomic_init(&b->n, 0);
    }
    if (b != NULL && b->data == NULL) {
        td_free(b);
        b = NULL;
    }
    return b;
}

static void leave(struct slot *s)
{
    if (s->block != NULL && atomic_fetch_sub(&s->block->n, 1) == 1) {
        if (!s->block->is_room) {
            td_free(s->block->data);
        }
        td_free(s->block);
    }
    s->block = NULL;
}

/* s lies there from now on, with room for so many bytes; what it held is gone. */
static void lay(struct slot *s, struct block *b, char *data, size_t bytes)
{
    leave(s);
    atomic_fetch_add(&b->n, 1);
    s->block = b;
    s->data = data;
    s->capacity = bytes;
}

/* Waits for the slot `ahead` of the next, which is 0 again when a run begins; false: the end. */
static bool wait_added(struct td_ranks *r, int ahead)
{
    while (!r->ending && (r->next + ahead == TD_RANKS_SUMS || r->slots[r->next + ahead].state != ADDED)) {
        pthread_cond_wait(&r->added, &r->mu);
    }
    return !r->ending;
}

/* The slots from `next` on that are summed together: floats, until enough of them or one that is marked. A
 * double stands alone. */
static int bucket_end(struct td_ranks *r)
{
    size_t bytes = 0;
    for (int ahead = 0; wait_added(r, ahead); ahead++) {
        const struct slot *s = &r->slots[r->next + ahead];
        if (s->dtype != TD_FLOAT) {
            return ahead > 0 ? r->next + ahead : r->next + 1;
        }
        bytes += bytes_of(s);
        if (s->at_once || bytes >= BUCKET_BYTES) {
            return r->next + ahead + 1;
        }
    }
    return -1;
}

/* What says so is the same in every process, as sizes are. */
static bool wants_room(const struct td_ranks *r, const struct slot *s, size_t bytes)
{
    return !r->no_rooms && bytes >= ROOM_BYTES && !s->block->is_room;
}

static bool are_neighbours(const struct slot *s, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        if (s[i].data + bytes_of(&s[i]) != s[i + 1].data) {
            return false;
        }
    }
    return true;
}

/* Moves n slots, which hold so many bytes together, into one block. */
static bool join(struct td_ranks *r, struct slot *s, int n, size_t bytes)
{
    char *data = r->no_rooms || bytes < ROOM_BYTES ? NULL : r->mpi->room(bytes);
    r->no_rooms = r->no_rooms || (bytes >= ROOM_BYTES && data == NULL);
    struct block *b = block_of(data, bytes);
    if (b == NULL) {
        return false;
    }
    char *at = b->data;
    for (int i = 0; i < n; i++) {
        const size_t own = bytes_of(&s[i]);
        if (own > 0) {
            memcpy(at, s[i].data, own);
        }
        lay(&s[i], b, at, own);
        at += own;
    }
    return true;
}

static int sum_bucket(struct td_ranks *r, int end)
{
    struct slot *s = &r->slots[r->next];
    const int n = end - r->next;
    size_t bytes = 0;
    if (s->dtype != TD_FLOAT) {
        return r->mpi->sum_doubles((void *)s->data, s->n);
    }
    for (int i = 0; i < n; i++) {
        bytes += bytes_of(&s[i]);
    }
    if ((!are_neighbours(s, n) || wants_room(r, s, bytes)) && !join(r, s, n, bytes)) {
        return -1;
    }
    return r->mpi->sum_floats((float *)(void *)s->data, (int64_t)(bytes / sizeof(float)));
}

static void *sum_loop(void *arg)
{
    struct td_ranks *r = arg;
    pthread_mutex_lock(&r->mu);
    for (;;) {
        const int end = bucket_end(r);
        if (end < 0) {
            break;
        }
        pthread_mutex_unlock(&r->mu);
        const int rc = sum_bucket(r, end);
        pthread_mutex_lock(&r->mu);
        r->wrong = rc != 0 ? rc : r->wrong;
        for (; r->next < end; r->next++) {
            r->slots[r->next].state = SUMMED;
        }
        pthread_cond_broadcast(&r->summed);
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

/* ------------------------------------------------------------------ adding and taking */

bool td_ranks_lost(const struct td_ranks *r, char *text, size_t room)
{
    return r != NULL && r->mpi->lost != NULL && r->mpi->lost(text, room);
}

void td_ranks_on_loss(struct td_ranks *r, void (*told)(void *ctx), void *ctx)
{
    if (r != NULL && r->mpi->on_loss != NULL) {
        r->mpi->on_loss(told, ctx);
    }
}

static enum td_code lost(const struct td_ranks *r, int rc, struct td_err *err)
{
    char how[200];
    TD_FAIL_IF(td_ranks_lost(r, how, sizeof how), err, UNAVAILABLE, "%s", how);
    TD_FAIL_IF(r->library == NULL, err, UNAVAILABLE, "another process of the job has ended");
    TD_FAIL(err, UNAVAILABLE, "summing with the other processes of the job failed: MPI error %d", rc);
}

enum td_code td_ranks_check_sum(const struct td_sum *s, struct td_err *err)
{
    TD_FAIL_IF(s->number < 0 || s->number >= TD_RANKS_SUMS, err, INTERNAL, "sum number %d, want below %d",
               s->number, TD_RANKS_SUMS);
    return TD_OK;
}

static enum td_code add(void *ctx, const struct td_sum *s, const void *values, struct td_err *err)
{
    struct td_ranks *r = ctx;
    TD_TRY(td_ranks_check_sum(s, err));
    struct slot *slot = &r->slots[s->number];
    const size_t bytes = (size_t)s->n * td_dtype_size(s->dtype);
    const bool aligned = (uintptr_t)slot->data % td_dtype_size(s->dtype) == 0; /* floats lie anywhere */
    if (bytes > slot->capacity || !aligned) { /* nobody else looks at a slot that is not added */
        struct block *b = block_of(NULL, bytes);
        if (b == NULL) {
            return td_no_memory(err, bytes, "a sum over processes");
        }
        lay(slot, b, b->data, bytes);
    }
    if (bytes > 0) {
        memcpy(slot->data, values, bytes);
    }
    pthread_mutex_lock(&r->mu);
    slot->at_once = s->at_once;
    slot->dtype = s->dtype;
    slot->n = s->n;
    slot->state = ADDED;
    pthread_cond_signal(&r->added);
    pthread_mutex_unlock(&r->mu);
    return TD_OK;
}

static bool added(void *ctx, int number)
{
    struct td_ranks *r = ctx;
    pthread_mutex_lock(&r->mu);
    const bool is = number < TD_RANKS_SUMS && r->slots[number].state != EMPTY;
    pthread_mutex_unlock(&r->mu);
    return is;
}

static enum td_code take(void *ctx, const struct td_sum *s, void *sum, struct td_err *err)
{
    struct td_ranks *r = ctx;
    TD_TRY(td_ranks_check_sum(s, err));
    struct slot *slot = &r->slots[s->number];
    pthread_mutex_lock(&r->mu);
    while (slot->state == ADDED) {
        pthread_cond_wait(&r->summed, &r->mu);
    }
    const int wrong = r->wrong;
    pthread_mutex_unlock(&r->mu);
    if (wrong != 0) {
        return lost(r, wrong, err);
    }
    TD_FAIL_IF(slot->state != SUMMED || slot->n != s->n || slot->dtype != s->dtype, err, INTERNAL,
               "sum %d of %lld elements was not begun", s->number, (long long)s->n);
    if (s->n > 0) {
        memcpy(sum, slot->data, (size_t)s->n * td_dtype_size(s->dtype));
    }
    return TD_OK;
}

static void begin(void *ctx)
{
    struct td_ranks *r = ctx;
    pthread_mutex_lock(&r->mu);
    while (r->next < TD_RANKS_SUMS && r->slots[r->next].state == ADDED) {
        pthread_cond_wait(&r->summed, &r->mu);
    }
    for (int i = 0; i < r->next; i++) {
        r->slots[i].state = EMPTY;
    }
    r->next = 0;
    pthread_mutex_unlock(&r->mu);
}

/* ------------------------------------------------------------------ between runs */

int td_ranks_rank(const struct td_ranks *r)
{
    return r == NULL ? 0 : r->collective.rank;
}

int td_ranks_size(const struct td_ranks *r)
{
    return r == NULL ? 1 : r->collective.size;
}

int td_ranks_here(const struct td_ranks *r)
{
    static const char *const told[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; r != NULL && r->library != NULL && i < sizeof told / sizeof *told; i++) {
        const char *number = getenv(told[i]);
        if (number != NULL) {
            return (int)strtol(number, NULL, 10);
        }
    }
    return td_ranks_rank(r);
}

enum td_code td_ranks_sum(struct td_ranks *r, double *v, int64_t n, struct td_err *err)
{
    const int rc = r == NULL ? 0 : r->mpi->sum_doubles(v, n);
    return rc == 0 ? TD_OK : lost(r, rc, err);
}

enum td_code td_ranks_share(struct td_ranks *r, void *bytes, size_t n, struct td_err *err)
{
    const int rc = r == NULL ? 0 : r->mpi->share(bytes, n);
    return rc == 0 ? TD_OK : lost(r, rc, err);
}

/* f of process `from` everywhere: its bytes, as numbers. */
static enum td_code spread_fault(struct td_ranks *r, int from, struct td_fault *f, struct td_err *err)
{
    double *v = td_calloc(sizeof *f, sizeof *v);
    unsigned char bytes[sizeof *f];
    if (v == NULL) {
        return td_no_memory(err, sizeof *f * sizeof *v, "a fault");
    }
    memcpy(bytes, f, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        v[i] = r->collective.rank == from ? bytes[i] : 0;
    }
    const enum td_code rc = td_ranks_sum(r, v, sizeof bytes, err);
    for (size_t i = 0; rc == TD_OK && i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)v[i];
    }
    memcpy(f, bytes, sizeof bytes);
    td_free(v);
    return rc;
}

static enum td_code agree(struct td_ranks *r, enum td_code rc, double *how, struct td_fault *f,
                          struct td_err *err)
{
    const int size = r->collective.size;
    int worst = -1;
    how[r->collective.rank] = rc == TD_OK ? 0 : rc == TD_ABORTED ? 1 : 2;
    TD_TRY(td_ranks_sum(r, how, size, err));
    for (int i = 0; i < size; i++) {
        worst = how[i] > 0 && (worst < 0 || how[i] > how[worst]) ? i : worst;
    }
    f->err.code = rc;
    return worst < 0 ? TD_OK : spread_fault(r, worst, f, err);
}

enum td_code td_ranks_agree(struct td_ranks *r, enum td_code rc, struct td_fault *f)
{
    if (r == NULL) {
        return rc;
    }
    struct td_err err = {0};
    double *how = td_calloc((size_t)r->collective.size, sizeof *how);
    const enum td_code mine = how == NULL ? td_no_memory(&err, 1, "how it went") : agree(r, rc, how, f, &err);
    td_free(how);
    if (mine && rc == TD_OK) {
        f->err = err;
    }
    return mine ? td_fault_of(f, f->err.code, "server_error", "") : f->err.code;
}

void td_ranks_abort(struct td_ranks *r, int exit_code)
{
    if (r != NULL) {
        r->mpi->abort(exit_code);
    }
}

/* ------------------------------------------------------------------ opening */

bool td_ranks_wanted(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (getenv(sizes[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Beside this program, or where it was installed. */
static void *load_module(char *path, size_t room)
{
    static const char *const places[] = {"", "../lib/tensord/", "../" /* tests, in the build folder */};
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    for (size_t i = 0; n > 0 && i < sizeof places / sizeof *places; i++) {
        program[n] = '\0';
        char *slash = strrchr(program, '/');
        const int at = slash == NULL ? 0 : (int)(slash - program) + 1;
        const int length = snprintf(path, room, "%.*s%stensord_mpi.so", at, program, places[i]);
        if (length > 0 && (size_t)length < room && access(path, R_OK) == 0) {
            return dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI loads plugins that look for its names */
        }
    }
    return NULL;
}

static enum td_code load(struct td_ranks *r, struct td_err *err)
{
    char path[PATH_MAX] = "tensord_mpi.so";
    r->library = load_module(path, sizeof path);
    if (r->library == NULL) {
        const char *why = dlerror();
        TD_FAIL(err, UNAVAILABLE, "%s cannot be loaded: %s", path, why != NULL ? why : "it is not there");
    }
    r->mpi = dlsym(r->library, TD_MPI_MODULE_SYMBOL);
    TD_FAIL_IF(r->mpi == NULL || r->mpi->version != TD_MPI_MODULE_VERSION, err, UNAVAILABLE,
               "%s is not this version's", path);
    return TD_OK;
}

static enum td_code start(struct td_ranks *r, struct td_err *err)
{
    const int rc = r->mpi->init(&r->collective.rank, &r->collective.size);
    TD_FAIL_IF(rc != 0 && r->library != NULL, err, UNAVAILABLE, "MPI cannot be started: error %d", rc);
    TD_FAIL_IF(rc != 0, err, UNAVAILABLE, "the processes of the job cannot be made: %s", strerror(errno));
    r->slots = td_calloc(TD_RANKS_SUMS, sizeof *r->slots);
    if (r->slots == NULL) {
        return td_no_memory(err, TD_RANKS_SUMS * sizeof *r->slots, "sums over processes");
    }
    r->collective.ctx = r;
    r->collective.begin = begin;
    r->collective.added = added;
    r->collective.add = add;
    r->collective.take = take;
    TD_FAIL_IF(pthread_create(&r->thread, NULL, sum_loop, r) != 0, err, RESOURCE_EXHAUSTED,
               "no thread for sums over processes");
    td_collective_set(&r->collective);
    return TD_OK;
}

enum td_code td_ranks_open(int wanted, struct td_ranks **out, struct td_err *err)
{
    *out = NULL;
    if (!td_ranks_wanted() && wanted <= 1) {
        return TD_OK;
    }
    struct td_ranks *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, sizeof *r, "the processes of a job");
    }
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->added, NULL);
    pthread_cond_init(&r->summed, NULL);
    enum td_code rc = TD_OK;
    if (td_ranks_wanted()) {
        rc = load(r, err);
    } else {
        r->mpi = td_local_ranks(wanted);
    }
    rc = rc ? rc : start(r, err);
    if (rc) {
        td_free(r->slots);
        td_free(r);
        return rc;
    }
    *out = r;
    return TD_OK;
}

void td_ranks_close(struct td_ranks *r)
{
    if (r == NULL) {
        return;
    }
    td_collective_set(NULL);
    pthread_mutex_lock(&r->mu);
    r->ending = true;
    pthread_cond_signal(&r->added);
    pthread_mutex_unlock(&r->mu);
    pthread_join(r->thread, NULL);
    (void)r->mpi->finish();
    for (int i = 0; i < TD_RANKS_SUMS; i++) {
        leave(&r->slots[i]);
    }
    td_free(r->slots);
    pthread_cond_destroy(&r->added);
    pthread_cond_destroy(&r->summed);
    pthread_mutex_destroy(&r->mu);
    td_free(r); /* the library stays: Open MPI has threads of its own until the process ends */
}
