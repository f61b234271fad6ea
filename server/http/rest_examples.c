/* server/http/rest_examples.c - :classify and :regress: JSON examples to serialized tf.Examples, scores to
 * JSON.
 *
 *   {"signature_name": "s", "context": {F: V}, "examples": [{F: V or [V, ...]}, ...]}
 *
 * A number with a point or exponent makes a float_list, another number an int64_list, true and false 1 and 0
 * of one, a string or {"b64"} a bytes_list. The context is put in front of each example, which protobuf reads
 * as both merged.
 *
 *   Example.features = 1 { feature = 1 { key = 1, value = 2 {
 *       bytes_list = 1, float_list = 2, int64_list = 3 } } }     each list { value = 1 }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/pb/wire.h"
#include "server/request/classify.h"
#include "proto/json/json_tensor.h"
#include "proto/json/json_value.h"
#include "proto/json/json_write.h"
#include "server/http/rest.h"

#define MAX_EXAMPLES_BYTES                                                                                   \
    ((size_t)1 << 30) /* contexts repeat in each example: bounds what that multiplies to */

enum list_kind { LIST_NONE = 0, LIST_BYTES = 1, LIST_FLOAT = 2, LIST_INT = 3 }; /* field numbers of Feature */

/* A string's or b64 object's bytes, in the arena. */
static enum td_code text_value(struct td_json *j, struct td_arena *a, char **out, size_t *n,
                               struct td_err *err)
{
    struct td_json_str s;
    const bool b64 = td_json_at_b64(j);
    if (b64) {
        (void)td_json_eat(j, '{');
        TD_TRY(td_json_string(j, &s, err));
        (void)td_json_eat(j, ':');
    }
    TD_TRY(td_json_string(j, &s, err));
    *out = td_arena_alloc(a, s.len + 1, 1);
    if (*out == NULL) {
        return td_no_memory(err, s.len, "a feature");
    }
    if (!b64) {
        return td_json_unescape(j, &s, *out, n, err);
    }
    TD_FAIL_IF(!td_json_base64(s.p, s.len, *out, n), err, INVALID_ARGUMENT,
               "Unable to base64 decode a feature");
    return td_json_eat(j, '}') ? TD_OK : td_json_fail(j, err, "Missing a comma or } after an object member.");
}

static enum list_kind kind_at(struct td_json *j)
{
    const char c = td_json_peek(j);
    if (c == '"' || (c == '{' && td_json_at_b64(j))) {
        return LIST_BYTES;
    }
    if (c == 't' || c == 'f') {
        return LIST_INT;
    }
    if (!td_json_at_number(j)) {
        return LIST_NONE;
    }
    struct td_json at = *j;
    struct td_json_num n;
    struct td_err ignored = {0};
    return td_json_number(&at, &n, &ignored) == TD_OK && n.kind == TD_JSON_REAL ? LIST_FLOAT : LIST_INT;
}

static enum td_code put_number(struct td_json *j, struct td_sink *list, enum list_kind kind,
                               struct td_err *err)
{
    const char word = td_json_literal(j);
    if (word == 't' || word == 'f') {
        return td_put_int(list, 1, word == 't', err);
    }
    struct td_json_num n;
    TD_TRY(td_json_number(j, &n, err));
    if (kind == LIST_FLOAT) {
        return td_put_float(list, 1, (float)td_json_num_double(&n), err);
    }
    TD_FAIL_IF(n.kind != TD_JSON_INT, err, INVALID_ARGUMENT, "Only int64_t is supported");
    return td_put_int(list, 1, n.i, err);
}

static const char *kind_word(enum list_kind kind)
{
    return kind == LIST_BYTES ? "string" : kind == LIST_FLOAT ? "float" : "int64";
}

