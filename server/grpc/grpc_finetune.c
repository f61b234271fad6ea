/* server/grpc/grpc_finetune.c - tensord.v1.FineTuning: the methods with one request and one answer.
 *
 * They are the HTTP API's (server/http/rest_jobs.c, server/http/rest_files.c) with messages in place of
 * documents: answers are written along their descriptors (server/grpc/grpc_document.h), requests are read as
 * texts and numbers by field. A job is asked for by typed fields, which are made the body that server/jobs
 * reads, or by that body itself. A fault keeps its sentence as the status's text; code and param go into the
 * trailing metadata.
 *
 * Does not: stream (server/grpc/grpc_finetune_stream.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_finetune.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/pb/guard.h"
#include "proto/schema/tensord.pb-c.h"
#include "server/base/rest_json.h"

td_rpc_fn td_rpc_finetune_get_file, td_rpc_finetune_list_files, td_rpc_finetune_delete_file,
    td_rpc_finetune_create_job, td_rpc_finetune_get_job, td_rpc_finetune_list_jobs,
    td_rpc_finetune_cancel_job, td_rpc_finetune_pause_job, td_rpc_finetune_resume_job,
    td_rpc_finetune_publish_job, td_rpc_finetune_list_events, td_rpc_finetune_list_checkpoints;

#define MOST_ROWS 10000
#define MAX_REQUEST ((uint64_t)16 << 20) /* of a job, unpacked */

/* ------------------------------------------------------------------ shared */

enum td_code td_finetune_read(struct td_wire in, struct td_arena *a, struct td_finetune_ask *out,
                              struct td_err *err)
{
    struct td_field f;
    *out = (struct td_finetune_ask){.number = {0}};
    for (int i = 0; i < TD_FINETUNE_FIELDS; i++) {
        out->text[i] = "";
    }
    do {
        TD_TRY(td_wire_next(&in, &f, err));
        if (f.number > 0 && f.number < TD_FINETUNE_FIELDS && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->text[f.number], err));
        } else if (f.number > 0 && f.number < TD_FINETUNE_FIELDS && f.type == TD_WIRE_VARINT) {
            out->number[f.number] = (int64_t)f.value;
        }
    } while (f.number != 0);
    return TD_OK;
}

enum td_code td_finetune_fault(struct td_rpc *r, enum td_code rc, const struct td_fault *f,
                               struct td_err *err)
{
    static const struct {
        const char *code;
        enum td_code status;
    } known[] = {{"not_found", TD_NOT_FOUND},
                 {"model_not_found", TD_NOT_FOUND},
                 {"file_not_found", TD_NOT_FOUND},
                 {"invalid_job_state", TD_FAILED_PRECONDITION},
                 {"file_in_use", TD_FAILED_PRECONDITION}};
    if (rc == TD_OK) {
        return TD_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        rc = strcmp(known[i].code, f->code) == 0 ? known[i].status : rc;
    }
    td_rpc_explain(r, f->code, f->param);
    return td_fail(err, rc, "%s", f->err.msg);
}

enum td_code td_finetune_ready(const struct td_rpc *r, struct td_err *err)
{
    TD_FAIL_IF(r->opts->jobs == NULL, err, UNAVAILABLE,
               "this server does no fine-tuning: it has no state directory (--state_dir)");
    return TD_OK;
}

static enum td_code admit(void *rpc, const char *model, struct td_err *err)
{
    return td_rpc_admit(rpc, TD_SCOPE_TRAIN, model, err);
}

struct td_job_judge td_finetune_judge(struct td_rpc *r)
{
    return (struct td_job_judge){r->opts->access != NULL ? admit : NULL, r};
}

enum td_code td_finetune_reply(struct td_rpc *r, const ProtobufCMessageDescriptor *d, json_t *doc,
                               struct td_err *err)
{
    r->reply.limit = INT32_MAX;
    const enum td_code rc = doc != NULL ? td_grpc_put_document(&r->reply, d, doc, err)
                                        : td_no_memory(err, sizeof(json_t), "an answer");
    json_decref(doc);
    return rc;
}

