/* tests/sim/sim_gpu.c - queues of work whose heads run; the clock asks when the first of them ends.
 *
 *   stream   op -> op -> ..     the head runs, or waits for its copy engine; events and frees take no time
 *   kernels  rate = 1, or 1 / (sum of shares) where that is more than the GPU; left -= rate * time
 *
 * Kernels compute when they are launched and copies are taken then, in the order of the calls, which is the
 * stream's; what the host may see of it, a copy to the host, is delivered when it is done (0xFF till then).
 * That is right while a run's work is in one stream, and what other runs share (weights) has been waited for.
 *
 * Threads: the clock's lock guards everything here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/run/lone.h"
#include "kernels/cuda/base/cuda_call.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_cost.h"
#include "tests/sim/sim_pinned.h"

enum { OUT_OF_MEMORY = 2, HEADER = 64, MODELS = 8 };
enum kind { KERNEL, TO_DEVICE, TO_HOST, FREE, EVENT };

struct op {
    struct op *next;
    enum kind kind;
    bool runs;
    double left_ns, share;
    const void *model; /* KERNEL */
    void *dst;         /* TO_HOST; FREE: what is freed */
    void *staged;      /* TO_HOST: the bytes */
    size_t bytes;      /* TO_HOST, FREE */
    struct td_cuda_event *event;
    uint64_t number;       /* EVENT: of its records */
    uint64_t number_ready; /* of copies: when it came to the head */
};

struct td_cuda_stream {
    struct op *head, **tail;
    struct td_cuda_stream *next;
    uint64_t freed; /* bytes that queued frees will give back, and nobody has taken yet */
    int users;
};

struct td_cuda_event {
    uint64_t recorded, reached;
};

static struct {
    struct sim_gpu_costs costs;
    struct sim_source source;
    struct td_cuda_stream *streams;
    struct op *engine[2]; /* of TO_DEVICE, TO_HOST */
    struct sim_gpu_counts counts;
    int64_t caught_up_ns;
    uint64_t n_ready;
    struct {
        const void *model;
        double ns;
    } used[MODELS];
    enum td_code (*stream_open)(const struct td_device *d, struct td_stream **out, struct td_err *err);
    void (*stream_close)(const struct td_device *d, struct td_stream *s);
} gpu;

/* ------------------------------------------------------------------ time */

static double shares(void)
{
    double sum = 0;
    for (const struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        sum += s->head != NULL && s->head->runs && s->head->kind == KERNEL ? s->head->share : 0;
    }
    return sum;
}

static void charge_model(const struct op *o, double ns)
{
    int i = 0;
    while (i < MODELS - 1 && gpu.used[i].model != NULL && gpu.used[i].model != o->model) {
        i++;
    }
    gpu.used[i].model = o->model;
    gpu.used[i].ns += ns;
}

/* What has happened up to now. */
static void catch_up(void)
{
    const double sum = shares(), rate = sum > 1 ? 1 / sum : 1;
    const double ns = (double)(sim_now_ns() - gpu.caught_up_ns);
    const bool copies = gpu.engine[0] != NULL || gpu.engine[1] != NULL;
    gpu.caught_up_ns = sim_now_ns();
    for (struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        if (s->head != NULL && s->head->runs) {
            const bool kernel = s->head->kind == KERNEL;
            s->head->left_ns -= kernel ? ns * rate : ns;
            if (kernel) {
                charge_model(s->head, ns);
            }
        }
    }
    gpu.counts.kernels += sum > 0 ? ns : 0;
    gpu.counts.processors += ns * fmin(sum, 1);
    gpu.counts.to_device += gpu.engine[0] != NULL ? ns : 0;
    gpu.counts.to_host += gpu.engine[1] != NULL ? ns : 0;
    gpu.counts.copied_meanwhile += sum > 0 && copies ? ns : 0;
}

static int64_t due_ns(void *ctx)
{
    (void)ctx;
    const double sum = shares(), rate = sum > 1 ? 1 / sum : 1;
    double first = INFINITY;
    for (const struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        if (s->head != NULL && s->head->runs) {
            first = fmin(first, s->head->kind == KERNEL ? s->head->left_ns / rate : s->head->left_ns);
        }
    }
    return first == INFINITY ? INT64_MAX : gpu.caught_up_ns + (int64_t)ceil(fmax(first, 0));
}

/* ------------------------------------------------------------------ work */

static size_t bytes_of(const void *p)
{
    size_t n;
    memcpy(&n, (const char *)p - HEADER, sizeof n);
    return n;
}

