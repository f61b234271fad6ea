/* server/train/tensorboard.c - event files: TFRecords of tensorflow.Event messages.
 *
 *   Event{1 wall_time, 2 step, 3 file_version, 5 summary}      the first one says "brain.Event:2"
 *
 * Records are collected in memory and appended when they are many or old; a flush also syncs. A file that is
 * gone on with is found by its name's beginning: a job's directory holds one a side.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/bytes/tfrecord.h"
#include "proto/pb/summary_pb.h"
#include "proto/pb/wire.h"
#include "server/base/clock.h"

#define FILE_BEGINS "events.out.tfevents."
#define WAIT_NS (2 * (int64_t)1000000000)
enum { WAIT_BYTES = 1 << 16 };

struct side {
    char dir[TD_FILE_PATH];
    int fd;        /* -1: not opened yet */
    int64_t bytes; /* in the file */
    int64_t at;    /* that stay, of a file that is gone on with */
    struct td_sink waiting;
    int64_t since_ns; /* when the first of them came */
};

struct td_tensorboard {
    struct side side[TD_BOARD_SIDES];
    struct td_sink event, summary; /* scratch */
};

/* ------------------------------------------------------------------ files */

static enum td_code full_or(struct td_err *err, const char *what, const char *path)
{
    return td_fail(err, errno == ENOSPC || errno == EDQUOT ? TD_RESOURCE_EXHAUSTED : TD_UNAVAILABLE,
                   "%s %s: %s", what, path, strerror(errno));
}

