/* server/train/device_sums.c - slots and buckets of sums on a device, and whether there can be any.
 *
 * A slot holds its values from add to take, or to the next run's begin. What the group reads and writes
 * lies in buffers that the run's stream frees: take has that stream wait for the sum before. Of a run that
 * failed in between, begin waits for the group, and nothing else uses them. Bytes of no stream, such as
 * those of what is recorded, stay that as long as somebody else has them: who lets go last has waited.
 *
 * Values of the host are sent, and their sums brought, on a stream of this file's, which is waited for:
 * these are few, or of a run that failed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/device_sums.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum { BUCKET_BYTES = 4 << 20 };
enum { JOIN_S = 120, JOIN_LOOK_MS = 5 };

enum slot_state { EMPTY, ADDED, QUEUED };

struct slot {
    enum slot_state state;
    bool at_once;
    enum td_dtype dtype;
    int64_t n;
    int mark;
    struct td_buffer *from, *to; /* counted; the same: in place */
    void *data, *sum;            /* in them */
};

struct td_device_sums {
    struct td_collective collective;
    const struct td_collective *host; /* whose place this took */
    struct td_ranks *ranks;
    const struct td_device *device;
    const struct td_device_groups *calls;
    struct td_device_group *group;
    struct td_stream *own;
    struct td_event *event;
    pthread_mutex_t mu;
    struct slot *slots; /* TD_RANKS_SUMS */
    int next;           /* the first that is not queued */
    int used;           /* slots in use lie before it */
    struct td_device_sum *bucket;
    int bucket_room;
};

/* ------------------------------------------------------------------ what fails */

/* A process that is gone is the better reason. */
static enum td_code told(const struct td_device_sums *x, enum td_code rc, struct td_err *err)
{
    char how[200];
    if (rc && td_ranks_lost(x->ranks, how, sizeof how)) {
        *err = (struct td_err){0};
        return td_fail(err, TD_UNAVAILABLE, "%s", how);
    }
    return rc;
}

static void process_gone(void *ctx)
{
    const struct td_device_sums *x = ctx;
    (void)x->calls->abort(x->group); /* else the process is ended in a while */
}

static enum td_code held(void *ctx, struct td_err *err)
{
    const struct td_device_sums *x = ctx;
    return told(x, x->calls->check(x->group, err), err);
}

/* ------------------------------------------------------------------ slots and buckets */

static size_t bytes_of(const struct slot *s)
{
    return (size_t)s->n * td_dtype_size(s->dtype);
}

/* Whoever frees b does that in the order of stream; NULL: all that used it is done. */
static void hand_over(struct td_buffer *b, struct td_stream *stream)
{
    if (b->stream != NULL || td_buffer_unique(b)) {
        b->stream = stream;
    }
}

/* Frees what it holds in the order of stream; NULL: all that used it is done. */
static void leave(struct slot *s, struct td_stream *stream)
{
    struct td_buffer *const both[] = {s->from, s->to};
    for (int i = 0; i < 2; i++) {
        if (both[i] != NULL) {
            hand_over(both[i], stream);
            td_buffer_unref(both[i]);
        }
    }
    s->from = s->to = NULL;
}

/* One behind the next bucket; 0: it is not whole yet. */
static int bucket_end(const struct td_device_sums *x)
{
    size_t bytes = 0;
    for (int i = x->next; i < TD_RANKS_SUMS && x->slots[i].state == ADDED; i++) {
        bytes += bytes_of(&x->slots[i]);
        if (x->slots[i].at_once || bytes >= BUCKET_BYTES) {
            return i + 1;
        }
    }
    return 0;
}

static enum td_code room_for(struct td_device_sums *x, int n, struct td_err *err)
{
    if (n <= x->bucket_room) {
        return TD_OK;
    }
    struct td_device_sum *more = td_realloc(x->bucket, (size_t)n * 2, sizeof *more);
    if (more == NULL) {
        return td_no_memory(err, (size_t)n * 2 * sizeof *more, "sums over devices");
    }
    x->bucket = more;
    x->bucket_room = n * 2;
    return TD_OK;
}

