/* server/grpc/grpc_request.c - a message from its handler to its answer (see grpc_rpc.h), of a unary call and
 * of a stream alike; and the arenas of handlers that decode little.
 *
 * td_rpc_run() has the payload opened, the token checked and the handler called (td_grpc_handle). A handler
 * that set encode has made a request: it is started, and its end comes back through done, perhaps on a
 * worker's thread. Any other is answered at once. answer() is the end of both: the metrics, then, in streams,
 * an answer made of a failure; then all that the request holds is dropped, and the carrier is told, with whom
 * the message may be gone.
 *
 * Does not: know calls or streams (server/grpc/grpc_call.c and server/grpc/grpc_stream.c are the carriers),
 * or read messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_impl.h"
#include "server/request/prediction_log.h"
#include "server/request/request_span.h"

#define ARENA_BYTES ((size_t)1 << 20) /* of names, keys and settings */

enum td_code td_rpc_with_arena(struct td_rpc *r, td_rpc_arena_fn *body, struct td_err *err)
{
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    const enum td_code rc = body(r, a, err);
    td_arena_free(a);
    return rc;
}

/* The last of a message, on whatever thread: err->code says how it went. */
static void answer(struct td_rpc *r, struct td_err *err)
{
    if (r->q.arena != NULL) {
        td_request_span(&r->q, TD_ENTRY_GRPC, 0, err);
        if (err->code == TD_OK && r->q.n_out > 0) {
            td_prediction_log(&r->q);
        }
        td_request_count(&r->q, TD_ENTRY_GRPC, err->code);
    }
    if (err->code && r->fail != NULL) {
        err->code = r->fail(r, err);
    }
    td_request_fini(&r->q);
    r->carrier->finish(r, err);
}

static void on_queued(struct td_request *q)
{
    td_rpc_of(q)->carrier->hold(td_rpc_of(q));
}

static void on_done(struct td_request *q, struct td_err *err)
{
    answer(td_rpc_of(q), err);
}

/* Its model is loaded, or will not be. */
static void on_resume(struct td_request *q, struct td_err *err)
{
    struct td_rpc *r = td_rpc_of(q);
    if (err->code) {
        answer(r, err);
    } else {
        r->carrier->run_again(r);
    }
}

/* A handler has failed: true when the message waits for its model from here on. */
static bool waits(struct td_rpc *r, struct td_err *err)
{
    if (!td_request_is_cold(&r->q) || r->carrier->run_again == NULL) {
        return false;
    }
    r->reply.n = 0;
    r->q.resume = on_resume;
    if (r->carrier->wait != NULL) {
        r->carrier->wait(r);
    }
    return td_request_await(&r->q, r->registry, err);
}

/* Whether nobody else has a call open. */
static bool is_lone(struct td_grpc *g)
{
    pthread_mutex_lock(&g->mu);
    const bool lone = g->open == 1;
    pthread_mutex_unlock(&g->mu);
    return lone;
}

void td_rpc_run(struct td_rpc *r, struct td_grpc *g, int method, const grpc_metadata_array *sent,
                struct td_payload *p)
{
    struct td_err err = {0};
    if (!r->q.resumed) {
        td_trace_begin(&r->q.trace, td_grpc_header(sent, "traceparent"), td_grpc_header(sent, "tracestate"),
                       td_rpc_methods[method].path);
    }
    err.code = td_grpc_handle(g, method, sent, p, r, &err);
    if (err.code != TD_OK && waits(r, &err)) {
        return;
    }
    if (err.code != TD_OK || r->q.encode == NULL) {
        answer(r, &err);
    } else {
        r->q.thread_ns = TD_RUN_LONE_NS;
        r->q.step_back = td_poll_step_back;
        r->q.brief_ns = is_lone(g) ? TD_RUN_SHORT_NS : TD_RUN_BRIEF_NS;
        r->q.queued = on_queued;
        r->q.done = on_done;
        td_request_start(&r->q, r->registry);
    }
}

/* ------------------------------------------------------------------ why a call fails */

struct td_rpc_trailer {
    grpc_metadata at[2];
    size_t n;
};

/* Values of metadata are printable ASCII: what is not becomes '?'. */
static void add(struct td_rpc_trailer *t, const char *key, const char *value)
{
    char text[300];
    size_t n = value != NULL ? strnlen(value, sizeof text) : 0;
    for (size_t i = 0; i < n; i++) {
        text[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
    }
    if (n > 0) {
        t->at[t->n++] = (grpc_metadata){.key = grpc_slice_from_static_string(key),
                                        .value = grpc_slice_from_copied_buffer(text, n)};
    }
}

void td_rpc_explain(struct td_rpc *r, const char *code, const char *param)
{
    td_grpc_free_trailer(r);
    r->trailer = td_calloc(1, sizeof *r->trailer);
    if (r->trailer != NULL) { /* without memory the sentence must do */
        add(r->trailer, "tensord-code", code);
        add(r->trailer, "tensord-param", param);
    }
}

void td_grpc_put_trailer(const struct td_rpc *r, grpc_op *op)
{
    if (r->trailer != NULL) {
        op->data.send_status_from_server.trailing_metadata = r->trailer->at;
        op->data.send_status_from_server.trailing_metadata_count = r->trailer->n;
    }
}

void td_grpc_free_trailer(struct td_rpc *r)
{
    for (size_t i = 0; r->trailer != NULL && i < r->trailer->n; i++) {
        grpc_slice_unref(r->trailer->at[i].value);
    }
    td_free(r->trailer);
    r->trailer = NULL;
}
