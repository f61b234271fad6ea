/* server/base/trace_file.c - one JSON list, whole again after each trace.
 *
 *   [\n {...},\n{...} ... {...} \n]\n
 *                                ^ the next trace is written from here, with its own end, in one write
 *
 * A trace is made as text first, without the file, then put over the closing bracket. Since the number and
 * the size of the file are kept here, nothing is read back. Files are made anew, for their owner only, never
 * through a link. Data of a tensor is text up to a limit, beyond which it is left out and said to be
 * truncated. What counts against the limit of a gigabyte is all that the process wrote, over all files.
 *
 * `mu` guards the file and its numbers, and is held while a trace is made and written; the path is set before
 * requests.
 * Does not: decide what to trace (server/base/trace.c), delete files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "proto/bytes/file.h"
#include "proto/request/infer_pb.h"
#include "proto/bytes/sink.h"
#include "proto/json/json_write.h"

static pthread_mutex_t mu =
    PTHREAD_MUTEX_INITIALIZER; /* guards all below but path, which is set before requests */
static char path[TD_FILE_PATH];
static int fd = -1;
static int64_t size;   /* of the file that is open */
static int64_t total;  /* written, over all files */
static int64_t n_here; /* traces in it */
static int64_t number; /* of the next file, when there are several */
static uint64_t last_id;

static const char TAIL[] = "\n]\n";
#define TAIL_BYTES ((int64_t)sizeof TAIL - 1)

/* ------------------------------------------------------------------ text */

static enum td_code put(struct td_sink *s, const char *text, struct td_err *err)
{
    return td_sink_put(s, text, strlen(text), err);
}

static enum td_code put_text(struct td_sink *s, const char *text, struct td_err *err)
{
    return td_utf8(text, strlen(text)) ? td_json_put_string(s, text, strlen(text), err)
                                       : td_json_put_string(s, "?", 1, err);
}

static enum td_code put_key_int(struct td_sink *s, const char *key, int64_t v, struct td_err *err)
{
    char text[100];
    (void)snprintf(text, sizeof text, "%s%" PRId64, key, v);
    return put(s, text, err);
}

static enum td_code put_shape(struct td_sink *s, const struct td_shape *shape, struct td_err *err)
{
    TD_TRY(put(s, "\"", err));
    for (int i = 0; i < shape->rank; i++) {
        TD_TRY(put_key_int(s, i > 0 ? "," : "", shape->dim[i], err));
    }
    return put(s, "\"", err);
}

/* Leaves out the spaces behind the commas of numbers. */
static void close_up(struct td_sink *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i] != ' ') {
            s->p[n++] = s->p[i];
        }
    }
    s->n = n;
}

static enum td_code put_data(struct td_sink *s, const struct td_tensor *t, struct td_err *err)
{
    const int64_t n = td_tensor_count(t), shown = n < TD_TRACE_TENSOR_ELEMENTS ? n : TD_TRACE_TENSOR_ELEMENTS;
    struct td_sink text = {.limit = TD_TRACE_TENSOR_BYTES};
    struct td_err ignored = {0};
    const bool told = td_json_put_elems(&text, t, 0, shown, false, &ignored) == TD_OK;
    if (told && t->dtype != TD_STRING) {
        close_up(&text);
    }
    enum td_code rc = td_json_put_string(s, told && text.n > 0 ? text.p : "", told ? text.n : 0, err);
    rc = rc || (told && shown == n) ? rc : put(s, ",\"truncated\":true", err);
    td_sink_fini(&text);
    return rc;
}

static enum td_code put_tensors(struct td_sink *s, uint64_t id, const char *activity,
                                const struct td_named *list, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const char *dtype = td_v2_name(list[i].t.dtype);
        TD_TRY(put_key_int(s, ",\n{\"id\":", (int64_t)id, err));
        TD_TRY(put(s, ",\"activity\":", err));
        TD_TRY(put_text(s, activity, err));
        TD_TRY(put(s, ",\"tensor\":{\"name\":", err));
        TD_TRY(put_text(s, list[i].name, err));
        TD_TRY(put(s, ",\"data\":", err));
        TD_TRY(put_data(s, &list[i].t, err));
        TD_TRY(put(s, ",\"shape\":", err));
        TD_TRY(put_shape(s, &list[i].t.shape, err));
        TD_TRY(put(s, ",\"dtype\":", err));
        TD_TRY(put_text(s, dtype != NULL ? dtype : "INVALID", err));
        TD_TRY(put(s, "}}", err));
    }
    return TD_OK;
}

