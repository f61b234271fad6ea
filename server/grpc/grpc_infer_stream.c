/* server/grpc/grpc_infer_stream.c - streams of inference requests: several are under way at once, so that
 * they share batches and workers as those of many clients do, and their answers leave in the order they came
 * in.
 *
 *   td_infer_stream_take    a message: the next one is asked for, and this one's request takes a slot
 *   compute                 the slot: the handler runs, or holds the request and is finished by another
 *                           thread
 *   finished                the request is over, whatever came of it
 *   td_infer_stream_go_on   the answers of the first requests, as far as they are over; then more messages,
 *                           the end
 *
 * A compressed message is unpacked before the next one is asked for, so that its bytes count as they are. No
 * more is read while MAX_UNDER_WAY requests, or as many bytes as one request may have, are under way or wait
 * for an earlier answer, or their answers may come to more than MAX_UNREAD: the client waits then. What an
 * answer may come to is the largest one that the stream has had; FIRST_ANSWER until there is one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_stream.h"

#include "core/base/mem.h"

#define MAX_UNDER_WAY 64                 /* a batch's worth */
#define MAX_UNREAD ((size_t)16 << 20)    /* bytes of answers */
#define FIRST_ANSWER ((size_t)256 << 10) /* MAX_UNDER_WAY of them may be unread */

struct td_stream_request {
    struct td_rpc rpc; /* first: a handler's td_rpc is the request */
    struct td_grpc_stream *s;
    struct td_stream_request *next;
    size_t bytes;
    struct td_payload payload;
    struct td_grpc_slot slot;
    bool over;         /* under the stream's mu, as what follows */
    struct td_err err; /* code: what the stream ends with instead of going on */
};

static void free_request(struct td_stream_request *q)
{
    td_payload_close(&q->payload);
    td_sink_fini(&q->rpc.reply);
    td_free(q);
}

static struct td_stream_request *pop(struct td_grpc_stream *s)
{
    struct td_stream_request *q = s->requests.first;
    s->requests.first = q->next;
    s->requests.n--;
    s->requests.bytes -= q->bytes;
    return q;
}

static void push(struct td_grpc_stream *s, struct td_stream_request *q)
{
    *(s->requests.first != NULL ? &s->requests.last->next : &s->requests.first) = q;
    s->requests.last = q;
    s->requests.n++;
    s->requests.bytes += q->bytes;
}

void td_infer_stream_free(struct td_grpc_stream *s)
{
    while (s->requests.first != NULL) {
        free_request(pop(s));
    }
}

void td_infer_stream_stop(struct td_grpc_stream *s)
{
    for (struct td_stream_request *q = s->requests.first; q != NULL; q = q->next) {
        atomic_store(&q->rpc.q.stop, TD_CANCELLED);
    }
}

static void answer(struct td_grpc_stream *s, struct td_stream_request *q)
{
    if (q->err.code) {
        td_stream_end(s, &q->err);
        td_infer_stream_stop(s);
    } else if (q->rpc.has_reply) {
        td_stream_send(s, &q->rpc.reply);
    }
}

static bool has_room(const struct td_grpc_stream *s)
{
    const size_t n = (size_t)s->requests.n + s->writing,
                 answer_bytes = s->requests.largest > 0 ? s->requests.largest : FIRST_ANSWER;
    return n == 0 || (n < MAX_UNDER_WAY && s->requests.bytes < s->g->opts.max_request_bytes &&
                      (n + 1) * answer_bytes <= MAX_UNREAD);
}

void td_infer_stream_go_on(struct td_grpc_stream *s)
{
    while (s->requests.first != NULL && s->requests.first->over && !s->writing) {
        struct td_stream_request *q = pop(s);
        if (!s->ending) {
            answer(s, q);
        }
        free_request(q);
    }
    if (s->ending) {
        return;
    }
    if (s->reading_over && s->requests.first == NULL && !s->writing) {
        td_stream_end(s, &(struct td_err){0});
    } else if (!s->reading && !s->reading_over && has_room(s) && !atomic_load(&s->g->stopping)) {
        td_stream_receive(s);
    }
}

/* The request's reference is given up. */
static void finished(struct td_stream_request *q, const struct td_err *err)
{
    struct td_grpc_stream *s = q->s;
    pthread_mutex_lock(&s->mu);
    q->err = *err;
    q->over = true;
    s->requests.largest = q->rpc.reply.n > s->requests.largest ? q->rpc.reply.n : s->requests.largest;
    td_infer_stream_go_on(s);
    td_stream_leave(s);
}

/* The request may be gone when this returns. */
static void compute(void *owner)
{
    struct td_stream_request *q = owner;
    td_rpc_run(&q->rpc, q->s->g, q->s->method, &q->s->metadata, &q->payload);
}

/* ---- what a handler asks for ---- */

static void drop_input(struct td_rpc *r)
{
    r->in = (struct td_wire){0};
    td_payload_close(&((struct td_stream_request *)r)->payload);
}

static void finish(struct td_rpc *r, const struct td_err *err)
{
    finished((struct td_stream_request *)r, err);
}

static void *call_of(struct td_rpc *r)
{
    return ((struct td_stream_request *)r)->s->call;
}

static void run_again(struct td_rpc *r)
{
    struct td_stream_request *q = (struct td_stream_request *)r;
    td_grpc_take_slot_elsewhere(q->s->g, &q->slot);
}

static const struct td_rpc_carrier REQUEST = {
    .hold = drop_input, .finish = finish, .drop_input = drop_input, .call = call_of, .run_again = run_again};

/* ---- a message ---- */

static struct td_stream_request *new_request(struct td_grpc_stream *s)
{
    struct td_stream_request *q = td_calloc(1, sizeof *q);
    if (q == NULL) {
        return NULL;
    }
    q->rpc = (struct td_rpc){
        .carrier = &REQUEST, .registry = s->rpc.registry, .opts = s->rpc.opts, .event = TD_RPC_MESSAGE};
    td_request_init(&q->rpc.q);
    q->rpc.q.run.work.deadline_ns = td_grpc_deadline_ns(s->g, s->deadline);
    q->s = s;
    q->payload.buffer = s->message;
    q->slot = (struct td_grpc_slot){.run = compute, .owner = q};
    s->message = NULL;
    return q;
}

void td_infer_stream_take(struct td_grpc_stream *s)
{
    struct td_err err = {0};
    struct td_stream_request *q = new_request(s);
    if (q == NULL) {
        (void)td_no_memory(&err, sizeof *q, "a request");
        td_stream_end(s, &err);
        td_infer_stream_stop(s);
        td_stream_leave(s);
        return;
    }
    td_poll_before(q->payload.buffer);
    enum td_code rc = td_payload_hold(&q->payload, &err);
    rc = rc ? rc : td_payload_unpack(&q->payload, s->g->opts.max_request_bytes, &err);
    q->bytes = td_payload_bytes(&q->payload);
    push(s, q);
    td_infer_stream_go_on(s);
    pthread_mutex_unlock(&s->mu);
    if (rc || td_grpc_take_slot(s->g, &q->slot, &err)) {
        finished(q, &err);
    }
}
