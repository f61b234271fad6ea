/* server/http/http.h - the HTTP listener: reads whole requests, has the application answer them, writes the
 * answers.
 *
 * Only http.c and http_exchange.c know libmicrohttpd. A handler sees the request target as it was sent
 * (nothing is unescaped), the body inflated and NUL-terminated, and fills in status, content type and bytes
 * of the answer.
 *
 *   route(x)                 once, when the whole request is there: who will answer, and how fast
 *   handle(x)                decode and run, or answer at once
 *   td_exchange_hold(x)      the answer will take a while (before anybody else can finish x)
 *   td_exchange_finish(x)    the answer is there: once for each exchange, on any thread
 *
 * Bodies and answers that are too large to be held come and go in parts. A body does when begin(x), called
 * with the head alone, gives x a reader; an answer when its handler gives x a stream or a file before it
 * finishes x. None of them holds a thread while it waits for its client, or for something to say.
 *
 * Threads: a request whose kind has lately kept its thread for a fraction of a millisecond only runs on the
 * thread that read it (a poll thread); any other runs on an HTTP worker, so that a long one never keeps the
 * poll threads from serving the rest. HTTP workers decode and encode; what computes is server/sched's
 * workers. What is lengthy (bodies of more than 1 MiB, and what a handler says is: td_exchange_go_on) is kept
 * to a quarter of them, so that a few clients with large bodies do not have all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_HTTP_H
#define TD_SERVER_HTTP_HTTP_H

#include "proto/bytes/sink.h"
#include "server/base/connections.h"
#include "server/sched/request.h"

struct td_http;
struct td_route;

/* What the names of a route's pattern matched, as sent. */
struct td_route_match {
    struct td_route_span {
        const char *p;
        size_t n;
    } model, version, label, id;
};

/* Reads a body as it comes. */
struct td_body_reader {
    /* On an HTTP worker, part by part in their order. What goes wrong is the reader's to keep: it sets
     * refused, and no part comes after that. */
    void (*put)(struct td_body_reader *b, const char *bytes, size_t n);
    /* Once: the exchange is over, whether it was answered or not. */
    void (*close)(struct td_body_reader *b);
    /* The rest of the body is of no use. It is dropped until the client has sent all of it, or far too much;
     * set by begin, a client that asked before it sends (Expect) is answered at once. */
    bool refused;
};

/* Writes an answer bit by bit, chunked. */
enum td_stream_state {
    TD_STREAM_MORE,  /* ask again as soon as this has been sent */
    TD_STREAM_WAIT,  /* ask again when td_exchange_wake was called, or idle_ms have passed */
    TD_STREAM_END,   /* this was the last */
    TD_STREAM_BROKEN /* the client shall see that it was cut off */
};
struct td_answer_stream {
    /* On an HTTP worker: appends the next bit to out, which is empty; idle: nobody woke it. Not called while
     * the client has not taken the last one, nor once the server drains. */
    enum td_stream_state (*next)(struct td_answer_stream *s, bool idle, struct td_sink *out);
    /* Once: the exchange is over. td_exchange_wake is not called after it. */
    void (*close)(struct td_answer_stream *s);
    int64_t idle_ms;
};

/* One request and its answer. Everything is borrowed until it is finished. */
struct td_exchange {
    /* first: deadline and stop word are the listener's to set; opened by the application */
    struct td_request r;
    const char *method; /* "GET" */
    const char *target; /* path and query, as sent */
    const char *body;   /* body_len bytes and a NUL */
    size_t body_len;
    const struct sockaddr *from;   /* the client's address; NULL: not known */
    bool local;                    /* the peer is this host's loopback */
    bool absolute;                 /* the target was sent with scheme and host in front, as to a proxy */
    struct td_body_reader *reader; /* has the body instead; NULL: none. body is "" then */
    /* the application's */
    const struct td_route *route; /* NULL: none matched */
    struct td_route_match match;
    bool lengthy_ahead;                   /* its handler is to be called again where it may take long */
    const char *error_code, *error_param; /* of an error, where more than a sentence is told; NULL: none */
    /* the answer */
    int status;               /* 200 unless set */
    const char *content_type; /* static text; NULL: "application/json" */
    const char *location;     /* static or target's; NULL none: a Location header */
    const char *allow;        /* static; NULL none: an Allow header */
    size_t n_json;            /* > 0: an Inference-Header-Content-Length header */
    struct td_sink out;
    struct td_answer_stream *stream; /* instead of out; NULL: none */
    struct {
        bool given; /* instead of out: bytes of fd, from its beginning */
        int fd;     /* x's */
        int64_t bytes;
    } file;
};
static inline struct td_exchange *td_exchange_of(struct td_request *r)
{
    return (struct td_exchange *)r;
}

