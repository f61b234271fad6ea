/* server/grpc/grpc_call.c - one unary call, from arrival to the last event about it.
 *
 *   step_arrived   its head is there: the next call is listened for, this one is let in or not, its token is
 *                  looked at, and its message asked for; mostly that is there already, and comes next on this
 *                  thread. Else the call waits, at most as long as a request may take
 *   step_received  the message is there: by the method's kind,
 *                    QUERY    handle
 *                    INFER    handle, or into the queue while all handlers are busy
 *                    MANAGE, WAIT   handle on a new thread
 *   handle         the handler runs, and its request (td_rpc_run)
 *   finish         answer starts the last operations, here or later and on another thread
 *   step_closed    the call is over, or the client has gone: then the request's stop word is set. Asked for
 *                  once the call waits or takes long; most are answered before that
 *   step_answered  the answer has left
 *
 * A call is freed with the last of its events. A QUERY cannot be cancelled and is never watched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/grpc/grpc_audit.h"
#include "server/grpc/grpc_impl.h"
#include "server/grpc/grpc_peer.h"

#define LONG_NS 20000000 /* a handler that runs longer is worth watching for */
#define MAX_SLOW 16      /* threads of managing calls that do not wait for models */
#define MAX_QUEUED 16384 /* wait for a slot: far beyond what a client would wait for */

struct td_grpc_call {
    struct td_rpc rpc; /* first: a handler's td_rpc is the call */
    struct td_grpc *g;
    int method; /* row of td_rpc_methods */
    struct td_event arrived, message_came, closed, answered;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct td_payload payload;
    int cancelled; /* written by gRPC when the call closes */
    bool watched;  /* closed comes; else the answer's operations tell gRPC that nobody asks */
    bool at_once;  /* its message was there with its head: no other thread knows of the call */
    bool received; /* its message is there; under g->mu */
    bool late;     /* its message was not there in time; under g->mu */
    /* &g->handled or &g->waiting, which it is in; NULL: none. Their lock then guards watched */
    struct td_grpc_calls *list;
    int64_t since_ns; /* it came to that list */
    struct td_grpc_call *next, *prev;
    atomic_int pending; /* events still to come, and the arrival while it goes on */
    struct td_grpc_slot slot;
    struct td_open_call place;
    bool opened; /* counted in g->open */
};

static void free_call(struct td_grpc_call *c)
{
    td_payload_close(&c->payload);
    grpc_metadata_array_destroy(&c->metadata);
    struct td_grpc *arrived_at = c->opened ? c->g : NULL;
    td_grpc_leave(c->g, &c->place);
    if (c->call != NULL) {
        grpc_call_unref(c->call);
    }
    td_sink_fini(&c->rpc.reply);
    td_grpc_free_trailer(&c->rpc);
    td_free(c);
    if (arrived_at != NULL) {
        td_grpc_closed(arrived_at);
    }
}

static void event_done(struct td_grpc_call *c)
{
    if (atomic_fetch_sub(&c->pending, 1) == 1) {
        free_call(c);
    }
}

static void step_answered(void *owner, bool ok)
{
    (void)ok;
    event_done(owner);
}

static void step_closed(void *owner, bool ok)
{
    struct td_grpc_call *c = owner;
    if (ok && c->cancelled) {
        atomic_store(&c->rpc.q.stop, TD_CANCELLED);
    }
    event_done(c);
}

/* From now on the call's client is seen to go. What is answered at once is not watched: the event that would
 * end it wakes a thread for each call. What turns out to take longer is watched by the ticker. */
static void watch(struct td_grpc_call *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled};
    c->watched = true;
    atomic_fetch_add(&c->pending, 1);
    if (!td_event_start(c->call, &op, 1, &c->closed)) {
        event_done(c);
    }
}