static void give_back(struct td_cuda_stream *s, struct op *o)
{
    const uint64_t n = o->bytes < s->freed ? o->bytes : s->freed;
    s->freed -= n;
    gpu.counts.held -= n;
    free((char *)o->dst - HEADER);
}

/* The head of s is done. */
static void end_head(struct td_cuda_stream *s)
{
    struct op *o = s->head;
    if (o->kind == TO_DEVICE || o->kind == TO_HOST) {
        gpu.engine[o->kind == TO_HOST] = NULL;
    }
    if (o->kind == TO_HOST && o->staged != NULL) {
        memcpy(o->dst, o->staged, o->bytes);
        free(o->staged);
    } else if (o->kind == FREE) {
        give_back(s, o);
    } else if (o->kind == EVENT && o->number > o->event->reached) {
        o->event->reached = o->number;
        sim_wake(o->event);
    }
    s->head = o->next;
    if (s->head == NULL) {
        s->tail = &s->head;
    }
    sim_wake(o);
    free(o);
}

/* The copy that has waited longest for an engine that is free. */
static void start_copy(enum kind kind)
{
    struct op *best = NULL;
    for (struct td_cuda_stream *s = gpu.streams; gpu.engine[kind == TO_HOST] == NULL && s != NULL;
         s = s->next) {
        if (s->head != NULL && s->head->kind == kind &&
            (best == NULL || s->head->number_ready < best->number_ready)) {
            best = s->head;
        }
    }
    if (best != NULL) {
        best->runs = true;
        gpu.engine[kind == TO_HOST] = best;
    }
}

static void start_heads(void)
{
    for (struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        while (s->head != NULL && s->head->kind >= FREE) {
            end_head(s);
        }
        if (s->head != NULL && s->head->number_ready == 0) {
            s->head->number_ready = ++gpu.n_ready;
            s->head->runs = s->head->kind == KERNEL;
        }
    }
    start_copy(TO_DEVICE);
    start_copy(TO_HOST);
}

static void happen(void *ctx)
{
    (void)ctx;
    catch_up();
    for (struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        if (s->head != NULL && s->head->runs && s->head->left_ns < 1e-3) {
            end_head(s);
        }
    }
    start_heads();
}

/* Returns the piece of work, for who waits until it is done; NULL: it is. With the lock. */
static const struct op *queue(struct td_cuda_stream *s, struct op what)
{
    struct op *o = calloc(1, sizeof *o);
    TD_CHECK(o != NULL);
    *o = what;
    catch_up();
    const bool first = s->head == NULL;
    *s->tail = o;
    s->tail = &o->next;
    const bool at_once = first && o->kind >= FREE;
    if (first) {
        start_heads();
    }
    return at_once ? NULL : o;
}

/* ------------------------------------------------------------------ kernels */

/* On the host's kernels: the tensors as if they were the host's. */
static enum td_code compute(const struct td_launch *l, struct td_err *err)
{
    const int n = l->n_in + l->n_out;
    struct td_tensor *t = calloc((size_t)n + 1, sizeof *t);
    TD_CHECK(t != NULL);
    for (int i = 0; i < n; i++) {
        const struct td_tensor *from = i < l->n_in ? &l->in[i] : &l->out[i - l->n_in];
        t[i] = (struct td_tensor){.data = from->data, .dtype = from->dtype, .shape = from->shape};
        if (from->device == NULL) {
            td_tensor_ref(&t[i], from);
        }
    }
    struct td_launch on_host = *l;
    on_host.in = t;
    on_host.out = t + l->n_in;
    const enum td_code rc = td_lone_launch(&on_host, err);
    for (int i = 0; i < l->n_in; i++) {
        td_tensor_clear(&t[i]);
    }
    free(t);
    return rc;
}

static struct td_cuda_stream *stream_of(struct td_stream *s)
{
    const struct td_call c = {.stream = s};
    return td_cuda_stream_of(&c);
}

static enum td_code launch(const struct td_device *d, struct td_stream *stream, const struct td_launch *l,
                           struct td_err *err)
{
    (void)d;
    const struct sim_kernel_cost cost = sim_kernel_cost(&gpu.costs, l);
    if (!gpu.costs.blind) {
        TD_TRY(compute(l, err));
    }
    sim_sleep(gpu.costs.launch_ns);
    sim_enter();
    gpu.counts.launches++;
    (void)queue(stream_of(stream),
                (struct op){.kind = KERNEL, .left_ns = cost.ns, .share = cost.share, .model = l->model});
    sim_leave();
    return TD_OK;
}

