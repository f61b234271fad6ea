/* server/grpc/grpc_stream.c - streaming calls, the ticker that lets them speak unasked, and calls of unknown
 * methods.
 *
 *   step_arrived    the stream is entered in the server's list; metadata leaves, a message is asked for
 *   step_received   a message, or none when the client has sent all: the handler runs; its answer leaves.
 *                   Streams of
 *                   inference make a request of it (grpc_infer_stream.c)
 *   step_sent       the answer has left: the next message is asked for, or the stream ends
 *   step_ended      the status has left
 *   step_closed     the call is over on both sides or was cancelled
 *
 * With the last reference gone the handler is told TD_RPC_GONE.
 * Threads: mu serialises steps and ticks.
 * Invariant (td_stream_check): ticks begin when the client has sent all, so an answer to a message and one to
 * a tick never meet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_audit.h"
#include "server/grpc/grpc_stream.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_peer.h"

#define TICK_MS 100 /* how late an unasked answer may be */

static void list_add(struct td_grpc_stream *s)
{
    struct td_grpc *g = s->g;
    pthread_mutex_lock(&g->mu);
    td_link_in(&g->streams, &s->listed);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

static void list_remove(struct td_grpc_stream *s)
{
    struct td_grpc *g = s->g;
    pthread_mutex_lock(&g->mu);
    td_link_out(&s->listed);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

static bool infers(const struct td_grpc_stream *s)
{
    return s->method >= 0 && td_rpc_methods[s->method].kind == TD_RPC_INFER_STREAM;
}

static void free_stream(struct td_grpc_stream *s)
{
    if (s->method >= 0 && s->opened && !infers(s)) {
        struct td_err ignored = {0};
        s->rpc.event = TD_RPC_GONE;
        (void)td_rpc_methods[s->method].fn(&s->rpc, &ignored);
    }
    td_infer_stream_free(s);
    struct td_grpc *arrived_at = s->opened ? s->g : NULL;
    td_grpc_leave(s->g, &s->place);
    if (s->call != NULL) {
        grpc_call_unref(s->call);
    }
    grpc_metadata_array_destroy(&s->metadata);
    grpc_call_details_destroy(&s->details);
    grpc_byte_buffer_destroy(s->message);
    pthread_mutex_destroy(&s->mu);
    td_sink_fini(&s->rpc.reply);
    td_grpc_free_trailer(&s->rpc);
    td_free(s);
    if (arrived_at != NULL) {
        td_grpc_closed(arrived_at);
    }
}

static void release(struct td_grpc_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1) {
        if (s->method >= 0) {
            list_remove(s);
        }
        free_stream(s);
    }
}

void td_stream_leave(struct td_grpc_stream *s)
{
    pthread_mutex_unlock(&s->mu);
    release(s);
}

/* Under mu, by a caller that holds a reference. */
static void start_op(struct td_grpc_stream *s, const grpc_op *ops, size_t n, struct td_event *ev)
{
    atomic_fetch_add(&s->refs, 1);
    if (!td_event_start(s->call, ops, n, ev)) {
        atomic_fetch_sub(&s->refs, 1);
    }
}

enum td_code td_stream_check(const struct td_grpc_stream *s, bool busy, struct td_err *err)
{
    TD_WANT(!busy, err, "a stream that %s is to do so again",
            s->writing ? "writes" : "reads, or has read all,");
    TD_WANT(!s->reading || !s->reading_over, err, "a stream reads behind the client's last message");
    return TD_OK;
}

void td_stream_receive(struct td_grpc_stream *s)
{
    TD_HOLDS(td_stream_check, s, s->reading || s->reading_over);
    s->reading = true;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->message};
    start_op(s, &op, 1, &s->received);
}

void td_stream_end(struct td_grpc_stream *s, const struct td_err *err)
{
    if (s->ending) {
        return;
    }
    s->ending = true;
    grpc_slice text = td_grpc_status_text(err);
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                  .data.send_status_from_server = {.status = (grpc_status_code)err->code,
                                                   .status_details = err->code ? &text : NULL}};
    td_grpc_put_trailer(&s->rpc, &op);
    start_op(s, &op, 1, &s->ended);
    grpc_slice_unref(text);
}

void td_stream_send(struct td_grpc_stream *s, struct td_sink *answer)
{
    TD_HOLDS(td_stream_check, s, s->writing);
    grpc_byte_buffer *b = td_grpc_message(answer);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
    s->writing = true;
    start_op(s, &op, 1, &s->sent);
    grpc_byte_buffer_destroy(b);
}

/* Sends what the handler has answered to an event. Returns whether a write is under way or the stream ends.
 */
static bool told(struct td_grpc_stream *s, const struct td_err *err)
{
    if (err->code) {
        td_stream_end(s, err);
        return true;
    }
    if (!s->rpc.has_reply) {
        return false;
    }
    td_stream_send(s, &s->rpc.reply);
    return true;
}