/* Under g->mu. */
static void list(struct td_grpc_call *c, struct td_grpc_calls *to)
{
    struct td_grpc *g = c->g;
    c->since_ns = td_clock_ns();
    c->list = to;
    c->next = NULL;
    c->prev = to->last;
    *(to->last != NULL ? &to->last->next : &to->first) = c;
    to->last = c;
    g->any_handled = true;
    if (!g->ticking) {
        g->ticking = true;
        pthread_cond_broadcast(&g->changed);
    }
}

/* Under g->mu. */
static void unlist(struct td_grpc_call *c)
{
    struct td_grpc_calls *from = c->list;
    if (from != NULL) {
        *(c->prev != NULL ? &c->prev->next : &from->first) = c->next;
        *(c->next != NULL ? &c->next->prev : &from->last) = c->prev;
        c->list = NULL;
    }
}

/* The handler begins. */
static void begin_handling(struct td_grpc_call *c)
{
    pthread_mutex_lock(&c->g->mu);
    list(c, &c->g->handled);
    pthread_mutex_unlock(&c->g->mu);
}

/* The handler ends, or holds the call: before anything that may free it. */
static void end_handling(struct td_grpc_call *c)
{
    pthread_mutex_lock(&c->g->mu);
    unlist(c);
    pthread_mutex_unlock(&c->g->mu);
}

static enum td_code say_late(const struct td_grpc *g, struct td_err *err)
{
    return td_fail(err, TD_DEADLINE_EXCEEDED,
                   "no whole message came within %.0f s (--default_deadline), and the call brought no "
                   "deadline of its own",
                   (double)g->opts.deadline_ns * 1e-9);
}

/* Calls whose message has not come for long end. Their messages then come, as none. Under g->mu. */
static void end_late(struct td_grpc *g)
{
    const int64_t before_ns = td_clock_ns() - g->opts.deadline_ns;
    struct td_err why = {0};
    (void)say_late(g, &why);
    for (struct td_grpc_call *c; (c = g->waiting.first) != NULL && c->since_ns < before_ns;) {
        unlist(c);
        c->late = true;
        (void)grpc_call_cancel_with_status(c->call, GRPC_STATUS_DEADLINE_EXCEEDED, why.msg, NULL);
    }
}

void td_calls_tick(struct td_grpc *g)
{
    const int64_t before_ns = td_clock_ns() - LONG_NS;
    pthread_mutex_lock(&g->mu);
    for (struct td_grpc_call *c = g->handled.first; c != NULL; c = c->next) {
        if (!c->watched && c->since_ns < before_ns) {
            watch(c);
        }
    }
    if (g->opts.deadline_ns > 0) {
        end_late(g);
    }
    g->ticking = g->handled.first != NULL || g->waiting.first != NULL || g->any_handled;
    g->any_handled = false;
    pthread_mutex_unlock(&g->mu);
}

static void *call_of(struct td_rpc *r)
{
    return ((struct td_grpc_call *)r)->call;
}

static void drop_input(struct td_rpc *r)
{
    r->in = (struct td_wire){0};
    td_payload_close(&((struct td_grpc_call *)r)->payload);
}

/* Starts the operations that end the call; the events left in c->pending are all that still touch it. */
static void answer(struct td_grpc_call *c, const struct td_err *err)
{
    grpc_slice text = td_grpc_status_text(err);
    grpc_byte_buffer *message = err->code ? NULL : td_grpc_message(&c->rpc.reply);
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t n = 1;
    if (message != NULL) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    }
    ops[n++] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                         .data.send_status_from_server = {.status = (grpc_status_code)err->code,
                                                          .status_details = err->code ? &text : NULL}};
    td_grpc_put_trailer(&c->rpc, &ops[n - 1]);
    if (!c->watched) {
        ops[n++] = (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                             .data.recv_close_on_server.cancelled = &c->cancelled};
    }
    bool started = td_event_start(c->call, ops, n, &c->answered);
    grpc_byte_buffer_destroy(message); /* the operation holds its own references */
    grpc_slice_unref(text);
    if (!started) {
        event_done(c);
    }
}