/* limit and after of a list, in fields from `first` on. */
static enum td_code read_page(struct td_rpc *r, const struct td_finetune_ask *ask, int first,
                              struct td_page *page, struct td_err *err)
{
    struct td_fault f = {0};
    const int64_t limit = ask->number[first];
    *page = (struct td_page){.limit = limit, .after = ask->text[first + 1]};
    page->after = *page->after != '\0' ? page->after : NULL;
    const enum td_code rc = limit < 0 || limit > MOST_ROWS
                                ? TD_FAULT(&f, "invalid_value", "limit",
                                           "limit is '%lld', want a number from 1 to 10000", (long long)limit)
                                : TD_OK;
    return td_finetune_fault(r, rc, &f, err);
}

/* ------------------------------------------------------------------ files */

typedef enum td_code one_fn(struct td_jobs *j, const char *owner, const char *id, json_t **out,
                            struct td_fault *f);

/* By the id in field 1. */
static enum td_code answer_one(struct td_rpc *r, struct td_arena *a, one_fn *get,
                               const ProtobufCMessageDescriptor *d, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_fault f = {0};
    json_t *doc = NULL;
    char owner[33];
    td_rpc_owner(r, owner);
    TD_TRY(td_finetune_ready(r, err));
    TD_TRY(td_finetune_read(r->in, a, &ask, err));
    TD_TRY(td_finetune_fault(r, get(r->opts->jobs, owner, ask.text[1], &doc, &f), &f, err));
    return td_finetune_reply(r, d, doc, err);
}

static enum td_code get_file(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    return answer_one(r, a, td_files_get, &tensord__v1__file__descriptor, err);
}

enum td_code td_rpc_finetune_get_file(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, get_file, err);
}

static enum td_code delete_file(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    return answer_one(r, a, td_files_delete, &tensord__v1__delete_file_response__descriptor, err);
}

enum td_code td_rpc_finetune_delete_file(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, delete_file, err);
}

static enum td_code list_files(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    char owner[33];
    td_rpc_owner(r, owner);
    TD_TRY(td_finetune_ready(r, err));
    TD_TRY(td_finetune_read(r->in, a, &ask, err));
    TD_TRY(read_page(r, &ask, 1, &page, err));
    page.purpose = *ask.text[3] != '\0' ? ask.text[3] : NULL;
    page.ascending = ask.number[4] != 0;
    TD_TRY(td_finetune_fault(r, td_files_list(r->opts->jobs, owner, &page, &list, &f), &f, err));
    return td_finetune_reply(r, &tensord__v1__list_files_response__descriptor, list, err);
}

enum td_code td_rpc_finetune_list_files(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, list_files, err);
}

/* ------------------------------------------------------------------ creating a job */

static void set_text(json_t *o, const char *key, const char *text)
{
    if (*text != '\0') {
        (void)json_object_set_new(o, key, td_rest_json_text(text));
    }
}

static void set_hyperparameters(json_t *o, const Tensord__V1__Hyperparameters *h)
{
    json_t *v = json_object();
    if (h == NULL) {
        json_decref(v);
        return;
    }
    if (h->n_epochs != 0) {
        (void)json_object_set_new(v, "n_epochs", json_integer(h->n_epochs));
    }
    if (h->batch_size != 0) {
        (void)json_object_set_new(v, "batch_size", json_integer(h->batch_size));
    }
    if (h->multiplier_case == TENSORD__V1__HYPERPARAMETERS__MULTIPLIER_LEARNING_RATE_MULTIPLIER) {
        (void)json_object_set_new(v, "learning_rate_multiplier", json_real(h->learning_rate_multiplier));
    }
    if (h->rate_case == TENSORD__V1__HYPERPARAMETERS__RATE_LEARNING_RATE) {
        (void)json_object_set_new(v, "learning_rate", json_real(h->learning_rate));
    }
    (void)json_object_set_new(o, "hyperparameters", v);
}

