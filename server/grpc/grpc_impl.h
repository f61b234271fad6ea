/* server/grpc/grpc_impl.h - what the files of the gRPC transport share: the server, and what a
 * completion-queue tag is.
 *
 * Every tag is a struct td_event: when its operation completes, a polling thread calls step(owner, ok). A
 * call is thus a small table of named steps, each starting the operations whose completion is the next step.
 * Lock order: td_grpc_stream.mu before td_grpc.mu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_IMPL_H
#define TD_SERVER_GRPC_GRPC_IMPL_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <pthread.h>

#include "core/base/list.h"
#include "core/base/tsan.h"
#include "server/grpc/grpc_rpc.h"

struct td_event {
    void (*step)(void *owner, bool ok);
    void *owner;
};

/* The tag of ev, for an operation about to start: the step sees what was written until here, on whatever
 * thread it runs. */
static inline void *td_event_give(struct td_event *ev)
{
    td_tsan_release(ev);
    return ev;
}

static inline bool td_event_start(grpc_call *call, const grpc_op *ops, size_t n, struct td_event *ev)
{
    return grpc_call_start_batch(call, ops, n, td_event_give(ev), NULL) == GRPC_CALL_OK;
}

static inline void td_event_run(void *tag, bool ok)
{
    struct td_event *ev = tag;
    td_tsan_acquire(ev);
    ev->step(ev->owner, ok);
}

/* The threads that take events; grpc_poll.c tells how many of them wait at a time. */
struct td_polls {
    pthread_mutex_t mu; /* guards the rest; taken after any other lock */
    pthread_cond_t wanted;
    int polling; /* in the completion queue, or at something short, or invited */
    int parked, invited;
    bool closing; /* nobody parks any more */
    struct td_poller *all;
};
void *td_poll_main(void *grpc);
/* In a step: the event of this tag, which it has taken from the queue, comes next on this thread. */
void td_poll_next(void *tag, bool ok);
/* td_poll_step_back, unless the work on this message is surely short. */
void td_poll_before(grpc_byte_buffer *message);
/* Pollers whose event takes long step back. Called now and then. */
void td_poll_tick(struct td_polls *p);
/* All poll from now on: the queue is about to be shut down. */
void td_poll_close(struct td_polls *p);

/* What takes a slot to compute, a call or a message of a stream: opts.threads of them run at once, further
 * ones wait, oldest first. */
struct td_grpc_slot {
    void (*run)(void *owner);
    void *owner;
    struct td_grpc *g;
    struct td_grpc_slot *next;
};

struct td_grpc_stream;
/* Calls in the order they came to it, doubly linked. */
struct td_grpc_calls {
    struct td_grpc_call *first, *last;
};

struct td_grpc {
    struct td_grpc_opts opts; /* strings copied */
    struct td_registry *registry;
    grpc_server *server;
    int second_port;
    struct td_accept *accept;
    grpc_completion_queue *cq;
    void **registered; /* a handle for each row of td_rpc_methods */
    struct td_polls polls;
    pthread_t *pollers;
    int n_pollers;
    pthread_t ticker;
    bool ticker_runs;
    struct td_event down; /* the server has shut down */
    atomic_bool stopping;

    pthread_mutex_t mu;       /* guards what follows; never held while a handler runs */
    int open;                 /* calls and streams that have arrived and are not freed */
    pthread_cond_t changed;   /* is_down, slow or streams changed, stopping was set, or open fell to 0 */
    bool is_down, closed;     /* closed: nothing may be started any more */
    int running, max_running; /* slots taken, slots there are */
    int slow[2];              /* threads of managing calls: those that wait for models, and the others */
    int resuming;             /* threads of calls whose models were loaded */
    int queued;
    struct td_grpc_slot *queue, **queue_end; /* who waits for a slot, oldest first */
    struct td_link *streams;                 /* open ones */
    struct td_grpc_calls handled;            /* whose handler runs */
    struct td_grpc_calls waiting;            /* whose message is not there yet */
    bool ticking;     /* the ticker looks at them; it stops when none has come for a while */
    bool any_handled; /* since its last look */
};

/* A message as it came, and the blocks of it that a handler reads. */
struct td_payload {
    grpc_byte_buffer *buffer;
    grpc_byte_buffer_reader reader;
    bool reading;
    struct td_seg few[4], *seg; /* seg is few, or allocated where a message comes in more blocks */
    size_t n_seg;
    struct td_sink plain;       /* what a compressed message held; buffer is then gone */
    size_t held;                /* of buffer, which lies in gRPC's memory: charged to the process, */
    struct td_account *account; /* and to the request's, once it has one */
};
/* A message has come: its bytes are charged until buffer is dropped. RESOURCE_EXHAUSTED: they may not be
 * held. */
