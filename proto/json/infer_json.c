/* proto/json/infer_json.c - one walk over the request's object, and the answer written straight to the sink.
 *
 * The walk descends by callbacks: each_member and each_element read the brackets and call the function that
 * knows the names at that depth, so recursion is as deep as the protocol, not as the text. Inputs and outputs
 * are arrays in the arena that double. The extent of each "data" is found by counting brackets and read when
 * its tensor is made, since shape and datatype may come behind it; a large one is read when it is met
 * (json_ahead.h), if what comes before it says enough. Bytes behind the object are handed to the
 * binary inputs in their order, and must be used up.
 *
 *   body   [ JSON object, n_json bytes ][ bytes of the 1st binary input ][ 2nd ] ...
 *
 * The answer is the same the other way round: the object, then the bytes of its binary tensors.
 *
 * Does not: find the model or check names (server/request), read shared memory, choose what is binary.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/infer_json.h"

#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_value.h"
#include "proto/json/json_write.h"

#define MAX_PARTS 4096 /* inputs, and outputs, of a request */

/* A walk over a request. What it reads into depends on how deep it is. */
struct walk {
    struct td_json j;
    struct td_arena *arena;
    const struct td_infer_json_known *known;
    struct td_infer_json *to;
    struct td_infer_json_in *in; /* the input being read */
    struct td_infer_out *out;    /* the output being read */
    size_t cap_in, cap_out;
};

typedef enum td_code member_fn(struct walk *w, const struct td_json_str *key, struct td_err *err);
typedef enum td_code element_fn(struct walk *w, struct td_err *err);

static enum td_code each_member(struct walk *w, const char *what, member_fn *fn, struct td_err *err)
{
    struct td_json_str key;
    bool more = true;
    TD_FAIL_IF(td_json_peek(&w->j) != '{', err, INVALID_ARGUMENT, "%s must be a JSON object", what);
    w->j.at++;
    for (bool first = true; more; first = false) {
        TD_TRY(td_json_member(&w->j, first, &key, &more, err));
        if (more) {
            TD_TRY(fn(w, &key, err));
        }
    }
    return TD_OK;
}

static enum td_code each_element(struct walk *w, const char *what, element_fn *fn, struct td_err *err)
{
    TD_FAIL_IF(!td_json_eat(&w->j, '['), err, INVALID_ARGUMENT, "%s must be a JSON list", what);
    if (td_json_eat(&w->j, ']')) {
        return TD_OK;
    }
    for (;;) {
        TD_TRY(fn(w, err));
        if (td_json_eat(&w->j, ']')) {
            return TD_OK;
        }
        if (!td_json_eat(&w->j, ',')) {
            return td_json_fail(&w->j, err, "Missing a comma or ] after an array element.");
        }
    }
}

/* ------------------------------------------------------------------ single values */

#define SHOWN 40 /* characters of a value in an error text */

/* The value at j as it was sent. */
static int shown(struct td_json j, const char **at)
{
    struct td_err ignored = {0};
    (void)td_json_peek(&j);
    *at = j.at;
    (void)!td_json_leap(&j, &ignored);
    return j.at - *at < SHOWN ? (int)(j.at - *at) : SHOWN;
}

static enum td_code read_text(struct walk *w, const char *what, const char **out, struct td_err *err)
{
    struct td_json_str s;
    TD_FAIL_IF(td_json_peek(&w->j) != '"', err, INVALID_ARGUMENT, "%s must be a JSON string", what);
    TD_TRY(td_json_string(&w->j, &s, err));
    return td_json_text(&w->j, &s, w->arena, out, err);
}

static enum td_code read_count(struct walk *w, const char *what, int64_t *out, struct td_err *err)
{
    struct td_json_num num = {.kind = TD_JSON_REAL};
    const struct td_json before = w->j;
    if (td_json_at_number(&w->j)) {
        TD_TRY(td_json_number(&w->j, &num, err));
    }
    if (num.kind != TD_JSON_INT || num.i < 0) {
        const char *sent;
        const int n = shown(before, &sent);
        TD_FAIL(err, INVALID_ARGUMENT, "%s must be a whole number, 0 or more, not %.*s", what, n, sent);
    }
    *out = num.i;
    return TD_OK;
}

