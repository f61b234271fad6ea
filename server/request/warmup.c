/* server/request/warmup.c - recorded requests, taken along the path of a client's request, from the decoding
 * of their bytes to their outputs.
 *
 * Runs on the loader thread that has just loaded the version and waits for each request there. A request is
 * opened with its servable already found, since nobody can ask the registry for it yet, and with stop word
 * and deadline of the load. It takes no worker, so that one without an end keeps nobody from running. One
 * record is in memory at a time; each is decoded anew for every iteration, so that decoding is warm too.
 * The statistics of the version are wiped afterwards.
 *
 * Does not: read the samples of a config.pbtxt (server/models/model_warmup.c), compare outputs with
 * recorded ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/warmup.h"

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/tfrecord.h"
#include "proto/request/logged_pb.h"
#include "server/request/classify.h"
#include "server/base/clock.h"
#include "server/request/predict.h"

#define MAX_RECORDS 1000
#define MAX_RECORD_BYTES ((size_t)1 << 30)

/* One replay on its way. */
struct warmup {
    struct td_registry *reg;
    struct td_servable *servable;
};

static enum td_code new_request(const struct warmup *w, struct td_request *q, struct td_err *err)
{
    td_request_init(q);
    TD_TRY(td_request_open(q, err));
    q->servable = td_servable_ref(w->servable);
    q->model = td_servable_name(w->servable);
    q->version = td_servable_version(w->servable);
    const struct td_work *load = td_work_now();
    if (load != NULL) {
        q->run.work.stop = load->stop;
        q->run.work.deadline_ns = load->deadline_ns;
    }
    q->apart = true;
    return TD_OK;
}

/* ------------------------------------------------------------------ one record */

typedef enum td_code replay_fn(const struct warmup *w, struct td_request *q, struct td_wire message,
                               struct td_err *err);

static enum td_code replay_predict(const struct warmup *w, struct td_request *q, struct td_wire message,
                                   struct td_err *err)
{
    struct td_predict_pb p;
    TD_TRY(td_predict_read(message, q->arena, &p, err));
    q->signature = p.spec.signature;
    TD_TRY(td_request_resolve(q, w->reg, err));
    TD_TRY(td_predict_inputs(q, w->reg, &p, MAX_RECORD_BYTES, err));
    return td_request_run(q, w->reg, err);
}

static enum td_code replay_task(const struct warmup *w, struct td_request *q, enum td_task task,
                                struct td_wire input, struct td_err *err)
{
    struct td_tensor examples = {0};
    struct td_scores scores;
    TD_TRY(td_input_read(input, MAX_RECORD_BYTES, &examples, err));
    return td_classify_run(q, w->reg, task, &examples, &scores, err);
}

static enum td_code replay_examples(const struct warmup *w, struct td_request *q, enum td_task task,
                                    struct td_wire message, struct td_err *err)
{
    struct td_examples_pb p;
    TD_TRY(td_examples_read(message, q->arena, &p, err));
    q->signature = p.spec.signature;
    return replay_task(w, q, task, p.input, err);
}

static enum td_code replay_classify(const struct warmup *w, struct td_request *q, struct td_wire message,
                                    struct td_err *err)
{
    return replay_examples(w, q, TD_TASK_CLASSIFY, message, err);
}

static enum td_code replay_regress(const struct warmup *w, struct td_request *q, struct td_wire message,
                                   struct td_err *err)
{
    return replay_examples(w, q, TD_TASK_REGRESS, message, err);
}

static enum td_code replay_multi(const struct warmup *w, struct td_request *q, struct td_wire message,
                                 struct td_err *err)
{
    struct td_multi_pb p;
    TD_TRY(td_multi_read(message, q->arena, &p, err));
    TD_TRY(td_classify_check_tasks(&p, err));
    for (int i = 0; i < p.n_task; i++) {
        td_request_again(q);
        q->signature = p.task[i].spec.signature;
        TD_TRY(replay_task(w, q, td_classify_task(&p.task[i]), p.input, err));
    }
    return TD_OK;
}

