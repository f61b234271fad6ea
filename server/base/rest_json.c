/* server/base/rest_json.c - documents through jansson: written chunk by chunk into a sink, read whole.
 *
 * json_dump_callback hands over chunks of text, so a document is never held as one string beside the sink. A
 * document that is NULL (json_pack makes it so when a part of it is) is told here, in one place, as memory
 * that ran short. A body of more than a megabyte is refused before jansson builds a tree of it.
 *
 * Does not: carry tensors (proto/json), choose what a document says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/rest_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "proto/json/json_write.h"

#define MAX_DOCUMENT (1 << 20)

/* A block of a document was not to be had by this thread. Members that could not be made are missing then,
 * which jansson tells who asked for them, and not all of these look. */
static __thread bool was_short;

static void *get_memory(size_t bytes)
{
    void *p = td_foreign_alloc(bytes);
    was_short |= p == NULL;
    return p;
}

void td_rest_json_start(void)
{
    json_set_alloc_funcs(get_memory, td_foreign_free);
}

static bool is_whole(const json_t *doc)
{
    const bool yes = doc != NULL && !was_short;
    was_short = false;
    return yes;
}

struct dump {
    struct td_sink *sink;
    struct td_err *err;
};

static int put_chunk(const char *text, size_t n, void *data)
{
    struct dump *d = data;
    return td_sink_put(d->sink, text, n, d->err) == TD_OK ? 0 : -1;
}

enum td_code td_rest_put_json(struct td_sink *s, json_t *takes_doc, struct td_err *err)
{
    if (!is_whole(takes_doc)) {
        json_decref(takes_doc);
        return td_no_memory(err, sizeof(json_t), "an answer");
    }
    struct dump d = {s, err};
    const int rc = json_dump_callback(takes_doc, put_chunk, &d, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(takes_doc);
    TD_FAIL_IF(rc != 0, err, RESOURCE_EXHAUSTED, "writing an answer: no memory after %zu bytes", s->n);
    return td_sink_put(s, "\n", 1, err);
}

static enum td_code put_number(struct td_sink *s, const json_t *v, struct td_err *err)
{
    char text[TD_JSON_NUM_CHARS];
    const size_t n = json_is_integer(v) ? td_json_put_int(text, json_integer_value(v))
                                        : td_json_put_double(text, json_real_value(v));
    return td_sink_put(s, text, n, err);
}

/* Depth is bounded by what made the document: jansson reads no deeper than 2048. */
static enum td_code put_members(struct td_sink *s, const json_t *doc, struct td_err *err)
{
    const char *between = "";
    if (json_is_array(doc)) {
        TD_TRY(td_sink_put(s, "[", 1, err));
        for (size_t i = 0; i < json_array_size(doc); i++) {
            TD_TRY(td_sink_put(s, between, strlen(between), err));
            TD_TRY(td_rest_put_exact(s, json_array_get(doc, i), err));
            between = ",";
        }
        return td_sink_put(s, "]", 1, err);
    }
    const char *key;
    json_t *v;
    TD_TRY(td_sink_put(s, "{", 1, err));
    json_object_foreach((json_t *)(uintptr_t)doc, key, v)
    {
        TD_TRY(td_sink_put(s, between, strlen(between), err));
        TD_TRY(td_json_put_string(s, key, strlen(key), err));
        TD_TRY(td_sink_put(s, ":", 1, err));
        TD_TRY(td_rest_put_exact(s, v, err));
        between = ",";
    }
    return td_sink_put(s, "}", 1, err);
}

enum td_code td_rest_put_exact(struct td_sink *s, const json_t *doc, struct td_err *err)
{
    if (doc == NULL) {
        return td_no_memory(err, sizeof(json_t), "an answer");
    }
    switch (json_typeof(doc)) {
    case JSON_STRING:
        return td_json_put_string(s, json_string_value(doc), json_string_length(doc), err);
    case JSON_INTEGER:
    case JSON_REAL:
        return put_number(s, doc, err);
    case JSON_TRUE:
        return td_sink_put(s, "true", 4, err);
    case JSON_FALSE:
        return td_sink_put(s, "false", 5, err);
    case JSON_NULL:
        return td_sink_put(s, "null", 4, err);
    default:
        return put_members(s, doc, err);
    }
}

json_t *td_rest_json_text(const char *text)
{
    if (td_utf8(text, strlen(text))) {
        return json_string(text);
    }
    char *plain = td_strdup(text);
    for (char *c = plain; c != NULL && *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    }
    json_t *v = plain != NULL ? json_string(plain) : NULL;
    td_free(plain);
    return v;
}

json_t *td_rest_json_int64(int64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, v);
    return json_string(text);
}

json_t *td_rest_json_shape(const struct td_shape *shape)
{
    json_t *dims = json_array();
    for (int i = 0; i < shape->rank; i++) {
        (void)json_array_append_new(
            dims, json_pack("{s:o, s:s}", "size", td_rest_json_int64(shape->dim[i]), "name", ""));
    }
    return json_pack("{s:o, s:b}", "dim", dims, "unknown_rank", shape->rank < 0);
}

enum td_code td_rest_get_json(const char *body, size_t n, json_t **out, struct td_err *err)
{
    json_error_t why;
    TD_FAIL_IF(n > MAX_DOCUMENT, err, INVALID_ARGUMENT, "a document of %zu bytes, at most %d are read", n,
               MAX_DOCUMENT);
    json_t *doc = n == 0 ? json_object() : json_loadb(body, n, 0, &why);
    if (doc == NULL && (n == 0 || json_error_code(&why) == json_error_out_of_memory)) {
        was_short = false;
        return td_no_memory(err, n * sizeof(json_t), "reading a document");
    }
    TD_FAIL_IF(doc == NULL, err, INVALID_ARGUMENT, "JSON Parse error: %s at offset: %d", why.text,
               why.position);
    if (!json_is_object(doc)) {
        json_decref(doc);
        TD_FAIL(err, INVALID_ARGUMENT, "the body must be a JSON object");
    }
    *out = doc;
    return TD_OK;
}
