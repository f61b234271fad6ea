/* server/request/prediction_log.c - PredictionLog from tensors, so that every wire's requests look alike.
 *
 *   PredictionLog   log_metadata = 1, classify_log = 2 | regress_log = 3 | multi_inference_log = 4 |
 *                   predict_log = 6
 *   *Log            request = 1, response = 2
 *   LogMetadata     model_spec = 1, sampling_config = 2 { sampling_rate = 1 }, timestamp_secs = 4
 *
 * The model's name is the one that was asked for, and the version the one that answered. Examples of Classify
 * and Regress have been merged with their context, which is therefore not told apart.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/prediction_log.h"

#include <string.h>
#include <time.h>

#include "core/base/obj.h"
#include "proto/bytes/tfrecord.h"
#include "proto/pb/tensor_pb.h"
#include "server/base/request_log.h"
#include "server/request/classify.h"

/* What a record is made of. */
struct record {
    const struct td_request *q;
    const char *signature;
    struct td_wire request; /* of a MultiInference, as is.. */
    const void *response;   /* ..its answer, n bytes */
    size_t n;
};

static enum td_code put_spec_of(struct td_sink *s, uint32_t field, const struct td_request *q,
                                const char *signature, struct td_err *err)
{
    return td_model_spec_write(s, field, td_servable_name(q->servable), signature,
                               td_servable_version(q->servable), err);
}

static enum td_code put_spec(struct td_sink *s, uint32_t field, const struct td_request *q,
                             struct td_err *err)
{
    return put_spec_of(s, field, q, q->sig->key, err);
}

static enum td_code put_metadata(struct td_sink *s, const struct record *r, double rate, struct td_err *err)
{
    const size_t metadata = td_put_mark(s);
    TD_TRY(put_spec_of(s, 1, r->q, r->signature, err));
    const size_t sampling = td_put_mark(s);
    TD_TRY(td_put_double(s, 1, rate, err));
    TD_TRY(td_put_end(s, 2, sampling, err));
    TD_TRY(td_put_int(s, 4, (int64_t)time(NULL), err));
    return td_put_end(s, 1, metadata, err);
}

/* map<string, TensorProto> */
static enum td_code put_tensors(struct td_sink *s, uint32_t field, const struct td_named *t, int n,
                                struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const size_t bytes = td_tensor_pb_size(&t[i].t, false), name = strlen(t[i].name);
        const size_t entry = 2 + td_wire_varint_size(name) + name + td_wire_varint_size(bytes) + bytes;
        TD_TRY(td_put_head(s, field, entry, err));
        TD_TRY(td_put_text(s, 1, t[i].name, err));
        TD_TRY(td_put_head(s, 2, bytes, err));
        TD_TRY(td_tensor_to_bytes(&t[i].t, false, s, err));
    }
    return TD_OK;
}

static enum td_code put_predict(struct td_sink *s, const struct td_request *q, struct td_err *err)
{
    const size_t request = td_put_mark(s);
    TD_TRY(put_spec(s, 1, q, err));
    TD_TRY(put_tensors(s, 2, q->in, q->n_in, err));
    for (int i = 0; i < q->n_filter; i++) {
        TD_TRY(td_put_text(s, 3, q->filter[i], err));
    }
    TD_TRY(td_put_end(s, 1, request, err));
    const size_t response = td_put_mark(s);
    TD_TRY(put_tensors(s, 1, q->out, q->n_out, err));
    TD_TRY(put_spec(s, 2, q, err));
    return td_put_end(s, 2, response, err);
}

/* Input { example_list = 1 { examples = 1 } } */
static enum td_code put_examples(struct td_sink *s, const struct td_tensor *t, struct td_err *err)
{
    const struct td_str *const *example = t->data; /* NULL: empty */
    const size_t input = td_put_mark(s), list = input;
    for (int64_t i = 0; i < t->shape.dim[0]; i++) {
        TD_TRY(example[i] != NULL ? td_put_bytes(s, 1, example[i]->bytes, example[i]->len, err)
                                  : td_put_bytes(s, 1, "", 0, err));
    }
    TD_TRY(td_put_end(s, 1, list, err));
    return td_put_end(s, 2, input, err);
}

static enum td_code put_scores(struct td_sink *s, const struct td_request *q, struct td_err *err)
{
    struct td_scores scores;
    const size_t request = td_put_mark(s);
    TD_TRY(put_spec(s, 1, q, err));
    TD_TRY(q->n_in == 1 ? put_examples(s, &q->in[0].t, err) : TD_OK);
    TD_TRY(td_put_end(s, 1, request, err));
    const size_t response = td_put_mark(s);
    TD_TRY(
        td_classify_scores(q, q->api == TD_API_REGRESS ? TD_TASK_REGRESS : TD_TASK_CLASSIFY, &scores, err));
    TD_TRY(td_scores_write(s, 1, &scores, err));
    TD_TRY(put_spec(s, 2, q, err));
    return td_put_end(s, 2, response, err);
}

static enum td_code put_multi(struct td_sink *s, const struct record *r, struct td_err *err)
{
    const size_t bytes = (size_t)r->request.left;
    char *to;
    TD_TRY(td_put_head(s, 1, bytes, err));
    TD_TRY(td_sink_grow(s, bytes, &to, err));
    td_wire_copy(r->request, to);
    return td_put_bytes(s, 2, r->response, r->n, err);
}

static enum td_code make(const struct record *r, double rate, struct td_sink *s, struct td_err *err)
{
    static const struct {
        uint32_t field;
        bool scored;
    } kinds[TD_N_APIS] = {[TD_API_CLASSIFY] = {2, true},
                          [TD_API_REGRESS] = {3, true},
                          [TD_API_MULTI] = {4, false},
                          [TD_API_PREDICT] = {6, false},
                          [TD_API_INFER] = {6, false}};
    const enum td_api api = r->q->api;
    TD_TRY(put_metadata(s, r, rate, err));
    const size_t log = td_put_mark(s);
    TD_TRY(api == TD_API_MULTI ? put_multi(s, r, err)
           : kinds[api].scored ? put_scores(s, r->q, err)
                               : put_predict(s, r->q, err));
    return td_put_end(s, kinds[api].field, log, err);
}

static void log_record(const struct record *r)
{
    double rate;
    struct td_request_log *l = td_request_log_due(td_servable_name(r->q->servable), &rate);
    if (l == NULL) {
        return;
    }
    struct td_err err = {0};
    struct td_sink message = {.limit = TD_REQUEST_LOG_QUEUE}, record = {.limit = TD_REQUEST_LOG_QUEUE};
    if (make(r, rate, &message, &err) || td_tfrecord_put(&record, message.p, message.n, &err)) {
        td_sink_fini(&record);
        td_request_log_lost(l, err.code);
    } else {
        td_request_log_put(l, &record);
    }
    td_sink_fini(&message);
}

void td_prediction_log(const struct td_request *q)
{
    const bool kind = q->api == TD_API_PREDICT || q->api == TD_API_INFER || q->api == TD_API_CLASSIFY ||
                      q->api == TD_API_REGRESS;
    if (kind && q->servable != NULL && q->sig != NULL) {
        log_record(&(struct record){.q = q, .signature = q->sig->key});
    }
}

void td_prediction_log_multi(const struct td_request *q, const char *signature, struct td_wire request,
                             const void *response, size_t n)
{
    log_record(&(struct record){q, signature, request, response, n});
}
