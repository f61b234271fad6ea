/* server/http/rest_events.c - a job's events, as a list or as they come.
 *
 * A stream is a follower of the job (server/jobs/jobs.h): an HTTP worker asks it for the next events when the
 * last ones were sent or it has called, and the connection sleeps in between, with a comment line when it
 * slept for long. So a client that watches for hours keeps no thread, and one that reads slowly has nothing
 * piled up for it. Events are one line of JSON behind "data:", under their id, so that a client that was cut
 * off names the last one (Last-Event-ID) and goes on behind it. At most MOST_FOLLOWERS at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/rest_json.h"
#include "server/http/rest_finetune.h"

#define MOST_FOLLOWERS 512
#define EVENTS_AT_ONCE 64
#define IDLE_MS 15000 /* proxies close what is silent for a minute or less */

struct event_stream {
    struct td_answer_stream stream; /* first */
    struct td_rest *rest;
    struct td_follower *follower;
};

static enum td_code put_text(struct td_sink *out, const char *text, struct td_err *err)
{
    return td_sink_put(out, text, strlen(text), err);
}

static enum td_code put_events(struct td_sink *out, const json_t *events, struct td_err *err)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        const char *id = json_string_value(json_object_get(event, "id"));
        TD_TRY(put_text(out, "id: ", err));
        TD_TRY(put_text(out, id != NULL ? id : "", err));
        TD_TRY(put_text(out, "\ndata: ", err));
        TD_TRY(td_rest_put_exact(out, event, err));
        TD_TRY(put_text(out, "\n\n", err));
    }
    return TD_OK;
}

static enum td_stream_state next(struct td_answer_stream *stream, bool idle, struct td_sink *out)
{
    struct event_stream *s = (struct event_stream *)stream;
    struct td_fault f = {0};
    struct td_err err = {0};
    json_t *events = NULL;
    bool ended = false;
    if (td_follow_next(s->follower, EVENTS_AT_ONCE, &events, &ended, &f)) {
        td_log(TD_LOG_WARNING, NULL, "a stream of events ends: %s", f.err.msg);
        return TD_STREAM_BROKEN;
    }
    const size_t n = json_array_size(events);
    enum td_code rc = put_events(out, events, &err);
    json_decref(events);
    rc = rc ? rc : ended ? put_text(out, "data: [DONE]\n\n", &err) : TD_OK;
    rc = rc ? rc : n == 0 && idle && !ended ? put_text(out, ": waiting\n\n", &err) : TD_OK;
    return rc ? TD_STREAM_BROKEN : ended ? TD_STREAM_END : n > 0 ? TD_STREAM_MORE : TD_STREAM_WAIT;
}

static void close_stream(struct td_answer_stream *stream)
{
    struct event_stream *s = (struct event_stream *)stream;
    if (s->follower != NULL) {
        td_follow_close(s->follower);
    }
    atomic_fetch_sub(&s->rest->n_followers, 1);
    td_free(s);
}

static void wake(void *x)
{
    td_exchange_wake(x);
}

/* The exchange has the stream from here on, whatever follows. */
static enum td_code open_stream(struct td_rest *rest, struct td_exchange *x, const char *id,
                                struct td_err *err)
{
    struct td_fault f = {0};
    struct event_stream *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a stream of events");
    }
    s->stream = (struct td_answer_stream){.next = next, .close = close_stream, .idle_ms = IDLE_MS};
    s->rest = rest;
    const bool full = atomic_fetch_add(&rest->n_followers, 1) >= MOST_FOLLOWERS;
    const char *after = td_exchange_header(x, "Last-Event-ID");
    enum td_code rc =
        full ? td_fail(err, TD_RESOURCE_EXHAUSTED, "%d clients follow jobs already", MOST_FOLLOWERS)
             : td_rest_fault(x, td_follow_open(rest->jobs, id, after, &s->follower, &f), &f, err);
    if (rc) {
        close_stream(&s->stream);
        return rc;
    }
    x->stream = &s->stream;
    x->content_type = "text/event-stream";
    td_follow_wake(s->follower, wake, x);
    return TD_OK;
}

enum td_code td_rest_job_events(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const char *id, *stream;
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    TD_TRY(td_rest_job_id(rest, x, &id, err));
    TD_TRY(td_rest_query(x, "stream", &stream, err));
    if (stream != NULL && (strcmp(stream, "true") == 0 || strcmp(stream, "1") == 0)) {
        return open_stream(rest, x, id, err);
    }
    TD_TRY(td_rest_page(x, &page, err));
    TD_TRY(td_rest_fault(x, td_jobs_events(rest->jobs, id, &page, &list, &f), &f, err));
    return td_rest_put_doc(x, list, err);
}