static bool tell(struct td_grpc_stream *s, enum td_rpc_event event)
{
    struct td_err err = {0};
    s->rpc.event = event;
    s->rpc.has_reply = s->rpc.again = false;
    err.code = td_rpc_methods[s->method].fn(&s->rpc, &err);
    return told(s, &err);
}

/* What follows when nothing is being written: the next message, the end, what there is to tell, or waiting
 * for ticks. */
static void go_on(struct td_grpc_stream *s)
{
    if (!s->rpc.done && s->reading_over && s->rpc.ticks && s->rpc.again) {
        td_poll_step_back();
        if (tell(s, TD_RPC_TICK)) {
            return;
        }
    }
    if (s->rpc.done || (s->reading_over && !s->rpc.ticks)) {
        td_stream_end(s, &(struct td_err){0});
    } else if (!s->reading_over) {
        td_stream_receive(s);
    }
}

/* The handler sees the message. Returns as told. */
static bool tell_message(struct td_grpc_stream *s)
{
    struct td_err err = {0};
    struct td_payload payload = {.buffer = s->message};
    s->message = NULL;
    s->rpc.event = TD_RPC_MESSAGE;
    s->rpc.has_reply = false;
    err.code = td_payload_hold(&payload, &err);
    if (err.code == TD_OK) {
        err.code = td_grpc_handle(s->g, s->method, &s->metadata, &payload, &s->rpc, &err);
    }
    td_payload_close(&payload);
    s->rpc.in = (struct td_wire){0};
    return told(s, &err);
}

/* An answer may go out, or the next message come in. */
static void proceed(struct td_grpc_stream *s)
{
    if (infers(s)) {
        td_infer_stream_go_on(s);
    } else {
        go_on(s);
    }
}

static void step_received(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    pthread_mutex_lock(&s->mu);
    s->reading = false;
    if (!s->ending && ok && s->message != NULL) {
        if (infers(s)) {
            td_infer_stream_take(s);
            return;
        }
        td_poll_step_back();
        if (!tell_message(s)) {
            go_on(s);
        }
    } else if (!s->ending && !s->gone) {
        s->reading_over = true;
        if (infers(s) || !tell(s, TD_RPC_END)) {
            proceed(s);
        }
    }
    td_stream_leave(s);
}

static void step_sent(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    pthread_mutex_lock(&s->mu);
    s->writing = false;
    if (ok && !s->ending) {
        proceed(s);
    }
    td_stream_leave(s);
}

static void step_ended(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    (void)ok;
    pthread_mutex_lock(&s->mu);
    td_stream_leave(s);
}

static void step_closed(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    (void)ok;
    pthread_mutex_lock(&s->mu);
    s->gone = true;
    td_infer_stream_stop(s);
    if (!s->ending) { /* the client went away: a status completes our side */
        td_stream_end(s, &(struct td_err){.code = TD_CANCELLED, .msg = "the client has gone"});
    }
    td_stream_leave(s);
}

/* False, with the stream freed, when the server is stopping. */
static bool opened(struct td_grpc_stream *s, bool ok)
{
    if (!ok) {
        s->call = NULL;
    }
    s->opened = ok && td_grpc_opened(s->g);
    if (!s->opened) {
        free_stream(s);
        return false;
    }
    return true;
}

static void step_arrived(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    if (!opened(s, ok)) {
        return;
    }
    td_stream_listen(s->g, s->method);
    pthread_mutex_lock(&s->mu);
    list_add(s);
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &s->cancelled};
    start_op(s, &close, 1, &s->closed);
    grpc_op open[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                       {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->message}};
    s->reading = true;
    start_op(s, open, 2, &s->received);
    struct td_err refused = {0};
    if (td_grpc_enter(s->g, s->call, &s->place, &refused)) {
        td_stream_end(s, &refused);
    } else if (td_grpc_admit(s->g, s->method, &s->metadata, &refused)) {
        td_grpc_audit(s->method, &s->metadata, s->call, "", &refused);
        td_stream_end(s, &refused);
    }
    td_stream_leave(s);
}

static void *call_of(struct td_rpc *r)
{
    return ((struct td_grpc_stream *)r)->call;
}

/* gRPC tells the end of a client's messages and that it has gone alike, and the latter once more right after:
 * it writes s->cancelled then. Nobody who holds mu sees that event, so the number is looked at. */
static bool broken_off(struct td_rpc *r)
{
    const struct td_grpc_stream *s = (struct td_grpc_stream *)r;
    const struct timespec wait = {.tv_nsec = 2000000};
    for (int i = 0; i < 10 && *(volatile const int *)&s->cancelled == 0; i++) {
        (void)nanosleep(&wait, NULL);
    }
    return *(volatile const int *)&s->cancelled != 0;
}

static const struct td_rpc_carrier STREAM = {
    .call = call_of, .broken_off = broken_off}; /* the rest is for handlers that compute */