/* Its client may leave while it waits. */
static void wait_for_model(struct td_rpc *r)
{
    struct td_grpc_call *c = (struct td_grpc_call *)r;
    end_handling(c);
    if (!c->watched) {
        watch(c);
    }
}

static void hold(struct td_rpc *r)
{
    wait_for_model(r);
    drop_input(r);
}

static void finish(struct td_rpc *r, const struct td_err *err)
{
    struct td_grpc_call *c = (struct td_grpc_call *)r;
    if (c->list != NULL) {
        end_handling(c);
    }
    td_payload_close(&c->payload);
    answer(c, err);
}

/* As the client says; else the server's, or, of a call that waits for models, what their loads may take. */
static int64_t deadline_of(const struct td_grpc_call *c)
{
    const bool own = gpr_time_cmp(c->deadline, gpr_inf_future(c->deadline.clock_type)) != 0;
    const int64_t wait_ns = c->g->opts.wait_ns;
    if (own || td_rpc_methods[c->method].kind != TD_RPC_WAIT) {
        return td_grpc_deadline_ns(c->g, c->deadline);
    }
    return wait_ns > 0 ? td_clock_ns() + wait_ns : 0;
}

/* The call may be gone when this returns. */
static void handle(struct td_grpc_call *c)
{
    if (!c->rpc.q.resumed) {
        c->rpc.q.run.work.deadline_ns = deadline_of(c);
    }
    if (td_rpc_methods[c->method].kind == TD_RPC_INFER) {
        begin_handling(c);
    }
    td_rpc_run(&c->rpc, c->g, c->method, &c->metadata, &c->payload);
}

/* Whether a call would have to wait for a slot now. */
static bool is_busy(struct td_grpc *g)
{
    pthread_mutex_lock(&g->mu);
    const bool busy = g->running >= g->max_running;
    pthread_mutex_unlock(&g->mu);
    return busy;
}

static void put_in_queue(struct td_grpc *g, struct td_grpc_slot *t)
{
    g->queued++;
    *g->queue_end = t;
    g->queue_end = &t->next;
}

/* Runs t on the slot that was taken, and then those that wait, until none does. */
static void use_slot(struct td_grpc *g, struct td_grpc_slot *t)
{
    while (t != NULL) {
        t->run(t->owner);
        pthread_mutex_lock(&g->mu);
        t = g->queue;
        if (t != NULL) {
            g->queued--;
            g->queue = t->next;
            g->queue_end = g->queue != NULL ? g->queue_end : &g->queue;
            t->next = NULL;
        } else {
            g->running--;
        }
        pthread_mutex_unlock(&g->mu);
        if (t != NULL) {
            td_poll_step_back(); /* what waited may take long, and be many */
        }
    }
}

enum td_code td_grpc_take_slot(struct td_grpc *g, struct td_grpc_slot *t, struct td_err *err)
{
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&g->mu);
    const bool run = g->running < g->max_running;
    if (run) {
        g->running++;
    } else if (g->queued < MAX_QUEUED) {
        put_in_queue(g, t);
    } else {
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED, "the request queue is full: %d requests wait", g->queued);
    }
    pthread_mutex_unlock(&g->mu);
    if (run) {
        use_slot(g, t);
    }
    return rc;
}

static void *resume_main(void *arg)
{
    struct td_grpc_slot *t = arg;
    struct td_grpc *g = t->g; /* t's owner may be gone when it has run */
    use_slot(g, t);
    pthread_mutex_lock(&g->mu);
    g->resuming--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
    return NULL;
}

void td_grpc_take_slot_elsewhere(struct td_grpc *g, struct td_grpc_slot *t)
{
    pthread_t thread;
    pthread_mutex_lock(&g->mu);
    const bool run = g->running < g->max_running;
    g->running += run;
    g->resuming += run;
    t->g = g;
    if (!run) {
        put_in_queue(g, t);
    }
    pthread_mutex_unlock(&g->mu);
    if (run && pthread_create(&thread, NULL, resume_main, t) == 0) {
        pthread_detach(thread);
    } else if (run) { /* no thread is to be had: better late here than never */
        (void)resume_main(t);
    }
}

