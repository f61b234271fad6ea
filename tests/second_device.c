/* tests/second_device.c - one queue of jobs, one thread.
 *
 * Jobs of all streams are numbered and done in that order; an event is a number. `goal` is how far the thread
 * may go.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/second_device.h"

#include <pthread.h>
#include <string.h>

#include "core/run/device_run.h"
#include "core/run/lone.h"
#include "core/base/mem.h"

enum job_kind { JOB_COPY, JOB_FREE, JOB_LAUNCH };

struct job {
    struct job *next;
    enum job_kind kind;
    uint64_t number;
    struct td_stream *stream;
    bool called_off;
    void *dst;
    const void *src;
    size_t bytes;
    struct td_launch launch;   /* in and out are arrays of this job's */
    struct td_tensor *tensors; /* n_in inputs, n_out outputs, in host terms */
};

struct td_stream {
    struct td_err err; /* the first since the last wait; guarded by mu */
    struct td_stream *next;
};

struct td_event {
    struct td_stream *stream;
    uint64_t number;
};

struct second_device {
    struct td_device base;
    enum second_device_speed speed;
    pthread_mutex_t mu; /* guards all below */
    pthread_cond_t work, progress;
    pthread_t thread;
    bool started, stop;
    struct job *head, **tail;
    uint64_t queued, done, goal;
    struct second_device_counts counts, leave_out;
    struct td_stream *closed; /* their events may still be waited for */
};

/* ------------------------------------------------------------------ addresses */

/* No user-space address has these bits: touching one is a fault. */
static const uintptr_t MARK = (uintptr_t)0x4a << 56;

static void *disguise(void *p)
{
    return (void *)((uintptr_t)p ^ MARK);
}

static void *uncover(const void *p)
{
    TD_CHECK((uintptr_t)p >> 56 == MARK >> 56); /* a host address was handed to the device */
    return (void *)((uintptr_t)p ^ MARK);
}

static const void *on_host(const void *p)
{
    TD_CHECK((uintptr_t)p >> 56 != MARK >> 56); /* a device address was handed to the host */
    return p;
}

/* ------------------------------------------------------------------ jobs */

static void job_free(struct job *j)
{
    for (int i = 0; j->tensors != NULL && i < j->launch.n_in; i++) {
        td_tensor_clear(&j->tensors[i]); /* copies of host inputs; the others own nothing */
    }
    td_free(j->tensors);
    td_free(j);
}

/* The kernel as it was prepared for this device, on tensors and a workspace in host terms. */
static enum td_code run_launch(const struct job *j, struct td_err *err)
{
    struct td_launch l = j->launch;
    l.in = j->tensors;
    l.out = j->tensors + l.n_in;
    l.workspace = l.workspace == NULL ? NULL : uncover(l.workspace);
    return td_lone_launch(&l, err);
}

static void do_job(struct second_device *t, struct job *j)
{
    struct td_err err = {0};
    pthread_mutex_lock(&t->mu);
    bool skip = j->kind != JOB_FREE && (j->called_off || j->stream->err.code != TD_OK);
    pthread_mutex_unlock(&t->mu);
    if (skip) {
        return;
    }
    if (j->kind == JOB_COPY) {
        memcpy(j->dst, j->src, j->bytes);
    } else if (j->kind == JOB_FREE) {
        td_free(j->dst);
    } else if (run_launch(j, &err)) {
        pthread_mutex_lock(&t->mu);
        j->stream->err = err;
        pthread_mutex_unlock(&t->mu);
    }
}

static void *work(void *device)
{
    struct second_device *t = device;
    pthread_mutex_lock(&t->mu);
    for (;;) {
        while (t->head == NULL ? !t->stop
                               : t->speed == SECOND_DEVICE_LAZY && t->head->number > t->goal && !t->stop) {
            pthread_cond_wait(&t->work, &t->mu);
        }
        struct job *j = t->head;
        if (j == NULL) {
            break;
        }
        t->head = j->next;
        if (t->head == NULL) {
            t->tail = &t->head;
        }
        uint64_t number = j->number;
        pthread_mutex_unlock(&t->mu);
        do_job(t, j);
        job_free(j);
        pthread_mutex_lock(&t->mu);
        t->done = number;
        pthread_cond_broadcast(&t->progress);
    }
    pthread_mutex_unlock(&t->mu);
    return NULL;
}