/* Where the sum goes. */
static enum td_code place(const struct td_device_sums *x, struct slot *s, struct td_stream *stream,
                          struct td_err *err)
{
    if (s->to != NULL) {
        return TD_OK; /* it was tried before */
    }
    if (td_buffer_unique(s->from)) {
        hand_over(s->from, stream);
        s->to = td_buffer_ref(s->from);
        s->sum = s->data;
        return TD_OK;
    }
    TD_TRY(td_buffer_new_on(x->device, stream, bytes_of(s), &s->to, err));
    s->sum = s->to->data;
    return TD_OK;
}

/* Slots [next, end) as one bucket. */
static enum td_code queue_bucket(struct td_device_sums *x, int end, struct td_stream *stream,
                                 struct td_err *err)
{
    const int first = x->next;
    TD_TRY(room_for(x, end - first, err));
    for (int i = first; i < end; i++) {
        struct slot *s = &x->slots[i];
        TD_TRY(place(x, s, stream, err));
        x->bucket[i - first] =
            (struct td_device_sum){.from = s->data, .to = s->sum, .n = s->n, .dtype = s->dtype};
    }
    TD_TRY(x->calls->sum(x->group, stream, x->bucket, end - first, first, err));
    for (int i = first; i < end; i++) {
        x->slots[i].state = QUEUED;
        x->slots[i].mark = first;
    }
    x->next = end;
    return TD_OK;
}