static void take_slot(void *call)
{
    handle(call);
}

static void infer(struct td_grpc_call *c)
{
    struct td_err full = {0};
    c->slot = (struct td_grpc_slot){.run = take_slot, .owner = c};
    td_poll_before(c->payload.buffer);
    if (is_busy(c->g)) {
        watch(c);
    }
    if (td_grpc_take_slot(c->g, &c->slot, &full)) {
        answer(c, &full);
    }
}

static bool waits(const struct td_grpc_call *c)
{
    return td_rpc_methods[c->method].kind == TD_RPC_WAIT || td_rpc_methods[c->method].kind == TD_RPC_APART;
}

static void slow_done(struct td_grpc *g, bool waited)
{
    pthread_mutex_lock(&g->mu);
    g->slow[waited]--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mu);
}

static void *slow_main(void *arg)
{
    struct td_grpc_call *c = arg;
    struct td_grpc *g = c->g; /* c may be gone when handle returns */
    const bool waited = waits(c);
    handle(c);
    slow_done(g, waited);
    return NULL;
}

static bool manages(enum td_rpc_kind kind)
{
    return kind == TD_RPC_MANAGE || kind == TD_RPC_WAIT || kind == TD_RPC_APART;
}

/* Its model was loaded: as when it came, but that it was admitted then. */
static void run_again(struct td_rpc *r)
{
    struct td_grpc_call *c = (struct td_grpc_call *)r;
    struct td_grpc *g = c->g;
    pthread_t thread;
    c->slot = (struct td_grpc_slot){.run = take_slot, .owner = c};
    if (manages(td_rpc_methods[c->method].kind)) {
        pthread_mutex_lock(&g->mu);
        g->slow[waits(c)]++;
        pthread_mutex_unlock(&g->mu);
        if (pthread_create(&thread, NULL, slow_main, c) == 0) {
            pthread_detach(thread);
            return;
        }
        slow_done(g, waits(c));
    }
    td_grpc_take_slot_elsewhere(g, &c->slot);
}

static const struct td_rpc_carrier CALL = {.hold = hold,
                                           .finish = finish,
                                           .drop_input = drop_input,
                                           .call = call_of,
                                           .wait = wait_for_model,
                                           .run_again = run_again};

static void manage(struct td_grpc_call *c)
{
    struct td_grpc *g = c->g;
    struct td_err err = {0};
    if (td_grpc_local_only(g, c->method, &c->metadata, c->call, &err)) {
        td_grpc_audit(c->method, &c->metadata, c->call, "", &err);
        answer(c, &err);
        return;
    }
    const bool waiting = waits(c);
    const int most = waiting && g->opts.max_waiting > 0 ? g->opts.max_waiting : MAX_SLOW;
    pthread_mutex_lock(&g->mu);
    bool ok = g->slow[waiting] < most;
    g->slow[waiting] += ok;
    pthread_mutex_unlock(&g->mu);
    pthread_t thread;
    bool started = ok && pthread_create(&thread, NULL, slow_main, c) == 0;
    if (started) {
        pthread_detach(thread);
        return;
    }
    if (ok) {
        slow_done(g, waiting);
    }
    (void)td_fail(&err, TD_RESOURCE_EXHAUSTED, "%s: more than %d such calls at once%s",
                  td_rpc_methods[c->method].path, most, waiting ? " (--max_waiting_commands)" : "");
    answer(c, &err);
}

static void refuse(struct td_grpc_call *c, const struct td_err *why)
{
    td_payload_close(&c->payload);
    if (td_audit_refused(why->code)) {
        td_grpc_audit(c->method, &c->metadata, c->call, "", why);
    }
    answer(c, why);
}