static struct second_device *self(const struct td_device *d)
{
    return d->impl;
}

static void enqueue(struct second_device *t, struct job *j)
{
    pthread_mutex_lock(&t->mu);
    j->number = ++t->queued;
    *t->tail = j;
    t->tail = &j->next;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->mu);
}

/* mu is held. */
static void reach(struct second_device *t, uint64_t number)
{
    t->goal = number > t->goal ? number : t->goal;
    pthread_cond_signal(&t->work);
    while (t->done < number) {
        pthread_cond_wait(&t->progress, &t->mu);
    }
}

/* ------------------------------------------------------------------ the vtable */

static enum td_code allocate(const struct td_device *d, struct td_stream *stream, size_t bytes, void **out,
                             struct td_err *err)
{
    (void)d;
    (void)stream;
    void *p = td_calloc(1, bytes + (bytes == 0));
    if (p == NULL) {
        return td_no_memory(err, bytes, "bytes on the second device");
    }
    memset(p, 0xff, bytes);
    *out = disguise(p);
    return TD_OK;
}

/* Frees may not fail: without memory for a job the queue is emptied first. */
static void release(const struct td_device *d, void *p, size_t bytes, struct td_stream *stream,
                    unsigned context)
{
    (void)context; /* it has one alone */
    (void)bytes;
    struct second_device *t = self(d);
    struct job *j = td_calloc(1, sizeof *j);
    if (j != NULL) {
        *j = (struct job){.kind = JOB_FREE, .stream = stream, .dst = uncover(p)};
        enqueue(t, j);
        return;
    }
    pthread_mutex_lock(&t->mu);
    reach(t, t->queued);
    pthread_mutex_unlock(&t->mu);
    td_free(uncover(p));
}

/* Counts a request; true when it is the one to leave out. */
static bool left_out(struct second_device *t, long *count, const long *which)
{
    pthread_mutex_lock(&t->mu);
    bool out = ++*count == *which;
    pthread_mutex_unlock(&t->mu);
    return out;
}

static enum td_code copy(const struct td_device *d, struct td_stream *stream, enum td_copy which, void *dst,
                         const void *src, size_t bytes, struct td_err *err)
{
    struct second_device *t = self(d);
    dst = which != TD_COPY_TO_HOST ? uncover(dst) : (void *)on_host(dst);
    src = which != TD_COPY_TO_DEVICE ? uncover(src) : on_host(src);
    if (which == TD_COPY_TO_HOST) {
        memset(dst, 0xff, bytes);
    }
    if (left_out(t, &t->counts.copies, &t->leave_out.copies)) {
        return TD_OK;
    }
    struct job *j = td_calloc(1, sizeof *j);
    if (j == NULL) {
        return td_no_memory(err, sizeof *j, "a copy");
    }
    *j = (struct job){.kind = JOB_COPY, .stream = stream, .dst = dst, .src = src, .bytes = bytes};
    enqueue(t, j);
    return TD_OK;
}

/* An argument in host terms: device bytes by their true address, host bytes copied now. */
static enum td_code take_argument(const struct td_tensor *from, struct td_tensor *to, struct td_err *err)
{
    if (from->device == NULL) {
        return td_tensor_copy(to, from, err);
    }
    *to = (struct td_tensor){.data = uncover(from->data), .dtype = from->dtype, .shape = from->shape};
    return TD_OK;
}

static enum td_code launch(const struct td_device *d, struct td_stream *stream, const struct td_launch *l,
                           struct td_err *err)
{
    struct second_device *t = self(d);
    if (left_out(t, &t->counts.launches, &t->leave_out.launches)) {
        return TD_OK;
    }
    struct job *j = td_calloc(1, sizeof *j);
    struct td_tensor *tensors = td_calloc((size_t)(l->n_in + l->n_out) + 1, sizeof *tensors);
    if (j == NULL || tensors == NULL) {
        td_free(j);
        td_free(tensors);
        return td_no_memory(err, sizeof *j, "a launch");
    }
    *j = (struct job){.kind = JOB_LAUNCH, .stream = stream, .launch = *l, .tensors = tensors};
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < l->n_in + l->n_out; i++) {
        rc = take_argument(i < l->n_in ? &l->in[i] : &l->out[i - l->n_in], &tensors[i], err);
    }
    if (rc) {
        job_free(j);
        return rc;
    }
    enqueue(t, j);
    return TD_OK;
}