/* The file of an earlier run, into path; false: there is none. */
static bool find_file(const struct side *s, char path[TD_FILE_PATH])
{
    bool found = false;
    DIR *all = opendir(s->dir);
    for (const struct dirent *e = all != NULL ? readdir(all) : NULL; e != NULL && !found; e = readdir(all)) {
        if (strncmp(e->d_name, FILE_BEGINS, sizeof FILE_BEGINS - 1) == 0) {
            const int n = snprintf(path, TD_FILE_PATH, "%s/%s", s->dir, e->d_name);
            found = n > 0 && n < TD_FILE_PATH;
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return found;
}

static enum td_code name_file(const struct side *s, char path[TD_FILE_PATH], struct td_err *err)
{
    char host[80] = "localhost";
    (void)gethostname(host, sizeof host - 1);
    const int n =
        snprintf(path, TD_FILE_PATH, "%s/" FILE_BEGINS "%010lld.%s.v2", s->dir, (long long)time(NULL), host);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s: the path is too long", s->dir);
    return TD_OK;
}

static enum td_code put_event(struct td_tensorboard *b, struct side *s, int64_t step, const char *version,
                              struct td_err *err)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    b->event.n = 0;
    TD_TRY(td_put_double(&b->event, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec, err));
    TD_TRY(step != 0 ? td_put_int(&b->event, 2, step, err) : TD_OK);
    TD_TRY(version != NULL ? td_put_text(&b->event, 3, version, err)
                           : td_put_bytes(&b->event, 5, b->summary.p, b->summary.n, err));
    if (s->waiting.n == 0) {
        s->since_ns = td_clock_ns();
    }
    return td_tfrecord_put(&s->waiting, b->event.p, b->event.n, err);
}

/* Goes on with the file of an earlier run up to s->at bytes, or begins one. */
static enum td_code open_side(struct td_tensorboard *b, struct side *s, struct td_err *err)
{
    char path[TD_FILE_PATH];
    struct stat st;
    TD_TRY(td_tree_make(s->dir, 0755, err));
    const bool found = find_file(s, path);
    TD_TRY(found ? TD_OK : name_file(s, path, err));
    s->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (s->fd < 0 || fstat(s->fd, &st) != 0) {
        return full_or(err, "Opening", path);
    }
    /* what was flushed is there; a file that is shorter all the same (it was tampered with) begins anew */
    s->bytes = s->at <= (int64_t)st.st_size ? s->at : 0;
    if (ftruncate(s->fd, (off_t)s->bytes) != 0) {
        return full_or(err, "Cutting", path);
    }
    td_file_sync_directory(path);
    return s->bytes == 0 ? put_event(b, s, 0, "brain.Event:2", err) : TD_OK;
}

static enum td_code write_waiting(struct side *s, struct td_err *err)
{
    if (s->waiting.n == 0) {
        return TD_OK;
    }
    TD_TRY(td_file_put(s->fd, s->dir, s->waiting.p, s->waiting.n, err));
    s->bytes += (int64_t)s->waiting.n;
    s->waiting.n = 0;
    return TD_OK;
}

/* The scratch summary becomes an event. */
static enum td_code put_summary(struct td_tensorboard *b, enum td_board_side side, int64_t step,
                                struct td_err *err)
{
    struct side *s = &b->side[side];
    TD_TRY(s->fd < 0 ? open_side(b, s, err) : TD_OK);
    TD_TRY(put_event(b, s, step, NULL, err));
    const bool now = s->waiting.n >= WAIT_BYTES || td_clock_ns() - s->since_ns >= WAIT_NS;
    return now ? write_waiting(s, err) : TD_OK;
}

/* ------------------------------------------------------------------ its life */

enum td_code td_tensorboard_open(const char *dir, const int64_t at[TD_BOARD_SIDES],
                                 struct td_tensorboard **out, struct td_err *err)
{
    static const char *const names[] = {[TD_BOARD_TRAIN] = "train", [TD_BOARD_VALIDATION] = "validation"};
    struct td_tensorboard *b = td_calloc(1, sizeof *b);
    if (b == NULL) {
        return td_no_memory(err, sizeof *b, "TensorBoard files");
    }
    for (int i = 0; i < TD_BOARD_SIDES; i++) {
        struct side *s = &b->side[i];
        const int n = snprintf(s->dir, sizeof s->dir, "%s/%s", dir, names[i]);
        s->fd = -1;
        s->at = at != NULL ? at[i] : 0;
        enum td_code rc = n < 0 || (size_t)n >= sizeof s->dir
                              ? td_fail(err, TD_INVALID_ARGUMENT, "%s: the path is too long", dir)
                              : TD_OK;
        char path[TD_FILE_PATH];
        rc = rc || !find_file(s, path) ? rc : open_side(b, s, err); /* cut now, not when it is written to */
        if (rc) {
            td_tensorboard_close(b);
            return rc;
        }
    }
    *out = b;
    return TD_OK;
}

enum td_code td_tensorboard_flush(struct td_tensorboard *b, int64_t at[TD_BOARD_SIDES], struct td_err *err)
{
    for (int i = 0; i < TD_BOARD_SIDES; i++) {
        struct side *s = &b->side[i];
        const bool any = s->waiting.n > 0 || s->bytes > s->at;
        TD_TRY(write_waiting(s, err));
        if (any && fdatasync(s->fd) != 0) {
            return full_or(err, "Writing", s->dir);
        }
        at[i] = s->at = s->bytes;
    }
    return TD_OK;
}

void td_tensorboard_close(struct td_tensorboard *b)
{
    struct td_err err = {0};
    if (b == NULL) {
        return;
    }
    for (int i = 0; i < TD_BOARD_SIDES; i++) {
        if (write_waiting(&b->side[i], &err)) {
            td_log(TD_LOG_WARNING, NULL, "TensorBoard files end early: %s", err.msg);
        }
        if (b->side[i].fd >= 0) {
            close(b->side[i].fd);
        }
        td_sink_fini(&b->side[i].waiting);
    }
    td_sink_fini(&b->event);
    td_sink_fini(&b->summary);
    td_free(b);
}

/* ------------------------------------------------------------------ what is told */

enum td_code td_tensorboard_scalar(struct td_tensorboard *b, enum td_board_side side, int64_t step,
                                   const char *tag, double v, struct td_err *err)
{
    b->summary.n = 0;
    TD_TRY(td_summary_scalar(&b->summary, tag, strlen(tag), (float)v, err));
    return put_summary(b, side, step, err);
}

static double element(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return TD_DATA(t, float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, double)[i];
    case TD_HALF:
        return td_half_to_float(TD_DATA(t, td_half)[i]);
    case TD_BFLOAT16:
        return td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
    default:
        return (double)td_tensor_int(t, i);
    }
}

enum td_code td_tensorboard_histogram(struct td_tensorboard *b, enum td_board_side side, int64_t step,
                                      const char *tag, const struct td_tensor *t, struct td_err *err)
{
    struct td_histogram *h = td_calloc(1, sizeof *h);
    if (h == NULL) {
        return td_no_memory(err, sizeof *h, "a histogram");
    }
    td_histogram_init(h);
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        const double v = element(t, i);
        if (isfinite(v)) {
            td_histogram_add(h, v);
        }
    }
    enum td_code rc = TD_OK;
    if (h->num > 0) {
        b->summary.n = 0;
        rc = td_summary_histogram(&b->summary, tag, strlen(tag), h, err);
        rc = rc ? rc : put_summary(b, side, step, err);
    }
    td_free(h);
    return rc;
}
