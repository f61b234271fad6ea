/* server/grpc/grpc_rpc.h - one gRPC call as its handler sees it: bytes of a message in, bytes of an answer
 * out.
 *
 * A handler knows nothing of the transport. A unary one is called once, with TD_RPC_MESSAGE, and leaves its
 * answer in r->reply. One of an inference only decodes: it opens r->q, and leaves it with its inputs and with
 * encode set; the request runs when it returns, and encode writes r->reply. A handler of a stream is called
 * for every message and for the other events below; each call may leave one answer (r->has_reply). Calls for
 * one stream never overlap. A stream of inference requests gives its handler a td_rpc for each of them, with
 * TD_RPC_MESSAGE.
 *
 *   td_rpc_run   message -> the handler -> td_request_start, or the end
 *   the end      encode (of the handler), or why not -> metrics -> the carrier's finish
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_RPC_H
#define TD_SERVER_GRPC_GRPC_RPC_H

#include "proto/request/predict_pb.h"
#include "proto/pb/wire.h"
#include "server/grpc/grpc.h"
#include "server/sched/request.h"

enum td_rpc_event {
    TD_RPC_MESSAGE, /* r->in is a message of the client */
    TD_RPC_TICK,    /* some time has passed, and the handler had set r->ticks */
    TD_RPC_END, /* the client will send no more messages; without r->ticks the stream ends after this event */
    TD_RPC_GONE, /* the stream is over: free r->state */
};

/* Of streams: makes an answer of the failure of a request, or fails too and ends the stream. */
struct td_rpc;
typedef enum td_code td_rpc_fail_fn(struct td_rpc *r, struct td_err *err);

/* What carries a call: a unary call, or a stream. */
struct td_rpc_carrier {
    /* The answer will take a while; before anybody else can finish r. Of kinds that compute, as finish. */
    void (*hold)(struct td_rpc *r);
    /* The answer is there, or err->code says why not: once for each r, on any thread. r may be gone then. */
    void (*finish)(struct td_rpc *r, const struct td_err *err);
    void (*drop_input)(struct td_rpc *r);
    void *(*call)(struct td_rpc *r);      /* libgrpc's */
    bool (*broken_off)(struct td_rpc *r); /* of streams; NULL: never */
    /* Of what may wait for its model: before anybody can run r again (NULL: nothing to do), and to have
     * td_rpc_run begin anew, elsewhere. */
    void (*wait)(struct td_rpc *r), (*run_again)(struct td_rpc *r);
};

struct td_rpc {
    struct td_request q; /* first; deadline and stop word are the transport's to set; opened by handlers */
    const struct td_rpc_carrier *carrier;
    struct td_registry *registry;
    const struct td_grpc_opts *opts;
    enum td_rpc_event event;
    struct td_wire in;
    struct td_sink reply; /* taken by the transport */
    /* of streams: */
    bool has_reply;
    bool ticks; /* call with TD_RPC_TICK from time to time, and keep the stream open */
    bool again; /* besides, as soon as this answer has left */
    bool done;  /* end the stream with OK after this answer */
    void *state;
    td_rpc_fail_fn *fail;               /* NULL: none */
    const struct td_rpc_caller *caller; /* while its handler runs */
    struct td_rpc_trailer *trailer;     /* the transport's: what td_rpc_explain was told */
    struct td_payload *payload;         /* the transport's: what in reads; while its handler runs */
};
static inline struct td_rpc *td_rpc_of(struct td_request *q)
{
    return (struct td_rpc *)q;
}

/* Failure ends the call with the code and text in err. */
typedef enum td_code td_rpc_fn(struct td_rpc *r, struct td_err *err);

enum td_rpc_kind {
    TD_RPC_INFER,        /* computes: bounded in number, queued beyond that */
    TD_RPC_QUERY,        /* answers at once from memory */
    TD_RPC_MANAGE,       /* may wait for files */
    TD_RPC_APART,        /* the same: it runs a model itself */
    TD_RPC_WAIT,         /* the same: it waits for models, by default as long as a load may take */
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

/* What handlers of tensors share: ask_for puts a ModelSpec's names into r->q, inputs its tensors. */
TD_MUST enum td_code td_rpc_ask_for(struct td_request *q, const struct td_model_spec *spec,
                                    struct td_err *err);
TD_MUST enum td_code td_rpc_inputs(struct td_rpc *r, const struct td_predict_pb *p, struct td_err *err);

/* td_request_open of r->q, whose message counts as the request's from then on. */
TD_MUST enum td_code td_rpc_open(struct td_rpc *r, struct td_err *err);

/* Frees the bytes behind r->in, which the handler has decoded, before it computes. */
static inline void td_rpc_drop_input(struct td_rpc *r)
{
    r->carrier->drop_input(r);
}
/* Whether the caller's token allows the scope, of that model: where a message says what it needs. */
TD_MUST enum td_code td_rpc_admit(const struct td_rpc *r, enum td_scope scope, const char *model,
                                  struct td_err *err);
/* Whether the caller may manage, where no tokens are asked for. */
TD_MUST enum td_code td_rpc_check_local(struct td_rpc *r, struct td_err *err);
/* Whether its token allows the model to be seen at all: for lists of models. */
bool td_rpc_sees(const struct td_rpc *r, const char *model);
/* Why the call fails, besides its status: tensord-code and tensord-param in the trailing metadata. NULL or ""
 * is left out. Once, by a handler that then fails. */
void td_rpc_explain(struct td_rpc *r, const char *code, const char *param);
/* Whose token it is (server/base/access.h), for quotas; "" where no tokens are asked for. */
void td_rpc_owner(const struct td_rpc *r, char owner[33]);
/* At TD_RPC_END, after td_poll_step_back: whether the client left rather than said that it had sent all.
 * Waits a few milliseconds to be sure. */
static inline bool td_rpc_broken_off(struct td_rpc *r)
{
    return r->carrier->broken_off != NULL && r->carrier->broken_off(r);
}
/* Whether the client is on this host. */
bool td_rpc_local(struct td_rpc *r);

#endif