static json_t *make_method(const Tensord__V1__Method *m)
{
    json_t *o = json_object();
    set_text(o, "type", m->type);
    if (m->supervised != NULL) {
        json_t *v = json_object();
        set_hyperparameters(v, m->supervised->hyperparameters);
        (void)json_object_set_new(o, "supervised", v);
    }
    if (m->lora != NULL) {
        json_t *v = json_object(), *targets = json_array();
        if (m->lora->rank != 0) {
            (void)json_object_set_new(v, "rank", json_integer(m->lora->rank));
        }
        if (m->lora->scale_case == TENSORD__V1__LORA__SCALE_ALPHA) {
            (void)json_object_set_new(v, "alpha", json_real(m->lora->alpha));
        }
        for (size_t i = 0; i < m->lora->n_targets; i++) {
            (void)json_array_append_new(targets, td_rest_json_text(m->lora->targets[i]));
        }
        (void)(m->lora->n_targets > 0 ? json_object_set(v, "targets", targets) : 0);
        json_decref(targets);
        set_hyperparameters(v, m->lora->hyperparameters);
        (void)json_object_set_new(o, "lora", v);
    }
    return o;
}

/* The body of POST /v1/fine_tuning/jobs that the typed fields mean. */
static enum td_code make_body(const Tensord__V1__CreateJobRequest *m, json_t **out, struct td_fault *f)
{
    json_t *body = json_object(), *tensord = NULL;
    if (*m->tensord != '\0' && td_rest_get_json(m->tensord, strlen(m->tensord), &tensord, &f->err)) {
        json_decref(body);
        return td_fault_of(f, td_err_wrap(&f->err, "tensord"), "invalid_value", "tensord");
    }
    if (tensord != NULL) {
        (void)json_object_set_new(body, "tensord", tensord);
    }
    set_text(body, "model", m->model);
    set_text(body, "training_file", m->training_file);
    set_text(body, "validation_file", m->validation_file);
    set_text(body, "suffix", m->suffix);
    if (m->random_case == TENSORD__V1__CREATE_JOB_REQUEST__RANDOM_SEED) {
        (void)json_object_set_new(body, "seed", json_integer(m->seed));
    }
    if (m->method != NULL) {
        (void)json_object_set_new(body, "method", make_method(m->method));
    }
    if (m->n_metadata > 0) {
        json_t *metadata = json_object();
        for (size_t i = 0; i < m->n_metadata; i++) {
            set_text(metadata, m->metadata[i]->key, m->metadata[i]->value);
        }
        (void)json_object_set_new(body, "metadata", metadata);
    }
    *out = body;
    return TD_OK;
}

static enum td_code read_body(const Tensord__V1__CreateJobRequest *m, json_t **out, struct td_fault *f)
{
    const bool typed = *m->model != '\0' || *m->training_file != '\0' || *m->validation_file != '\0' ||
                       *m->suffix != '\0' || *m->tensord != '\0' || m->method != NULL || m->n_metadata > 0 ||
                       m->random_case != TENSORD__V1__CREATE_JOB_REQUEST__RANDOM__NOT_SET;
    if (*m->json == '\0') {
        return make_body(m, out, f);
    }
    if (typed) {
        return TD_FAULT(f, "invalid_value", "json", "json is given, and other fields besides it");
    }
    return td_fault_of(f, td_rest_get_json(m->json, strlen(m->json), out, &f->err), "invalid_value", "json");
}

/* The message in the request; td_guard_free it. */
static enum td_code unpack(struct td_rpc *r, Tensord__V1__CreateJobRequest **out, struct td_err *err)
{
    const void *bytes;
    void *owned = NULL;
    ProtobufCMessage *m = NULL;
    TD_TRY(td_wire_gather(r->in, &bytes, &owned, err));
    const enum td_code rc = td_guard_unpack_sent(&tensord__v1__create_job_request__descriptor, bytes,
                                                 (size_t)r->in.left, MAX_REQUEST, &m, err);
    td_free(owned);
    *out = (Tensord__V1__CreateJobRequest *)m;
    return rc;
}

enum td_code td_rpc_finetune_create_job(struct td_rpc *r, struct td_err *err)
{
    Tensord__V1__CreateJobRequest *m = NULL;
    char owner[33];
    struct td_fault f = {0};
    json_t *body = NULL, *job = NULL;
    const struct td_job_judge judge = td_finetune_judge(r);
    TD_TRY(td_finetune_ready(r, err));
    TD_TRY(unpack(r, &m, err));
    td_rpc_owner(r, owner);
    enum td_code rc = read_body(m, &body, &f);
    td_guard_free(&m->base);
    rc = rc ? rc : td_job_access_body(r->opts->jobs, body, &judge, &f);
    rc = rc ? rc : td_jobs_create(r->opts->jobs, body, owner, &job, &f);
    json_decref(body);
    TD_TRY(td_finetune_fault(r, rc, &f, err));
    return td_finetune_reply(r, &tensord__v1__job__descriptor, job, err);
}