/* One value of a feature's list, which must be of the list's kind (set by the first). */
static enum td_code put_value(struct td_json *j, struct td_arena *a, const char *feature,
                              enum list_kind *kind, struct td_sink *list, struct td_err *err)
{
    const enum list_kind is = kind_at(j);
    TD_FAIL_IF(is == LIST_NONE, err, INVALID_ARGUMENT, "Unexpected element type in feature: %s", feature);
    TD_FAIL_IF(*kind != LIST_NONE && is != *kind, err, INVALID_ARGUMENT,
               "Unexpected element type in feature: %s expecting type: %s", feature, kind_word(*kind));
    *kind = is;
    if (is != LIST_BYTES) {
        return put_number(j, list, is, err);
    }
    char *text = NULL;
    size_t n = 0;
    TD_TRY(text_value(j, a, &text, &n, err));
    return td_put_bytes(list, 1, text, n, err);
}

/* The Feature at j: a value or a list of them. */
static enum td_code put_feature(struct td_json *j, struct td_arena *a, const char *name, struct td_sink *s,
                                struct td_err *err)
{
    enum list_kind kind = LIST_NONE;
    const size_t value = td_put_mark(s), list = td_put_mark(s);
    if (!td_json_eat(j, '[')) {
        TD_TRY(put_value(j, a, name, &kind, s, err));
    } else if (!td_json_eat(j, ']')) {
        do {
            TD_TRY(put_value(j, a, name, &kind, s, err));
        } while (td_json_eat(j, ','));
        if (!td_json_eat(j, ']')) {
            return td_json_fail(j, err, "Missing a comma or ] after an array element.");
        }
    }
    if (kind != LIST_NONE) {
        TD_TRY(td_put_end(s, (uint32_t)kind, list, err));
    }
    return td_put_end(s, 2, value, err);
}

/* The Example that the object at j describes, appended to s. */
static enum td_code put_example(struct td_json *j, struct td_arena *a, struct td_sink *s, struct td_err *err)
{
    TD_FAIL_IF(!td_json_eat(j, '{'), err, INVALID_ARGUMENT,
               "Example must be JSON object but got another value");
    const size_t features = td_put_mark(s);
    bool more = !td_json_eat(j, '}');
    while (more) {
        struct td_json_str key;
        size_t n = 0;
        if (td_json_peek(j) != '"') {
            return td_json_fail(j, err, "Missing a name for object member.");
        }
        TD_TRY(td_json_string(j, &key, err));
        if (!td_json_eat(j, ':')) {
            return td_json_fail(j, err, "Missing a colon after a name of object member.");
        }
        char *name = td_arena_alloc(a, key.len + 1, 1);
        if (name == NULL) {
            return td_no_memory(err, key.len, "a feature");
        }
        TD_TRY(td_json_unescape(j, &key, name, &n, err));
        const size_t entry = td_put_mark(s);
        TD_TRY(td_put_bytes(s, 1, name, n, err));
        TD_TRY(put_feature(j, a, name, s, err));
        TD_TRY(td_put_end(s, 1, entry, err));
        more = td_json_eat(j, ',');
        if (!more && !td_json_eat(j, '}')) {
            return td_json_fail(j, err, "Missing a comma or } after an object member.");
        }
    }
    return td_put_end(s, 1, features, err);
}

/* How many values the list at j has. */
static enum td_code count_list(struct td_json j, int64_t *n, struct td_err *err)
{
    TD_FAIL_IF(!td_json_eat(&j, '['), err, INVALID_ARGUMENT, "'examples' must be a list of objects");
    TD_FAIL_IF(td_json_eat(&j, ']'), err, INVALID_ARGUMENT, "'examples' list must not be empty");
    *n = 0;
    do {
        TD_TRY(td_json_skip(&j, err));
        ++*n;
    } while (td_json_eat(&j, ','));
    return td_json_eat(&j, ']') ? TD_OK
                                : td_json_fail(&j, err, "Missing a comma or ] after an array element.");
}

static enum td_code fill(struct td_json *j, struct td_arena *a, struct td_sink *s, struct td_tensor *t,
                         struct td_err *err)
{
    const size_t context = s->n;
    size_t total = 0;
    (void)td_json_eat(j, '[');
    for (int64_t i = 0; i < t->shape.dim[0]; i++) {
        s->n = context;
        TD_TRY(put_example(j, a, s, err));
        total += s->n;
        TD_FAIL_IF(total > MAX_EXAMPLES_BYTES, err, RESOURCE_EXHAUSTED,
                   "examples with their context take more than %zu bytes", MAX_EXAMPLES_BYTES);
        TD_TRY(td_tensor_set_str(t, i, s->p, s->n, err));
        (void)td_json_eat(j, ',');
    }
    return TD_OK;
}