static enum td_code queue_all(struct td_device_sums *x, struct td_stream *stream, struct td_err *err)
{
    for (int end = bucket_end(x); end > 0; end = bucket_end(x)) {
        TD_TRY(queue_bucket(x, end, stream, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ adding and taking */

static enum td_code add_buffer(struct td_device_sums *x, const struct td_sum *s, struct td_buffer *takes,
                               void *data, struct td_stream *stream, struct td_err *err)
{
    const enum td_code wrong = td_ranks_check_sum(s, err);
    if (wrong) {
        td_buffer_unref(takes);
        return wrong;
    }
    pthread_mutex_lock(&x->mu);
    struct slot *slot = &x->slots[s->number];
    *slot = (struct slot){
        .state = ADDED, .at_once = s->at_once, .dtype = s->dtype, .n = s->n, .from = takes, .data = data};
    x->used = s->number >= x->used ? s->number + 1 : x->used;
    const enum td_code rc = queue_all(x, stream, err);
    pthread_mutex_unlock(&x->mu);
    return told(x, rc, err);
}

static enum td_code add_there(void *ctx, const struct td_sum *s, const struct td_tensor *values,
                              struct td_stream *stream, struct td_err *err)
{
    return add_buffer(ctx, s, td_buffer_ref(values->buf), values->data, stream, err);
}

/* The slot of a sum that was queued. */
static enum td_code find(struct td_device_sums *x, const struct td_sum *s, struct slot **out,
                         struct td_err *err)
{
    TD_TRY(td_ranks_check_sum(s, err));
    struct slot *slot = &x->slots[s->number];
    TD_FAIL_IF(slot->state != QUEUED || slot->n != s->n || slot->dtype != s->dtype || slot->to == NULL, err,
               INTERNAL, "sum %d of %lld elements was not begun", s->number, (long long)s->n);
    *out = slot;
    return TD_OK;
}

static enum td_code take_there(void *ctx, const struct td_sum *s, struct td_stream *stream,
                               struct td_tensor *sum, struct td_err *err)
{
    struct td_device_sums *x = ctx;
    struct slot *slot = NULL;
    pthread_mutex_lock(&x->mu);
    enum td_code rc = find(x, s, &slot, err);
    rc = rc ? rc : x->calls->after(x->group, stream, slot->mark, err);
    if (rc == TD_OK) {
        *sum = (struct td_tensor){.buf = td_buffer_ref(slot->to),
                                  .data = slot->sum,
                                  .dtype = s->dtype,
                                  .device = x->device,
                                  .shape = td_shape_vector(s->n)};
        leave(slot, stream);
    }
    pthread_mutex_unlock(&x->mu);
    return told(x, rc, err);
}

static enum td_code wait_own(struct td_device_sums *x, struct td_err *err)
{
    TD_TRY(x->device->event_record(x->device, x->own, x->event, err));
    return x->device->event_wait(x->device, x->event, err);
}

static enum td_code add(void *ctx, const struct td_sum *s, const void *values, struct td_err *err)
{
    struct td_device_sums *x = ctx;
    const size_t bytes = (size_t)s->n * td_dtype_size(s->dtype);
    struct td_buffer *b;
    TD_TRY(td_buffer_new_on(x->device, x->own, bytes, &b, err));
    enum td_code rc = TD_OK;
    if (bytes > 0) {
        rc = x->device->copy(x->device, x->own, TD_COPY_TO_DEVICE, b->data, values, bytes, err);
        rc = rc ? rc : wait_own(x, err);
    }
    if (rc) {
        td_buffer_unref(b);
        return told(x, rc, err);
    }
    return add_buffer(x, s, b, b->data, x->own, err);
}

static enum td_code take(void *ctx, const struct td_sum *s, void *sum, struct td_err *err)
{
    struct td_device_sums *x = ctx;
    struct td_tensor t;
    TD_TRY(take_there(ctx, s, x->own, &t, err));
    enum td_code rc = TD_OK;
    if (td_tensor_bytes(&t) > 0) {
        rc = x->device->copy(x->device, x->own, TD_COPY_TO_HOST, sum, t.data, td_tensor_bytes(&t), err);
        rc = rc ? rc : wait_own(x, err);
    }
    td_tensor_clear(&t);
    return rc ? told(x, rc, err) : held(x, err);
}

static bool added(void *ctx, int number)
{
    struct td_device_sums *x = ctx;
    pthread_mutex_lock(&x->mu);
    const bool is = number < TD_RANKS_SUMS && x->slots[number].state != EMPTY;
    pthread_mutex_unlock(&x->mu);
    return is;
}

static void begin(void *ctx)
{
    struct td_device_sums *x = ctx;
    struct td_err unsaid = {0}; /* what failed shows again in the run */
    pthread_mutex_lock(&x->mu);
    const bool waits = x->next > 0;
    if (waits && x->calls->wait(x->group, &unsaid)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaid.msg);
    }
    for (int i = 0; i < x->used; i++) {
        leave(&x->slots[i], NULL);
        x->slots[i].state = EMPTY;
    }
    x->next = x->used = 0;
    pthread_mutex_unlock(&x->mu);
}

/* ------------------------------------------------------------------ whether all can */

/* What each process says of itself; numbers that a double holds. */
enum { HAS_DEVICE, VERSION, WHERE, SAYS };

struct reasons {
    char own[300]; /* the library's version, or what of it is missing here */
    char text[400];
};

/* The machine and the place in it. */
static double place_of(const char *pci)
{
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        const size_t n = fread(boot, 1, sizeof boot - 1, f);
        boot[n] = '\0';
        (void)fclose(f);
    }
    const uint64_t h = td_hash_more(0xcbf29ce484222325U, boot, strlen(boot));
    return (double)(td_hash_mix(td_hash_more(h, pci, strlen(pci))) >> 16);
}

static void describe(const struct td_device_sums *x, const struct td_devices *d, double *says,
                     struct reasons *why)
{
    struct td_device_state state;
    if (x->device == NULL || x->calls == NULL) {
        return;
    }
    td_devices_state(d, 0, &state);
    says[HAS_DEVICE] = 1;
    says[VERSION] = x->calls->version(x->device, why->own, sizeof why->own);
    says[WHERE] = place_of(state.facts.pci);
}

/* Two processes that have one GPU; false: there are none. */
static bool share_one(const double *says, int size, int *a, int *b)
{
    for (*a = 0; *a < size; (*a)++) {
        for (*b = *a + 1; *b < size; (*b)++) {
            if (says[*a * SAYS + WHERE] == says[*b * SAYS + WHERE]) {
                return true;
            }
        }
    }
    return false;
}

/* From what all have said, the same everywhere: "" where they can sum on their devices. *any: one has a
 * GPU. */
static void judge(const double *says, int size, struct reasons *why, bool *any)
{
    int without = -1, a, b;
    *any = false;
    for (int i = size - 1; i >= 0; i--) {
        *any = *any || says[i * SAYS + HAS_DEVICE] > 0;
        without = says[i * SAYS + HAS_DEVICE] > 0 ? without : i;
    }
    why->text[0] = '\0';
    if (without >= 0) {
        (void)snprintf(why->text, sizeof why->text, "process %d of %d has no GPU", without, size);
        return;
    }
    if (share_one(says, size, &a, &b)) {
        (void)snprintf(why->text, sizeof why->text, "processes %d and %d share a GPU", a, b);
        return;
    }
    for (int i = 0; i < size && why->text[0] == '\0'; i++) {
        const int version = (int)says[i * SAYS + VERSION];
        if (version == 0) {
            (void)snprintf(why->text, sizeof why->text, "NCCL: %s",
                           i == 0 ? why->own : "another process has none");
        } else if (version != (int)says[VERSION]) {
            (void)snprintf(why->text, sizeof why->text, "NCCL: process 0 has version %d, process %d has %d",
                           (int)says[VERSION], i, version);
        }
    }
}

/* How it went in the processes: their number, and that of those who have come so far, and who cannot. */
struct census {
    int size, in, failed;
    bool late; /* process 0 does not wait any longer */
};

static enum td_code count(struct td_device_sums *x, enum td_code rc, bool in, bool late, struct census *out,
                          struct td_err *err)
{
    enum { IN, FAILED, LATE, COUNTS };
    double v[COUNTS] = {[IN] = rc == TD_OK && in, [FAILED] = rc != TD_OK, [LATE] = late};
    TD_TRY(td_ranks_sum(x->ranks, v, COUNTS, err));
    *out = (struct census){
        .size = x->collective.size, .in = (int)v[IN], .failed = (int)v[FAILED], .late = v[LATE] > 0};
    return TD_OK;
}

/* The name of the group in all processes, which have opened theirs. *made: else the reason is in own. */
static enum td_code open_all(struct td_device_sums *x, char *name, bool *made, struct td_err *own,
                             struct td_err *err)
{
    char all[TD_DEVICE_GROUP_NAME + 1] = {0}; /* behind it: whether there is one */
    struct census c;
    enum td_code rc = x->collective.rank == 0 ? x->calls->name(x->device, all, own) : TD_OK;
    all[TD_DEVICE_GROUP_NAME] = rc == TD_OK;
    TD_TRY(td_ranks_share(x->ranks, all, sizeof all, err));
    *made = all[TD_DEVICE_GROUP_NAME] != 0;
    if (*made) {
        rc = x->calls->open(x->device, &x->group, own);
        TD_TRY(count(x, rc, true, false, &c, err));
        *made = c.in == c.size;
    }
    memcpy(name, all, TD_DEVICE_GROUP_NAME);
    return TD_OK;
}

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Looks until all have come, one cannot, or process 0 has waited for JOIN_S: as often in each process, as
 * what they count is the same. One that is gone ends it with an error. */
static enum td_code join_all(struct td_device_sums *x, const char *name, bool *made, struct td_err *own,
                             struct td_err *err)
{
    const struct td_device_seat seat = {.rank = x->collective.rank, .size = x->collective.size, .name = name};
    const double until = seconds_now() + JOIN_S;
    enum td_code rc = x->calls->join(x->group, &seat, own);
    struct census c = {.size = seat.size};
    while (c.in < c.size && c.failed == 0 && !c.late) {
        bool in = false;
        const struct timespec look = {.tv_nsec = JOIN_LOOK_MS * 1000000L};
        (void)nanosleep(&look, NULL);
        rc = rc ? rc : x->calls->joined(x->group, &in, own);
        TD_TRY(count(x, rc, in, seat.rank == 0 && seconds_now() > until, &c, err));
    }
    *made = c.in == c.size;
    if (!*made && c.failed == 0) {
        (void)snprintf(own->msg, sizeof own->msg, "%d of %d processes have joined within %d s", c.in, c.size,
                       JOIN_S);
    }
    return TD_OK;
}

/* All have the group, or none. */
static enum td_code join(struct td_device_sums *x, struct reasons *why, struct td_err *err)
{
    char name[TD_DEVICE_GROUP_NAME];
    struct td_err own = {0};
    bool made = false;
    TD_TRY(open_all(x, name, &made, &own, err));
    if (made) {
        TD_TRY(join_all(x, name, &made, &own, err));
    }
    if (!made) {
        if (own.msg[0] != '\0' && x->collective.rank != 0) { /* process 0 says its own below */
            td_log(TD_LOG_WARNING, NULL, "process %d of %d: %s", x->collective.rank, x->collective.size,
                   own.msg);
        }
        (void)snprintf(why->text, sizeof why->text, "%.390s",
                       own.msg[0] != '\0' ? own.msg : "another process could not join");
        if (x->group != NULL) {
            (void)x->calls->abort(x->group);
        }
    }
    return TD_OK;
}

static enum td_code find_out(struct td_device_sums *x, const struct td_devices *d, int wanted,
                             struct reasons *why, struct td_err *err)
{
    const int rank = x->collective.rank, size = x->collective.size;
    bool any = false;
    double *says = td_calloc((size_t)size * SAYS, sizeof *says);
    if (says == NULL) {
        return td_no_memory(err, (size_t)size * SAYS * sizeof *says, "the processes of a job");
    }
    describe(x, d, &says[rank * SAYS], why);
    enum td_code rc = td_ranks_sum(x->ranks, says, (int64_t)size * SAYS, err);
    judge(says, size, why, &any);
    int a, b;
    if (rc == TD_OK && wanted > 1 && share_one(says, size, &a, &b)) {
        rc = td_fail(err, TD_FAILED_PRECONDITION,
                     "tensord.gpus: the job wants %d GPUs, and this machine has fewer that can be used",
                     wanted);
    }
    td_free(says);
    TD_TRY(rc);
    if (why->text[0] == '\0') {
        TD_TRY(join(x, why, err));
    }
    if (rank == 0 && any && why->text[0] != '\0') {
        td_log(TD_LOG_WARNING, NULL, "the sums of %d processes go by the host: %s", size, why->text);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ opening */

static enum td_code make(struct td_device_sums *x, struct td_err *err)
{
    x->slots = td_calloc(TD_RANKS_SUMS, sizeof *x->slots);
    if (x->slots == NULL) {
        return td_no_memory(err, TD_RANKS_SUMS * sizeof *x->slots, "sums over devices");
    }
    TD_TRY(x->device->stream_open(x->device, &x->own, err));
    return x->device->event_open(x->device, &x->event, err);
}

static struct td_device_sums *new_sums(struct td_ranks *r, const struct td_devices *d)
{
    const struct td_devices_list list = td_devices_opened(d);
    struct td_device_sums *x = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&x->mu, NULL);
    x->ranks = r;
    x->device = list.n > 0 ? list.at[0] : NULL;
    x->calls = td_devices_groups(d);
    x->collective = (struct td_collective){.rank = td_ranks_rank(r),
                                           .size = td_ranks_size(r),
                                           .ctx = x,
                                           .begin = begin,
                                           .added = added,
                                           .add = add,
                                           .take = take,
                                           .add_there = add_there,
                                           .take_there = take_there,
                                           .held = held};
    return x;
}

enum td_code td_device_sums_open(struct td_ranks *r, const struct td_devices *d, int wanted,
                                 struct td_device_sums **out, struct td_err *err)
{
    struct reasons why = {.own = ""};
    *out = NULL;
    if (td_ranks_size(r) <= 1) {
        return TD_OK;
    }
    struct td_device_sums *x = new_sums(r, d);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "sums over devices");
    }
    enum td_code rc = find_out(x, d, wanted, &why, err);
    rc = rc || x->group == NULL || why.text[0] != '\0' ? rc : make(x, err);
    if (rc || x->group == NULL || why.text[0] != '\0') {
        td_device_sums_close(x);
        return rc;
    }
    td_ranks_on_loss(r, process_gone, x);
    x->host = td_collective();
    td_collective_set(&x->collective);
    if (td_ranks_rank(r) == 0) {
        td_log(TD_LOG_INFO, NULL, "%d GPUs sum by %s", td_ranks_size(r), why.own);
    }
    *out = x;
    return TD_OK;
}

void td_device_sums_close(struct td_device_sums *x)
{
    if (x == NULL) {
        return;
    }
    if (x->host != NULL) {
        begin(x);
        td_collective_set(x->host);
        td_ranks_on_loss(x->ranks, NULL, NULL);
    }
    if (x->calls != NULL) {
        x->calls->leave(x->group);
    }
    if (x->event != NULL) {
        x->device->event_close(x->device, x->event);
    }
    if (x->own != NULL) {
        x->device->stream_close(x->device, x->own);
    }
    (void)pthread_mutex_destroy(&x->mu);
    td_free(x->slots);
    td_free(x->bucket);
    td_free(x);
}
