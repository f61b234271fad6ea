/* kernels/cuda/device.c - the vtable on runtime.h.
 *
 *   a run begins   a stream that nobody uses, a new one, or, where all are made that may be, the one that the
 *                  fewest runs share
 *   and ends       all that it has queued is done; its stream has a user less
 *
 * What is held is counted by a compare and swap, so that no two threads pass the limit together.
 *
 * Threads: mu guards the idle lists; counts are atomic.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/run/lone.h"
#include "kernels/cuda/cuda_call.h"

enum { GRAIN = 512 /* CUDA's */, NAME_BYTES = 32 };

struct td_stream {
    struct td_cuda_stream *at;
    int users;
    struct td_stream *next;
};

struct td_event {
    struct td_cuda_event *at;
    struct td_event *next;
};

struct cuda_device {
    struct td_device base;
    char name[NAME_BYTES];
    int number, most_streams; /* 0: any number */
    uint64_t limit;
    atomic_int lost; /* CUDA's error number; 0: it works */
    atomic_uint_fast64_t launches, copies, copied;
    atomic_uint_fast64_t held, most;
    pthread_mutex_t mu; /* guards what follows */
    struct td_stream *streams;
    int n_streams;
    struct td_event *events; /* idle */
};

struct td_cuda_stream *td_cuda_stream_of(const struct td_call *c)
{
    return c->stream->at;
}

