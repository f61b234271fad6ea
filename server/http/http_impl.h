/* server/http/http_impl.h - the insides of the HTTP listener, shared by http.c (libmicrohttpd's calls, start
 * and stop) and http_exchange.c (a request from its whole body to its answer).
 *
 *   poll thread:  head read -> body gathered -> short? handle : suspend, queue
 *   worker:       take -> handle -> resume
 *   either:       the handler holds the exchange -> (suspended) ... td_exchange_finish -> resume
 *   poll thread:  (called again) queue the answer -> sent -> exchange freed
 *
 * Invariant: a suspended connection's exchange is on exactly one of queue and running, or is being resumed;
 * one that is held may be gone at any time for the thread that held it. Locks: h->mu guards queue, running
 * and stop; never held while a handler runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_HTTP_IMPL_H
#define TD_SERVER_HTTP_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>

#include "server/http/http.h"
#include "server/http/duration_hint.h"

enum phase { PHASE_BODY, PHASE_WORK, PHASE_DONE, PHASE_SENT };

struct exchange {
    struct td_exchange x;
    struct td_http *h;
    struct MHD_Connection *connection;
    enum phase phase;
    bool too_large;
    const char *target; /* the connection's */
    struct td_sink body;
    const char *encoding; /* of the answer; NULL: as it is */
    uint64_t kind;
    int64_t from_ns;
    bool suspended;
    bool *held;                   /* of the run under way: set when the exchange is held */
    struct exchange *next, *prev; /* of queue (next) or running */
};

struct td_http {
    struct td_http_opts opts;
    struct MHD_Daemon *daemon;
    int listener;
    pthread_mutex_t mu; /* guards what follows up to stop */
    pthread_cond_t work, idle, guard_wake;
    struct exchange *head, *tail; /* queue for the workers */
    struct exchange *running;
    int n_open; /* exchanges that exist */
    bool stop;
    atomic_int n_reading;   /* requests whose body is still coming */
    atomic_int n_answering; /* requests that are whole and whose answer is not sent yet */
    atomic_bool draining;
    struct td_duration_hints hints;
    pthread_t *workers, guard;
    int n_workers;
    bool has_guard;
};

/* http_exchange.c */
/* The request is whole: a drain waits for its answer. */
void td_http_received(struct exchange *e);
/* Runs the handler on this thread. False when the exchange is held: then it may be gone already. */
bool td_http_run(struct exchange *e);
/* Leaves it to a worker; its connection is suspended. */
void td_http_hand_over(struct exchange *e);
enum MHD_Result td_http_send(struct exchange *e);
void *td_http_worker_main(void *http);
/* Thread: sets the stop word of running requests whose client has closed its side. */
void *td_http_guard_main(void *http);

#endif
