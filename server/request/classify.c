/* server/request/classify.c - TensorFlow Serving's checks around a run that is like any other.
 *
 * Before the run the signature must fit the task: one input `inputs`, and `classes`, `scores` or `outputs`
 * among the outputs. Binding makes the examples the only input and the filter the outputs that the task
 * reads, so nothing else is computed. After the run the outputs are looked up by name and must have a row for
 * each example; what is found is handed on by reference (struct td_scores), for each wire to write in its own
 * form.
 *
 * Tasks of a MultiInference are checked against each other before any of them runs. Errors are TensorFlow
 * Serving's, word by word, since clients compare them. Holds no state.
 *
 * Does not: decode or encode messages (proto/request/classify_pb.c, server/http/rest_examples.c), run
 * anything itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/classify.h"

#include <string.h>

#include "core/base/mem.h"

#define INPUTS "inputs"
#define CLASSES "classes"
#define SCORES "scores"
#define OUTPUTS "outputs"

static const struct td_tensor_info *info(const struct td_tensor_info *list, int n, const char *key)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].key, key) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static enum td_code check_signature(const struct td_signature *sig, enum td_task task, struct td_err *err)
{
    const char *what = task == TD_TASK_CLASSIFY ? "classification" : "regression";
    TD_FAIL_IF(sig->n_in != 1, err, INVALID_ARGUMENT, "Expected one input Tensor.");
    TD_FAIL_IF(info(sig->in, sig->n_in, INPUTS) == NULL, err, FAILED_PRECONDITION,
               "No %s inputs found in SignatureDef: signature '%s' has the input '%s', not '" INPUTS "'",
               what, sig->key, sig->in[0].key);
    if (task == TD_TASK_REGRESS) {
        TD_FAIL_IF(sig->n_out != 1, err, INVALID_ARGUMENT, "Expected one output Tensor.");
        TD_FAIL_IF(
            info(sig->out, sig->n_out, OUTPUTS) == NULL, err, FAILED_PRECONDITION,
            "No regression outputs found in SignatureDef: signature '%s' has the output '%s', not '" OUTPUTS
            "'",
            sig->key, sig->out[0].key);
        return TD_OK;
    }
    TD_FAIL_IF(sig->n_out != 1 && sig->n_out != 2, err, INVALID_ARGUMENT,
               "Expected one or two output Tensors, found %d", sig->n_out);
    bool any = info(sig->out, sig->n_out, CLASSES) != NULL || info(sig->out, sig->n_out, SCORES) != NULL;
    TD_FAIL_IF(!any, err, FAILED_PRECONDITION,
               "Expected classification signature outputs to contain at least one of \"" CLASSES
               "\" or \"" SCORES "\"; signature '%s' has '%s'",
               sig->key, sig->out[0].key);
    return TD_OK;
}

static enum td_code check_method(const struct td_signature *sig, enum td_task task, struct td_err *err)
{
    const char *want =
        task == TD_TASK_CLASSIFY ? "tensorflow/serving/classify" : "tensorflow/serving/regress";
    TD_FAIL_IF(strcmp(sig->method, want) != 0, err, INVALID_ARGUMENT,
               "Expected %s signature method_name to be %s. Was: %s",
               task == TD_TASK_CLASSIFY ? "classification" : "regression", want, sig->method);
    return TD_OK;
}

enum td_code td_classify_resolve(struct td_request *r, struct td_registry *reg, enum td_task task,
                                 struct td_err *err)
{
    TD_TRY(td_request_find(r, reg, err));
    if (r->sig == NULL) {
        const char *key = r->signature != NULL && *r->signature ? r->signature : "serving_default";
        r->sig = td_servable_signature(r->servable, key);
        TD_FAIL_IF(r->sig == NULL, err, INVALID_ARGUMENT, "No signature was found with the name: %s", key);
    }
    if (td_registry_options(reg)->check_methods) {
        TD_TRY(check_method(r->sig, task, err));
    }
    return check_signature(r->sig, task, err);
}

static const struct td_tensor *output(const struct td_request *r, const char *name)
{
    for (int i = 0; i < r->n_out; i++) {
        if (strcmp(r->out[i].name, name) == 0) {
            return &r->out[i].t;
        }
    }
    return NULL;
}

static enum td_code check_matrix(const struct td_tensor *t, const char *name, enum td_dtype dtype, int64_t n,
                                 struct td_err *err)
{
    TD_FAIL_IF(t->shape.rank != 2, err, INVALID_ARGUMENT,
               "Expected Tensor shape: [batch_size num_classes] but got %s for '%s'", TD_SHAPE_STR(&t->shape),
               name);
    TD_FAIL_IF(t->dtype != dtype, err, INVALID_ARGUMENT, "Expected %s Tensor of %s. Got: %s", name,
               td_dtype_tf_name(dtype), td_dtype_tf_name(t->dtype));
    TD_FAIL_IF(t->shape.dim[0] != n, err, INVALID_ARGUMENT,
               "Expected %s output batch size of %lld. Got: %lld", name, (long long)n,
               (long long)t->shape.dim[0]);
    return TD_OK;
}

static enum td_code read_classes(const struct td_request *r, struct td_scores *out, struct td_err *err)
{
    out->classes = output(r, CLASSES);
    out->scores = output(r, SCORES);
    if (out->classes != NULL) {
        TD_TRY(check_matrix(out->classes, CLASSES, TD_STRING, out->n, err));
        out->n_classes = out->classes->shape.dim[1];
    }
    if (out->scores != NULL) {
        TD_TRY(check_matrix(out->scores, SCORES, TD_FLOAT, out->n, err));
        int64_t k = out->scores->shape.dim[1];
        TD_FAIL_IF(out->classes != NULL && k != out->n_classes, err, INVALID_ARGUMENT,
                   "Tensors class and score should match in num_classes. Got: %lld vs. %lld",
                   (long long)out->n_classes, (long long)k);
        out->n_classes = k;
    }
    return TD_OK;
}

static enum td_code read_values(const struct td_request *r, struct td_scores *out, struct td_err *err)
{
    const struct td_tensor *t = output(r, OUTPUTS);
    const struct td_shape *s = &t->shape;
    TD_FAIL_IF(s->rank != 1 && !(s->rank == 2 && s->dim[1] == 1), err, INVALID_ARGUMENT,
               "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got %s",
               TD_SHAPE_STR(s));
    TD_FAIL_IF(s->dim[0] != out->n, err, INVALID_ARGUMENT, "Expected output batch size to be %lld. Got: %lld",
               (long long)out->n, (long long)s->dim[0]);
    TD_FAIL_IF(t->dtype != TD_FLOAT, err, INVALID_ARGUMENT, "Expected output Tensor of DT_FLOAT. Got: %s",
               td_dtype_tf_name(t->dtype));
    out->values = t;
    return TD_OK;
}

enum td_code td_classify_bind(struct td_request *r, enum td_task task, struct td_tensor *takes_examples,
                              struct td_err *err)
{
    static const char *const class_outputs[] = {CLASSES, SCORES};
    static const char *const regress_outputs[] = {OUTPUTS};
    struct td_tensor examples = *takes_examples;
    *takes_examples = (struct td_tensor){0};
    struct td_named *in = td_arena_alloc(r->arena, 1, sizeof *in);
    if (in == NULL) {
        td_tensor_clear(&examples);
        return td_no_memory(err, sizeof *in, "a request");
    }
    *in = (struct td_named){.name = INPUTS, .t = examples};
    r->in = in;
    r->n_in = 1;
    if (task == TD_TASK_REGRESS) {
        r->filter = regress_outputs;
        r->n_filter = 1;
    } else { /* those of the two that the signature has; any other output is not computed */
        bool classes = info(r->sig->out, r->sig->n_out, CLASSES) != NULL;
        bool scores = info(r->sig->out, r->sig->n_out, SCORES) != NULL;
        r->filter = classes ? class_outputs : class_outputs + 1;
        r->n_filter = classes + scores;
    }
    return TD_OK;
}

