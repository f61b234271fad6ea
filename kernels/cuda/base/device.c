/* kernels/cuda/base/device.c - the vtable on runtime.h.
 *
 *   a run begins   a stream that nobody uses, a new one, or, where all are made that may be, the one that the
 *                  fewest runs share
 *   and ends       all that it has queued is done; its stream has a user less
 *
 * What is held is counted under mu, so that no two threads pass the limit together. Bytes count from the call
 * that allocates them until the stream has come to the call that frees them: until then no other stream can
 * have them. An event says how far it has come, once it was waited for.
 *
 *   freed   bytes that a stream was told to free, ever
 *   gone    of these, in their order: those that it has freed, or that were allocated in it again
 *
 * Threads: mu guards the lists, a stream's bytes and what is held; counts are atomic.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/device.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/run/lone.h"
#include "kernels/cuda/base/describe.h"
#include "kernels/cuda/base/device_impl.h"

enum { GRAIN = 512 /* CUDA's */ };

struct td_cuda_stream *td_cuda_stream_of(const struct td_call *c)
{
    return c->stream->at;
}

struct td_cuda_stream *td_cuda_stream_at(const struct td_stream *s)
{
    return s->at;
}

static struct cuda_device *self(const struct td_device *d)
{
    return d->impl;
}

int td_cuda_device_index(const struct td_device *d)
{
    return self(d)->number;
}

const struct td_cuda_libraries *td_cuda_libraries_of(const struct td_device *d)
{
    return &self(d)->libraries;
}

bool td_cuda_device_library(const struct td_device *d, int i, char *text, size_t room, bool *there)
{
    *there = i < TD_CUDA_LIBRARIES && td_cuda_libraries_tell(&self(d)->libraries, i, text, room);
    return i < TD_CUDA_LIBRARIES;
}

/* ------------------------------------------------------------------ errors */

enum td_code td_cuda_fail(int error, const char *what, struct td_err *err)
{
    if (error == 0) {
        return TD_OK;
    }
    const enum td_code code = td_cuda_is_memory(error)   ? TD_RESOURCE_EXHAUSTED
                              : td_cuda_is_sticky(error) ? TD_UNAVAILABLE
                                                         : TD_INTERNAL;
    return td_fail(err, code, "%s: %s (%s)", what, td_cuda_error_text(error), td_cuda_error_name(error));
}

enum td_code td_cuda_device_checked(struct cuda_device *d, int error, const char *what, struct td_err *err)
{
    if (error != 0 && td_cuda_is_sticky(error)) {
        atomic_store(&d->lost, error);
    }
    const enum td_code rc = td_cuda_fail(error, what, err);
    return rc ? td_err_wrap(err, "%s", d->name) : TD_OK;
}

enum td_code td_cuda_device_alive(struct cuda_device *d, struct td_err *err)
{
    const int lost = atomic_load(&d->lost);
    TD_FAIL_IF(lost != 0, err, UNAVAILABLE, "%s is out of service since an error of CUDA's: %s (%s)", d->name,
               td_cuda_error_text(lost), td_cuda_error_name(lost));
    return TD_OK;
}

bool td_cuda_device_enter(struct cuda_device *d, unsigned context)
{
    pthread_mutex_lock(&d->mu);
    const bool works = context == atomic_load(&d->context) && atomic_load(&d->lost) == 0;
    d->calls += works;
    pthread_mutex_unlock(&d->mu);
    return works;
}

void td_cuda_device_leave(struct cuda_device *d)
{
    pthread_mutex_lock(&d->mu);
    d->calls--;
    pthread_mutex_unlock(&d->mu);
}

static unsigned context_of(const struct td_device *dev)
{
    return atomic_load(&self(dev)->context);
}

/* ------------------------------------------------------------------ memory */

