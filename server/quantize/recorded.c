/* server/quantize/recorded.c - two formats of requests, read one at a time.
 *
 * A request lives in an arena of its own, which the next one replaces.
 * Does not: read rows of training files (server/train/rows.h), whose fields a job names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/quantize/recorded.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/tfrecord.h"
#include "proto/json/json_tensor.h"
#include "proto/request/classify_pb.h"
#include "proto/request/logged_pb.h"
#include "server/models/servable_run.h"

#define MOST_BYTES ((size_t)256 << 20)
#define ARENA_BYTES ((size_t)1 << 30)
#define MOST_LABELS ((size_t)1 << 20)
#define FIRST_LINE ((size_t)1 << 16)

struct td_recorded {
    char *path;
    struct td_servable *servable; /* borrowed */
    struct td_tfrecord *records;  /* or lines */
    FILE *lines;
    char *line;
    size_t line_room;
    int number; /* of the request at hand, from 1 */
    struct td_arena *arena;
    struct td_named *in; /* the arena's; their tensors are cleared with the request */
    int n_in;
    struct td_recorded_request request;
};

enum td_code td_recorded_open(const char *path, struct td_servable *s, struct td_recorded **out,
                              struct td_err *err)
{
    struct td_recorded *r = td_calloc(1, sizeof *r);
    if (r == NULL || (r->path = td_strdup(path)) == NULL) {
        td_recorded_close(r);
        return td_no_memory(err, 1, "recorded requests");
    }
    r->servable = s;
    const size_t n = strlen(path);
    enum td_code rc = TD_OK;
    if (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) {
        r->lines = fopen(path, "re");
        if (r->lines == NULL) {
            rc = td_fail(err, errno == ENOENT ? TD_NOT_FOUND : TD_PERMISSION_DENIED, "%s: %s", path,
                         strerror(errno));
        }
    } else {
        rc = td_tfrecord_open(path, MOST_BYTES, &r->records, err);
    }
    if (rc) {
        td_recorded_close(r);
        return rc;
    }
    *out = r;
    return TD_OK;
}

static void drop_request(struct td_recorded *r)
{
    for (int i = 0; i < r->n_in; i++) {
        td_tensor_clear(&r->in[i].t);
    }
    r->n_in = 0;
    td_arena_free(r->arena);
    r->arena = NULL;
}

void td_recorded_close(struct td_recorded *r)
{
    if (r == NULL) {
        return;
    }
    drop_request(r);
    td_tfrecord_close(r->records);
    if (r->lines != NULL) {
        (void)fclose(r->lines);
    }
    td_free(r->line);
    td_free(r->path);
    td_free(r);
}

static enum td_code make_room(struct td_recorded *r, int n, struct td_err *err)
{
    r->in = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *r->in);
    if (r->in == NULL) {
        return td_no_memory(err, (size_t)n, "a request");
    }
    memset(r->in, 0, ((size_t)n + 1) * sizeof *r->in);
    return TD_OK;
}

static enum td_code signature_called(const struct td_recorded *r, const char *key,
                                     const struct td_signature **out, struct td_err *err)
{
    *out = td_servable_signature(r->servable, key);
    TD_FAIL_IF(*out == NULL, err, INVALID_ARGUMENT, "the model has no signature '%.200s'",
               key[0] == 0 ? "serving_default" : key);
    return TD_OK;
}

/* ------------------------------------------------------------------ PredictionLog */

static enum td_code read_predict(struct td_recorded *r, struct td_wire message, struct td_err *err)
{
    struct td_predict_pb p;
    TD_TRY(td_predict_read(message, r->arena, &p, err));
    r->request.signature = p.spec.signature;
    TD_TRY(make_room(r, p.n_in, err));
    for (int i = 0; i < p.n_in; i++) {
        r->in[i].name = p.in[i].name;
        if (td_wire_tensor(p.in[i].tensor, MOST_BYTES, &r->in[i].t, err)) {
            return td_err_wrap(err, "input '%.200s'", p.in[i].name);
        }
        r->n_in = i + 1;
    }
    return TD_OK;
}

