/* server/request/infer_check.c - the inputs of an inference request against the model's signature and
 * configuration, in the words that Triton's clients know. See infer_request.h.
 *
 * Names come first: what is missing, then what is not declared. Then rows against max_batch_size, and shapes,
 * but these only for a model with a config.pbtxt. Inputs are few, so names are compared one by one. Lists of
 * names in an error are cut at NAMES_BYTES.
 *
 * Does not: check dtypes, or shapes that only TensorFlow's kernels know (server/models/servable_run.c and the
 * run itself).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/request/infer_request.h"

#define NAMES_BYTES 300 /* of a list of names in an error; longer ones are cut */

struct names {
    char text[NAMES_BYTES];
    size_t n;
};

static void add_name(struct names *t, const char *name)
{
    const int put = snprintf(t->text + t->n, sizeof t->text - t->n, "%s'%s'", t->n > 0 ? "," : "", name);
    t->n += put > 0 && (size_t)put < sizeof t->text - t->n ? (size_t)put : 0;
    t->text[t->n] = '\0';
}

static bool is_given(const struct td_request *q, const char *name)
{
    for (int i = 0; i < q->n_in; i++) {
        if (strcmp(q->in[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const struct td_tensor_info *declared(const struct td_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_in; i++) {
        if (strcmp(sig->in[i].key, name) == 0) {
            return &sig->in[i];
        }
    }
    return NULL;
}

static enum td_code check_names(const struct td_request *q, struct td_err *err)
{
    struct names got = {.n = 0}, missing = {.n = 0};
    for (int i = 0; i < q->sig->n_in; i++) {
        const char *name = q->sig->in[i].key;
        if (q->sig->defaults[i].dtype == TD_DTYPE_NONE && !is_given(q, name)) {
            add_name(&missing, name);
        }
    }
    for (int i = 0; i < q->n_in; i++) {
        add_name(&got, q->in[i].name);
    }
    TD_FAIL_IF(missing.n > 0, err, INVALID_ARGUMENT,
               "expected %d inputs but got %d inputs for model '%.200s'. Got input(s) [%s], but missing "
               "required input(s) "
               "[%s]. Please provide all required input(s).",
               q->sig->n_in, q->n_in, q->model, got.text, missing.text);
    for (int i = 0; i < q->n_in; i++) {
        TD_FAIL_IF(declared(q->sig, q->in[i].name) == NULL, err, INVALID_ARGUMENT,
                   "unexpected inference input '%.200s' for model '%.200s'", q->in[i].name, q->model);
    }
    return TD_OK;
}

/* Where max_batch_size is said. */
static enum td_code check_rows(const struct td_request *q, struct td_err *err)
{
    const int64_t most = td_servable_settings(q->servable)->max_batch_size;
    if (most == 0 || !td_model_config_has_rows(q->sig)) {
        return TD_OK;
    }
    for (int i = 0; i < q->n_in; i++) {
        TD_FAIL_IF(q->in[i].t.shape.rank > 0 && q->in[i].t.shape.dim[0] > most, err, INVALID_ARGUMENT,
                   "inference request batch-size must be <= %lld for '%s'; input '%s' has %lld rows",
                   (long long)most, q->model, q->in[i].name, (long long)q->in[i].t.shape.dim[0]);
    }
    return TD_OK;
}

#define SHAPE_BYTES 300 /* TD_MAX_RANK numbers */

/* [-1,3], as Triton writes it. */
static const char *shape_text(const struct td_shape *s, char text[SHAPE_BYTES])
{
    int n = snprintf(text, SHAPE_BYTES, "[");
    for (int i = 0; i < s->rank; i++) {
        n += snprintf(text + n, SHAPE_BYTES - (size_t)n, "%s%lld", i > 0 ? "," : "", (long long)s->dim[i]);
    }
    (void)snprintf(text + n, SHAPE_BYTES - (size_t)n, "]");
    return text;
}

/* A model that has a configuration takes the shapes that it declares, as Triton has it; others are checked by
 * their kernels alone, as TensorFlow Serving has it. */
static enum td_code check_shapes(const struct td_request *q, struct td_err *err)
{
    const struct td_model_settings *m = td_servable_settings(q->servable);
    for (int i = 0; m->given && i < q->n_in; i++) {
        const struct td_tensor_info *info = declared(q->sig, q->in[i].name);
        char expected[SHAPE_BYTES], got[SHAPE_BYTES];
        TD_FAIL_IF(
            !td_shape_compatible(&q->in[i].t.shape, &info->shape), err, INVALID_ARGUMENT,
            "unexpected shape for input '%.200s' for model '%.200s'. Expected %s, got %s.%s", q->in[i].name,
            q->model, shape_text(&info->shape, expected), shape_text(&q->in[i].t.shape, got),
            m->max_batch_size > 0 ? " NOTE: Setting a non-zero max_batch_size in the model config requires a "
                                    "batch dimension to be prepended to each input shape."
                                  : "");
    }
    return TD_OK;
}

enum td_code td_infer_check(const struct td_request *q, struct td_err *err)
{
    TD_TRY(check_names(q, err));
    TD_TRY(check_rows(q, err));
    return check_shapes(q, err);
}
