/* server/train_log.c - events appended to a file; of those that are there only keys and places are kept in
 * memory.
 *
 * A process that was killed may leave half a line: it is cut off. An event that is told again (the job went
 * on from progress that is older than the file) is found by its key and neither written nor shown.
 *
 * On a terminal steps are one line that is written over; else each is a line of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/sink.h"
#include "server/base/clock.h"

enum { WAIT_BYTES = 1 << 16, MOST_LINE = 1 << 20, SHOW_MS = 100 };

struct td_train_log {
    char path[TD_FILE_PATH];
    int fd;
    json_t *keys;   /* of what was told: key -> true */
    int64_t *begin; /* where each line begins, and where the last one ends */
    int n, cap;
    struct td_sink waiting;
    bool terminal, shown; /* shown: a line that can be written over is there */
    int64_t shown_ns, from_ns, from_rows, from_step;
    int64_t at[4];
    double loss;
};

/* ------------------------------------------------------------------ the file */

static enum td_code failed(const struct td_train_log *l, const char *what, struct td_err *err)
{
    return td_fail(err, errno == ENOSPC || errno == EDQUOT ? TD_RESOURCE_EXHAUSTED : TD_UNAVAILABLE,
                   "%s %s: %s", what, l->path, strerror(errno));
}

static enum td_code note_line(struct td_train_log *l, const char *key, int64_t bytes, struct td_err *err)
{
    if (l->n + 2 > l->cap) {
        const int cap = l->cap == 0 ? 256 : 2 * l->cap;
        int64_t *grown = td_realloc(l->begin, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return td_no_memory(err, (size_t)cap, "places of events");
        }
        l->begin = grown;
        l->cap = cap;
        l->begin[0] = l->n == 0 ? 0 : l->begin[0];
    }
    l->begin[l->n + 1] = l->begin[l->n] + bytes;
    l->n++;
    return json_object_set_new(l->keys, key, json_true()) != 0 ? td_no_memory(err, 1, "an event's key")
                                                               : TD_OK;
}

/* One line of an earlier process. False: it is not whole, and so the last. */
static enum td_code read_line(struct td_train_log *l, const char *line, size_t n, bool *whole,
                              struct td_err *err)
{
    json_t *o = json_loadb(line, n, 0, NULL);
    const char *key = json_string_value(json_object_get(o, "key"));
    *whole = key != NULL && json_is_object(json_object_get(o, "event"));
    const enum td_code rc = *whole ? note_line(l, key, (int64_t)n + 1, err) : TD_OK;
    json_decref(o);
    return rc;
}

static enum td_code read_lines(struct td_train_log *l, const char *text, size_t n, struct td_err *err)
{
    bool whole = true;
    for (size_t at = 0; whole && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        if (end == NULL) {
            return TD_OK;
        }
        const size_t len = (size_t)(end - text) - at;
        TD_TRY(read_line(l, text + at, len, &whole, err));
        at += len + 1;
    }
    return TD_OK;
}

