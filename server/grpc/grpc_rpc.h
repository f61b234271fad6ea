/* server/grpc/grpc_rpc.h - one gRPC call as its handler sees it: bytes of a message in, bytes of an answer
 * out.
 *
 * A handler knows nothing of the transport. A unary one is called once, with TD_RPC_MESSAGE, and leaves its
 * answer in r->reply. A handler of a stream is called for every message and for the other events below; each
 * call may leave one answer (r->has_reply). Calls for one stream never overlap. A stream of inference
 * requests gives its handler a td_rpc for each of them, with TD_RPC_MESSAGE, and TD_RPC_GONE when its answer
 * has left.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_RPC_H
#define TD_SERVER_GRPC_GRPC_RPC_H

#include "proto/request/predict_pb.h"
#include "proto/pb/wire.h"
#include "server/grpc/grpc.h"
#include "server/request/request.h"

enum td_rpc_event {
    TD_RPC_MESSAGE, /* r->in is a message of the client */
    TD_RPC_TICK,    /* some time has passed, and the handler had set r->ticks */
    TD_RPC_END, /* the client will send no more messages; without r->ticks the stream ends after this event */
    TD_RPC_GONE, /* the stream is over: free r->state */
};

/* Of streams: makes an answer of the failure of a request that was held, or fails too and ends the stream. */
struct td_rpc;
typedef enum td_code td_rpc_fail_fn(struct td_rpc *r, struct td_err *err);

/* What a handler may ask of what carries its call; see the functions td_rpc_... of these names below. */
struct td_rpc_carrier {
    void (*watch)(struct td_rpc *r, td_stop *stop);
    void (*hold)(struct td_rpc *r);
    void (*finish)(struct td_rpc *r, const struct td_err *err);
    void (*drop_input)(struct td_rpc *r);
    bool (*local)(struct td_rpc *r);
};

struct td_rpc {
    const struct td_rpc_carrier *carrier;
    struct td_registry *registry;
    const struct td_grpc_opts *opts;
    enum td_rpc_event event;
    struct td_wire in;
    struct td_sink reply; /* taken by the transport */
    int64_t deadline_ns;  /* CLOCK_MONOTONIC; 0 none */
    /* of streams: */
    bool has_reply;
    bool ticks; /* call with TD_RPC_TICK from time to time, and keep the stream open */
    bool done;  /* end the stream with OK after this answer */
    void *state;
    td_rpc_fail_fn *fail; /* NULL: none */
};

/* Failure ends the call with the code and text in err. */
typedef enum td_code td_rpc_fn(struct td_rpc *r, struct td_err *err);

enum td_rpc_kind {
    TD_RPC_INFER,        /* computes: bounded in number, queued beyond that */
    TD_RPC_QUERY,        /* answers at once from memory */
    TD_RPC_MANAGE,       /* may wait for files and loads */
    TD_RPC_STREAM,       /* streams in one or both directions; each event answers at once */
    TD_RPC_INFER_STREAM, /* computes for each message of a stream, several at once, like INFER */
};
static inline bool td_rpc_kind_streams(enum td_rpc_kind kind)
{
    return kind == TD_RPC_STREAM || kind == TD_RPC_INFER_STREAM;
}
struct td_rpc_method {
    const char *path;
    enum td_rpc_kind kind;
    td_rpc_fn *fn;
    struct {
        enum td_scope scope;
        const char *model; /* NULL: none is named */
    } access;
};
extern const struct td_rpc_method td_rpc_methods[];
extern const int td_rpc_n_methods;

/* What follows on this thread may take long: others take gRPC's events meanwhile. */
void td_poll_step_back(void);

/* What handlers share that read names and the like from a message: body gets an arena for them, which is gone
 * when it returns. */
typedef enum td_code td_rpc_arena_fn(struct td_rpc *r, struct td_arena *a, struct td_err *err);
TD_MUST enum td_code td_rpc_with_arena(struct td_rpc *r, td_rpc_arena_fn *body, struct td_err *err);

/* What handlers of tensors share. A body works on a request made and dropped around it, with the call's
 * deadline and stop word; ask_for puts a ModelSpec's names into it, inputs its tensors. */
typedef enum td_code td_rpc_request_fn(struct td_rpc *r, struct td_request *q, struct td_err *err);
TD_MUST enum td_code td_rpc_request(struct td_rpc *r, td_rpc_request_fn *body, struct td_err *err);
/* The same in two parts, with the run between them: decode fills the request in (q->owner is its own), encode
 * writes the answer of its outputs to r->reply. The request may have to wait for a worker; then this returns
 * at once, and encode runs on the worker's thread. */
TD_MUST enum td_code td_rpc_infer(struct td_rpc *r, td_rpc_request_fn *decode, td_rpc_request_fn *encode,
                                  struct td_err *err);
TD_MUST enum td_code td_rpc_ask_for(struct td_request *q, const struct td_model_spec *spec,
                                    struct td_err *err);
TD_MUST enum td_code td_rpc_inputs(struct td_rpc *r, struct td_request *q, const struct td_predict_pb *p,
                                   struct td_err *err);

/* Of kinds that compute. The transport sets *stop when the client goes away or the server stops, until told
 * NULL. */
static inline void td_rpc_watch(struct td_rpc *r, td_stop *stop)
{
    r->carrier->watch(r, stop);
}
/* Called by a handler that computes, on its thread: the answer will come from td_rpc_finish, which may be
 * called, on any thread, from now on. What the handler returns no longer counts, and r->in is gone. */
static inline void td_rpc_hold(struct td_rpc *r)
{
    r->carrier->hold(r);
}
static inline void td_rpc_finish(struct td_rpc *r, const struct td_err *err)
{
    r->carrier->finish(r, err);
}
/* Frees the bytes behind r->in, which the handler has decoded, before it computes. */
static inline void td_rpc_drop_input(struct td_rpc *r)
{
    r->carrier->drop_input(r);
}
/* Whether the client is on this host. */
static inline bool td_rpc_local(struct td_rpc *r)
{
    return r->carrier->local(r);
}

#endif