/* Of Classify and Regress, whose signatures take serialized examples. */
static enum td_code read_examples(struct td_recorded *r, struct td_wire message, struct td_err *err)
{
    struct td_examples_pb p;
    const struct td_signature *sig;
    TD_TRY(td_examples_read(message, r->arena, &p, err));
    TD_TRY(signature_called(r, p.spec.signature, &sig, err));
    TD_FAIL_IF(sig->n_in != 1, err, INVALID_ARGUMENT, "signature '%.200s' has %d inputs: examples want one",
               sig->key, sig->n_in);
    r->request.signature = sig->key;
    TD_TRY(make_room(r, 1, err));
    r->in[0].name = sig->in[0].key;
    TD_TRY(td_input_read(p.input, MOST_BYTES, &r->in[0].t, err));
    r->n_in = 1;
    return TD_OK;
}

static enum td_code read_record(struct td_recorded *r, const void *bytes, size_t n, struct td_err *err)
{
    const struct td_seg seg = {bytes, n};
    struct td_wire record;
    struct td_logged log;
    td_wire_init(&record, &seg, 1);
    TD_TRY(td_logged_read(record, &log, err));
    TD_FAIL_IF(
        log.kind != TD_LOGGED_PREDICT && log.kind != TD_LOGGED_CLASSIFY && log.kind != TD_LOGGED_REGRESS, err,
        UNIMPLEMENTED, "a log of kind %d; requests of Predict, Classify and Regress are read", (int)log.kind);
    return log.kind == TD_LOGGED_PREDICT ? read_predict(r, log.request, err)
                                         : read_examples(r, log.request, err);
}

/* ------------------------------------------------------------------ lines */

static enum td_code read_labels(struct td_recorded *r, struct td_json j, struct td_err *err)
{
    const size_t most = (size_t)(j.end - j.at) / 2 + 1; /* a digit and a comma each */
    int64_t *label = td_arena_alloc(r->arena, most < MOST_LABELS ? most : MOST_LABELS, sizeof *label);
    if (label == NULL) {
        return td_no_memory(err, most, "labels");
    }
    TD_FAIL_IF(!td_json_eat(&j, '['), err, INVALID_ARGUMENT, "\"labels\" is no list");
    for (size_t n = 0; !td_json_eat(&j, ']'); n++) {
        struct td_json_num v;
        const bool comma = n == 0 || td_json_eat(&j, ',');
        TD_FAIL_IF(!comma || n >= MOST_LABELS || !td_json_at_number(&j), err, INVALID_ARGUMENT,
                   "\"labels\" is no list of at most %zu whole numbers", MOST_LABELS);
        TD_TRY(td_json_number(&j, &v, err));
        TD_FAIL_IF(v.kind != TD_JSON_INT, err, INVALID_ARGUMENT, "label %zu is no whole number", n);
        label[n] = v.i;
        r->request.n_labels = (int)n + 1;
    }
    r->request.label = label;
    return TD_OK;
}

static enum td_code read_line(struct td_recorded *r, const char *text, size_t n, struct td_err *err)
{
    struct td_json_body body;
    struct td_json labels;
    const struct td_signature *sig;
    TD_TRY(td_json_body(text, n, r->arena, &body, err));
    TD_TRY(signature_called(r, body.signature, &sig, err));
    r->request.signature = sig->key;
    struct td_json_field *fields = td_arena_alloc(r->arena, (size_t)sig->n_in + 1, sizeof *fields);
    if (fields == NULL) {
        return td_no_memory(err, (size_t)sig->n_in, "a request");
    }
    for (int i = 0; i < sig->n_in; i++) {
        fields[i] = (struct td_json_field){.name = sig->in[i].key,
                                           .dtype = td_servable_fed_dtype(r->servable, sig, i),
                                           .optional = sig->defaults[i].dtype != TD_DTYPE_NONE};
    }
    TD_TRY(make_room(r, sig->n_in, err));
    TD_TRY(td_json_inputs(&body, fields, sig->n_in, r->in, &r->n_in, err));
    return td_json_body_find(&body, "labels", &labels) ? read_labels(r, labels, err) : TD_OK;
}