/* A parameter's value; what is no flag, whole number or text is skipped. */
static enum td_code read_param(struct walk *w, const struct td_json_str *key, struct td_infer_param *out,
                               struct td_err *err)
{
    const char *name;
    TD_TRY(td_json_text(&w->j, key, w->arena, &name, err));
    *out = (struct td_infer_param){.key = name, .text = "", .json = true};
    out->n_sent = shown(w->j, &out->sent);
    if (td_json_peek(&w->j) == '"') {
        out->kind = TD_PARAM_TEXT;
        return read_text(w, name, &out->text, err);
    }
    const char word = td_json_literal(&w->j);
    if (word != '\0') {
        out->kind = word == 'n' ? TD_PARAM_OTHER : TD_PARAM_FLAG;
        out->flag = word == 't';
        return TD_OK;
    }
    if (!td_json_at_number(&w->j)) {
        return td_json_skip(&w->j, err);
    }
    struct td_json_num num;
    TD_TRY(td_json_number(&w->j, &num, err));
    out->kind = num.kind == TD_JSON_REAL  ? TD_PARAM_OTHER
                : num.kind == TD_JSON_INT ? TD_PARAM_INT
                                          : TD_PARAM_UINT;
    out->i = num.kind == TD_JSON_INT ? num.i : 0;
    out->u = num.kind == TD_JSON_UINT ? num.u : 0;
    return TD_OK;
}

/* ------------------------------------------------------------------ inputs */

/* Room for one more row in an array of the arena. */
static void *grown(struct walk *w, void *rows, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) {
        return rows;
    }
    const size_t more = *cap > 0 ? *cap * 2 : 4;
    void *p = td_arena_alloc(w->arena, more, size);
    if (p != NULL && n > 0) {
        memcpy(p, rows, n * size);
    }
    *cap = p != NULL ? more : *cap;
    return p;
}

static enum td_code read_dim(struct walk *w, struct td_err *err)
{
    struct td_shape *s = &w->in->raw.shape;
    TD_FAIL_IF(s->rank == TD_MAX_RANK, err, INVALID_ARGUMENT, "input '%s': shape has more than %d dimensions",
               w->in->raw.name, TD_MAX_RANK);
    if (read_count(w, "a size in its 'shape'", &s->dim[s->rank++], err)) {
        return td_err_wrap(err, "input %d%s%s", w->to->n_in - 1, *w->in->raw.name != '\0' ? ", " : "",
                           w->in->raw.name);
    }
    return TD_OK;
}

static enum td_code input_parameter(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    struct td_infer_param p;
    TD_TRY(read_param(w, key, &p, err));
    return td_infer_place_set(&w->in->raw.place, w->in->raw.name, &p, err);
}

/* The data at j, where the input is one that the model wants, and is wanted as it is sent. Once: it looks at
 * all of the text, and finds nothing where further large data follow, as for a model of more inputs. */
static void read_ahead(struct walk *w)
{
    struct td_infer_json *to = w->to;
    const struct td_infer_in *raw = &w->in->raw;
    for (int i = 0; i < w->known->n_fields && to->n_in >= w->known->n_fields && w->j.ahead == NULL; i++) {
        const struct td_json_field *f = &w->known->fields[i];
        if (strcmp(f->name, raw->name) == 0 && f->dtype == td_v2_dtype(raw->datatype)) {
            td_json_ahead_last(&to->ahead, &w->j, f->dtype);
            w->j.ahead = &to->ahead;
        }
    }
}

static enum td_code input_data(struct walk *w, struct td_err *err)
{
    (void)td_json_peek(&w->j);
    read_ahead(w);
    w->in->data = w->j;
    TD_TRY(td_json_leap(&w->j, err));
    w->in->data.end = w->j.at;
    return TD_OK;
}