/* The tensor of serialized examples. *out is the caller's, also on failure. */
static enum td_code read_examples(const struct td_json_body *body, struct td_arena *a, struct td_tensor *out,
                                  struct td_err *err)
{
    struct td_json examples, context;
    int64_t n = 0;
    TD_FAIL_IF(!td_json_body_find(body, "examples", &examples), err, INVALID_ARGUMENT,
               "When method is classify or regress, key 'examples' is expected and was not found");
    TD_TRY(count_list(examples, &n, err));
    const struct td_shape shape = td_shape_vector(n);
    TD_TRY(td_tensor_new(out, TD_STRING, &shape, err));
    struct td_sink s = {.limit = MAX_EXAMPLES_BYTES};
    enum td_code rc = TD_OK;
    if (td_json_body_find(body, "context", &context)) {
        rc = put_example(&context, a, &s, err);
    }
    rc = rc ? rc : fill(&examples, a, &s, out, err);
    td_sink_fini(&s);
    return rc;
}

/* ------------------------------------------------------------------ answers */

static enum td_code put_classes(struct td_sink *s, const struct td_scores *r, int64_t i, struct td_err *err)
{
    TD_TRY(td_sink_put(s, "[", 1, err));
    for (int64_t k = 0; k < r->n_classes; k++) {
        const int64_t at = i * r->n_classes + k;
        TD_TRY(td_sink_put(s, k > 0 ? ", [" : "[", k > 0 ? 3 : 1, err));
        TD_TRY(r->classes != NULL ? td_json_put_elems(s, r->classes, at, 1, false, err)
                                  : td_sink_put(s, "\"\"", 2, err));
        TD_TRY(td_sink_put(s, ", ", 2, err));
        TD_TRY(r->scores != NULL ? td_json_put_elems(s, r->scores, at, 1, false, err)
                                 : td_sink_put(s, "0.0", 3, err));
        TD_TRY(td_sink_put(s, "]", 1, err));
    }
    return td_sink_put(s, "]", 1, err);
}

static enum td_code put_scores(struct td_sink *s, const struct td_scores *r, struct td_err *err)
{
    TD_TRY(td_sink_put(s, "{\n    \"results\": [", 18, err));
    for (int64_t i = 0; i < r->n; i++) {
        TD_TRY(i > 0 ? td_sink_put(s, ", ", 2, err) : TD_OK);
        TD_TRY(r->values != NULL ? td_json_put_elems(s, r->values, i, 1, false, err)
                                 : put_classes(s, r, i, err));
    }
    return td_sink_put(s, "]\n}", 3, err);
}

static enum td_task task_of(const struct td_request *r)
{
    return r->api == TD_API_REGRESS ? TD_TASK_REGRESS : TD_TASK_CLASSIFY;
}

static enum td_code encode(struct td_request *r, struct td_err *err)
{
    struct td_scores scores;
    TD_TRY(td_classify_scores(r, task_of(r), &scores, err));
    return put_scores(&td_exchange_of(r)->out, &scores, err);
}

static enum td_code decode(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_request *r = &x->r;
    struct td_json_body body;
    struct td_tensor examples = {0};
    r->encode = encode;
    TD_TRY(td_json_body(x->body, x->body_len, r->arena, &body, err));
    r->signature = body.signature;
    TD_TRY(td_classify_resolve(r, rest->registry, task_of(r), err));
    if (read_examples(&body, r->arena, &examples, err)) {
        td_tensor_clear(&examples);
        return err->code;
    }
    td_metrics_examples(td_metrics_model(r->model), examples.shape.dim[0]);
    return td_classify_bind(r, task_of(r), &examples, err);
}

enum td_code td_rest_classify(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return decode(rest, x, err);
}

enum td_code td_rest_regress(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return decode(rest, x, err);
}
