/* server/train/result_csv.c - rows collected in memory, appended when they are many or when it is flushed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/result_csv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/sink.h"

enum { WAIT_BYTES = 1 << 16 };

struct td_result_csv {
    char *path;
    int fd;
    int64_t bytes; /* in the file */
    const struct td_epoch_sums *names;
    struct td_sink waiting;
};

/* ------------------------------------------------------------------ cells */

static enum td_code put(struct td_result_csv *c, const char *text, struct td_err *err)
{
    return td_sink_put(&c->waiting, text, strlen(text), err);
}

/* The shortest text that reads back as v. */
static enum td_code put_number(struct td_result_csv *c, double v, struct td_err *err)
{
    char text[40] = "";
    double back = NAN;
    for (int digits = 6; isfinite(v) && digits <= 17 && !(back == v); digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        (void)sscanf(text, "%lf", &back);
    }
    return put(c, text, err);
}

/* A name in a header: quoted where it would break the line. */
static enum td_code put_name(struct td_result_csv *c, const char *side, const char *name, struct td_err *err)
{
    const bool quoted = strpbrk(name, ",\"\r\n") != NULL;
    TD_TRY(put(c, quoted ? ",\"" : ",", err));
    TD_TRY(put(c, side, err));
    for (const char *p = name; *p != 0; p++) {
        TD_TRY(*p == '"' ? put(c, "\"", err) : TD_OK);
        TD_TRY(td_sink_put(&c->waiting, p, 1, err));
    }
    return quoted ? put(c, "\"", err) : TD_OK;
}

static enum td_code put_header(struct td_result_csv *c, struct td_err *err)
{
    TD_TRY(put(c, "step,epoch,train_loss,learning_rate,valid_loss", err));
    for (int i = 1; i < td_epoch_sums_n(c->names); i++) {
        TD_TRY(put_name(c, "train_", td_epoch_sums_name(c->names, i), err));
        TD_TRY(put_name(c, "valid_", td_epoch_sums_name(c->names, i), err));
    }
    return put(c, "\n", err);
}

static enum td_code put_step(struct td_result_csv *c, const struct td_csv_step *s, struct td_err *err)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%" PRId64 ",%" PRId64 ",", s->step, s->epoch);
    TD_TRY(put(c, text, err));
    TD_TRY(put_number(c, s->loss, err));
    for (int i = 0; i < s->n_rates; i++) {
        TD_TRY(put(c, i == 0 ? "," : " ", err));
        TD_TRY(put_number(c, s->rates[i], err));
    }
    return s->n_rates == 0 ? put(c, ",", err) : TD_OK;
}

/* ------------------------------------------------------------------ the file */

static enum td_code failed(const struct td_result_csv *c, const char *what, struct td_err *err)
{
    return td_fail(err, errno == ENOSPC || errno == EDQUOT ? TD_RESOURCE_EXHAUSTED : TD_UNAVAILABLE,
                   "%s %s: %s", what, c->path, strerror(errno));
}

static enum td_code open_file(struct td_result_csv *c, int64_t at, struct td_err *err)
{
    struct stat st;
    c->fd = open(c->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (c->fd < 0 || fstat(c->fd, &st) != 0) {
        return failed(c, "Opening", err);
    }
    TD_FAIL_IF(at > (int64_t)st.st_size, err, DATA_LOSS, "%s has %lld bytes, and had %lld when it was synced",
               c->path, (long long)st.st_size, (long long)at);
    if (ftruncate(c->fd, (off_t)at) != 0) {
        return failed(c, "Cutting", err);
    }
    c->bytes = at;
    return at == 0 ? put_header(c, err) : TD_OK;
}

enum td_code td_result_csv_open(const char *path, const struct td_epoch_sums *names, int64_t at,
                                struct td_result_csv **out, struct td_err *err)
{
    struct td_result_csv *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return td_no_memory(err, sizeof *c, "a result file");
    }
    c->fd = -1;
    c->names = names;
    c->path = td_strdup(path);
    const enum td_code rc =
        c->path == NULL ? td_no_memory(err, strlen(path), "a path") : open_file(c, at, err);
    if (rc) {
        td_result_csv_close(c);
        return rc;
    }
    *out = c;
    return TD_OK;
}

static enum td_code write_waiting(struct td_result_csv *c, struct td_err *err)
{
    TD_TRY(td_file_put(c->fd, c->path, c->waiting.p, c->waiting.n, err));
    c->bytes += (int64_t)c->waiting.n;
    c->waiting.n = 0;
    return TD_OK;
}

enum td_code td_result_csv_flush(struct td_result_csv *c, int64_t *at, struct td_err *err)
{
    TD_TRY(write_waiting(c, err));
    if (fdatasync(c->fd) != 0) {
        return failed(c, "Writing", err);
    }
    *at = c->bytes;
    return TD_OK;
}

void td_result_csv_close(struct td_result_csv *c)
{
    if (c == NULL) {
        return;
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    td_sink_fini(&c->waiting);
    td_free(c->path);
    td_free(c);
}

/* ------------------------------------------------------------------ rows */

static enum td_code end_row(struct td_result_csv *c, struct td_err *err)
{
    TD_TRY(put(c, "\n", err));
    return c->waiting.n >= WAIT_BYTES ? write_waiting(c, err) : TD_OK;
}

enum td_code td_result_csv_step(struct td_result_csv *c, const struct td_csv_step *s, struct td_err *err)
{
    TD_TRY(put_step(c, s, err));
    TD_TRY(put(c, ",", err));
    for (int i = 1; i < td_epoch_sums_n(c->names); i++) {
        TD_TRY(put(c, ",,", err));
    }
    return end_row(c, err);
}

enum td_code td_result_csv_epoch(struct td_result_csv *c, const struct td_csv_step *s,
                                 const struct td_epoch_sums *train, const struct td_epoch_sums *valid,
                                 struct td_err *err)
{
    TD_TRY(put_step(c, s, err));
    TD_TRY(put(c, ",", err));
    TD_TRY(valid != NULL ? put_number(c, td_epoch_sums_value(valid, 0), err) : TD_OK);
    for (int i = 1; i < td_epoch_sums_n(c->names); i++) {
        TD_TRY(put(c, ",", err));
        TD_TRY(put_number(c, td_epoch_sums_value(train, i), err));
        TD_TRY(put(c, ",", err));
        TD_TRY(valid != NULL ? put_number(c, td_epoch_sums_value(valid, i), err) : TD_OK);
    }
    return end_row(c, err);
}