/* ------------------------------------------------------------------ the next one */

/* r->line: *n bytes up to the next newline, and a NUL; 0: there are no more. */
static enum td_code next_text(struct td_recorded *r, size_t *n, struct td_err *err)
{
    for (*n = 0; *n == 0 || r->line[*n - 1] != '\n'; *n += strlen(r->line + *n)) {
        if (*n + 2 > r->line_room) {
            TD_FAIL_IF(r->line_room >= MOST_BYTES, err, RESOURCE_EXHAUSTED, "more than %zu bytes",
                       MOST_BYTES);
            const size_t room = r->line_room == 0 ? FIRST_LINE : 2 * r->line_room;
            char *more = td_realloc(r->line, room, 1);
            if (more == NULL) {
                return td_no_memory(err, room, "a request");
            }
            r->line = more;
            r->line_room = room;
        }
        if (fgets(r->line + *n, (int)(r->line_room - *n), r->lines) == NULL) {
            TD_FAIL_IF(ferror(r->lines), err, DATA_LOSS, "it cannot be read on");
            return TD_OK;
        }
        TD_FAIL_IF(r->line[*n] == 0, err, INVALID_ARGUMENT, "a NUL in a line");
    }
    return TD_OK;
}

static enum td_code next_line(struct td_recorded *r, bool *more, struct td_err *err)
{
    size_t n;
    do {
        TD_TRY(next_text(r, &n, err));
        r->number += n > 0;
    } while (n > 0 && r->line[strspn(r->line, " \t\r\n")] == 0);
    *more = n > 0;
    return *more ? read_line(r, r->line, n, err) : TD_OK;
}

static enum td_code next_record(struct td_recorded *r, bool *more, struct td_err *err)
{
    const void *bytes;
    size_t n;
    TD_TRY(td_tfrecord_next(r->records, &bytes, &n, err));
    *more = bytes != NULL;
    r->number++;
    return *more ? read_record(r, bytes, n, err) : TD_OK;
}

enum td_code td_recorded_next(struct td_recorded *r, const struct td_recorded_request **out,
                              struct td_err *err)
{
    bool more = false;
    drop_request(r);
    r->request = (struct td_recorded_request){.signature = ""};
    r->arena = td_arena_new(ARENA_BYTES);
    if (r->arena == NULL) {
        return td_no_memory(err, 1, "a request");
    }
    const enum td_code rc = r->lines != NULL ? next_line(r, &more, err) : next_record(r, &more, err);
    if (rc) {
        return td_err_wrap(err, "%s: request %d", r->path, r->number);
    }
    r->request.in = r->in;
    r->request.n_in = r->n_in;
    *out = more ? &r->request : NULL;
    return TD_OK;
}

/* ------------------------------------------------------------------ answers */

enum td_code td_recorded_run(struct td_servable *s, const struct td_recorded_request *q,
                             const struct td_run_opts *opts, struct td_recorded_answer *out,
                             struct td_err *err)
{
    const struct td_servable_call call = {
        .sig = td_servable_signature(s, q->signature), .in = q->in, .n_in = q->n_in, .run = opts};
    *out = (struct td_recorded_answer){0};
    TD_FAIL_IF(call.sig == NULL, err, INVALID_ARGUMENT, "the model has no signature '%.200s'", q->signature);
    out->out = td_calloc((size_t)call.sig->n_out + 1, sizeof *out->out);
    return out->out == NULL ? td_no_memory(err, 1, "outputs")
                            : td_servable_run(s, &call, out->out, &out->n, err);
}

void td_recorded_answer_drop(struct td_recorded_answer *a)
{
    for (int i = 0; i < a->n; i++) {
        td_tensor_clear(&a->out[i].t);
    }
    td_free(a->out);
    *a = (struct td_recorded_answer){0};
}
