/* server/http/http_impl.h - the insides of the HTTP listener, shared by http.c (libmicrohttpd's calls, start
 * and stop), http_exchange.c (a request from its whole body to its answer) and http_parts.c (bodies and
 * answers that come and go in parts).
 *
 *   poll thread:  head read -> body gathered -> routed -> short? handle : suspend, queue
 *   HTTP worker:  take -> handle
 *   either:       the handler finishes the exchange, or holds it -> ... td_exchange_finish elsewhere
 *   finish:       here (not held, on the poll thread): the answer is queued when the handler returns; else
 *                 resume
 *   poll thread:  (called again) queue the answer -> sent -> exchange freed
 *
 *   lengthy:      a large body, or a handler that says so: queued apart from the others, for a part of the
 *                 workers, so that the rest is soon there for what is short
 *
 *   in parts:     a part of the body is full, or of the answer is sent: suspend, queue -> worker: put or next
 *                 -> resume; nothing to say: asleep until it is woken, or idle_ms have passed
 *
 * Invariant (td_http_check): a suspended connection's exchange is on exactly one of waiting, lengthy, running
 * and sleeping, or is being resumed; it may be gone at any time for a thread that has handled it, but for the
 * poll thread that reads its connection: that frees it. Locks: h->mu guards the lists, what is counted
 * of them, and stop; never held while a handler runs. Once stop is set nothing is suspended any more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_HTTP_IMPL_H
#define TD_SERVER_HTTP_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>

#include "server/base/accept_loop.h"
#include "server/http/http.h"
#include "server/http/duration_hint.h"

/* PART: of the body, in a worker's hands. SENT: the answer is libmicrohttpd's, but for a stream's bits. */
enum phase { PHASE_BODY, PHASE_PART, PHASE_WORK, PHASE_DONE, PHASE_SENT };

/* A connection, from its start to its end: what it does, and until when its client must have done its part
 * (0: not waited for). A line of text for its target: that is seen before a request counts as begun. */
enum peer_state { PEER_IDLE, PEER_HEAD, PEER_BODY, PEER_OURS, PEER_READS, PEER_CUT };
struct peer {
    struct td_http *h;
    int fd; /* libmicrohttpd's */
    struct sockaddr_storage address;
    bool counted;   /* in h->opts.connections */
    size_t charged; /* to the budget: what libmicrohttpd and TLS keep for it */
    char *refusal;  /* there are too many: its first request is answered with that, and it ends. NULL: no */
    _Atomic enum peer_state state;
    _Atomic int64_t due_ns;
    char *target; /* of the request that is read or answered; NULL: none yet */
    size_t cap;
    bool absolute; /* it was sent with a scheme and a host in front, as to a proxy */
    bool left;     /* the client's end has come; the peers' thread's */
    struct peer *next, *prev;
};

/* An exchange with what only the listener sees of it; a handler has x, which is first. */
struct exchange {
    struct td_exchange x;
    struct td_http *h;
    struct MHD_Connection *connection;
    struct peer *peer;
    _Atomic enum phase phase;
    bool too_large;
    bool no_memory;                    /* for its body: the rest of it is dropped */
    const struct td_head_fault *fault; /* of its head; the connection ends with the answer. NULL: none */
    struct td_sink body;
    const char *encoding; /* of the answer; NULL: as it is */
    uint64_t kind;        /* of its duration hint: requests that are alike (server/http/duration_hint.h) */
    int64_t from_ns;
    int64_t body_ns; /* when the body began; later by what it had to wait for us */
    size_t n_body;   /* bytes of it that have come */
    bool here;       /* the poll thread handles it, and sends the answer: its connection is not suspended */
    bool held;       /* by its handler; only that thread and the one that finishes it look */
    bool lengthy;    /* it waits, or has waited, among those that keep a worker for long */
    uint64_t place;  /* of those that wait, who came first; guarded by h->mu */
    void (*go_on)(void *app, struct td_exchange *x); /* a worker calls instead of handling it; NULL: none */
    size_t n_taken, n_dropped;                       /* bytes of a body with a reader */
    size_t n_sent;                                   /* of a stream's bit in x.out */
    enum td_stream_state said;                       /* what its stream said last; guarded by h->mu */
    bool asleep, woken, due;                         /* of a stream; guarded by h->mu */
    int64_t due_ns;
    struct exchange *next, *prev; /* of waiting or lengthy (next), running or sleeping */
};

struct td_http_queue {
    struct exchange *head, *tail;
};

