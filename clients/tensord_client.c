/* clients/tensord_client.c - the wire half of the client: one unary call on the gRPC C core. See
 * tensord_client.h.
 *
 * Every call makes a completion queue of its own and plucks its one event: calls of several threads share
 * only the channel, which is made for that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "clients/tensord_client.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#if __has_include(<grpc/credentials.h>) /* of later versions */
#include <grpc/credentials.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TIMEOUT_S 60

struct tdc_client {
    grpc_channel *channel;
    char *authorization; /* "Bearer TOKEN", or NULL */
    double timeout;
};

static int fail(struct tdc_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->text, sizeof err->text, "%s", text);
    return code;
}

struct tdc_client *tdc_open(const char *target, const char *token, struct tdc_error *err)
{
    struct tdc_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fail(err, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a client");
        return NULL;
    }
    c->timeout = DEFAULT_TIMEOUT_S;
    if (token != NULL) {
        const size_t n = strlen(token) + 8;
        c->authorization = malloc(n);
        if (c->authorization == NULL) {
            free(c);
            fail(err, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a client");
            return NULL;
        }
        snprintf(c->authorization, n, "Bearer %s", token);
    }
    grpc_init();
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = -1},
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, .value.integer = -1},
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_ENABLE_HTTP_PROXY, .value.integer = 0},
    };
    const grpc_channel_args list = {.num_args = sizeof args / sizeof args[0], .args = args};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    c->channel = grpc_channel_create(target, creds, &list);
    grpc_channel_credentials_release(creds);
    return c;
}

void tdc_close(struct tdc_client *c)
{
    if (c != NULL) {
        grpc_channel_destroy(c->channel);
        grpc_shutdown();
        free(c->authorization);
        free(c);
    }
}

void tdc_set_timeout(struct tdc_client *c, double seconds)
{
    c->timeout = seconds;
}

void tdc_free(void *p)
{
    free(p);
}

/* What a call receives. */
struct answer {
    grpc_metadata_array head, tail;
    grpc_byte_buffer *message;
    grpc_status_code status;
    grpc_slice text;
};

static bool exchange(struct tdc_client *c, grpc_completion_queue *cq, grpc_call *call,
                     grpc_byte_buffer *request, struct answer *a)
{
    grpc_metadata auth = {0};
    if (c->authorization != NULL) {
        auth.key = grpc_slice_from_static_string("authorization");
        auth.value = grpc_slice_from_static_string(c->authorization);
    }
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = c->authorization != NULL, .metadata = &auth}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &a->head},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &a->message},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &a->tail,
                                        .status = &a->status,
                                        .status_details = &a->text}},
    };
    if (grpc_call_start_batch(call, ops, sizeof ops / sizeof ops[0], call, NULL) != GRPC_CALL_OK) {
        return false;
    }
    grpc_completion_queue_pluck(cq, call, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    return true;
}

/* The bytes of a message, with a NUL behind them. */
static void *message_bytes(grpc_byte_buffer *b, size_t *n)
{
    grpc_byte_buffer_reader reader;
    if (b == NULL || !grpc_byte_buffer_reader_init(&reader, b)) {
        return NULL;
    }
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    *n = GRPC_SLICE_LENGTH(all);
    char *p = malloc(*n + 1);
    if (p != NULL) {
        memcpy(p, GRPC_SLICE_START_PTR(all), *n);
        p[*n] = 0;
    }
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    return p;
}

/* Fine-tuning's errors say more in the trailing metadata. */
static void read_tail(const grpc_metadata_array *tail, struct tdc_error *err)
{
    const struct {
        const char *key;
        char *to;
        size_t room;
    } known[] = {{"tensord-code", err->why, sizeof err->why},
                 {"tensord-param", err->param, sizeof err->param}};
    for (size_t i = 0; i < tail->count; i++) {
        const grpc_slice *k = &tail->metadata[i].key, *v = &tail->metadata[i].value;
        for (size_t j = 0; j < 2; j++) {
            if (GRPC_SLICE_LENGTH(*k) == strlen(known[j].key) &&
                memcmp(GRPC_SLICE_START_PTR(*k), known[j].key, strlen(known[j].key)) == 0) {
                snprintf(known[j].to, known[j].room, "%.*s", (int)GRPC_SLICE_LENGTH(*v),
                         (const char *)GRPC_SLICE_START_PTR(*v));
            }
        }
    }
}

/* The status in a, as an error. */
static int tell_status(const struct answer *a, struct tdc_error *err)
{
    err->code = (int)a->status;
    err->why[0] = err->param[0] = 0;
    snprintf(err->text, sizeof err->text, "%.*s", (int)GRPC_SLICE_LENGTH(a->text),
             (const char *)GRPC_SLICE_START_PTR(a->text));
    read_tail(&a->tail, err);
    return err->code;
}