static struct td_grpc_stream *new_stream(struct td_grpc *g, int method)
{
    struct td_grpc_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->rpc.carrier = &STREAM;
    s->rpc.registry = g->registry;
    s->rpc.opts = &g->opts;
    s->g = g;
    s->method = method;
    s->refs = 1; /* the arrival */
    s->arrived = (struct td_event){step_arrived, s};
    s->received = (struct td_event){step_received, s};
    s->sent = (struct td_event){step_sent, s};
    s->ended = (struct td_event){step_ended, s};
    s->closed = (struct td_event){step_closed, s};
    pthread_mutex_init(&s->mu, NULL);
    grpc_metadata_array_init(&s->metadata);
    grpc_call_details_init(&s->details);
    return s;
}

void td_stream_listen(struct td_grpc *g, int method)
{
    struct td_grpc_stream *s = new_stream(g, method);
    if (s == NULL) {
        return;
    }
    if (grpc_server_request_registered_call(g->server, g->registered[method], &s->call, &s->deadline,
                                            &s->metadata, NULL, g->cq, g->cq,
                                            td_event_give(&s->arrived)) != GRPC_CALL_OK) {
        s->call = NULL;
        free_stream(s);
    }
}

/* ---- unknown methods ---- */

static void step_unknown(void *owner, bool ok)
{
    struct td_grpc_stream *s = owner;
    if (!opened(s, ok)) {
        return;
    }
    td_unknown_listen(s->g);
    struct td_err err = {0};
    (void)td_fail(&err, TD_UNIMPLEMENTED, "no method %.*s here", (int)GRPC_SLICE_LENGTH(s->details.method),
                  (const char *)GRPC_SLICE_START_PTR(s->details.method));
    grpc_slice text = td_grpc_status_text(&err);
    grpc_op ops[3] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
         .data.send_status_from_server = {.status = GRPC_STATUS_UNIMPLEMENTED, .status_details = &text}},
        {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &s->cancelled}};
    pthread_mutex_lock(&s->mu);
    start_op(s, ops, 3, &s->ended);
    grpc_slice_unref(text);
    td_stream_leave(s);
}

void td_unknown_listen(struct td_grpc *g)
{
    struct td_grpc_stream *s = new_stream(g, -1);
    if (s == NULL) {
        return;
    }
    s->arrived.step = step_unknown;
    if (grpc_server_request_call(g->server, &s->call, &s->details, &s->metadata, g->cq, g->cq,
                                 td_event_give(&s->arrived)) != GRPC_CALL_OK) {
        s->call = NULL;
        free_stream(s);
    }
}

/* ---- the ticker ---- */

static void tick(struct td_grpc_stream *s, bool stopping)
{
    if (s->ending || s->gone) {
        return;
    }
    if (stopping && s->requests.first == NULL) { /* what is being computed is still answered */
        td_stream_end(s, &(struct td_err){.code = TD_UNAVAILABLE, .msg = "the server is shutting down"});
    } else if (s->rpc.ticks && s->reading_over && !s->writing) {
        if (!tell(s, TD_RPC_TICK) && s->rpc.done) {
            td_stream_end(s, &(struct td_err){0});
        }
    }
}

/* The first stream from there on that is not leaving, with a reference. Under g->mu. */
static struct td_grpc_stream *hold(struct td_link *from)
{
    for (; from != NULL; from = from->next) {
        struct td_grpc_stream *s = td_link_owner(from, struct td_grpc_stream, listed);
        int refs = atomic_load(&s->refs);
        while (refs > 0) {
            if (atomic_compare_exchange_weak(&s->refs, &refs, refs + 1)) {
                return s;
            }
        }
    }
    return NULL;
}

/* One round over all streams. A held stream stays on the list, so its neighbour can be found after its slot.
 */
static void tick_all(struct td_grpc *g)
{
    pthread_mutex_lock(&g->mu);
    struct td_grpc_stream *s = hold(g->streams);
    bool stopping = atomic_load(&g->stopping);
    pthread_mutex_unlock(&g->mu);
    while (s != NULL) {
        pthread_mutex_lock(&s->mu);
        tick(s, stopping);
        pthread_mutex_unlock(&s->mu);
        pthread_mutex_lock(&g->mu);
        struct td_grpc_stream *next = hold(s->listed.next);
        pthread_mutex_unlock(&g->mu);
        release(s);
        s = next;
    }
}

/* Sleeps until there is something to tick: for ever without streams and calls. Returns false when the server
 * is down.
 */
static bool wait_tick(struct td_grpc *g)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&g->mu);
    while (!g->is_down && g->streams == NULL && !g->ticking) {
        pthread_cond_wait(&g->changed, &g->mu);
    }
    bool stopping = atomic_load(&g->stopping);
    while (!g->is_down && atomic_load(&g->stopping) == stopping &&
           pthread_cond_timedwait(&g->changed, &g->mu, &until) != ETIMEDOUT) {
    }
    bool up = !g->is_down;
    pthread_mutex_unlock(&g->mu);
    return up;
}

void *td_stream_ticker(void *grpc)
{
    while (wait_tick(grpc)) {
        tick_all(grpc);
        td_calls_tick(grpc);
        td_poll_tick(&((struct td_grpc *)grpc)->polls);
    }
    return NULL;
}