enum td_code td_classify_scores(const struct td_request *r, enum td_task task, struct td_scores *out,
                                struct td_err *err)
{
    *out = (struct td_scores){.n = r->in[0].t.shape.dim[0]};
    return task == TD_TASK_REGRESS ? read_values(r, out, err) : read_classes(r, out, err);
}

enum td_code td_classify_run(struct td_request *r, struct td_registry *reg, enum td_task task,
                             struct td_tensor *takes_examples, struct td_scores *out, struct td_err *err)
{
    if (td_classify_resolve(r, reg, task, err)) {
        td_tensor_clear(takes_examples);
        return err->code;
    }
    TD_TRY(td_classify_bind(r, task, takes_examples, err));
    TD_TRY(td_request_run(r, reg, err));
    return td_classify_scores(r, task, out, err);
}

/* ------------------------------------------------------------------ several tasks */

static const char *signature_or_default(const struct td_model_spec *spec)
{
    return *spec->signature ? spec->signature : "serving_default";
}

enum td_code td_classify_check_tasks(const struct td_multi_pb *p, struct td_err *err)
{
    TD_FAIL_IF(p->n_task == 0, err, INVALID_ARGUMENT, "ModelSpec has no name specified.");
    for (int i = 0; i < p->n_task; i++) {
        const struct td_task_pb *t = &p->task[i];
        TD_FAIL_IF(!*t->spec.name, err, INVALID_ARGUMENT, "Found ModelSpec with an empty model name.");
        TD_FAIL_IF(strcmp(t->spec.name, p->task[0].spec.name) != 0, err, INVALID_ARGUMENT,
                   "All ModelSpecs in a MultiInferenceRequest must access the same model name.");
        for (int k = 0; k < i; k++) {
            const char *a = signature_or_default(&t->spec), *b = signature_or_default(&p->task[k].spec);
            TD_FAIL_IF(strcmp(a, b) == 0, err, INVALID_ARGUMENT, "Duplicate evaluation of signature: %s", a);
        }
        TD_FAIL_IF(strcmp(t->method, "tensorflow/serving/classify") != 0 &&
                       strcmp(t->method, "tensorflow/serving/regress") != 0,
                   err, UNIMPLEMENTED, "Unsupported signature method_name: %s", t->method);
    }
    return TD_OK;
}

enum td_task td_classify_task(const struct td_task_pb *t)
{
    return strcmp(t->method, "tensorflow/serving/classify") == 0 ? TD_TASK_CLASSIFY : TD_TASK_REGRESS;
}
