/* server/grpc/grpc_predict.c - PredictionService: Predict, Classify, Regress and MultiInference.
 *
 * Each handler decodes into its request, or has server/request/classify.c answer it; and writes the outputs
 * as an answer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/request/classify.h"
#include "server/request/prediction_log.h"
#include "server/grpc/grpc_rpc.h"
#include "server/request/predict.h"

td_rpc_fn td_rpc_predict, td_rpc_classify, td_rpc_regress, td_rpc_multi_inference;

enum td_code td_rpc_ask_for(struct td_request *q, const struct td_model_spec *spec, struct td_err *err)
{
    TD_FAIL_IF(!spec->present, err, INVALID_ARGUMENT, "Missing ModelSpec");
    TD_FAIL_IF(!*spec->name, err, INVALID_ARGUMENT, "ModelSpec has no name specified.");
    TD_FAIL_IF(spec->has_version && spec->version <= 0, err, NOT_FOUND,
               "Servable not found for request: Specific(%s, %lld)", spec->name, (long long)spec->version);
    q->model = spec->name;
    q->has_version = spec->has_version;
    q->version = spec->has_version ? spec->version : 0;
    q->label = spec->label;
    q->signature = spec->signature;
    return TD_OK;
}

enum td_code td_rpc_inputs(struct td_rpc *r, const struct td_predict_pb *p, struct td_err *err)
{
    TD_TRY(td_predict_inputs(&r->q, r->registry, p, r->opts->max_request_bytes, err));
    td_rpc_drop_input(r);
    return TD_OK;
}

static enum td_code encode_predict(struct td_request *q, struct td_err *err)
{
    struct td_rpc *r = td_rpc_of(q);
    const struct td_predict_answer answer = {
        .out = q->out,
        .n_out = q->n_out,
        .name = q->model,
        .signature = q->sig->key,
        .version = td_servable_version(q->servable),
        .as_content = r->opts->content_outputs,
    };
    return td_predict_write(&answer, &r->reply, err);
}

enum td_code td_rpc_predict(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_predict_pb p;
    TD_TRY(td_rpc_open(r, err));
    q->api = TD_API_PREDICT;
    q->encode = encode_predict;
    TD_TRY(td_predict_read(r->in, q->arena, &p, err));
    TD_TRY(td_rpc_ask_for(q, &p.spec, err));
    TD_TRY(td_request_resolve(q, r->registry, err));
    return td_rpc_inputs(r, &p, err);
}

/* ---- Classify and Regress ---- */

static enum td_task task_of(const struct td_request *q)
{
    return q->api == TD_API_REGRESS ? TD_TASK_REGRESS : TD_TASK_CLASSIFY;
}

static enum td_code encode_scores(struct td_request *q, struct td_err *err)
{
    struct td_sink *reply = &td_rpc_of(q)->reply;
    struct td_scores scores;
    TD_TRY(td_classify_scores(q, task_of(q), &scores, err));
    reply->limit = INT32_MAX;
    TD_TRY(td_scores_write(reply, 1, &scores, err));
    return td_model_spec_write(reply, 2, q->model, q->sig->key, td_servable_version(q->servable), err);
}

static enum td_code decode_examples(struct td_rpc *r, enum td_api api, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_examples_pb p;
    struct td_tensor examples = {0};
    TD_TRY(td_rpc_open(r, err));
    q->api = api;
    q->encode = encode_scores;
    TD_TRY(td_examples_read(r->in, q->arena, &p, err));
    TD_TRY(td_rpc_ask_for(q, &p.spec, err));
    TD_TRY(td_classify_resolve(q, r->registry, task_of(q), err));
    TD_TRY(td_input_read(p.input, r->opts->max_request_bytes, &examples, err));
    td_rpc_drop_input(r);
    td_metrics_examples(td_metrics_model(q->model), examples.shape.dim[0]);
    return td_classify_bind(q, task_of(q), &examples, err);
}

enum td_code td_rpc_classify(struct td_rpc *r, struct td_err *err)
{
    return decode_examples(r, TD_API_CLASSIFY, err);
}

enum td_code td_rpc_regress(struct td_rpc *r, struct td_err *err)
{
    return decode_examples(r, TD_API_REGRESS, err);
}

/* ---- MultiInference: several signatures of one model on the same examples ---- */

/* InferenceResult { model_spec = 1, classification_result = 2 or regression_result = 3 } */
static enum td_code run_task(struct td_rpc *r, enum td_task task, const struct td_tensor *examples,
                             struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_tensor mine;
    struct td_scores scores;
    td_tensor_ref(&mine, examples);
    TD_TRY(td_classify_run(q, r->registry, task, &mine, &scores, err));
    const size_t result = td_put_mark(&r->reply);
    TD_TRY(td_model_spec_write(&r->reply, 1, q->model, q->sig->key, td_servable_version(q->servable), err));
    TD_TRY(td_scores_write(&r->reply, task == TD_TASK_CLASSIFY ? 2 : 3, &scores, err));
    return td_put_end(&r->reply, 1, result, err);
}

/* One after the other, all on the version that the first one found. */
static enum td_code run_tasks(struct td_rpc *r, const struct td_multi_pb *p, const struct td_tensor *examples,
                              struct td_err *err)
{
    r->reply.limit = INT32_MAX;
    for (int i = 0; i < p->n_task; i++) {
        if (i > 0) {
            td_request_again(&r->q);
            TD_TRY(td_rpc_ask_for(&r->q, &p->task[i].spec, err));
        }
        TD_TRY(run_task(r, td_classify_task(&p->task[i]), examples, err));
    }
    return TD_OK;
}

enum td_code td_rpc_multi_inference(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_multi_pb p;
    struct td_tensor examples = {0};
    TD_TRY(td_rpc_open(r, err));
    q->api = TD_API_MULTI;
    td_poll_step_back(); /* it waits for its runs */
    TD_TRY(td_multi_read(r->in, q->arena, &p, err));
    TD_TRY(td_classify_check_tasks(&p, err));
    TD_TRY(td_rpc_ask_for(q, &p.task[0].spec, err));
    TD_TRY(td_classify_resolve(q, r->registry, td_classify_task(&p.task[0]), err));
    TD_TRY(td_input_read(p.input, r->opts->max_request_bytes, &examples, err));
    td_metrics_examples(td_metrics_model(q->model), examples.shape.dim[0]);
    const enum td_code rc = run_tasks(r, &p, &examples, err);
    td_tensor_clear(&examples);
    if (rc == TD_OK) {
        td_prediction_log_multi(q, p.task[0].spec.signature, r->in, r->reply.p, r->reply.n);
    }
    return rc;
}