static enum td_code input_member(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    if (td_json_str_is(key, "name")) {
        return read_text(w, "an input's 'name'", &w->in->raw.name, err);
    }
    if (td_json_str_is(key, "datatype")) {
        return read_text(w, "an input's 'datatype'", &w->in->raw.datatype, err);
    }
    if (td_json_str_is(key, "shape")) {
        w->in->raw.shape.rank = 0;
        return each_element(w, "an input's 'shape'", read_dim, err);
    }
    if (td_json_str_is(key, "parameters")) {
        return each_member(w, "an input's 'parameters'", input_parameter, err);
    }
    if (td_json_str_is(key, "data")) {
        return input_data(w, err);
    }
    return td_json_skip(&w->j, err);
}

static enum td_code read_input(struct walk *w, struct td_err *err)
{
    struct td_infer_json *to = w->to;
    TD_FAIL_IF(to->n_in == MAX_PARTS, err, INVALID_ARGUMENT, "a request has more than %d inputs", MAX_PARTS);
    to->in = grown(w, to->in, (size_t)to->n_in, &w->cap_in, sizeof *to->in);
    if (to->in == NULL) {
        return td_no_memory(err, sizeof *to->in, "a request's inputs");
    }
    w->in = &to->in[to->n_in++];
    *w->in = (struct td_infer_json_in){.raw = {.name = "", .datatype = "", .shape = {.rank = -1}}};
    TD_TRY(each_member(w, "each of 'inputs'", input_member, err));
    TD_FAIL_IF(w->in->raw.shape.rank < 0, err, INVALID_ARGUMENT, "input '%s' has no 'shape'",
               w->in->raw.name);
    const struct td_infer_place *place = &w->in->raw.place;
    TD_FAIL_IF(place->in_body && w->in->data.at != NULL, err, INVALID_ARGUMENT,
               "input '%s': 'data' and 'binary_data_size' exclude each other", w->in->raw.name);
    TD_FAIL_IF(place->region != NULL && w->in->data.at != NULL, err, INVALID_ARGUMENT,
               "input '%s': 'data' and 'shared_memory_region' exclude each other", w->in->raw.name);
    TD_FAIL_IF(!place->in_body && place->region == NULL && w->in->data.at == NULL, err, INVALID_ARGUMENT,
               "input '%s' has neither 'data' nor the parameter 'binary_data_size'", w->in->raw.name);
    return td_infer_place_check(place, w->in->raw.name, err);
}

/* ------------------------------------------------------------------ outputs */

static enum td_code output_parameter(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    struct td_infer_param p;
    TD_TRY(read_param(w, key, &p, err));
    return td_infer_place_set(&w->out->place, w->out->name, &p, err);
}

static enum td_code output_member(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    if (td_json_str_is(key, "name")) {
        return read_text(w, "an output's 'name'", &w->out->name, err);
    }
    if (td_json_str_is(key, "parameters")) {
        return each_member(w, "an output's 'parameters'", output_parameter, err);
    }
    return td_json_skip(&w->j, err);
}

static enum td_code read_output(struct walk *w, struct td_err *err)
{
    struct td_infer_json *to = w->to;
    TD_FAIL_IF(to->n_out == MAX_PARTS, err, INVALID_ARGUMENT, "a request has more than %d outputs",
               MAX_PARTS);
    to->out = grown(w, to->out, (size_t)to->n_out, &w->cap_out, sizeof *to->out);
    if (to->out == NULL) {
        return td_no_memory(err, sizeof *to->out, "a request's outputs");
    }
    w->out = &to->out[to->n_out++];
    *w->out = (struct td_infer_out){.name = ""};
    TD_TRY(each_member(w, "each of 'outputs'", output_member, err));
    return td_infer_place_check(&w->out->place, w->out->name, err);
}

/* ------------------------------------------------------------------ the request */

static enum td_code request_parameter(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    struct td_infer_param p;
    TD_TRY(read_param(w, key, &p, err));
    return td_infer_option_set(&w->to->opts, &p, err);
}

static enum td_code request_member(struct walk *w, const struct td_json_str *key, struct td_err *err)
{
    if (td_json_str_is(key, "id")) {
        return read_text(w, "'id'", &w->to->id, err);
    }
    if (td_json_str_is(key, "inputs")) {
        return each_element(w, "'inputs'", read_input, err);
    }
    if (td_json_str_is(key, "parameters")) {
        return each_member(w, "'parameters'", request_parameter, err);
    }
    if (td_json_str_is(key, "outputs")) {
        return each_element(w, "'outputs'", read_output, err);
    }
    return td_json_skip(&w->j, err);
}

