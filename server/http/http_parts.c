/* server/http/http_parts.c - bodies and answers that are never held whole.
 *
 *   body     poll thread gathers PART_BYTES -> suspend -> worker: put -> resume -> .. -> whole: the handler
 *   answer   poll thread sends a bit -> suspend -> worker: next -> resume -> ..
 *                                            \ nothing to say: asleep -> woken, or idle for long -> worker
 *
 * So a slow disk or database keeps an HTTP worker and never a poll thread, and a slow client keeps neither:
 * while it takes a bit, or sends one, libmicrohttpd waits for its socket. A body that its reader refuses is
 * read and dropped, because a client that is still sending does not see an answer; past DROP_BYTES and what
 * was taken before, the connection is closed.
 *
 * Threads: the next bit is asked for on one worker at a time; waking is allowed on any thread and is
 * remembered while a bit is made or sent. Locks: h->mu, see http_impl.h; next and put run without it.
 *
 * Does not: know what the parts are (those who give it a reader or a stream).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/http_impl.h"

#define PART_BYTES ((size_t)256 << 10) /* of a body, given to its reader at once */
#define DROP_BYTES ((size_t)64 << 20)  /* of a refused body, besides what was taken of it */
#define BIT_BYTES ((size_t)32 << 10)   /* of a stream, given to libmicrohttpd at once */

/* ------------------------------------------------------------------ bodies */

enum MHD_Result td_http_gather_part(struct exchange *e, const char *data, size_t *n)
{
    struct td_err err = {0};
    const size_t size = *n;
    *n = 0;
    if (e->x.reader->refused) {
        e->n_dropped += size;
        return e->n_dropped <= e->n_taken + DROP_BYTES ? MHD_YES : MHD_NO;
    }
    e->n_taken += size;
    if (td_sink_put(&e->body, data, size, &err)) {
        return MHD_NO;
    }
    return e->body.n < PART_BYTES ? MHD_YES : td_http_hand_over(e, PHASE_PART);
}

void td_http_put_part(struct exchange *e)
{
    struct td_body_reader *b = e->x.reader;
    if (!b->refused && e->body.n > 0) {
        b->put(b, e->body.p, e->body.n);
    }
    e->body.n = 0;
}

/* ------------------------------------------------------------------ answers */

/* Caller holds h->mu; the connection is suspended. */
static void sleep_or_go_on(struct exchange *e, int64_t now_ns)
{
    struct td_http *h = e->h;
    if (e->woken || e->said == TD_STREAM_MORE) {
        td_http_enqueue(e);
        return;
    }
    e->asleep = true;
    e->due_ns = now_ns + e->x.stream->idle_ms * 1000000;
    td_http_link(&h->sleeping, e);
}

/* libmicrohttpd asks for what comes behind the bytes that it has sent. */
static ssize_t read_bit(void *cls, uint64_t pos, char *buf, size_t room)
{
    struct exchange *e = cls;
    struct td_http *h = e->h;
    const size_t left = e->x.out.n - e->n_sent, n = left < room ? left : room;
    (void)pos;
    if (n > 0) {
        memcpy(buf, e->x.out.p + e->n_sent, n);
        e->n_sent += n;
        return (ssize_t)n;
    }
    e->n_sent = e->x.out.n = 0;
    pthread_mutex_lock(&h->mu);
    const bool over = e->said == TD_STREAM_END || atomic_load(&h->draining);
    const bool broken = e->said == TD_STREAM_BROKEN || h->stop;
    if (!over && !broken && td_http_peer_go(e->peer, PEER_OURS, 0)) {
        MHD_suspend_connection(e->connection);
        sleep_or_go_on(e, td_clock_ns());
    }
    pthread_mutex_unlock(&h->mu);
    return broken ? MHD_CONTENT_READER_END_WITH_ERROR : over ? MHD_CONTENT_READER_END_OF_STREAM : 0;
}

struct MHD_Response *td_http_stream_response(struct exchange *e)
{
    td_sink_fini(&e->x.out);
    e->said = TD_STREAM_MORE;
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BIT_BYTES, read_bit, e, NULL);
}

/* Caller holds h->mu. The client is to read what is in x.out. */
static void resume_reading(struct exchange *e)
{
    (void)td_http_peer_go(e->peer, PEER_READS, td_http_peer_rated(e->h, td_clock_ns(), e->x.out.n));
    MHD_resume_connection(e->connection);
}

void td_http_next_bit(struct exchange *e)
{
    struct td_http *h = e->h;
    struct td_answer_stream *s = e->x.stream;
    pthread_mutex_lock(&h->mu);
    const bool idle = e->due && !e->woken;
    e->woken = e->due = false;
    pthread_mutex_unlock(&h->mu);
    const enum td_stream_state said = atomic_load(&h->draining) ? TD_STREAM_END : s->next(s, idle, &e->x.out);
    pthread_mutex_lock(&h->mu);
    e->said = atomic_load(&e->x.r.stop) != 0 ? TD_STREAM_BROKEN : said;
    td_http_unlink(&h->running, e);
    if (e->x.out.n == 0 && e->said <= TD_STREAM_WAIT && !atomic_load(&h->draining)) {
        sleep_or_go_on(e, td_clock_ns());
    } else {
        resume_reading(e);
    }
    pthread_mutex_unlock(&h->mu);
}

/* Caller holds h->mu. */
static void wake(struct exchange *e)
{
    td_http_unlink(&e->h->sleeping, e);
    e->asleep = false;
    td_http_enqueue(e);
}

void td_exchange_wake(struct td_exchange *x)
{
    struct exchange *e = (struct exchange *)x;
    pthread_mutex_lock(&e->h->mu);
    e->woken = true;
    if (e->asleep) {
        wake(e);
    }
    pthread_mutex_unlock(&e->h->mu);
}

void td_http_wake_sleepers(struct td_http *h, bool all)
{
    const int64_t now_ns = td_clock_ns();
    for (struct exchange *e = h->sleeping, *next; e != NULL; e = next) {
        next = e->next;
        if (td_http_has_left(e)) {
            atomic_store(&e->x.r.stop, TD_CANCELLED);
            e->said = TD_STREAM_BROKEN;
            e->asleep = false;
            td_http_unlink(&h->sleeping, e);
            resume_reading(e);
        } else if (all || e->due_ns <= now_ns) {
            e->due = !all;
            wake(e);
        }
    }
}

void td_http_close_parts(struct td_exchange *x)
{
    if (x->reader != NULL) {
        x->reader->close(x->reader);
        x->reader = NULL;
    }
    if (x->stream != NULL) {
        x->stream->close(x->stream);
        x->stream = NULL;
    }
    if (x->file.given) {
        close(x->file.fd);
        x->file.given = false;
    }
}