static int finish(struct answer *a, bool sent, void **reply, size_t *n_reply, struct tdc_error *err)
{
    if (!sent) {
        a->status = GRPC_STATUS_INTERNAL;
    }
    if (tell_status(a, err) != GRPC_STATUS_OK) {
        return err->code;
    }
    *reply = message_bytes(a->message, n_reply);
    return *reply != NULL ? 0 : fail(err, GRPC_STATUS_INTERNAL, "the answer carries no message");
}

static gpr_timespec deadline(double seconds)
{
    return seconds > 0 ? gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_millis((int64_t)(seconds * 1000), GPR_TIMESPAN))
                       : gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

int tdc_call(struct tdc_client *c, const char *path, const void *request, size_t n, void **reply,
             size_t *n_reply, struct tdc_error *err)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice method = grpc_slice_from_copied_string(path);
    grpc_call *call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq, method, NULL,
                                               deadline(c->timeout), NULL);
    grpc_slice_unref(method);
    grpc_slice bytes = grpc_slice_from_copied_buffer(request, n);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);
    struct answer a = {.text = grpc_empty_slice()};
    grpc_metadata_array_init(&a.head);
    grpc_metadata_array_init(&a.tail);
    const bool sent = exchange(c, cq, call, message, &a);
    const int code = finish(&a, sent, reply, n_reply, err);
    grpc_byte_buffer_destroy(message);
    grpc_byte_buffer_destroy(a.message);
    grpc_slice_unref(a.text);
    grpc_metadata_array_destroy(&a.head);
    grpc_metadata_array_destroy(&a.tail);
    grpc_call_unref(call);
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_destroy(cq);
    return code;
}

/* ------------------------------------------------------------------ streams */

struct tdc_stream {
    grpc_completion_queue *cq;
    grpc_call *call;
    struct answer answer;
    bool headed, ended; /* the answer's head was asked for; its status is there */
};

/* The operations, to their end. */
static bool run(struct tdc_stream *s, const grpc_op *ops, size_t n)
{
    return grpc_call_start_batch(s->call, ops, n, s, NULL) == GRPC_CALL_OK &&
           grpc_completion_queue_pluck(s->cq, s, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).success != 0;
}

struct tdc_stream *tdc_stream_open(struct tdc_client *c, const char *path, struct tdc_error *err)
{
    struct tdc_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fail(err, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a call");
        return NULL;
    }
    s->cq = grpc_completion_queue_create_for_pluck(NULL);
    s->answer.text = grpc_empty_slice();
    grpc_metadata_array_init(&s->answer.head);
    grpc_metadata_array_init(&s->answer.tail);
    grpc_slice method = grpc_slice_from_copied_string(path);
    s->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, s->cq, method, NULL,
                                       deadline(0), NULL);
    grpc_slice_unref(method);
    grpc_metadata auth = {0};
    if (c->authorization != NULL) {
        auth.key = grpc_slice_from_static_string("authorization");
        auth.value = grpc_slice_from_static_string(c->authorization);
    }
    const grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA,
                        .data.send_initial_metadata = {.count = c->authorization != NULL, .metadata = &auth}};
    (void)run(s, &op, 1); /* what went wrong is the status */
    return s;
}

bool tdc_stream_send(struct tdc_stream *s, const void *bytes, size_t n)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, n);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    grpc_slice_unref(slice);
    const bool sent = run(s, &op, 1);
    grpc_byte_buffer_destroy(message);
    return sent;
}

bool tdc_stream_done(struct tdc_stream *s)
{
    const grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    return run(s, &op, 1);
}

int tdc_stream_receive(struct tdc_stream *s, void **bytes, size_t *n, struct tdc_error *err)
{
    struct answer *a = &s->answer;
    const grpc_op ops[] = {
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &a->message},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &a->head}};
    const grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                            .data.recv_status_on_client = {.trailing_metadata = &a->tail,
                                                           .status = &a->status,
                                                           .status_details = &a->text}};
    *bytes = NULL;
    if (!s->ended) {
        (void)run(s, ops, s->headed ? 1 : 2);
        s->headed = true;
        if (a->message != NULL) {
            *bytes = message_bytes(a->message, n);
            grpc_byte_buffer_destroy(a->message);
            a->message = NULL;
            return *bytes != NULL ? 0 : fail(err, GRPC_STATUS_INTERNAL, "a message cannot be read");
        }
        (void)run(s, &status, 1);
        s->ended = true;
    }
    return tell_status(a, err);
}

void tdc_stream_close(struct tdc_stream *s)
{
    if (s == NULL) {
        return;
    }
    if (!s->ended) {
        (void)grpc_call_cancel(s->call, NULL);
    }
    grpc_slice_unref(s->answer.text);
    grpc_metadata_array_destroy(&s->answer.head);
    grpc_metadata_array_destroy(&s->answer.tail);
    grpc_call_unref(s->call);
    grpc_completion_queue_shutdown(s->cq);
    grpc_completion_queue_destroy(s->cq);
    free(s);
}