TD_MUST enum td_code td_payload_hold(struct td_payload *p, struct td_err *err);
/* They are the request's. RESOURCE_EXHAUSTED: past what it may hold. */
TD_MUST enum td_code td_payload_charge(struct td_payload *p, struct td_account *a, struct td_err *err);
/* grpc_message.c: unpacks what is compressed, into at most limit bytes, and reads the blocks. */
TD_MUST enum td_code td_payload_open(struct td_payload *p, size_t limit, struct td_wire *in,
                                     struct td_err *err);
/* Its first half: how much a message holds. */
TD_MUST enum td_code td_payload_unpack(struct td_payload *p, size_t limit, struct td_err *err);
bool td_payload_is_packed(const grpc_byte_buffer *buffer);
size_t td_payload_bytes(const struct td_payload *p);
void td_payload_close(struct td_payload *p);
/* Who calls, as td_rpc_admit needs it. */
struct td_rpc_caller {
    const struct td_grpc *g;
    const grpc_metadata_array *sent;
    int method;
};
/* Opens the message, and lets the method's handler see it in r when the call's token allows its names. */
TD_MUST enum td_code td_grpc_handle(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                                    struct td_payload *p, struct td_rpc *r, struct td_err *err);
/* The same, and all that follows, up to the carrier's finish: r may be gone when this returns. */
void td_rpc_run(struct td_rpc *r, struct td_grpc *g, int method, const grpc_metadata_array *sent,
                struct td_payload *p);

/* grpc_request.c: what td_rpc_explain was told, put into the operation that sends the status; kept until the
 * call is freed. */
void td_grpc_put_trailer(const struct td_rpc *r, grpc_op *op);
void td_grpc_free_trailer(struct td_rpc *r);

/* Every arrival and every freed call or stream is counted: operations may be started until the last has gone.
 * False when the queue is about to be shut down: then none may be started, and td_grpc_closed is not due. */
TD_MUST bool td_grpc_opened(struct td_grpc *g);
void td_grpc_closed(struct td_grpc *g);

/* grpc_limits.c: the server with our channel arguments and those of the command line. Adding the port
 * TD_GRPC_EXTERNAL to it puts what takes connections (server/grpc/fd_handler.h) into *handler, which must
 * stay where it is. */
#define TD_GRPC_EXTERNAL "external:tensord"
grpc_server *td_grpc_make_server(const struct td_grpc_opts *o, void **handler);

/* grpc_access.c: whether the token in a call's metadata allows its method, and then the models that a message
 * names. */
TD_MUST enum td_code td_grpc_admit(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                                   struct td_err *err);
/* Whether it may manage without a token, where none are asked for: see server/base/local_only.h. */
TD_MUST enum td_code td_grpc_local_only(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                                        grpc_call *call, struct td_err *err);
/* The value of a header (small letters); p NULL: it was not sent. Borrowed. */
struct td_header td_grpc_header(const grpc_metadata_array *sent, const char *name);
TD_MUST enum td_code td_grpc_admit_message(const struct td_grpc *g, int method,
                                           const grpc_metadata_array *sent, struct td_wire message,
                                           struct td_err *err);
enum td_scope td_grpc_scope(int method); /* what a token must allow */

/* Runs t on this thread, and then whatever waits; or leaves it waiting. RESOURCE_EXHAUSTED when too many
 * wait. */
TD_MUST enum td_code td_grpc_take_slot(struct td_grpc *g, struct td_grpc_slot *t, struct td_err *err);
/* The same on another thread, without a limit on how many wait: t was admitted before. */
void td_grpc_take_slot_elsewhere(struct td_grpc *g, struct td_grpc_slot *t);

/* Takes the sink's bytes. */
grpc_byte_buffer *td_grpc_message(struct td_sink *takes);
grpc_slice td_grpc_status_text(const struct td_err *err);
int64_t td_grpc_deadline_ns(const struct td_grpc *g, gpr_timespec deadline);

/* grpc_call.c: watches those handled calls that take long, for their clients may leave. Called now and then.
 */
void td_calls_tick(struct td_grpc *g);
/* Waits for the next call of a method; each arrival waits for the next one itself. */
void td_call_listen(struct td_grpc *g, int method);
void td_stream_listen(struct td_grpc *g, int method);
/* The same for calls of methods that do not exist. */
void td_unknown_listen(struct td_grpc *g);
void *td_stream_ticker(void *grpc); /* thread: ticks streams, and ends them all when the server stops */

#endif