/* Hands the bytes behind the object to the binary inputs, in their order: all of them, to the last. */
static enum td_code give_bytes(struct td_infer_json *to, const char *bytes, size_t n, struct td_err *err)
{
    for (int i = 0; i < to->n_in; i++) {
        struct td_infer_json_in *in = &to->in[i];
        const uint64_t size = in->raw.place.body_bytes;
        TD_FAIL_IF(size > n, err, INVALID_ARGUMENT,
                   "unexpected size for input '%s', expecting %llu additional bytes", in->raw.name,
                   (unsigned long long)(size - n));
        in->seg = (struct td_seg){(const uint8_t *)bytes, (size_t)size};
        td_wire_init(&in->raw.data, &in->seg, 1);
        bytes += size;
        n -= (size_t)size;
    }
    TD_FAIL_IF(n > 0, err, INVALID_ARGUMENT,
               "unexpected additional input data for model: %zu bytes behind the last binary tensor", n);
    return TD_OK;
}

void td_infer_json_fini(struct td_infer_json *p)
{
    td_json_ahead_fini(&p->ahead);
}

enum td_code td_infer_json_read(const char *body, size_t n, size_t n_json, struct td_arena *a,
                                const struct td_infer_json_known *known, struct td_infer_json *out,
                                struct td_err *err)
{
    size_t end = n_json;
    while (end > 0 && td_json_is_space(body[end - 1])) {
        end--;
    }
    struct walk w = {.j = td_json_make(body, end), .arena = a, .known = known, .to = out};
    w.j.pool = known->pool;
    *out = (struct td_infer_json){.id = "", .opts.signature = ""};
    if (end == 0 || body[end - 1] != '}') { /* so that nothing read here runs into the bytes behind it */
        w.j.at += end;
        return td_json_fail(&w.j, err, end == 0 ? "The document is empty." : "Invalid value.");
    }
    TD_TRY(each_member(&w, "an inference request", request_member, err));
    if (w.j.at != w.j.end) {
        return td_json_fail(&w.j, err, "The document root must not be followed by other values.");
    }
    for (int i = 0; i < out->n_out; i++) {
        struct td_infer_place *place = &out->out[i].place;
        place->binary = place->told ? place->binary : out->opts.binary_output;
    }
    return give_bytes(out, body + n_json, n - n_json, err);
}

/* ------------------------------------------------------------------ tensors */

static enum td_code gather(const struct td_infer_json_in *in, struct td_gather *g, struct td_tensor *out,
                           struct td_err *err)
{
    struct td_json j = in->data;
    const int64_t n = td_shape_count(&in->raw.shape);
    TD_TRY(td_gather_flat(g, &j, err));
    if (td_json_peek(&j) != '\0' || j.at != j.end) {
        return td_json_fail(&j, err, "Invalid value.");
    }
    char count[24];
    (void)snprintf(count, sizeof count, "%lld", (long long)n);
    TD_FAIL_IF(n < 0 || g->n != (size_t)n, err, INVALID_ARGUMENT,
               "'data' has %zu values, shape %s has %s elements", g->n, TD_SHAPE_STR(&in->raw.shape),
               n < 0 ? "more than 2^63" : count);
    return td_gather_take(g, &in->raw.shape, out, err);
}

enum td_code td_infer_json_tensor(const struct td_infer_json_in *in, uint64_t max_bytes,
                                  struct td_tensor *out, struct td_err *err)
{
    if (in->raw.place.in_body) {
        return td_infer_tensor(&in->raw, max_bytes, out, err);
    }
    const enum td_dtype dtype = td_v2_dtype(in->raw.datatype);
    TD_FAIL_IF(dtype == TD_DTYPE_NONE, err, INVALID_ARGUMENT, "input '%s': datatype '%s' is unknown",
               in->raw.name, in->raw.datatype);
    struct td_gather g;
    TD_TRY(td_gather_init(&g, dtype, err));
    enum td_code rc = gather(in, &g, out, err);
    td_gather_fini(&g);
    return rc ? td_err_wrap(err, "input '%s'", in->raw.name) : TD_OK;
}