/* ------------------------------------------------------------------ jobs that are there */

/* The request, and whether the token is for the model of the job in its field 1. */
static enum td_code ask_job(struct td_rpc *r, struct td_arena *a, struct td_finetune_ask *ask,
                            struct td_err *err)
{
    struct td_fault f = {0};
    const struct td_job_judge judge = td_finetune_judge(r);
    TD_TRY(td_finetune_ready(r, err));
    TD_TRY(td_finetune_read(r->in, a, ask, err));
    return td_finetune_fault(r, td_job_access(r->opts->jobs, ask->text[1], &judge, &f), &f, err);
}

static enum td_code get_job(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_fault f = {0};
    json_t *job = NULL;
    TD_TRY(ask_job(r, a, &ask, err));
    TD_TRY(td_finetune_fault(r, td_jobs_get(r->opts->jobs, ask.text[1], &job, &f), &f, err));
    return td_finetune_reply(r, &tensord__v1__job__descriptor, job, err);
}

enum td_code td_rpc_finetune_get_job(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, get_job, err);
}

static enum td_code list_jobs(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    const struct td_job_judge judge = td_finetune_judge(r);
    TD_TRY(td_finetune_ready(r, err));
    TD_TRY(td_finetune_read(r->in, a, &ask, err));
    TD_TRY(read_page(r, &ask, 1, &page, err));
    TD_TRY(td_finetune_fault(r, td_job_access_list(r->opts->jobs, &page, &judge, &list, &f), &f, err));
    return td_finetune_reply(r, &tensord__v1__list_jobs_response__descriptor, list, err);
}

enum td_code td_rpc_finetune_list_jobs(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, list_jobs, err);
}

static enum td_code tell(struct td_rpc *r, struct td_arena *a, enum td_job_verb verb, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_fault f = {0};
    json_t *job = NULL;
    TD_TRY(ask_job(r, a, &ask, err));
    TD_TRY(td_finetune_fault(r, td_jobs_tell(r->opts->jobs, ask.text[1], verb, &job, &f), &f, err));
    return td_finetune_reply(r, &tensord__v1__job__descriptor, job, err);
}

#define TELL(name, verb)                                                                                     \
    static enum td_code name##_job(struct td_rpc *r, struct td_arena *a, struct td_err *err)                 \
    {                                                                                                        \
        return tell(r, a, verb, err);                                                                        \
    }                                                                                                        \
    enum td_code td_rpc_finetune_##name##_job(struct td_rpc *r, struct td_err *err)                          \
    {                                                                                                        \
        return td_rpc_with_arena(r, name##_job, err);                                                        \
    }

TELL(cancel, TD_JOB_CANCEL)
TELL(pause, TD_JOB_PAUSE)
TELL(resume, TD_JOB_RESUME)
TELL(publish, TD_JOB_PUBLISH)

typedef enum td_code list_fn(struct td_jobs *j, const char *id, const struct td_page *p, json_t **list,
                             struct td_fault *f);

static enum td_code list_of_job(struct td_rpc *r, struct td_arena *a, list_fn *get,
                                const ProtobufCMessageDescriptor *d, struct td_err *err)
{
    struct td_finetune_ask ask;
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    TD_TRY(ask_job(r, a, &ask, err));
    TD_TRY(read_page(r, &ask, 2, &page, err));
    TD_TRY(td_finetune_fault(r, get(r->opts->jobs, ask.text[1], &page, &list, &f), &f, err));
    return td_finetune_reply(r, d, list, err);
}

static enum td_code list_events(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    return list_of_job(r, a, td_jobs_events, &tensord__v1__list_events_response__descriptor, err);
}

enum td_code td_rpc_finetune_list_events(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, list_events, err);
}

static enum td_code list_checkpoints(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    return list_of_job(r, a, td_jobs_checkpoints, &tensord__v1__list_checkpoints_response__descriptor, err);
}

enum td_code td_rpc_finetune_list_checkpoints(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, list_checkpoints, err);
}