static struct cuda_device *self(const struct td_device *d)
{
    return d->impl;
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

/* Of a call on the device: an error that stays is remembered. */
static enum td_code checked(struct cuda_device *d, int error, const char *what, struct td_err *err)
{
    if (error != 0 && td_cuda_is_sticky(error)) {
        atomic_store(&d->lost, error);
    }
    const enum td_code rc = td_cuda_fail(error, what, err);
    return rc ? td_err_wrap(err, "%s", d->name) : TD_OK;
}

static enum td_code alive(struct cuda_device *d, struct td_err *err)
{
    const int lost = atomic_load(&d->lost);
    TD_FAIL_IF(lost != 0, err, UNAVAILABLE, "%s is out of service since an error of CUDA's: %s (%s)", d->name,
               td_cuda_error_text(lost), td_cuda_error_name(lost));
    return TD_OK;
}

/* ------------------------------------------------------------------ memory */

static size_t whole_bytes(size_t bytes)
{
    return bytes == 0 ? GRAIN : (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* Counts bytes against the limit, before they are asked for. */
static enum td_code charge(struct cuda_device *d, size_t bytes, struct td_err *err)
{
    uint_fast64_t held = atomic_load(&d->held), most;
    do {
        TD_FAIL_IF(bytes > d->limit - held, err, RESOURCE_EXHAUSTED,
                   "%s: %zu bytes are asked for, %llu are held, and %llu are allowed (--gpu_memory_limit)",
                   d->name, bytes, (unsigned long long)held, (unsigned long long)d->limit);
    } while (!atomic_compare_exchange_weak(&d->held, &held, held + bytes));
    most = atomic_load(&d->most);
    while (most < held + bytes && !atomic_compare_exchange_weak(&d->most, &most, held + bytes)) {
    }
    return TD_OK;
}

static enum td_code allocate(const struct td_device *dev, struct td_stream *stream, size_t bytes, void **out,
                             struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_FAIL_IF(bytes > SIZE_MAX - GRAIN, err, RESOURCE_EXHAUSTED, "%s: %zu bytes are more than there can be",
               d->name, bytes);
    const size_t whole = whole_bytes(bytes);
    TD_TRY(alive(d, err));
    TD_TRY(charge(d, whole, err));
    int error = td_cuda_allocate(d->number, stream->at, whole, out);
    if (td_cuda_is_memory(error)) {
        (void)td_cuda_trim(d->number);
        error = td_cuda_allocate(d->number, stream->at, whole, out);
    }
    if (error != 0) {
        atomic_fetch_sub(&d->held, whole);
        return checked(d, error, "allocating", err);
    }
    return TD_OK;
}

static void release(const struct td_device *dev, void *p, size_t bytes, struct td_stream *stream)
{
    struct cuda_device *d = self(dev);
    struct td_err ignored = {0};
    (void)checked(d, td_cuda_free(d->number, stream == NULL ? NULL : stream->at, p), "freeing", &ignored);
    atomic_fetch_sub(&d->held, whole_bytes(bytes));
}

/* ------------------------------------------------------------------ work */

static enum td_code copy(const struct td_device *dev, struct td_stream *stream, enum td_copy which, void *dst,
                         const void *src, size_t bytes, struct td_err *err)
{
    static const enum td_cuda_copy kinds[] = {[TD_COPY_TO_DEVICE] = TD_CUDA_TO_DEVICE,
                                              [TD_COPY_TO_HOST] = TD_CUDA_TO_HOST,
                                              [TD_COPY_ON_DEVICE] = TD_CUDA_ON_DEVICE};
    struct cuda_device *d = self(dev);
    TD_TRY(alive(d, err));
    atomic_fetch_add_explicit(&d->copies, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->copied, bytes, memory_order_relaxed);
    return checked(d, td_cuda_copy(d->number, stream->at, kinds[which], dst, src, bytes), "copying", err);
}

static enum td_code launch(const struct td_device *dev, struct td_stream *stream, const struct td_launch *l,
                           struct td_err *err)
{
    struct cuda_device *d = self(dev);
    (void)stream; /* l has it */
    TD_TRY(alive(d, err));
    TD_TRY(checked(d, td_cuda_use(d->number), "choosing the device", err));
    atomic_fetch_add_explicit(&d->launches, 1, memory_order_relaxed);
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

/* Under mu. */
static enum td_code add_stream(struct cuda_device *d, struct td_stream **out, struct td_err *err)
{
    struct td_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a stream");
    }
    if (checked(d, td_cuda_stream_new(d->number, &s->at), "opening a stream", err)) {
        td_free(s);
        return err->code;
    }
    s->next = d->streams;
    d->streams = s;
    d->n_streams++;
    *out = s;
    return TD_OK;
}

static enum td_code stream_open(const struct td_device *dev, struct td_stream **out, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_TRY(alive(d, err));
    pthread_mutex_lock(&d->mu);
    struct td_stream *s = least_used(d);
    const enum td_code rc = s == NULL ? add_stream(d, &s, err) : TD_OK;
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
    s->users--;
    pthread_mutex_unlock(&d->mu);
}

static enum td_code event_open(const struct td_device *dev, struct td_event **out, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    TD_TRY(alive(d, err));
    pthread_mutex_lock(&d->mu);
    struct td_event *e = d->events;
    d->events = e != NULL ? e->next : NULL;
    pthread_mutex_unlock(&d->mu);
    if (e == NULL) {
        e = td_calloc(1, sizeof *e);
        if (e == NULL) {
            return td_no_memory(err, sizeof *e, "an event");
        }
        const enum td_code rc = checked(d, td_cuda_event_new(d->number, &e->at), "making an event", err);
        if (rc) {
            td_free(e);
            return rc;
        }
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

static enum td_code event_record(const struct td_device *dev, struct td_stream *stream,
                                 struct td_event *event, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    return checked(d, td_cuda_event_record(d->number, event->at, stream->at), "recording an event", err);
}

static enum td_code event_wait(const struct td_device *dev, struct td_event *event, struct td_err *err)
{
    struct cuda_device *d = self(dev);
    return checked(d, td_cuda_event_wait(d->number, event->at), "waiting for the GPU", err);
}

/* ------------------------------------------------------------------ the device */

/* 12040 is 12.4. */
static void version_text(int version, char *text, size_t room)
{
    (void)snprintf(text, room, "%d.%d", version / 1000, version % 1000 / 10);
}

enum td_code td_cuda_device_number(int *n, struct td_err *err)
{
    int error, driver, built, capability;
    char has[16], wants[16];
    td_cuda_versions(&driver, &built, &capability);
    version_text(driver, has, sizeof has);
    version_text(built, wants, sizeof wants);
    TD_FAIL_IF(driver > 0 && driver / 1000 < built / 1000, err, FAILED_PRECONDITION,
               "the driver is too old: it serves CUDA %s, and the module was built with CUDA %s", has, wants);
    *n = td_cuda_count(&error);
    TD_FAIL_IF(*n == 0, err, FAILED_PRECONDITION, "no GPU is found: %s (%s)",
               error != 0 ? td_cuda_error_text(error) : "the driver shows none",
               error != 0 ? td_cuda_error_name(error) : "0 devices");
    return TD_OK;
}

enum td_code td_cuda_device_describe(int number, struct td_device_facts *out, struct td_err *err)
{
    int n;
    struct td_cuda_facts facts;
    TD_TRY(td_cuda_device_number(&n, err));
    TD_FAIL_IF(number < 0 || number >= n, err, FAILED_PRECONDITION,
               "/device:GPU:%d is not there: the driver shows %d", number, n);
    TD_TRY(td_cuda_fail(td_cuda_describe(number, &facts), "describing the GPU", err));
    *out = (struct td_device_facts){.memory = facts.memory,
                                    .unused = facts.unused,
                                    .multiprocessors = facts.multiprocessors,
                                    .major = facts.major,
                                    .minor = facts.minor};
    (void)snprintf(out->name, sizeof out->name, "%s", facts.name);
    return TD_OK;
}

static enum td_code check_capability(const struct td_device_opts *o, const struct td_device_facts *facts,
                                     struct td_err *err)
{
    int driver, built, capability;
    td_cuda_versions(&driver, &built, &capability);
    TD_FAIL_IF(facts->major * 10 + facts->minor < capability, err, FAILED_PRECONDITION,
               "/device:GPU:%d (%s) has compute capability %d.%d, the kernels need %d.%d at least", o->number,
               facts->name, facts->major, facts->minor, capability / 10, capability % 10);
    return TD_OK;
}

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
    TD_TRY(td_cuda_device_describe(o->number, &facts, err));
    TD_TRY(check_capability(o, &facts, err));
    TD_TRY(limit_of(o, &facts, &limit, err));
    TD_TRY(td_cuda_fail(td_cuda_keep(o->number, limit), "setting up the GPU's memory", err));
    struct cuda_device *d = td_calloc(1, sizeof *d);
    if (d == NULL || pthread_mutex_init(&d->mu, NULL) != 0) {
        td_free(d);
        return td_no_memory(err, sizeof *d, "a GPU");
    }
    d->number = o->number;
    d->most_streams = o->streams;
    d->limit = limit;
    (void)snprintf(d->name, sizeof d->name, "/device:GPU:%d", o->number);
    d->base = (struct td_device){.kind = TD_CUDA,
                                 .name = d->name,
                                 .impl = d,
                                 .kernels = TD_CUDA,
                                 .allocate = allocate,
                                 .release = release,
                                 .copy = copy,
                                 .launch = launch,
                                 .stream_open = stream_open,
                                 .stream_close = stream_close,
                                 .event_open = event_open,
                                 .event_close = event_close,
                                 .event_record = event_record,
                                 .event_wait = event_wait};
    *out = &d->base;
    return TD_OK;
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
        (void)td_cuda_stream_free(s->at);
        td_free(s);
    }
    while (d->events != NULL) {
        struct td_event *e = d->events;
        d->events = e->next;
        (void)td_cuda_event_free(e->at);
        td_free(e);
    }
    (void)td_cuda_trim(d->number);
    (void)pthread_mutex_destroy(&d->mu);
    td_free(d);
}

void td_cuda_device_count(const struct td_device *dev, struct td_device_counts *out)
{
    const struct cuda_device *d = self(dev);
    *out = (struct td_device_counts){.limit = d->limit,
                                     .held = atomic_load(&d->held),
                                     .most = atomic_load(&d->most),
                                     .launches = atomic_load(&d->launches),
                                     .copies = atomic_load(&d->copies),
                                     .copied = atomic_load(&d->copied)};
}