/* ------------------------------------------------------------------ answers */

static enum td_code put(struct td_sink *s, const char *text, struct td_err *err)
{
    return td_sink_put(s, text, strlen(text), err);
}

static enum td_code put_number(struct td_sink *s, uint64_t v, struct td_err *err)
{
    char text[TD_JSON_NUM_CHARS];
    return td_sink_put(s, text, td_json_put_uint(text, v), err);
}

static enum td_code put_member(struct td_sink *s, const char *key, const char *text, struct td_err *err)
{
    TD_TRY(put(s, key, err));
    return td_json_put_string(s, text, strlen(text), err);
}

/* {"name": "y", "datatype": "FP32", "shape": [2], and its data or how many bytes that is. Nothing more of one
 * that is in shared memory: Triton's C++ client takes any parameters as those of binary data. */
static enum td_code put_output(struct td_sink *s, const struct td_named *o, bool shared, bool binary,
                               struct td_err *err)
{
    const char *type = td_v2_name(o->t.dtype);
    TD_FAIL_IF(type == NULL, err, UNIMPLEMENTED, "output '%s': %s has no form in this protocol", o->name,
               td_dtype_name(o->t.dtype));
    TD_TRY(put_member(s, "{\"name\":", o->name, err));
    TD_TRY(put_member(s, ",\"datatype\":", type, err));
    TD_TRY(put(s, ",\"shape\":[", err));
    for (int i = 0; i < o->t.shape.rank; i++) {
        TD_TRY(i > 0 ? put(s, ",", err) : TD_OK);
        TD_TRY(put_number(s, (uint64_t)o->t.shape.dim[i], err));
    }
    if (shared) {
        return put(s, "]}", err);
    }
    if (binary) {
        TD_TRY(put(s, "],\"parameters\":{\"binary_data_size\":", err));
        TD_TRY(put_number(s, td_v2_raw_size(&o->t), err));
        return put(s, "}}", err);
    }
    TD_TRY(put(s, "],\"data\":[", err));
    TD_TRY(td_json_put_elems(s, &o->t, 0, td_tensor_count(&o->t), false, err));
    return put(s, "]}", err);
}

static enum td_code put_head(const struct td_infer_json_answer *p, struct td_sink *s, struct td_err *err)
{
    TD_TRY(put_member(s, "{\"model_name\":", p->model, err));
    TD_TRY(put(s, ",\"model_version\":\"", err));
    TD_TRY(put_number(s, (uint64_t)p->version, err));
    TD_TRY(put(s, "\"", err));
    return *p->id != '\0' ? put_member(s, ",\"id\":", p->id, err) : TD_OK;
}

/* Whether output i is in shared memory. */
static bool is_shared(const struct td_infer_json_answer *p, int i)
{
    return p->asked != NULL && p->asked[i].place.region != NULL;
}

enum td_code td_infer_json_write(const struct td_infer_json_answer *p, struct td_sink *s, size_t *n_json,
                                 struct td_err *err)
{
    const size_t from = s->n;
    uint64_t binary_bytes = 0;
    TD_TRY(put_head(p, s, err));
    TD_TRY(put(s, ",\"outputs\":[", err));
    for (int i = 0; i < p->n_out; i++) {
        TD_TRY(i > 0 ? put(s, ",", err) : TD_OK);
        TD_TRY(put_output(s, &p->out[i], is_shared(p, i), p->binary[i], err));
        binary_bytes += p->binary[i] && !is_shared(p, i) ? td_v2_raw_size(&p->out[i].t) : 0;
    }
    TD_TRY(put(s, "]}", err));
    *n_json = binary_bytes > 0 ? s->n - from : 0;
    for (int i = 0; i < p->n_out; i++) {
        TD_TRY(p->binary[i] && !is_shared(p, i) ? td_v2_raw_write(&p->out[i].t, s, err) : TD_OK);
    }
    return TD_OK;
}