static enum td_code open_file(struct td_train_log *l, bool goes_on, struct td_err *err)
{
    char *text = NULL;
    size_t n = 0;
    struct td_err none = {0};
    l->fd = open(l->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (l->fd < 0) {
        return failed(l, "Opening", err);
    }
    if (goes_on && td_file_read(l->path, (size_t)1 << 40, &text, &n, &none) == TD_OK) {
        const enum td_code rc = read_lines(l, text, n, err);
        td_free(text);
        TD_TRY(rc);
    }
    return ftruncate(l->fd, l->n == 0 ? 0 : (off_t)l->begin[l->n]) != 0 ? failed(l, "Cutting", err) : TD_OK;
}

enum td_code td_train_log_open(const char *work_dir, bool goes_on, struct td_train_log **out,
                               struct td_err *err)
{
    struct td_train_log *l = td_calloc(1, sizeof *l);
    if (l == NULL) {
        return td_no_memory(err, sizeof *l, "events");
    }
    const int n = snprintf(l->path, sizeof l->path, "%s/events.jsonl", work_dir);
    l->fd = -1;
    l->keys = json_object();
    l->terminal = isatty(STDOUT_FILENO) == 1 && !td_ranks_wanted(); /* mpirun makes one of its own */
    enum td_code rc = n < 0 || (size_t)n >= sizeof l->path
                          ? td_fail(err, TD_INVALID_ARGUMENT, "%s: the path is too long", work_dir)
                      : l->keys == NULL ? td_no_memory(err, 1, "events")
                                        : TD_OK;
    rc = rc ? rc : open_file(l, goes_on, err);
    if (rc) {
        td_train_log_close(l);
        return rc;
    }
    *out = l;
    return TD_OK;
}

static enum td_code write_waiting(struct td_train_log *l, struct td_err *err)
{
    TD_TRY(td_file_put(l->fd, l->path, l->waiting.p, l->waiting.n, err));
    l->waiting.n = 0;
    return TD_OK;
}

void td_train_log_close(struct td_train_log *l)
{
    struct td_err unsaid = {0}; /* what mattered was synced with progress, or is told again */
    if (l == NULL) {
        return;
    }
    if (l->shown) {
        (void)dprintf(STDOUT_FILENO, "\n");
    }
    if (l->fd >= 0 && write_waiting(l, &unsaid) == TD_OK) {
        (void)fdatasync(l->fd);
    }
    if (l->fd >= 0) {
        close(l->fd);
    }
    json_decref(l->keys);
    td_sink_fini(&l->waiting);
    td_free(l->begin);
    td_free(l);
}

/* ------------------------------------------------------------------ events */

static enum td_code append(struct td_train_log *l, const struct td_train_event *e, struct td_err *err)
{
    char id[40];
    (void)snprintf(id, sizeof id, "ftevent-%012d", l->n + 1);
    json_t *line = json_pack("{ss s{ss ss sI ss ss ss sO?}}", "key", e->key, "event", "id", id, "object",
                             "fine_tuning.job.event", "created_at", (json_int_t)time(NULL), "level", e->level,
                             "type", e->type, "message", e->message, "data", e->data);
    const size_t n = line != NULL ? json_dumpb(line, NULL, 0, JSON_COMPACT) : 0;
    char *to = NULL;
    enum td_code rc = n == 0 ? td_no_memory(err, 1, "an event") : td_sink_grow(&l->waiting, n + 1, &to, err);
    if (rc == TD_OK) {
        (void)json_dumpb(line, to, n, JSON_COMPACT);
        to[n] = '\n';
        rc = note_line(l, e->key, (int64_t)n + 1, err);
    }
    json_decref(line);
    return rc || l->waiting.n < WAIT_BYTES ? rc : write_waiting(l, err);
}

/* "1:02:03" */
static void write_time(double s, char *out, size_t room)
{
    const long long all = s < 1e9 ? (long long)(s + 0.5) : 0;
    if (all >= 3600) {
        (void)snprintf(out, room, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    } else {
        (void)snprintf(out, room, "%lld:%02lld", all / 60, all % 60);
    }
}

/* The line of a terminal: where it is, the loss, rows a second, the time that is left. */
static void show_line(struct td_train_log *l)
{
    const int64_t now = td_clock_ns();
    if (!l->terminal || l->at[1] == 0 || (l->shown && now - l->shown_ns < SHOW_MS * (int64_t)1000000)) {
        return;
    }
    const double s = 1e-9 * (double)(now - l->from_ns), steps = (double)(l->at[0] - l->from_step);
    char left[40] = "-";
    if (steps > 0 && s > 0.5) {
        write_time(s / steps * (double)(l->at[1] - l->at[0]), left, sizeof left);
    }
    (void)dprintf(STDOUT_FILENO, "\r\033[Kepoch %lld  step %lld/%lld  loss %.4g  %.4g rows/s  %s left",
                  (long long)l->at[2], (long long)l->at[0], (long long)l->at[1], l->loss,
                  s > 0 ? (double)(l->at[3] - l->from_rows) / s : 0, left);
    l->shown = true;
    l->shown_ns = now;
}

static void show_event(struct td_train_log *l, const struct td_train_event *e)
{
    if (l->terminal && e->key[0] == 's') { /* show_line has it */
        return;
    }
    (void)dprintf(STDOUT_FILENO, "%s%s%s%s\n", l->shown ? "\r\033[K" : "",
                  strcmp(e->level, "info") == 0 ? "" : e->level, strcmp(e->level, "info") == 0 ? "" : ": ",
                  e->message);
    l->shown = false;
}

static enum td_code tell_event(void *ctx, const struct td_train_event *e, struct td_err *err)
{
    struct td_train_log *l = ctx;
    if (json_object_get(l->keys, e->key) != NULL) {
        return TD_OK;
    }
    const json_t *loss = json_object_get(e->data, "train_loss");
    l->loss = loss != NULL ? json_number_value(loss) : l->loss;
    show_event(l, e);
    return append(l, e, err);
}

static enum td_code tell_state(void *ctx, enum td_train_state state, struct td_err *err)
{
    (void)ctx;
    (void)state;
    (void)err;
    return TD_OK;
}

static enum td_code tell_progress(void *ctx, const int64_t at[4], bool sync, struct td_err *err)
{
    struct td_train_log *l = ctx;
    if (l->from_ns == 0) { /* what an earlier process did is not this one's speed */
        l->from_ns = td_clock_ns();
        l->from_step = at[0];
        l->from_rows = at[3];
    }
    memcpy(l->at, at, sizeof l->at);
    show_line(l);
    if (sync) {
        TD_TRY(write_waiting(l, err));
        return fdatasync(l->fd) != 0 ? failed(l, "Writing", err) : TD_OK;
    }
    return TD_OK;
}

static enum td_code tell_checkpoint(void *ctx, int64_t step, json_t *metrics, struct td_err *err)
{
    char text[80];
    (void)metrics;
    (void)snprintf(text, sizeof text, "The result holds the weights after step %lld", (long long)step);
    return td_train_log_tell(ctx, "m:checkpoint", "info", text, err);
}

struct td_train_sink td_train_log_sink(struct td_train_log *l)
{
    return (struct td_train_sink){.ctx = l,
                                  .state = tell_state,
                                  .event = tell_event,
                                  .progress = tell_progress,
                                  .checkpoint = tell_checkpoint};
}

enum td_code td_train_log_tell(struct td_train_log *l, const char *key, const char *level,
                               const char *message, struct td_err *err)
{
    const struct td_train_event e = {.key = key, .level = level, .type = "message", .message = message};
    return tell_event(l, &e, err);
}

/* ------------------------------------------------------------------ the list */

/* Appends event i to out; id, where it is not NULL, gets its id. */
static enum td_code list_event(struct td_train_log *l, int i, struct td_sink *out, char *id,
                               struct td_err *err)
{
    const size_t n = (size_t)(l->begin[i + 1] - l->begin[i]);
    char *line = td_calloc(n + 1, 1), *to = NULL;
    if (line == NULL) {
        return td_no_memory(err, n, "an event");
    }
    json_t *o = pread(l->fd, line, n, (off_t)l->begin[i]) == (ssize_t)n ? json_loadb(line, n, 0, NULL) : NULL;
    json_t *event = json_object_get(o, "event");
    const size_t size = event != NULL ? json_dumpb(event, NULL, 0, JSON_COMPACT) : 0;
    enum td_code rc = size == 0 ? td_fail(err, TD_DATA_LOSS, "%s: line %d is no event", l->path, i + 1)
                                : td_sink_grow(out, size, &to, err);
    if (rc == TD_OK) {
        (void)json_dumpb(event, to, size, JSON_COMPACT);
        (void)snprintf(id, 64, "%s", json_string_value(json_object_get(event, "id")));
    }
    json_decref(o);
    td_free(line);
    return rc;
}

static enum td_code put_text(struct td_sink *out, const char *text, struct td_err *err)
{
    return td_sink_put(out, text, strlen(text), err);
}

static enum td_code write_list(struct td_train_log *l, int fd, const char *path, struct td_err *err)
{
    struct td_sink out = {0};
    char first[64] = "", last[64] = "", end[300];
    enum td_code rc = put_text(&out, "{\"object\":\"list\",\"data\":[", err);
    for (int i = l->n - 1; rc == TD_OK && i >= 0; i--) {
        rc = put_text(&out, i == l->n - 1 ? "\n" : ",\n", err);
        rc = rc ? rc : list_event(l, i, &out, i == l->n - 1 ? first : last, err);
        if (rc == TD_OK && out.n >= WAIT_BYTES) {
            rc = td_file_put(fd, path, out.p, out.n, err);
            out.n = 0;
        }
    }
    (void)snprintf(end, sizeof end, "\n],\"first_id\":\"%s\",\"last_id\":\"%s\",\"has_more\":false}\n", first,
                   l->n > 1 ? last : first);
    rc = rc ? rc : put_text(&out, end, err);
    rc = rc ? rc : td_file_put(fd, path, out.p, out.n, err);
    td_sink_fini(&out);
    return rc;
}

enum td_code td_train_log_list(struct td_train_log *l, const char *path, struct td_err *err)
{
    char aside[TD_FILE_PATH];
    int fd;
    TD_TRY(write_waiting(l, err));
    TD_TRY(td_file_temp_name(path, aside, err));
    TD_TRY(td_file_create(aside, &fd, err));
    enum td_code rc = write_list(l, fd, aside, err);
    close(fd);
    rc = rc ? rc : td_file_rename(aside, path, err);
    if (rc) {
        (void)unlink(aside);
    }
    return rc;
}