/* Called by a handler, on its thread, before another one can finish x: its client is looked after
 * meanwhile. */
void td_exchange_hold(struct td_exchange *x);
/* Of one that is held, on any thread: fn does what is left to do, on an HTTP worker. */
void td_exchange_again(struct td_exchange *x, void (*fn)(void *app, struct td_exchange *x));
/* What its body takes is charged to the account from now on. RESOURCE_EXHAUSTED: more than it may hold. */
TD_MUST enum td_code td_exchange_charge(struct td_exchange *x, struct td_account *account,
                                        struct td_err *err);
/* x may be gone when this returns, or when the handler that calls it does. */
void td_exchange_finish(struct td_exchange *x);
/* What is left to do for x takes long: fn does it on an HTTP worker, as soon as one of the few that may be at
 * what is lengthy is there, and x is its own until then. On the handler's thread, or on any one that has x
 * held. */
void td_exchange_go_on(struct td_exchange *x, void (*fn)(void *app, struct td_exchange *x));
/* Whether this thread is one of those few. */
bool td_exchange_is_lengthy(const struct td_exchange *x);
/* Whether nobody waits for the handler's thread: it is a worker's, or polls for x's connection alone. */
bool td_exchange_is_lone(const struct td_exchange *x);
/* There may be more for x's stream: on any thread, also before x is finished. */
void td_exchange_wake(struct td_exchange *x);
/* The first header, as sent, whose name fits; NULL: none. Borrowed. */
const char *td_exchange_header_that(const struct td_exchange *x, bool (*fits)(const char *name, size_t n));
/* A header of the request, or NULL: borrowed. */
const char *td_exchange_header(const struct td_exchange *x, const char *name);

/* What a client may take; 0: any time. */
struct td_http_times {
    double head_s;       /* seconds for a request's head */
    double idle_s;       /* between requests of a connection */
    double body_s;       /* for a body, and for reading an answer, besides what its bytes take */
    int64_t bytes_per_s; /* the least rate of both */
};

/* What is known of a request before it is handled. */
enum td_quickness {
    TD_QUICKNESS_MEASURED, /* as its like took lately */
    TD_QUICKNESS_SLOW,     /* it may take long even if it was quick before: always on an HTTP worker */
    TD_QUICKNESS_INSTANT,  /* answered from memory: on the thread that read it, however busy the others are */
};

struct td_http_opts {
    const char *bind_address; /* "": all interfaces */
    int port;                 /* 0: any free one */
    int threads;              /* HTTP workers; 0: 4 per core */
    size_t max_request_bytes; /* of a body, also once inflated */
    size_t pack_bytes;  /* answers of at least so many are compressed for clients that accept it; 0: none */
    int64_t timeout_ms; /* deadline of a request; 0 none */
    struct td_http_times times;
    struct td_connections *connections; /* borrowed, counts those of all listeners; NULL: any number */
    int max_headers;                    /* of a request; 0: any number */
    size_t max_header_bytes;            /* of all of them, with the target; 0: the standard */
    bool cors;                          /* add CORS headers to every answer */
    const char *cors_headers;           /* request headers that scripts of other origins may send */
    /* PEM texts; tls_key NULL: plain HTTP; tls_ca: demand client certificates */
    const char *tls_key, *tls_cert, *tls_ca;
    /* The head is there: may give x a reader, which reads bodies of any size. NULL: none is ever given. */
    void (*begin)(void *app, struct td_exchange *x);
    enum td_quickness (*route)(void *app, struct td_exchange *x); /* sets x->route */
    void (*handle)(void *app, struct td_exchange *x);
    /* Writes the error text for failures found here (too large, bad gzip) in the application's form. */
    void (*fail)(void *app, struct td_exchange *x, const struct td_err *err);
    void *app;
};

/* Returns new and serves at once; *port is the bound one. Texts of opts are borrowed until td_http_stop.
 * UNAVAILABLE when the address cannot be bound (a taken port fails; SO_REUSEPORT is off). */
TD_MUST enum td_code td_http_start(const struct td_http_opts *opts, struct td_http **out, int *port,
                                   struct td_err *err);
/* Accepts nothing new, lets open requests finish for up to drain_ms, then sets their stop words; joins and
 * frees. Idle keep-alive connections are closed. Returns false when some handler would not end: then nothing
 * was freed and the process should exit. Accepts NULL. */
bool td_http_stop(struct td_http *h, int64_t drain_ms);

#endif
