/* server/grpc/grpc_finetune_stream.c - tensord.v1.FineTuning: files up and down, and events as they come.
 *
 *   UploadFile    each message's bytes go to the file as they are; the answer follows the client's last one
 *   DownloadFile  a chunk is read when the one before has left
 *   WatchEvents   events are fetched a batch at a time and sent one by one, each when the one before has
 *                 left; then the stream waits for a tick after its follower was woken
 *
 * So neither holds more than a message, and a client that reads slowly is waited for. The model of a job is
 * judged once, when it is asked for.
 *
 * Threads: events of one stream never overlap. woken is set on any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/schema/tensord.pb-c.h"
#include "server/grpc/grpc_finetune.h"

td_rpc_fn td_rpc_finetune_upload, td_rpc_finetune_download, td_rpc_finetune_watch;

#define CHUNK_BYTES ((size_t)256 << 10)
#define EVENTS_AT_ONCE 64
#define MOST_STREAMS 512 /* of each kind */

static atomic_int n_uploads, n_downloads, n_watches;

/* One more of a kind; the caller gives it back with leave(), also when it is refused. */
static enum td_code enter(atomic_int *n, const struct td_rpc *r, struct td_err *err)
{
    TD_FAIL_IF(atomic_fetch_add(n, 1) >= MOST_STREAMS, err, RESOURCE_EXHAUSTED,
               "%d such calls are under way already", MOST_STREAMS);
    return td_finetune_ready(r, err);
}

/* ------------------------------------------------------------------ uploading */

struct upload {
    struct td_file_upload *file;
    char *filename, *purpose;
};

static enum td_code begin_upload(struct td_rpc *r, const struct td_finetune_ask *ask, struct td_err *err)
{
    char owner[33];
    struct td_fault f = {0};
    struct upload *u = td_calloc(1, sizeof *u);
    if (u == NULL) {
        return td_no_memory(err, sizeof *u, "an upload");
    }
    r->state = u;
    TD_TRY(enter(&n_uploads, r, err));
    TD_TRY(td_rpc_check_local(r, err));
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "filename" : "purpose";
        const enum td_code rc =
            *ask->text[i] == '\0' ? TD_FAULT(&f, "missing_field", name, "%s is missing", name) : TD_OK;
        TD_TRY(td_finetune_fault(r, rc, &f, err));
    }
    u->filename = td_strdup(ask->text[1]);
    u->purpose = td_strdup(ask->text[2]);
    if (u->filename == NULL || u->purpose == NULL) {
        return td_no_memory(err, strlen(ask->text[1]), "a file's name");
    }
    td_rpc_owner(r, owner);
    return td_finetune_fault(r, td_file_upload_open(r->opts->jobs, owner, &u->file, &f), &f, err);
}

/* The bytes of every field 3. */
static enum td_code put_data(struct td_rpc *r, struct td_err *err)
{
    const struct upload *u = r->state;
    struct td_wire in = r->in;
    struct td_field field;
    struct td_fault f = {0};
    do {
        TD_TRY(td_wire_next(&in, &field, err));
        if (field.number == 3 && field.type == TD_WIRE_BYTES && field.sub.left > 0) {
            const void *bytes;
            void *owned = NULL;
            TD_TRY(td_wire_gather(field.sub, &bytes, &owned, err));
            const enum td_code rc = td_file_upload_write(u->file, bytes, (size_t)field.sub.left, &f);
            td_free(owned);
            TD_TRY(td_finetune_fault(r, rc, &f, err));
        }
    } while (field.number != 0);
    return TD_OK;
}