static enum td_code stream_open(const struct td_device *d, struct td_stream **out, struct td_err *err)
{
    struct second_device *t = self(d);
    struct td_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a stream");
    }
    pthread_mutex_lock(&t->mu);
    if (!t->started) {
        t->started = pthread_create(&t->thread, NULL, work, t) == 0;
    }
    bool started = t->started;
    pthread_mutex_unlock(&t->mu);
    if (!started) {
        td_free(s);
        TD_FAIL(err, RESOURCE_EXHAUSTED, "second device: no thread could be started");
    }
    *out = s;
    return TD_OK;
}

static void stream_close(const struct td_device *d, struct td_stream *stream)
{
    struct second_device *t = self(d);
    pthread_mutex_lock(&t->mu);
    reach(t, t->queued);
    stream->next = t->closed;
    t->closed = stream;
    pthread_mutex_unlock(&t->mu);
}

static enum td_code event_open(const struct td_device *d, struct td_event **out, struct td_err *err)
{
    (void)d;
    *out = td_calloc(1, sizeof **out);
    return *out == NULL ? td_no_memory(err, sizeof **out, "an event") : TD_OK;
}

static void event_close(const struct td_device *d, struct td_event *event)
{
    (void)d;
    td_free(event);
}

static enum td_code event_record(const struct td_device *d, struct td_stream *stream, struct td_event *event,
                                 struct td_err *err)
{
    (void)err;
    struct second_device *t = self(d);
    pthread_mutex_lock(&t->mu);
    *event = (struct td_event){stream, t->queued};
    pthread_mutex_unlock(&t->mu);
    return TD_OK;
}

static void call_off(struct second_device *t, const struct td_event *event)
{
    pthread_mutex_lock(&t->mu);
    for (struct job *j = t->head; j != NULL && j->number <= event->number; j = j->next) {
        j->called_off = j->stream == event->stream;
    }
    pthread_mutex_unlock(&t->mu);
}

static enum td_code event_wait(const struct td_device *d, struct td_event *event, struct td_err *err)
{
    struct second_device *t = self(d);
    if (left_out(t, &t->counts.waits, &t->leave_out.waits)) {
        call_off(t, event);
        return TD_OK;
    }
    pthread_mutex_lock(&t->mu);
    reach(t, event->number);
    struct td_err found = event->stream->err;
    event->stream->err = (struct td_err){0};
    pthread_mutex_unlock(&t->mu);
    return found.code == TD_OK ? TD_OK : td_fail(err, found.code, "%s", found.msg);
}

/* ------------------------------------------------------------------ the device */

enum td_code td_second_device_new(enum second_device_speed speed, struct td_device **out, struct td_err *err)
{
    struct second_device *t = td_calloc(1, sizeof *t);
    if (t == NULL) {
        return td_no_memory(err, sizeof *t, "the second device");
    }
    *t = (struct second_device){.speed = speed};
    t->base = (struct td_device){.kind = TD_TEST_DEVICE,
                                 .name = "/device:TEST:0",
                                 .impl = t,
                                 .kernels = TD_CPU,
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
    t->tail = &t->head;
    pthread_mutex_init(&t->mu, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->progress, NULL);
    *out = &t->base;
    return TD_OK;
}

void td_second_device_free(struct td_device *d)
{
    struct second_device *t = self(d);
    pthread_mutex_lock(&t->mu);
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->mu);
    if (t->started) {
        pthread_join(t->thread, NULL);
    }
    while (t->closed != NULL) {
        struct td_stream *s = t->closed;
        t->closed = s->next;
        td_free(s);
    }
    pthread_mutex_destroy(&t->mu);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->progress);
    td_free(t);
}

void td_second_device_leave_out(struct td_device *d, struct second_device_counts which)
{
    struct second_device *t = self(d);
    pthread_mutex_lock(&t->mu);
    t->counts = (struct second_device_counts){0};
    t->leave_out = which;
    pthread_mutex_unlock(&t->mu);
}

struct second_device_counts td_second_device_counts(struct td_device *d)
{
    struct second_device *t = self(d);
    pthread_mutex_lock(&t->mu);
    struct second_device_counts c = t->counts;
    pthread_mutex_unlock(&t->mu);
    return c;
}
