/* kernels/cuda/base/device_graph.c - recordings: a stream that is captured, and the graph that comes of it;
 * and conditional nodes in them, each of whose bodies is captured from a stream of its own. A kernel before
 * the node says what it does.
 *
 *   stream   .. test -> [loop] -> ..          body     a round's work -> test
 *   stream   .. choose -> [switch] -> ..      bodies   a branch each
 *
 * Where the driver has no Switch nodes (before CUDA 12.8) each branch has an If node.
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

/* ------------------------------------------------------------------ conditional nodes in them */

/* New streams, each of a body of a node in `stream`. */
static enum td_code open_bodies(struct cuda_device *d, struct td_stream *stream, int n,
                                struct td_stream **bodies, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const enum td_code rc = open_stream(d, &bodies[i], err);
        if (rc) {
            while (i-- > 0) {
                close_stream(bodies[i]);
            }
            return rc;
        }
        bodies[i]->around = stream;
    }
    return TD_OK;
}

/* The node that runs the bodies is put into stream: error is what came of setting its condition. */
static int open_node(struct cuda_device *d, int error, enum td_cuda_node type, uint64_t condition, int n,
                     struct td_stream *const *bodies)
{
    struct td_cuda_stream *at[TD_DEVICE_BODIES];
    for (int i = 0; i < n; i++) {
        at[i] = bodies[i]->at;
        bodies[i]->condition = condition;
    }
    return error != 0 ? error : td_cuda_node_open(d->number, bodies[0]->around->at, type, condition, n, at);
}

/* Either the node is there, and all bodies are recorded, or these are gone. */
static enum td_code opened(struct cuda_device *d, int error, struct td_stream *stream, int n,
                           struct td_stream *const *bodies, struct td_err *err)
{
    for (int i = 0; error != 0 && i < n; i++) {
        close_stream(bodies[i]);
    }
    stream->recorded++;
    return td_cuda_device_checked(d, error, "recording a conditional node", err);
}

static int new_condition(struct cuda_device *d, struct td_stream *stream, uint64_t *out)
{
    const int error = td_cuda_condition(d->number, stream->at, out);
    return error != 0 ? error : td_cuda_use(d->number);
}

static enum td_code loop_begin(const struct td_device *dev, struct td_stream *stream,
                               const struct td_device_loop *l, struct td_stream **body, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    uint64_t condition;
    TD_TRY(open_bodies(d, stream, 1, body, err));
    int error = new_condition(d, stream, &condition);
    error = error != 0 ? error : td_cuda_loop_test(condition, l, stream->at);
    error = open_node(d, error, TD_CUDA_WHILE, condition, 1, body);
    return opened(d, error, stream, 1, body, err);
}

static enum td_code loop_carry(const struct td_device *dev, struct td_stream *body,
                               const struct td_device_loop *l, void *to, const void *from, size_t bytes,
                               struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    const int error = td_cuda_use(d->number);
    body->recorded++;
    return td_cuda_device_checked(d, error != 0 ? error : td_cuda_loop_carry(l, to, from, bytes, body->at),
                                  "recording a loop", err);
}

static enum td_code branch_begin(const struct td_device *dev, struct td_stream *stream,
                                 const struct td_device_branch *b, struct td_stream **bodies,
                                 struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    const bool is_switch = (d->nodes >> TD_CUDA_SWITCH & 1) != 0;
    const int n_nodes = is_switch ? 1 : b->n;
    uint64_t conditions[TD_DEVICE_BODIES];
    TD_TRY(open_bodies(d, stream, b->n, bodies, err));
    int error = 0;
    for (int i = 0; i < n_nodes; i++) {
        error = error != 0 ? error : new_condition(d, stream, &conditions[i]);
    }
    error = error != 0 ? error : td_cuda_branch_choose(conditions, is_switch, b, stream->at);
    for (int i = 0; i < n_nodes; i++) {
        error = is_switch ? open_node(d, error, TD_CUDA_SWITCH, conditions[0], b->n, bodies)
                          : open_node(d, error, TD_CUDA_IF, conditions[i], 1, &bodies[i]);
    }
    return opened(d, error, stream, b->n, bodies, err);
}

static enum td_code pass_begin(const struct td_device *dev, struct td_stream *stream,
                               const struct td_device_pass *p, struct td_stream **body, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    uint64_t condition;
    TD_TRY(open_bodies(d, stream, 1, body, err));
    int error = new_condition(d, stream, &condition);
    error = error != 0 ? error : td_cuda_pass_test(condition, p, stream->at);
    error = open_node(d, error, TD_CUDA_IF, condition, 1, body);
    return opened(d, error, stream, 1, body, err);
}

static enum td_code pass_copy(const struct td_device *dev, struct td_stream *body, const uint32_t *fresh,
                              void *to, const void *from, size_t bytes, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    const int error = td_cuda_use(d->number);
    body->recorded++;
    return td_cuda_device_checked(d, error != 0 ? error : td_cuda_pass_copy(fresh, to, from, bytes, body->at),
                                  "recording a loop", err);
}

/* Kernels of a round count as if there were one, and those of branches as if all were taken. */
static enum td_code body_end(const struct td_device *dev, struct td_stream *body,
                             const struct td_device_loop *l, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    int error = td_cuda_use(d->number);
    error = error != 0 || l == NULL ? error : td_cuda_loop_test(body->condition, l, body->at);
    const int closed = td_cuda_body_close(d->number, body->at);
    body->around->recorded += body->recorded + (l != NULL);
    close_stream(body);
    return td_cuda_device_checked(d, error != 0 ? error : closed, "recording a conditional node", err);
}

void td_cuda_device_record(struct td_device *dev)
{
    struct cuda_device *d = dev->impl;
    const unsigned both = 1U << TD_CUDA_WHILE | 1U << TD_CUDA_IF;
    dev->graph_begin = graph_begin;
    dev->graph_end = graph_end;
    dev->graph_launch = graph_launch;
    dev->graph_free = graph_free;
    d->nodes = dev->graph_run > 0 ? td_cuda_nodes(d->number) : 0;
    if ((d->nodes & both) == both) {
        dev->loop_begin = loop_begin;
        dev->loop_carry = loop_carry;
        dev->branch_begin = branch_begin;
        dev->pass_begin = pass_begin;
        dev->pass_copy = pass_copy;
        dev->body_end = body_end;
    }
}