/* What a call without a message is told, when its client is still there. */
static void refuse_empty(struct td_grpc_call *c)
{
    struct td_err err = {0};
    if (c->late) {
        (void)say_late(c->g, &err);
    } else {
        (void)td_fail(&err, TD_INVALID_ARGUMENT, "%s: the call carries no message",
                      td_rpc_methods[c->method].path);
    }
    answer(c, &err);
}

static void step_received(void *owner, bool ok)
{
    struct td_grpc_call *c = owner;
    struct td_err err = {0};
    (void)ok;
    if (!c->at_once) {
        pthread_mutex_lock(&c->g->mu);
        unlist(c);
        c->received = true;
        pthread_mutex_unlock(&c->g->mu);
    }
    if (c->payload.buffer == NULL) {
        refuse_empty(c);
        return;
    }
    const enum td_rpc_kind kind = td_rpc_methods[c->method].kind;
    if (manages(kind)) {
        watch(c);
    }
    if (td_payload_hold(&c->payload, &err)) {
        refuse(c, &err);
    } else if (kind == TD_RPC_INFER) {
        infer(c);
    } else if (manages(kind)) {
        manage(c);
    } else {
        td_poll_step_back();
        handle(c);
    }
}

/* Asks for the message. gRPC has read it with the head as a rule, so its event is there when the operation
 * has begun: this thread takes it then, past the queue, and has it next. */
static void receive(struct td_grpc_call *c)
{
    struct td_grpc *g = c->g;
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->payload.buffer};
    void *tag = NULL;
    int ok = 0;
    atomic_fetch_add(&c->pending, 1); /* this function */
    grpc_completion_queue_thread_local_cache_init(g->cq);
    const bool started = td_event_start(c->call, &op, 1, &c->message_came);
    if (grpc_completion_queue_thread_local_cache_flush(g->cq, &tag, &ok)) {
        td_poll_next(tag, ok != 0); /* of this call, or of one of the same connection */
    }
    if (!started) {
        event_done(c);
    } else if (tag == &c->message_came) {
        c->at_once = true;
    } else {
        const bool has_deadline = gpr_time_cmp(c->deadline, gpr_inf_future(c->deadline.clock_type)) != 0;
        pthread_mutex_lock(&g->mu);
        if (!c->received && !has_deadline) { /* else gRPC ends it then */
            list(c, &g->waiting);
        }
        pthread_mutex_unlock(&g->mu);
    }
    event_done(c);
}

static void step_arrived(void *owner, bool ok)
{
    struct td_grpc_call *c = owner;
    if (!ok) {
        c->call = NULL;
    }
    c->opened = ok && td_grpc_opened(c->g);
    if (!c->opened) { /* the server is stopping */
        free_call(c);
        return;
    }
    td_call_listen(c->g, c->method);
    atomic_store(&c->pending, 1);
    struct td_err refused = {0};
    if (td_grpc_enter(c->g, c->call, &c->place, &refused) ||
        td_grpc_admit(c->g, c->method, &c->metadata, &refused)) {
        refuse(c, &refused);
    } else {
        receive(c);
    }
}

void td_call_listen(struct td_grpc *g, int method)
{
    struct td_grpc_call *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return; /* out of memory: other calls of the method still listen */
    }
    td_request_init(&c->rpc.q);
    c->rpc.carrier = &CALL;
    c->rpc.registry = g->registry;
    c->rpc.opts = &g->opts;
    c->g = g;
    c->method = method;
    c->arrived = (struct td_event){step_arrived, c};
    c->message_came = (struct td_event){step_received, c};
    c->closed = (struct td_event){step_closed, c};
    c->answered = (struct td_event){step_answered, c};
    grpc_metadata_array_init(&c->metadata);
    if (grpc_server_request_registered_call(g->server, g->registered[method], &c->call, &c->deadline,
                                            &c->metadata, NULL, g->cq, g->cq,
                                            td_event_give(&c->arrived)) != GRPC_CALL_OK) {
        c->call = NULL;
        free_call(c);
    }
}