/* ------------------------------------------------------------------ in the place of CUDA */

const char *td_cuda_error_name(int error)
{
    return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "cudaSuccess";
}

const char *td_cuda_error_text(int error)
{
    return error == OUT_OF_MEMORY ? "out of memory" : "no error";
}

bool td_cuda_is_memory(int error)
{
    return error == OUT_OF_MEMORY;
}

bool td_cuda_is_sticky(int error)
{
    (void)error;
    return false;
}

int td_cuda_count(int *error)
{
    *error = 0;
    return 1;
}

void td_cuda_versions(int *driver, int *built, int *capability)
{
    *driver = *built = 13000;
    *capability = 80;
}

int td_cuda_use(int device)
{
    return device;
}

int td_cuda_describe(int device, struct td_cuda_facts *out)
{
    *out = (struct td_cuda_facts){.name = "a simulated GPU",
                                  .memory = gpu.costs.memory,
                                  .unused = gpu.costs.memory,
                                  .multiprocessors = gpu.costs.processors,
                                  .major = 9};
    return device;
}

int td_cuda_reset(int device)
{
    (void)device;
    return 0;
}

int td_cuda_wait_asleep(int device)
{
    return device;
}

int td_cuda_allocate(int device, struct td_cuda_stream *s, size_t bytes, void **out)
{
    (void)device;
    sim_sleep(gpu.costs.call_ns);
    char *p = malloc((gpu.costs.blind ? 0 : bytes) + HEADER); /* blind: nobody looks at what it holds */
    TD_CHECK(p != NULL);
    memcpy(p, &bytes, sizeof bytes);
    if (!gpu.costs.blind) {
        memset(p + HEADER, 0xff, bytes);
    }
    sim_enter();
    const uint64_t again = bytes < s->freed ? bytes : s->freed;
    const bool fits = gpu.counts.held + bytes - again <= gpu.costs.memory;
    if (fits) {
        s->freed -= again;
        gpu.counts.held += bytes - again;
        gpu.counts.most = gpu.counts.held > gpu.counts.most ? gpu.counts.held : gpu.counts.most;
    }
    sim_leave();
    if (!fits) {
        free(p);
        return OUT_OF_MEMORY;
    }
    *out = p + HEADER;
    return 0;
}

int td_cuda_free(int device, struct td_cuda_stream *s, void *p)
{
    (void)device;
    const struct op o = {.kind = FREE, .dst = p, .bytes = bytes_of(p)};
    sim_enter();
    if (s != NULL) {
        s->freed += o.bytes;
        (void)queue(s, o);
    } else {
        gpu.counts.held -= o.bytes;
        free((char *)p - HEADER);
    }
    sim_leave();
    return 0;
}

int td_cuda_keep(int device, uint64_t bytes)
{
    (void)bytes;
    return device;
}

int td_cuda_trim(int device)
{
    return device;
}

static void copy_to_host(struct td_cuda_stream *s, struct op o, const void *src)
{
    const bool wait = sim_pinned_stages(o.dst);
    if (!gpu.costs.blind) {
        o.staged = malloc(o.bytes + 1);
        TD_CHECK(o.staged != NULL);
        memcpy(o.staged, src, o.bytes);
        memset(o.dst, 0xff, o.bytes);
    } else {
        memset(o.dst, 0, o.bytes);
    }
    sim_enter();
    const struct op *queued = queue(s, o);
    if (wait) {
        sim_wait(queued);
    }
    sim_leave();
}

int td_cuda_copy(int device, struct td_cuda_stream *s, enum td_cuda_copy which, void *dst, const void *src,
                 size_t bytes)
{
    struct op o = {.kind = which == TD_CUDA_TO_DEVICE ? TO_DEVICE
                           : which == TD_CUDA_TO_HOST ? TO_HOST
                                                      : KERNEL,
                   .left_ns = (double)gpu.costs.copy_ns + (double)bytes / gpu.costs.copy_bytes_per_ns,
                   .share = 1,
                   .dst = dst,
                   .bytes = bytes};
    const bool stages =
        which != TD_CUDA_ON_DEVICE && sim_pinned_stages(which == TD_CUDA_TO_DEVICE ? src : dst);
    sim_sleep(gpu.costs.launch_ns);
    if (which == TD_CUDA_TO_HOST) {
        copy_to_host(s, o, src);
    } else {
        if (!gpu.costs.blind) {
            memcpy(dst, src, bytes);
        }
        o.left_ns = which == TD_CUDA_ON_DEVICE
                        ? (double)gpu.costs.kernel_ns + 2 * (double)bytes / gpu.costs.bytes_per_ns
                        : o.left_ns;
        sim_enter();
        (void)queue(s, o);
        sim_leave();
    }
    if (stages) {
        sim_pinned_stage(bytes);
    }
    return device;
}