static size_t whole_bytes(size_t bytes)
{
    return bytes == 0 ? GRAIN : (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* Counts bytes against the limit, before they are asked for. What the stream is about to free it can have
 * again at once. */
static enum td_code charge(struct cuda_device *d, struct td_stream *s, size_t bytes, struct td_err *err)
{
    pthread_mutex_lock(&d->mu);
    const uint64_t held = d->held, again = bytes < s->freed - s->gone ? bytes : s->freed - s->gone;
    const bool fits = bytes - again <= d->limit - held;
    if (fits) {
        s->gone += again;
        d->held += bytes - again;
        d->most = d->held > d->most ? d->held : d->most;
    }
    pthread_mutex_unlock(&d->mu);
    TD_FAIL_IF(!fits, err, RESOURCE_EXHAUSTED,
               "%s: %zu bytes are asked for, %llu are held, and %llu are allowed (--gpu_memory_limit)",
               d->name, bytes, (unsigned long long)held, (unsigned long long)d->limit);
    return TD_OK;
}

static void discharge(struct cuda_device *d, size_t bytes)
{
    pthread_mutex_lock(&d->mu);
    d->held -= bytes;
    pthread_mutex_unlock(&d->mu);
}

/* Under mu: the stream has freed the first so many bytes of those that it was told to. */
static void has_freed(struct cuda_device *d, struct td_stream *s, uint64_t freed)
{
    if (freed > s->gone) {
        d->held -= freed - s->gone;
        s->gone = freed;
    }
}

static enum td_code allocate(const struct td_device *dev, struct td_stream *stream, size_t bytes, void **out,
                             struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_FAIL_IF(bytes > SIZE_MAX - GRAIN, err, RESOURCE_EXHAUSTED, "%s: %zu bytes are more than there can be",
               d->name, bytes);
    const size_t whole = whole_bytes(bytes);
    TD_TRY(td_cuda_device_alive(d, err));
    TD_TRY(charge(d, stream, whole, err));
    int error = td_cuda_allocate(d->number, stream->at, whole, out);
    if (td_cuda_is_memory(error)) {
        (void)td_cuda_trim(d->number);
        error = td_cuda_allocate(d->number, stream->at, whole, out);
    }
    if (error != 0) {
        discharge(d, whole);
        return td_cuda_device_checked(d, error, "allocating", err);
    }
    return TD_OK;
}

static void release(const struct td_device *dev, void *p, size_t bytes, struct td_stream *stream,
                    unsigned context)
{
    struct cuda_device *d = self(dev);
    const uint64_t whole = whole_bytes(bytes);
    struct td_err ignored = {0};
    if (td_cuda_device_enter(d, context)) {
        (void)td_cuda_device_checked(d, td_cuda_free(d->number, stream == NULL ? NULL : stream->at, p),
                                     "freeing", &ignored);
        td_cuda_device_leave(d);
    }
    pthread_mutex_lock(&d->mu);
    if (context != context_of(dev)) {
        /* it was counted out with all of that */
    } else if (stream == NULL) {
        d->held -= whole;
    } else {
        stream->freed += whole;
    }
    pthread_mutex_unlock(&d->mu);
}

static void *pin(const struct td_device *dev, size_t bytes, const void *from)
{
    void *p = td_cuda_pinned_take(self(dev)->pinned, bytes);
    if (p != NULL && from != NULL) {
        td_cuda_host_fill(p, from, bytes);
    }
    return p;
}

/* The block is of this context, which stays while somebody has one. The device may be closed by now: of it
 * there is no more than what is read here, and the last block takes that along. */
static void unpin(const struct td_device *dev, void *p, size_t bytes)
{
    struct cuda_device *d = self(dev);
    td_cuda_pinned_give(d->pinned, p, bytes, atomic_load(&d->lost) != 0);
}

/* ------------------------------------------------------------------ work */

static enum td_code copy(const struct td_device *dev, struct td_stream *stream, enum td_copy which, void *dst,
                         const void *src, size_t bytes, struct td_err *err)
{
    static const enum td_cuda_copy kinds[] = {[TD_COPY_TO_DEVICE] = TD_CUDA_TO_DEVICE,
                                              [TD_COPY_TO_HOST] = TD_CUDA_TO_HOST,
                                              [TD_COPY_ON_DEVICE] = TD_CUDA_ON_DEVICE};
    struct cuda_device *d = self(dev);
    TD_TRY(td_cuda_device_alive(d, err));
    TD_FAIL_IF(stream->records && which != TD_COPY_ON_DEVICE, err, FAILED_PRECONDITION,
               "%s: a copy from or to the host cannot be recorded", d->name);
    atomic_fetch_add_explicit(&d->copies[which], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->copied[which], bytes, memory_order_relaxed);
    return td_cuda_device_checked(d, td_cuda_copy(d->number, stream->at, kinds[which], dst, src, bytes),
                                  "copying", err);
}

enum td_code td_cuda_send(const struct td_call *c, const struct td_tensor *here, void *there,
                          struct td_err *err)
{
    const size_t bytes = td_tensor_bytes(here);
    return bytes == 0
               ? TD_OK
               : copy(&c->stream->device->base, c->stream, TD_COPY_TO_DEVICE, there, here->data, bytes, err);
}

static enum td_code launch(const struct td_device *dev, struct td_stream *stream, const struct td_launch *l,
                           struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_TRY(td_cuda_device_alive(d, err));
    TD_TRY(td_cuda_device_checked(d, td_cuda_use(d->number), "choosing the device", err));
    if (stream->records) { /* it is one run's alone */
        stream->recorded++;
    } else {
        atomic_fetch_add_explicit(&d->launches, 1, memory_order_relaxed);
    }
    return td_lone_launch(l, err); /* an error that stays shows again in the next call */
}

/* ------------------------------------------------------------------ streams and events */

/* The stream with the fewest users; NULL: a new one is better, and may be made. */
static struct td_stream *least_used(const struct cuda_device *d)
{
    struct td_stream *least = d->streams;
    for (struct td_stream *s = least; s != NULL; s = s->next) {
        least = s->users < least->users ? s : least;
    }
    const bool may_grow = d->most_streams == 0 || d->n_streams < d->most_streams;
    return least != NULL && least->users > 0 && may_grow ? NULL : least;
}

/* Under mu: CUDA's, where this context has none yet. */
static enum td_code renew(struct cuda_device *d, struct td_stream *s, struct td_err *err)
{
    return s->at != NULL
               ? TD_OK
               : td_cuda_device_checked(d, td_cuda_stream_new(d->number, &s->at), "opening a stream", err);
}

/* Under mu. */
static enum td_code add_stream(struct cuda_device *d, struct td_stream **out, struct td_err *err)
{
    struct td_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a stream");
    }
    if (renew(d, s, err)) {
        td_free(s);
        return err->code;
    }
    s->device = d;
    s->next = d->streams;
    d->streams = s;
    d->n_streams++;
    *out = s;
    return TD_OK;
}

static enum td_code stream_open(const struct td_device *dev, struct td_stream **out, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    pthread_mutex_lock(&d->mu);
    struct td_stream *s = least_used(d);
    enum td_code rc = td_cuda_device_alive(
        d, err); /* under mu: none is opened any more once the device was seen to be lost */
    rc = rc ? rc : s == NULL ? add_stream(d, &s, err) : renew(d, s, err);
    if (rc == TD_OK) {
        s->users++;
        *out = s;
    }
    pthread_mutex_unlock(&d->mu);
    return rc;
}

static void stream_close(const struct td_device *dev, struct td_stream *s)
{
    struct cuda_device *d = self(dev);
    pthread_mutex_lock(&d->mu);
    if (--s->users == 0) { /* all that it was told before is done */
        has_freed(d, s, s->freed);
    }
    pthread_mutex_unlock(&d->mu);
}

static enum td_code event_open(const struct td_device *dev, struct td_event **out, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_TRY(td_cuda_device_alive(d, err));
    pthread_mutex_lock(&d->mu);
    struct td_event *e = d->events;
    d->events = e != NULL ? e->next : NULL;
    pthread_mutex_unlock(&d->mu);
    if (e == NULL) {
        e = td_calloc(1, sizeof *e);
        if (e == NULL) {
            return td_no_memory(err, sizeof *e, "an event");
        }
        *e = (struct td_event){.context = context_of(dev)};
    }
    *out = e;
    return TD_OK;
}

static void event_close(const struct td_device *dev, struct td_event *e)
{
    struct cuda_device *d = self(dev);
    pthread_mutex_lock(&d->mu);
    e->next = d->events;
    d->events = e;
    pthread_mutex_unlock(&d->mu);
}

/* CUDA's, where this context has none yet: the calling thread has a stream open. */
static enum td_code make_event(struct cuda_device *d, struct td_event *e, struct td_err *err)
{
    const unsigned context = atomic_load(&d->context);
    if (e->at != NULL && e->context == context) {
        return TD_OK;
    }
    e->at = NULL;
    e->context = context;
    return td_cuda_device_checked(d, td_cuda_event_new(d->number, &e->at), "making an event", err);
}

static enum td_code event_record(const struct td_device *dev, struct td_stream *stream,
                                 struct td_event *event, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    enum td_code rc = make_event(d, event, err);
    pthread_mutex_lock(&d->mu);
    event->stream = stream;
    event->freed = stream->freed;
    pthread_mutex_unlock(&d->mu);
    rc = rc ? rc
            : td_cuda_device_checked(d, td_cuda_event_record(d->number, event->at, stream->at),
                                     "recording an event", err);
    if (rc) {
        (void)td_cuda_stream_wait(d->number, stream->at);
    }
    return rc;
}

static enum td_code event_wait(const struct td_device *dev, struct td_event *event, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_FAIL_IF(event->context != atomic_load(&d->context), err, UNAVAILABLE,
               "%s was restarted, and what was queued there before is gone", d->name);
    TD_TRY(td_cuda_device_checked(d, td_cuda_event_wait(d->number, event->at), "waiting for the GPU", err));
    pthread_mutex_lock(&d->mu);
    has_freed(d, event->stream, event->freed);
    pthread_mutex_unlock(&d->mu);
    return TD_OK;
}

/* ------------------------------------------------------------------ the device */

/* What models may hold of the GPU's memory. */
static enum td_code limit_of(const struct td_device_opts *o, const struct td_device_facts *facts,
                             uint64_t *limit, struct td_err *err)
{
    *limit = o->limit > 0 ? o->limit : (uint64_t)((double)facts->memory * o->fraction);
    TD_FAIL_IF(
        *limit > facts->unused, err, FAILED_PRECONDITION,
        "/device:GPU:%d (%s) has too little memory: %llu bytes are asked for (%s), %llu of its %llu are "
        "not in use",
        o->number, facts->name, (unsigned long long)*limit,
        o->limit > 0 ? "--gpu_memory_limit" : "--per_process_gpu_memory_fraction",
        (unsigned long long)facts->unused, (unsigned long long)facts->memory);
    *limit = *limit > 0 ? *limit : facts->memory;
    return TD_OK;
}

enum td_code td_cuda_device_open(const struct td_device_opts *o, struct td_device **out, struct td_err *err)
{
    struct td_device_facts facts;
    uint64_t limit = 0;
    (void)td_cuda_wait_asleep(o->number); /* where there is none, or it is not ours, what follows says so */
    TD_TRY(td_cuda_device_describe(o->number, &facts, err));
    TD_TRY(td_cuda_device_check(o->number, &facts, err));
    TD_TRY(limit_of(o, &facts, &limit, err));
    TD_TRY(td_cuda_fail(td_cuda_keep(o->number, limit), "setting up the GPU's memory", err));
    struct cuda_device *d = td_calloc(1, sizeof *d);
    if (d == NULL || td_cuda_pinned_new(o->number, o->pinned, &d->pinned, err)) {
        td_free(d);
        return td_no_memory(err, sizeof *d, "a GPU");
    }
    (void)pthread_mutex_init(&d->mu, NULL);
    d->number = o->number;
    d->most_streams = o->streams;
    d->limit = limit;
    d->makers = td_cuda_makers_new(o->number, facts.major * 10 + facts.minor, o->kept);
    (void)snprintf(d->name, sizeof d->name, "/device:GPU:%d", o->number);
    td_cuda_libraries_open(d->number, o->tf32, limit, &d->libraries);
    (void)snprintf(d->machine, sizeof d->machine, "%.60s; %.60s; %.60s", facts.name, d->libraries.said[0],
                   d->libraries.said[1]);
    d->base = (struct td_device){.kind = TD_CUDA,
                                 .name = d->name,
                                 .machine = d->machine,
                                 .impl = d,
                                 .kernels = TD_CUDA,
                                 .allocate = allocate,
                                 .release = release,
                                 .context = context_of,
                                 .copy = copy,
                                 .launch = launch,
                                 .stream_open = stream_open,
                                 .stream_close = stream_close,
                                 .event_open = event_open,
                                 .event_close = event_close,
                                 .event_record = event_record,
                                 .event_wait = event_wait,
                                 .pin = o->pinned > 0 ? pin : NULL,
                                 .unpin = o->pinned > 0 ? unpin : NULL,
                                 .graph_run = o->graph_run};
    td_cuda_device_record(&d->base);
    *out = &d->base;
    return TD_OK;
}

struct td_cuda_makers *td_cuda_device_makers(const struct td_device *d)
{
    return self(d)->makers;
}

void td_cuda_device_close(struct td_device *dev)
{
    if (dev == NULL) {
        return;
    }
    struct cuda_device *d = self(dev);
    while (d->streams != NULL) {
        struct td_stream *s = d->streams;
        d->streams = s->next;
        if (s->at != NULL) {
            (void)td_cuda_stream_free(s->at);
        }
        td_free(s);
    }
    while (d->events != NULL) {
        struct td_event *e = d->events;
        d->events = e->next;
        if (e->at != NULL && e->context == context_of(dev)) {
            (void)td_cuda_event_free(e->at);
        }
        td_free(e);
    }
    td_cuda_makers_free(d->makers);
    td_cuda_libraries_close(&d->libraries);
    (void)td_cuda_trim(d->number);
    (void)pthread_mutex_destroy(&d->mu);
    td_cuda_pinned_close(d->pinned, td_free, d); /* an answer may be in pinned memory yet */
}

/* Under mu. */
static void count_streams(const struct cuda_device *d, struct td_device_counts *out)
{
    out->streams = d->n_streams;
    for (const struct td_stream *s = d->streams; s != NULL; s = s->next) {
        out->used += s->users > 0;
        out->runs += s->users;
    }
}

void td_cuda_device_count(const struct td_device *dev, struct td_device_counts *out)
{
    struct cuda_device *d = self(dev);
    *out = (struct td_device_counts){.limit = d->limit,
                                     .launches = atomic_load(&d->launches),
                                     .graphs = atomic_load(&d->graphs),
                                     .graphs_made = atomic_load(&d->graphs_made),
                                     .graph_launches = atomic_load(&d->graph_launches),
                                     .graph_kernels = atomic_load(&d->graph_kernels),
                                     .most_streams = d->most_streams,
                                     .lost = atomic_load(&d->lost) != 0};
    for (int i = 0; i < TD_COPY_KINDS; i++) {
        out->copies[i] = atomic_load(&d->copies[i]);
        out->copied[i] = atomic_load(&d->copied[i]);
    }
    const struct td_cuda_pinned_counts pinned = td_cuda_pinned_count(d->pinned);
    out->pinned_limit = pinned.limit;
    out->pinned = pinned.held;
    out->pinned_used = pinned.used;
    out->pinned_refusals = pinned.refused;
    pthread_mutex_lock(&d->mu);
    out->held = d->held;
    out->most = d->most;
    count_streams(d, out);
    pthread_mutex_unlock(&d->mu);
}