static enum td_code put_times(struct td_sink *s, uint64_t id, const struct td_trace_record *r,
                              struct td_err *err)
{
    const struct td_times *t = r->times;
    const int64_t start = r->start_ns + t->queue_ns, run = start + t->input_ns, ran = run + t->infer_ns;
    const struct {
        const char *name;
        int64_t ns;
    } rows[] = {{"REQUEST_START", r->start_ns}, {"QUEUE_START", r->start_ns},
                {"COMPUTE_START", start},       {"COMPUTE_INPUT_END", run},
                {"COMPUTE_OUTPUT_START", ran},  {"COMPUTE_END", ran + t->output_ns},
                {"REQUEST_END", r->end_ns}};
    TD_TRY(put_key_int(s, ",\n{\"id\":", (int64_t)id, err));
    TD_TRY(put(s, ",\"timestamps\":[", err));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TD_TRY(put(s, i > 0 ? ",{\"name\":" : "{\"name\":", err));
        TD_TRY(put_text(s, rows[i].name, err));
        TD_TRY(put_key_int(s, ",\"ns\":", rows[i].ns, err));
        TD_TRY(put(s, "}", err));
    }
    return put(s, "]}", err);
}

static enum td_code put_record(struct td_sink *s, uint64_t id, const struct td_trace_record *r,
                               struct td_err *err)
{
    TD_TRY(put_key_int(s, "{\"id\":", (int64_t)id, err));
    TD_TRY(put(s, ",\"model_name\":", err));
    TD_TRY(put_text(s, r->model, err));
    TD_TRY(put_key_int(s, ",\"model_version\":", r->version, err));
    TD_TRY(put(s, ",\"request_id\":", err));
    TD_TRY(put_text(s, r->request_id, err));
    TD_TRY(put(s, "}", err));
    TD_TRY(r->timestamps ? put_times(s, id, r, err) : TD_OK);
    TD_TRY(r->tensors ? put_tensors(s, id, "TENSOR_QUEUE_INPUT", r->in, r->n_in, err) : TD_OK);
    return r->tensors ? put_tensors(s, id, "TENSOR_BACKEND_OUTPUT", r->out, r->n_out, err) : TD_OK;
}

/* ------------------------------------------------------------------ files */

/* Caller holds mu. numbered: the next of several. */
static enum td_code open_next(bool numbered, struct td_err *err)
{
    char name[TD_FILE_PATH + 24];
    (void)snprintf(name, sizeof name, numbered ? "%s.%" PRId64 : "%s", path, number);
    if (fd >= 0) {
        close(fd);
    }
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    TD_FAIL_IF(fd < 0, err, UNAVAILABLE, "trace file %s: %s", name, strerror(errno));
    number += numbered;
    size = n_here = 0;
    return TD_OK;
}

/* Caller holds mu. */
static enum td_code append(const struct td_sink *s, struct td_err *err)
{
    const int64_t at = size > 0 ? size - TAIL_BYTES : 0;
    TD_FAIL_IF(lseek(fd, at, SEEK_SET) < 0, err, UNAVAILABLE, "trace file %s: %s", path, strerror(errno));
    TD_TRY(td_disk_take(td_disk_state(), s->n, path, err));
    TD_TRY(td_file_put(fd, path, s->p, s->n, err));
    size = at + (int64_t)s->n;
    total += (int64_t)s->n;
    n_here++;
    return TD_OK;
}

/* Through s, the caller's. Caller holds mu. */
static enum td_code append_record(struct td_sink *s, const struct td_trace_record *r, struct td_err *err)
{
    TD_TRY(put(s, size > 0 ? ",\n" : "[\n", err));
    TD_TRY(put_record(s, ++last_id, r, err));
    TD_TRY(put(s, TAIL, err));
    return append(s, err);
}

/* Caller holds mu. */
static enum td_code write_record(const struct td_trace_record *r, struct td_err *err)
{
    TD_FAIL_IF(total >= TD_TRACE_FILE_BYTES, err, RESOURCE_EXHAUSTED,
               "trace file %s: %" PRId64 " bytes are written, and no more will be", path, total);
    if (r->log_frequency > 0 && (number == 0 || n_here >= r->log_frequency)) {
        TD_TRY(open_next(true, err));
    }
    TD_FAIL_IF(fd < 0, err, UNAVAILABLE, "trace file %s is closed", path);
    struct td_sink s = {0};
    const enum td_code rc = append_record(&s, r, err);
    td_sink_fini(&s);
    return rc;
}

enum td_code td_trace_file_open(const char *where, struct td_err *err)
{
    TD_FAIL_IF(strlen(where) >= sizeof path, err, INVALID_ARGUMENT, "the path of --trace_file is too long");
    memcpy(path, where, strlen(where) + 1);
    pthread_mutex_lock(&mu);
    const enum td_code rc = *path != '\0' ? open_next(false, err) : TD_OK;
    pthread_mutex_unlock(&mu);
    return rc;
}

const char *td_trace_file_path(void)
{
    return path;
}

void td_trace_file_close(void)
{
    pthread_mutex_lock(&mu);
    if (fd >= 0) {
        close(fd);
    }
    fd = -1;
    pthread_mutex_unlock(&mu);
}

enum td_code td_trace_file_write(const struct td_trace_record *r, struct td_err *err)
{
    pthread_mutex_lock(&mu);
    const enum td_code rc = write_record(r, err);
    pthread_mutex_unlock(&mu);
    return rc;
}