int td_cuda_stream_new(int device, struct td_cuda_stream **out)
{
    struct td_cuda_stream *s = calloc(1, sizeof *s);
    TD_CHECK(s != NULL);
    s->tail = &s->head;
    sim_enter();
    s->next = gpu.streams;
    gpu.streams = s;
    sim_leave();
    *out = s;
    return device;
}

int td_cuda_stream_free(struct td_cuda_stream *stream)
{
    struct td_cuda_stream **at = &gpu.streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    TD_CHECK(stream->head == NULL && stream->users == 0);
    *at = stream->next;
    free(stream);
    return 0;
}

int td_cuda_event_new(int device, struct td_cuda_event **out)
{
    *out = calloc(1, sizeof **out);
    TD_CHECK(*out != NULL);
    return device;
}

int td_cuda_event_record(int device, struct td_cuda_event *event, struct td_cuda_stream *stream)
{
    sim_sleep(gpu.costs.call_ns);
    sim_enter();
    (void)queue(stream, (struct op){.kind = EVENT, .event = event, .number = ++event->recorded});
    sim_leave();
    return device;
}

int td_cuda_event_wait(int device, struct td_cuda_event *event)
{
    sim_enter();
    const uint64_t number = event->recorded;
    while (event->reached < number) {
        sim_wait(event);
    }
    sim_leave();
    return device;
}

int td_cuda_stream_wait(int device, struct td_cuda_stream *stream)
{
    struct td_cuda_event e = {0};
    (void)td_cuda_event_record(device, &e, stream);
    return td_cuda_event_wait(device, &e);
}

int td_cuda_event_free(struct td_cuda_event *event)
{
    free(event);
    return 0;
}

/* ------------------------------------------------------------------ for tests */

static enum td_code stream_open(const struct td_device *d, struct td_stream **out, struct td_err *err)
{
    TD_TRY(gpu.stream_open(d, out, err));
    sim_enter();
    stream_of(*out)->users++;
    sim_leave();
    return TD_OK;
}

static void stream_close(const struct td_device *d, struct td_stream *s)
{
    sim_enter();
    stream_of(s)->users--;
    sim_leave();
    gpu.stream_close(d, s);
}

struct td_device *sim_gpu_open(const struct sim_gpu_costs *costs, int streams, uint64_t limit)
{
    struct td_err err = {0};
    struct td_device *d = NULL;
    const struct td_device_opts opts = {.streams = streams, .limit = limit, .pinned = costs->pinned};
    memset(&gpu, 0, sizeof gpu);
    gpu.costs = *costs;
    sim_pinned_open(costs);
    gpu.caught_up_ns = sim_now_ns();
    gpu.source = (struct sim_source){.due_ns = due_ns, .happen = happen};
    if (td_cuda_device_open(&opts, &d, &err)) {
        fprintf(stderr, "sim_gpu_open: %s\n", err.msg);
        exit(1);
    }
    gpu.stream_open = d->stream_open;
    gpu.stream_close = d->stream_close;
    d->kind = TD_TEST_DEVICE;
    d->kernels = TD_CPU;
    d->launch = launch;
    d->graph_begin = NULL; /* kernels compute when they are launched: there is nothing to record */
    d->stream_open = stream_open;
    d->stream_close = stream_close;
    sim_add(&gpu.source);
    return d;
}

struct sim_gpu_counts sim_gpu_count(void)
{
    sim_enter();
    catch_up();
    const struct sim_gpu_counts c = gpu.counts;
    sim_leave();
    return c;
}

void sim_gpu_forget_most(void)
{
    sim_enter();
    gpu.counts.most = gpu.counts.held;
    sim_leave();
}

double sim_gpu_used_by(const void *model)
{
    double ns = 0;
    sim_enter();
    catch_up();
    for (int i = 0; i < MODELS; i++) {
        ns = gpu.used[i].model == model ? gpu.used[i].ns : ns;
    }
    sim_leave();
    return ns;
}

int sim_gpu_busy_streams(void)
{
    int n = 0;
    for (const struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        n += s->head != NULL;
    }
    return n;
}

int sim_gpu_open_streams(void)
{
    int n = 0;
    for (const struct td_cuda_stream *s = gpu.streams; s != NULL; s = s->next) {
        n += s->users > 0;
    }
    return n;
}
