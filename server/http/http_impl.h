/* server/http/http_impl.h - the insides of the HTTP listener, shared by http.c (libmicrohttpd's calls, start
 * and stop) and http_exchange.c (a request from its whole body to its answer).
 *
 *   poll thread:  head read -> body gathered -> routed -> short? handle : suspend, queue
 *   HTTP worker:  take -> handle
 *   either:       the handler finishes the exchange, or holds it -> ... td_exchange_finish elsewhere
 *   finish:       here (not held, on the poll thread): the answer is queued when the handler returns; else
 *                 resume
 *   poll thread:  (called again) queue the answer -> sent -> exchange freed
 *
 * Invariant (td_http_check): a suspended connection's exchange is on exactly one of queue and running, or is
 * being resumed; it may be gone at any time for a thread that has handled it, but for the poll thread that
 * reads its connection: that frees it. Locks: h->mu guards queue, running and stop; never held while a
 * handler runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_HTTP_IMPL_H
#define TD_SERVER_HTTP_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>

#include "server/http/http.h"
#include "server/http/duration_hint.h"

enum phase { PHASE_BODY, PHASE_WORK, PHASE_DONE, PHASE_SENT };

/* An exchange with what only the listener sees of it; a handler has x, which is first. */
struct exchange {
    struct td_exchange x;
    struct td_http *h;
    struct MHD_Connection *connection;
    enum phase phase;
    bool too_large;
    struct td_sink body;
    const char *encoding; /* of the answer; NULL: as it is */
    uint64_t kind;        /* of its duration hint: requests that are alike (server/http/duration_hint.h) */
    int64_t from_ns;
    bool here; /* the poll thread handles it, and sends the answer: its connection is not suspended */
    bool held; /* by its handler; only that thread and the one that finishes it look */
    struct exchange *next, *prev; /* of queue (next) or running */
};

struct td_http {
    struct td_http_opts opts;
    struct MHD_Daemon *daemon;
    int listener;
    pthread_mutex_t mu; /* guards what follows up to stop */
    pthread_cond_t work, idle, guard_wake;
    struct exchange *head, *tail; /* queue for the HTTP workers */
    struct exchange *running;
    bool stop;
    atomic_int n_reading;   /* requests whose body is still coming */
    atomic_int n_answering; /* requests that are whole and whose answer is not sent yet */
    atomic_bool draining;
    struct td_duration_hints hints;
    pthread_t *workers, guard;
    int n_workers;
    bool has_guard;
};

/* http_exchange.c. Caller holds h->mu: both lists are linked as they should be, and all on them suspended. */
TD_MUST enum td_code td_http_check(const struct td_http *h, struct td_err *err);
/* The next three answer what libmicrohttpd's callback returns. The request is whole: it is answered here, or
 * handed to an HTTP worker. */
enum MHD_Result td_http_received(struct exchange *e);
/* It is too large to become whole. */
enum MHD_Result td_http_refuse(struct exchange *e);
enum MHD_Result td_http_send(struct exchange *e);
void *td_http_worker_main(void *http);
/* Thread: sets the stop word of running requests whose client has closed its side. */
void *td_http_guard_main(void *http);

#endif