/* filename and purpose; the data is left where it is. */
static enum td_code read_names(struct td_wire in, struct td_arena *a, struct td_finetune_ask *ask,
                               struct td_err *err)
{
    struct td_field f;
    *ask = (struct td_finetune_ask){.text = {"", "", "", "", ""}};
    do {
        TD_TRY(td_wire_next(&in, &f, err));
        if ((f.number == 1 || f.number == 2) && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &ask->text[f.number], err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code take_message(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    if (r->state == NULL) {
        TD_TRY(read_names(r->in, a, &ask, err));
        TD_TRY(begin_upload(r, &ask, err));
    }
    return put_data(r, err);
}

static enum td_code end_upload(struct td_rpc *r, struct td_err *err)
{
    struct upload *u = r->state;
    struct td_fault f = {0};
    json_t *file = NULL;
    const enum td_code rc =
        u == NULL ? TD_FAULT(&f, "missing_field", "filename", "filename is missing") : TD_OK;
    TD_TRY(td_finetune_fault(r, rc, &f, err));
    td_poll_step_back();
    TD_FAIL_IF(td_rpc_broken_off(r), err, CANCELLED, "the upload of '%.200s' broke off", u->filename);
    struct td_file_upload *takes = u->file;
    u->file = NULL;
    TD_TRY(td_finetune_fault(r, td_file_upload_finish(takes, u->filename, u->purpose, &file, &f), &f, err));
    r->has_reply = r->done = true;
    return td_finetune_reply(r, &tensord__v1__file__descriptor, file, err);
}

static void drop_upload(struct upload *u)
{
    if (u == NULL) {
        return;
    }
    if (u->file != NULL) {
        td_file_upload_abandon(u->file);
    }
    atomic_fetch_sub(&n_uploads, 1);
    td_free(u->filename);
    td_free(u->purpose);
    td_free(u);
}

enum td_code td_rpc_finetune_upload(struct td_rpc *r, struct td_err *err)
{
    if (r->event == TD_RPC_GONE) {
        drop_upload(r->state);
        return TD_OK;
    }
    return r->event == TD_RPC_MESSAGE ? td_rpc_with_arena(r, take_message, err)
           : r->event == TD_RPC_END   ? end_upload(r, err)
                                      : TD_OK;
}

/* ------------------------------------------------------------------ downloading */

struct download {
    int fd; /* -1: none yet */
    int64_t at, bytes;
};

static enum td_code begin_download(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_fault f = {0};
    TD_FAIL_IF(r->state != NULL, err, INVALID_ARGUMENT, "DownloadFile takes one request");
    struct download *d = td_calloc(1, sizeof *d);
    if (d == NULL) {
        return td_no_memory(err, sizeof *d, "a download");
    }
    d->fd = -1;
    r->state = d;
    char owner[33];
    td_rpc_owner(r, owner);
    TD_TRY(enter(&n_downloads, r, err));
    TD_TRY(td_rpc_check_local(r, err));
    TD_TRY(td_finetune_read(r->in, a, &ask, err));
    TD_TRY(td_finetune_fault(r, td_files_content(r->opts->jobs, owner, ask.text[1], &d->fd, &d->bytes, &f),
                             &f, err));
    r->ticks = true;
    return TD_OK;
}

/* The next chunk, or the end. */
static enum td_code next_chunk(struct td_rpc *r, struct td_err *err)
{
    struct download *d = r->state;
    if (d == NULL || d->at == d->bytes) {
        r->done = true;
        return TD_OK;
    }
    const int64_t left = d->bytes - d->at;
    const size_t n = left < (int64_t)CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    char *to;
    TD_TRY(td_put_head(&r->reply, 1, n, err));
    TD_TRY(td_sink_grow(&r->reply, n, &to, err));
    for (size_t got = 0; got < n;) {
        const ssize_t k = pread(d->fd, to + got, n - got, d->at + (int64_t)got);
        TD_FAIL_IF(k == 0 || (k < 0 && errno != EINTR), err, DATA_LOSS, "reading a file at byte %lld: %s",
                   (long long)d->at, k < 0 ? strerror(errno) : "it has become shorter");
        got += k > 0 ? (size_t)k : 0;
    }
    d->at += (int64_t)n;
    r->has_reply = r->again = true;
    return TD_OK;
}

enum td_code td_rpc_finetune_download(struct td_rpc *r, struct td_err *err)
{
    struct download *d = r->state;
    if (r->event == TD_RPC_GONE) {
        if (d != NULL) {
            atomic_fetch_sub(&n_downloads, 1);
            (void)(d->fd >= 0 ? close(d->fd) : 0);
            td_free(d);
        }
        return TD_OK;
    }
    return r->event == TD_RPC_MESSAGE ? td_rpc_with_arena(r, begin_download, err) : next_chunk(r, err);
}

/* ------------------------------------------------------------------ watching */

struct watch {
    struct td_follower *follower;
    json_t *events; /* fetched and not sent: from i_event on */
    size_t i_event;
    bool ended;
    atomic_bool woken;
};

static void wake(void *ctx)
{
    struct watch *w = ctx;
    atomic_store(&w->woken, true);
}

static enum td_code begin_watch(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_fault f = {0};
    const struct td_job_judge judge = td_finetune_judge(r);
    TD_FAIL_IF(r->state != NULL, err, INVALID_ARGUMENT, "WatchEvents takes one request");
    struct watch *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_no_memory(err, sizeof *w, "a watch");
    }
    r->state = w;
    TD_TRY(enter(&n_watches, r, err));
    TD_TRY(td_rpc_check_local(r, err));
    TD_TRY(td_finetune_read(r->in, a, &ask, err));
    enum td_code rc = td_job_access(r->opts->jobs, ask.text[1], &judge, &f);
    const char *after = *ask.text[2] != '\0' ? ask.text[2] : NULL;
    rc = rc ? rc : td_follow_open(r->opts->jobs, ask.text[1], after, &w->follower, &f);
    TD_TRY(td_finetune_fault(r, rc, &f, err));
    td_follow_wake(w->follower, wake, w);
    atomic_store(&w->woken, true);
    r->ticks = true;
    return TD_OK;
}

/* More events, when there may be some. */
static enum td_code fetch(struct td_rpc *r, struct watch *w, struct td_err *err)
{
    struct td_fault f = {0};
    if (!atomic_exchange(&w->woken, false)) {
        return TD_OK;
    }
    json_decref(w->events);
    w->events = NULL;
    w->i_event = 0;
    TD_TRY(td_finetune_fault(r, td_follow_next(w->follower, EVENTS_AT_ONCE, &w->events, &w->ended, &f), &f,
                             err));
    atomic_store(&w->woken, json_array_size(w->events) > 0 || atomic_load(&w->woken));
    return TD_OK;
}

static enum td_code next_event(struct td_rpc *r, struct td_err *err)
{
    struct watch *w = r->state;
    if (w == NULL) {
        return TD_OK;
    }
    if (w->i_event == json_array_size(w->events) && !w->ended) {
        TD_TRY(fetch(r, w, err));
    }
    if (w->i_event == json_array_size(w->events)) {
        r->done = w->ended;
        return TD_OK;
    }
    r->has_reply = r->again = true;
    return td_finetune_reply(r, &tensord__v1__event__descriptor,
                             json_incref(json_array_get(w->events, w->i_event++)), err);
}

enum td_code td_rpc_finetune_watch(struct td_rpc *r, struct td_err *err)
{
    struct watch *w = r->state;
    if (r->event == TD_RPC_GONE) {
        if (w != NULL) {
            if (w->follower != NULL) {
                td_follow_close(w->follower);
            }
            atomic_fetch_sub(&n_watches, 1);
            json_decref(w->events);
            td_free(w);
        }
        return TD_OK;
    }
    return r->event == TD_RPC_MESSAGE ? td_rpc_with_arena(r, begin_watch, err) : next_event(r, err);
}
