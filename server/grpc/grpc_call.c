/* server/grpc/grpc_call.c - one unary call, from arrival to the last event about it.
 *
 *   step_arrived   a message is there: the next call is listened for; then, by the method's kind,
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
#include <grpc/support/alloc.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/grpc/grpc_audit.h"
#include "server/grpc/grpc_impl.h"

#define LONG_NS 20000000 /* a handler that runs longer is worth watching for */
#define MAX_SLOW 16      /* threads of managing calls that do not wait for models */
#define MAX_QUEUED 16384 /* wait for a slot: far beyond what a client would wait for */

struct td_grpc_call {
    struct td_rpc rpc; /* first: a handler's td_rpc is the call */
    struct td_grpc *g;
    int method; /* row of td_rpc_methods */
    struct td_event arrived, closed, answered;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct td_payload payload;
    int cancelled; /* written by gRPC when the call closes */
    bool watched;  /* closed comes; else the answer's operations tell gRPC that nobody asks */
    bool listed;   /* among g->handled, whose lock then guards watched */
    int64_t since_ns;
    struct td_grpc_call *next, *prev;
    atomic_int pending; /* events still to come */
    struct td_grpc_slot slot;
    bool opened; /* counted in g->open */
};

static void free_call(struct td_grpc_call *c)
{
    td_payload_close(&c->payload);
    grpc_metadata_array_destroy(&c->metadata);
    struct td_grpc *arrived_at = c->opened ? c->g : NULL;
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

/* The handler begins. */
static void list(struct td_grpc_call *c)
{
    struct td_grpc *g = c->g;
    c->since_ns = td_clock_ns();
    pthread_mutex_lock(&g->mu);
    c->listed = true;
    c->prev = NULL;
    c->next = g->handled;
    if (g->handled != NULL) {
        g->handled->prev = c;
    }
    g->handled = c;
    g->any_handled = true;
    if (!g->ticking) {
        g->ticking = true;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->mu);
}

/* The handler ends, or holds the call: before anything that may free it. */
static void unlist(struct td_grpc_call *c)
{
    struct td_grpc *g = c->g;
    pthread_mutex_lock(&g->mu);
    if (c->listed) {
        *(c->prev != NULL ? &c->prev->next : &g->handled) = c->next;
        if (c->next != NULL) {
            c->next->prev = c->prev;
        }
        c->listed = false;
    }
    pthread_mutex_unlock(&g->mu);
}

void td_calls_tick(struct td_grpc *g)
{
    const int64_t before_ns = td_clock_ns() - LONG_NS;
    pthread_mutex_lock(&g->mu);
    for (struct td_grpc_call *c = g->handled; c != NULL; c = c->next) {
        if (!c->watched && c->since_ns < before_ns) {
            watch(c);
        }
    }
    g->ticking = g->handled != NULL || g->any_handled;
    g->any_handled = false;
    pthread_mutex_unlock(&g->mu);
}

static void *call_of(struct td_rpc *r)
{
    return ((struct td_grpc_call *)r)->call;
}

static bool is_local(struct td_rpc *r)
{
    return td_grpc_is_local(((struct td_grpc_call *)r)->call);
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
    unlist(c);
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
    if (c->listed) {
        unlist(c);
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
        list(c);
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
                                           .local = is_local,
                                           .call = call_of,
                                           .wait = wait_for_model,
                                           .run_again = run_again};

/* Whether the client is on this host: gRPC names peers as URIs, with the brackets of IPv6 percent-encoded. */
bool td_grpc_is_local(grpc_call *call)
{
    static const char *const local[] = {"unix:",      "ipv4:127.",           "ipv6:%5B::1%5D",
                                        "ipv6:[::1]", "ipv6:%5B::ffff:127.", "ipv6:[::ffff:127."};
    char *peer = grpc_call_get_peer(call);
    bool found = false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        found = found || strncmp(peer, local[i], strlen(local[i])) == 0;
    }
    gpr_free(peer);
    return found;
}

static void manage(struct td_grpc_call *c)
{
    struct td_grpc *g = c->g;
    struct td_err err = {0};
    if (td_grpc_local_only(g, c->method, &c->metadata, td_grpc_is_local(c->call), &err)) {
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
    enum td_rpc_kind kind = td_rpc_methods[c->method].kind;
    atomic_store(&c->pending, 1);
    if (manages(kind)) {
        watch(c);
    }
    struct td_err refused = {0};
    if (td_grpc_admit(c->g, c->method, &c->metadata, &refused) || td_payload_hold(&c->payload, &refused)) {
        td_payload_close(&c->payload);
        if (td_audit_refused(refused.code)) {
            td_grpc_audit(c->method, &c->metadata, c->call, "", &refused);
        }
        answer(c, &refused);
    } else if (kind == TD_RPC_INFER) {
        infer(c);
    } else if (manages(kind)) {
        manage(c);
    } else {
        td_poll_step_back();
        handle(c);
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
    c->closed = (struct td_event){step_closed, c};
    c->answered = (struct td_event){step_answered, c};
    grpc_metadata_array_init(&c->metadata);
    if (grpc_server_request_registered_call(g->server, g->registered[method], &c->call, &c->deadline,
                                            &c->metadata, &c->payload.buffer, g->cq, g->cq,
                                            td_event_give(&c->arrived)) != GRPC_CALL_OK) {
        c->call = NULL;
        free_call(c);
    }
}
