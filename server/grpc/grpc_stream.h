/* server/grpc/grpc_stream.h - a streaming call, as the files of its two kinds see it: grpc_stream.c carries
 * every stream, and hands the messages of TD_RPC_STREAM to their handler at once; grpc_infer_stream.c makes
 * each message of TD_RPC_INFER_STREAM a request of its own.
 *
 * refs counts the events still to come, the running step, the ticker and the requests under way; with the
 * last one gone the stream is taken off the list and freed. A stream on the list with refs == 0 is leaving
 * it. Invariant (td_stream_check): one write is under way at most (`writing`), and one read (`reading`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_STREAM_H
#define TD_SERVER_GRPC_GRPC_STREAM_H

#include "server/grpc/grpc_impl.h"

struct td_stream_request; /* grpc_infer_stream.c */

struct td_grpc_stream {
    struct td_rpc rpc; /* first: a handler's td_rpc is the stream. Of INFER_STREAM: what its requests share */
    struct td_grpc *g;
    int method; /* row of td_rpc_methods; -1 a method that does not exist */
    struct td_event arrived, received, sent, ended, closed;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call_details details; /* of unknown methods */
    grpc_byte_buffer *message; /* the one just received */
    int cancelled;
    pthread_mutex_t mu; /* guards what follows; serialises steps and ticks */
    atomic_int refs;
    bool opened; /* counted in g->open */
    struct td_open_call place;
    bool reading, writing, ending, reading_over, gone;
    struct {
        struct td_stream_request *first, *last; /* in the order they came: their answers leave in it */
        int n;
        size_t bytes;   /* of their messages */
        size_t largest; /* answer so far, in bytes */
    } requests;
    struct td_link listed; /* on g->streams */
};

/* The following: under mu, by a caller that holds a reference. */

/* busy: what is about to be begun is under way already. */
TD_MUST enum td_code td_stream_check(const struct td_grpc_stream *s, bool busy, struct td_err *err);
/* Asks for the next message. */
void td_stream_receive(struct td_grpc_stream *s);
/* Takes the bytes. Nothing may be being written. */
void td_stream_send(struct td_grpc_stream *s, struct td_sink *answer);
/* Sends the status, once. */
void td_stream_end(struct td_grpc_stream *s, const struct td_err *err);
/* Leaves mu and gives up the caller's reference: the stream may be gone then. */
void td_stream_leave(struct td_grpc_stream *s);

/* The message in s->message is a request: it runs, or waits for its slot. Leaves mu; the caller's reference
 * becomes the request's. */
void td_infer_stream_take(struct td_grpc_stream *s);
/* What follows when a request is over, an answer has left, or the client has sent all: the next answer,
 * message, or the end. */
void td_infer_stream_go_on(struct td_grpc_stream *s);
/* The client has gone: what is under way shall end. */
void td_infer_stream_stop(struct td_grpc_stream *s);
/* Requests whose answers did not leave. Nobody holds the stream. */
void td_infer_stream_free(struct td_grpc_stream *s);

#endif