static replay_fn *replay_of(enum td_logged_kind log)
{
    return log == TD_LOGGED_PREDICT           ? replay_predict
           : log == TD_LOGGED_CLASSIFY        ? replay_classify
           : log == TD_LOGGED_REGRESS         ? replay_regress
           : log == TD_LOGGED_MULTI_INFERENCE ? replay_multi
                                              : NULL;
}

static enum td_code replay(const struct warmup *w, struct td_wire record, struct td_err *err)
{
    struct td_logged log;
    TD_TRY(td_logged_read(record, &log, err));
    replay_fn *const fn = replay_of(log.kind);
    TD_FAIL_IF(fn == NULL && log.kind != TD_LOGGED_NOTHING, err, UNIMPLEMENTED,
               "Unsupported log_type for warmup: %d", (int)log.kind);
    if (fn == NULL) {
        return TD_OK;
    }
    struct td_request q = {0};
    TD_TRY(new_request(w, &q, err));
    const enum td_code rc = fn(w, &q, log.request, err);
    td_request_fini(&q);
    return rc;
}

/* ------------------------------------------------------------------ the file */

static enum td_code replay_file(const struct warmup *w, struct td_tfrecord *file, const char *path,
                                int *n_read, struct td_err *err)
{
    const int wanted = td_registry_options(w->reg)->warmup_iterations, times = wanted > 1 ? wanted : 1;
    for (*n_read = 0;; ++*n_read) {
        const void *bytes;
        size_t n;
        if (td_tfrecord_next(file, &bytes, &n, err)) {
            return td_err_wrap(err, "warm-up file %s: Please verify your warmup data is in TFRecord format.",
                               path);
        }
        if (bytes == NULL) {
            return TD_OK;
        }
        TD_FAIL_IF(*n_read >= MAX_RECORDS, err, INVALID_ARGUMENT,
                   "Number of warmup records exceeds the maximum (%d) at %s", MAX_RECORDS, path);
        const struct td_seg seg = {bytes, n};
        for (int i = 0; i < times; i++) {
            struct td_wire record;
            td_wire_init(&record, &seg, 1);
            if (replay(w, record, err)) {
                return td_err_wrap(err, "warm-up file %s, record %d", path, *n_read + 1);
            }
        }
    }
}

enum td_code td_warmup_run(struct td_registry *reg, struct td_servable *s, struct td_err *err)
{
    static const char name[] = "/assets.extra/tf_serving_warmup_requests";
    const size_t room = strlen(td_servable_dir(s)) + sizeof name;
    char *path = td_calloc(room, 1);
    if (path == NULL) {
        return td_no_memory(err, room, "a path");
    }
    (void)snprintf(path, room, "%s%s", td_servable_dir(s), name);
    struct td_tfrecord *file = NULL;
    enum td_code rc = td_tfrecord_open_beneath(td_servable_dir(s), path, MAX_RECORD_BYTES, &file, err);
    if (rc == TD_NOT_FOUND) {
        rc = TD_OK;
    } else if (rc == TD_OK) {
        const struct warmup w = {reg, s};
        int n = 0;
        const int64_t from_ns = td_clock_ns();
        rc = replay_file(&w, file, path, &n, err);
        td_metrics_warmed(td_servable_dir(s), rc, td_clock_us_since(from_ns), n);
        memset(td_servable_stats(s), 0, sizeof(struct td_stats)); /* nobody else has seen s yet */
        if (rc == TD_OK) {
            td_log(TD_LOG_INFO,
                   &(struct td_log_about){.model = td_servable_name(s), .version = td_servable_version(s)},
                   "Finished reading warmup data for model at %s. Number of warmup records read: %d", path,
                   n);
        }
    }
    td_tfrecord_close(file);
    td_free(path);
    return rc;
}