struct td_http {
    struct td_http_opts opts;
    struct MHD_Daemon *daemon;
    int listener;
    struct td_accept_loop *accepting; /* NULL: no connection is */
    pthread_mutex_t mu;               /* guards what follows up to stop */
    pthread_cond_t work, idle, guard_wake;
    struct td_http_queue waiting, lengthy; /* for the HTTP workers; the second for few of them at a time */
    uint64_t n_queued;                     /* so far */
    int n_lengthy, most_lengthy;           /* that are being handled, and may be */
    struct exchange *running, *sleeping;
    bool stop;
    atomic_int n_reading;   /* requests whose body is still coming */
    atomic_int n_answering; /* requests that are whole and whose answer is not sent yet */
    atomic_bool draining;
    struct td_duration_hints hints;
    pthread_t *workers, guard;
    int n_workers;
    bool has_guard;
    struct {
        pthread_mutex_t mu; /* guards what follows up to stop */
        struct peer *all;
        int n_left, n_refused;
        bool stop;
        int epoll_fd, wake_fd, most_refused;
        pthread_t thread;
        bool has_thread;
    } peers;
};

/* What is wrong with a head: static. */
struct td_head_fault {
    int status;
    const char *text;
    bool counts; /* the greatest number of headers belongs behind the text */
};

/* http_head.c. NULL: nothing; version is libmicrohttpd's "HTTP/1.1". */
const struct td_head_fault *td_http_head_fault(const struct exchange *e, const char *version);

/* http_peers.c */
TD_MUST enum td_code td_http_peers_start(struct td_http *h, struct td_err *err);
void td_http_peers_stop(struct td_http *h); /* all connections have ended; accepts one that did not start */
/* Memory that a connection has as long as it is open. */
size_t td_http_connection_bytes(const struct td_http *h);
/* Returns new, in state IDLE but with the time of a head, or shut down; NULL without memory. */
struct peer *td_http_peer_begin(struct td_http *h, int fd, const struct sockaddr *address);
void td_http_peer_end(struct peer *p); /* takes p; its socket is still open */
/* Another state, with its due (0: none); false: it was cut, and the connection is to end. */
bool td_http_peer_go(struct peer *p, enum peer_state to, int64_t due_ns);
void td_http_peer_due(struct peer *p, int64_t due_ns);
/* Dues: so many seconds from then (0: none), and what so many bytes may take. */
int64_t td_http_peer_until(int64_t from_ns, double seconds);
int64_t td_http_peer_rated(const struct td_http *h, int64_t from_ns, uint64_t bytes);

/* http.c. Whether this thread polls, and for one connection alone. (One that is accepted meanwhile may be
 * dealt to it.) */
bool td_http_polls_one(void);

/* http_exchange.c. Caller holds h->mu: both lists are linked as they should be, and all on them suspended. */
TD_MUST enum td_code td_http_check(const struct td_http *h, struct td_err *err);
/* The next three answer what libmicrohttpd's callback returns. The request is whole: it is answered here, or
 * handed to an HTTP worker. */
enum MHD_Result td_http_received(struct exchange *e);
/* It is too large to become whole, or its reader does not want it. */
enum MHD_Result td_http_refuse(struct exchange *e);
enum MHD_Result td_http_send(struct exchange *e);
/* Suspends the connection and leaves e, which is in that phase, to an HTTP worker. MHD_NO when the workers
 * are to end: the connection is to be closed. */
enum MHD_Result td_http_hand_over(struct exchange *e, enum phase phase);
/* The next five: caller holds h->mu. There will be something for the guard to look at. */
void td_http_wake_guard(struct td_http *h);
/* Whether no request waits for an HTTP worker, or is being handled. */
bool td_http_is_idle(const struct td_http *h);
/* For an HTTP worker to take; the connection is suspended. */
void td_http_enqueue(struct exchange *e);
/* Of running or sleeping. */
void td_http_link(struct exchange **list, struct exchange *e);
void td_http_unlink(struct exchange **list, struct exchange *e);
/* Whether the client has closed its side; the connection cannot end meanwhile. */
bool td_http_has_left(const struct exchange *e);
/* On a worker's thread, done with e: its connection goes on in that phase. */
void td_http_resume(struct exchange *e, enum phase phase);
void *td_http_worker_main(void *http);
/* Thread: sets the stop word of running requests whose client has closed its side. */
void *td_http_guard_main(void *http);

/* http_parts.c. Bytes of a body that has a reader; *n becomes 0. */
enum MHD_Result td_http_gather_part(struct exchange *e, const char *data, size_t *n);
/* On a worker: gives the reader what was gathered. */
void td_http_put_part(struct exchange *e);
/* The response that a stream's bits are sent by; NULL without memory. */
struct MHD_Response *td_http_stream_response(struct exchange *e);
/* On a worker: asks the stream for its next bit, and sends it or puts e to sleep. */
void td_http_next_bit(struct exchange *e);
/* Caller holds h->mu. Wakes the sleepers whose time has come, or all; ends those whose clients have gone. */
void td_http_wake_sleepers(struct td_http *h, bool all);
/* What x has of the application's is closed. */
void td_http_close_parts(struct td_exchange *x);

#endif
