/* kernels/cuda/base/device_graph.c - recordings: a stream that is captured, and the graph that comes of it;
 * and loops in them, each round a graph of its own, which is captured from a stream of its own.
 *
 *   stream   .. test -> [loop] -> ..          body   a round's work -> test
 *
 * Threads: a recording is its run's; counts are atomic.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/cuda/base/device_impl.h"
#include "kernels/cuda/base/loop.h"

/* ------------------------------------------------------------------ recordings */

/* *out: a stream that records, once somebody says so. */
static enum td_code open_stream(struct cuda_device *d, struct td_stream **out, struct td_err *err)
{
    struct td_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a stream");
    }
    *s = (struct td_stream){.device = d, .records = true};
    enum td_code rc = td_cuda_device_alive(d, err);
    rc = rc ? rc : td_cuda_device_checked(d, td_cuda_stream_new(d->number, &s->at), "opening a stream", err);
    if (rc) {
        td_free(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

static void close_stream(struct td_stream *s)
{
    (void)td_cuda_stream_free(s->at);
    td_free(s);
}

static enum td_code graph_begin(const struct td_device *dev, struct td_stream **stream, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    struct td_stream *s;
    TD_TRY(open_stream(d, &s, err));
    const enum td_code rc =
        td_cuda_device_checked(d, td_cuda_capture_begin(d->number, s->at), "recording a graph", err);
    if (rc) {
        close_stream(s);
        return rc;
    }
    *stream = s;
    return TD_OK;
}

static enum td_code graph_end(const struct td_device *dev, struct td_stream *s, struct td_recording **out,
                              struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    struct td_recording *r = td_calloc(1, sizeof *r);
    struct td_cuda_graph *graph = NULL;
    enum td_code rc =
        td_cuda_device_checked(d, td_cuda_capture_end(d->number, s->at, &graph), "recording a graph", err);
    if (rc == TD_OK && r == NULL) {
        (void)td_cuda_graph_free(d->number, graph);
        rc = td_no_memory(err, sizeof *r, "a graph");
    }
    if (rc == TD_OK) {
        *r = (struct td_recording){.at = graph, .kernels = s->recorded, .context = atomic_load(&d->context)};
        atomic_fetch_add(&d->graphs, 1);
        atomic_fetch_add(&d->graphs_made, 1);
    } else {
        td_free(r);
        r = NULL;
    }
    close_stream(s);
    *out = r;
    return rc;
}

static enum td_code graph_launch(const struct td_device *dev, struct td_stream *stream,
                                 struct td_recording *r, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    TD_TRY(td_cuda_device_alive(d, err));
    atomic_fetch_add_explicit(&d->graph_launches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->launches, r->kernels, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->graph_kernels, r->kernels, memory_order_relaxed);
    return td_cuda_device_checked(d, td_cuda_graph_launch(d->number, r->at, stream->at), "launching a graph",
                                  err);
}

static void graph_free(const struct td_device *dev, struct td_recording *r)
{
    struct cuda_device *d = dev->impl;
    if (td_cuda_device_enter(d, r->context)) {
        (void)td_cuda_graph_free(d->number, r->at); /* an error that stays shows again in the next call */
        td_cuda_device_leave(d);
    }
    atomic_fetch_sub(&d->graphs, 1);
    td_free(r);
}

/* ------------------------------------------------------------------ loops in them */

static struct td_cuda_loop loop_of(const struct td_device_loop *l)
{
    return (struct td_cuda_loop){.go = l->go, .left = l->left, .fault = l->fault, .n_faults = l->n_faults};
}

/* l is looked at in stream, and the loop follows. */
static enum td_code put_loop(struct cuda_device *d, struct td_stream *stream, const struct td_device_loop *l,
                             struct td_stream *body, struct td_err *err)
{
    const struct td_cuda_loop own = loop_of(l);
    int error = td_cuda_loop_condition(d->number, stream->at, &body->condition);
    error = error != 0 ? error : td_cuda_use(d->number);
    error = error != 0 ? error : td_cuda_loop_test(body->condition, &own, stream->at);
    error = error != 0 ? error : td_cuda_loop_open(d->number, stream->at, body->condition, body->at);
    return td_cuda_device_checked(d, error, "recording a loop", err);
}

static enum td_code loop_begin(const struct td_device *dev, struct td_stream *stream,
                               const struct td_device_loop *l, struct td_stream **body, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    struct td_stream *s;
    TD_TRY(open_stream(d, &s, err));
    const enum td_code rc = put_loop(d, stream, l, s, err);
    if (rc) {
        close_stream(s);
        return rc;
    }
    s->around = stream;
    stream->recorded++;
    *body = s;
    return TD_OK;
}

static enum td_code loop_carry(const struct td_device *dev, struct td_stream *body,
                               const struct td_device_loop *l, void *to, const void *from, size_t bytes,
                               struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    const struct td_cuda_loop own = loop_of(l);
    const int error = td_cuda_use(d->number);
    body->recorded++;
    return td_cuda_device_checked(d, error != 0 ? error : td_cuda_loop_carry(&own, to, from, bytes, body->at),
                                  "recording a loop", err);
}

/* Kernels of a round count as if there were one. */
static enum td_code loop_end(const struct td_device *dev, struct td_stream *body,
                             const struct td_device_loop *l, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    const struct td_cuda_loop own = loop_of(l);
    int error = td_cuda_use(d->number);
    error = error != 0 ? error : td_cuda_loop_test(body->condition, &own, body->at);
    const int closed = td_cuda_loop_close(d->number, body->at);
    body->around->recorded += body->recorded + 1;
    close_stream(body);
    return td_cuda_device_checked(d, error != 0 ? error : closed, "recording a loop", err);
}

void td_cuda_device_record(struct td_device *d)
{
    d->graph_begin = graph_begin;
    d->graph_end = graph_end;
    d->graph_launch = graph_launch;
    d->graph_free = graph_free;
    d->loop_begin = loop_begin;
    d->loop_carry = loop_carry;
    d->loop_end = loop_end;
}
