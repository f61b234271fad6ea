/* proto/json/json_value.c - one pass over nested lists: numbers by json_list.c as long as nothing is strange,
 * one by one where something is, and everything else.
 *
 * Invariant (nest_check): while a value is read, dims[0..level) are the sizes of the lists it is inside of,
 * -1 where none of that level has closed yet; rank is -1 until the first scalar or the first empty list fixes
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_value.h"

#include <math.h>
#include <string.h>

#include "core/base/buffer.h"
#include "core/base/check.h"
#include "core/base/mem.h"
#include "proto/json/json_ahead.h"
#include "proto/json/json_list.h"
#include "proto/json/json_parts.h"

enum { BLOCK_BYTES = 64 << 10 /* of data that are reserved: they lie in a block that may be a tensor's */ };

enum td_code td_gather_init(struct td_gather *g, enum td_dtype dtype, struct td_err *err)
{
    TD_FAIL_IF(dtype == TD_DTYPE_NONE ||
                   !td_dtype_in(dtype, TD_SET_REALS | TD_SET_QUANTIZED | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING)),
               err, UNIMPLEMENTED, "Conversion of JSON Value to type: %s", td_dtype_name(dtype));
    g->dtype = dtype;
    g->elem = td_dtype_size(dtype);
    g->data = g->own;
    g->n = 0;
    g->cap = sizeof g->own / g->elem;
    g->is_view = false;
    g->block = NULL;
    return TD_OK;
}

void td_gather_cut(struct td_gather *g, size_t n)
{
    for (size_t i = n; g->dtype == TD_STRING && i < g->n; i++) {
        td_obj_unref(((td_objp *)g->data)[i]);
    }
    g->n = n < g->n ? n : g->n;
}

static void let_go(struct td_gather *g)
{
    td_buffer_unref(g->block);
    if (g->block == NULL && g->data != g->own) {
        td_free(g->data);
    }
}

void td_gather_fini(struct td_gather *g)
{
    td_gather_cut(g, 0);
    let_go(g);
    g->data = g->own;
    g->block = NULL;
}

static enum td_code grow_to(struct td_gather *g, size_t cap, struct td_err *err)
{
    size_t bytes = 0;
    const bool moves = g->data == g->own || g->block != NULL;
    TD_FAIL_IF(g->is_view, err, INVALID_ARGUMENT, "More than the %zu elements that its commas told of",
               g->cap);
    char *p = td_size_mul(cap, g->elem, &bytes) ? td_realloc(moves ? NULL : g->data, cap, g->elem) : NULL;
    if (p == NULL) {
        return td_no_memory(err, bytes, "a tensor in JSON");
    }
    if (moves) {
        memcpy(p, g->data, g->n * g->elem);
        td_buffer_unref(g->block);
        g->block = NULL;
    }
    g->data = p;
    g->cap = cap;
    return TD_OK;
}

/* text_left bounds the elements to come: each takes at least two characters. */
static enum td_code grow(struct td_gather *g, size_t text_left, struct td_err *err)
{
    const size_t most = g->n + text_left / 2 + 1;
    return grow_to(g, g->cap * 2 > most ? most : g->cap * 2, err);
}

/* Of an empty one: what is reserved is likely to be all. */
static enum td_code begin_block(struct td_gather *g, size_t cap, struct td_err *err)
{
    size_t bytes = 0;
    struct td_buffer *b;
    TD_FAIL_IF(!td_size_mul(cap, g->elem, &bytes), err, RESOURCE_EXHAUSTED,
               "a tensor in JSON: %zu elements are more than memory can hold", cap);
    TD_TRY(td_buffer_new(bytes, false, &b, err));
    let_go(g);
    g->block = b;
    g->data = b->data;
    g->cap = cap;
    return TD_OK;
}

enum td_code td_gather_reserve(struct td_gather *g, size_t n, struct td_err *err)
{
    if (n <= g->cap - g->n) {
        return TD_OK;
    }
    if (g->n == 0 && g->dtype != TD_STRING && !g->is_view && n >= BLOCK_BYTES / g->elem) {
        return begin_block(g, n, err);
    }
    return grow_to(g, g->n + n > 2 * g->cap ? g->n + n : 2 * g->cap, err);
}

/* ------------------------------------------------------------------ scalars */

static const char *kind_at(struct td_json *j)
{
    switch (td_json_peek(j)) {
    case '"':
        return "String";
    case '{':
        return "Object";
    case '[':
        return "Array";
    case 't':
    case 'f':
        return "Boolean";
    case 'n':
        return "Null";
    default:
        return "Number";
    }
}

/* "JSON Value: V Type: T is not of expected type: float", or a syntax error when no value is there at all. */
static enum td_code wrong_kind(const struct td_gather *g, struct td_json *at, struct td_err *err)
{
    struct td_json end = *at;
    TD_TRY(td_json_skip(&end, err));
    (void)td_json_peek(at);
    const int len = end.at - at->at > 256 ? 256 : (int)(end.at - at->at);
    TD_FAIL(err, INVALID_ARGUMENT, "JSON Value: %.*s%s Type: %s is not of expected type: %s", len, at->at,
            end.at - at->at > 256 ? "..." : "", kind_at(at), td_dtype_name(g->dtype));
}

/* A double as a float rounded to odd, so that rounding it again to a shorter format rounds once. */
static float odd_float(double v)
{
    float f = (float)v;
    if (isnan(v) || isinf(f) || (double)f == v) {
        return f;
    }
    if (fabs((double)f) > fabs(v)) {
        f = nextafterf(f, 0);
    }
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits |= 1;
    memcpy(&f, &bits, 4);
    return f;
}

static void store_real(const struct td_gather *g, void *to, double v)
{
    if (g->dtype == TD_FLOAT) {
        *(float *)to = (float)v;
    } else if (g->dtype == TD_DOUBLE) {
        *(double *)to = v;
    } else if (g->dtype == TD_HALF) {
        *(td_half *)to = td_float_to_half(odd_float(v));
    } else {
        *(td_bf16 *)to = td_float_to_bf16(odd_float(v));
    }
}

/* false when the number is no integer or outside the dtype's range */
static bool store_int(enum td_dtype dtype, void *to, const struct td_json_num *num)
{
    if (dtype == TD_UINT64) {
        *(uint64_t *)to = num->u; /* also the bits of a non-negative int64 */
        return num->kind == TD_JSON_UINT || (num->kind == TD_JSON_INT && num->i >= 0);
    }
    if (num->kind != TD_JSON_INT) {
        return false;
    }
    const int64_t v = num->i;
    switch (dtype) {
    case TD_INT64:
        *(int64_t *)to = v;
        return true;
    case TD_INT32:
    case TD_QINT32:
        *(int32_t *)to = (int32_t)v;
        return v == (int32_t)v;
    case TD_UINT32:
        *(uint32_t *)to = (uint32_t)v;
        return v == (int64_t)(uint32_t)v;
    case TD_INT16:
    case TD_QINT16:
        *(int16_t *)to = (int16_t)v;
        return v == (int16_t)v;
    case TD_UINT16:
    case TD_QUINT16:
        *(uint16_t *)to = (uint16_t)v;
        return v == (uint16_t)v;
    case TD_INT8:
    case TD_QINT8:
        *(int8_t *)to = (int8_t)v;
        return v == (int8_t)v;
    default:
        *(uint8_t *)to = (uint8_t)v;
        return v == (uint8_t)v;
    }
}

bool td_gather_store(const struct td_gather *g, void *to, const struct td_json_num *num)
{
    if (td_dtype_in(g->dtype, TD_SET_FLOATS)) {
        store_real(g, to, td_json_num_double(num));
        return true;
    }
    return store_int(g->dtype, to, num);
}

static enum td_code read_number(const struct td_gather *g, struct td_json *j, void *to, struct td_err *err)
{
    struct td_json at = *j;
    struct td_json_num num;
    if (!td_json_at_number(j)) {
        return wrong_kind(g, &at, err);
    }
    TD_TRY(td_json_number(j, &num, err));
    return td_gather_store(g, to, &num) ? TD_OK : wrong_kind(g, &at, err);
}

static enum td_code read_bool(const struct td_gather *g, struct td_json *j, td_bool *to, struct td_err *err)
{
    struct td_json at = *j;
    const char c = td_json_literal(j);
    if (c != 't' && c != 'f') {
        return wrong_kind(g, &at, err);
    }
    *to = c == 't';
    return TD_OK;
}

bool td_json_at_b64(const struct td_json *j)
{
    struct td_json at = *j;
    struct td_json_str s;
    struct td_err err = {0};
    return td_json_eat(&at, '{') && td_json_peek(&at) == '"' && td_json_string(&at, &s, &err) == TD_OK &&
           td_json_str_is(&s, "b64") && td_json_eat(&at, ':') && td_json_peek(&at) == '"' &&
           td_json_string(&at, &s, &err) == TD_OK && td_json_eat(&at, '}');
}

static enum td_code keep_string(td_objp *to, const char *p, size_t len, struct td_err *err)
{
    if (len == 0) {
        *to = NULL;
        return TD_OK;
    }
    struct td_str *s = td_str_new(p, len);
    if (s == NULL) {
        return td_no_memory(err, len, "a string in JSON");
    }
    *to = &s->obj;
    return TD_OK;
}

/* Decoded text is never longer than what it was decoded from. */
static enum td_code decode_string(const struct td_json *j, const struct td_json_str *s, bool b64, td_objp *to,
                                  struct td_err *err)
{
    char small[256];
    char *buf = s->len <= sizeof small ? small : td_realloc(NULL, s->len, 1);
    if (buf == NULL) {
        return td_no_memory(err, s->len, "a string in JSON");
    }
    size_t n = 0;
    enum td_code rc = TD_OK;
    if (!b64) {
        rc = td_json_unescape(j, s, buf, &n, err);
    } else if (!td_json_base64(s->p, s->len, buf, &n)) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "Unable to base64 decode the value of 'b64': '%.*s'",
                     s->len > 64 ? 64 : (int)s->len, s->p);
    }
    if (rc == TD_OK) {
        rc = keep_string(to, buf, n, err);
    }
    if (buf != small) {
        td_free(buf);
    }
    return rc;
}

static enum td_code read_string(const struct td_gather *g, struct td_json *j, td_objp *to, struct td_err *err)
{
    struct td_json at = *j;
    struct td_json_str s;
    const bool b64 = td_json_at_b64(j);
    if (b64) {
        (void)td_json_eat(j, '{');
        TD_TRY(td_json_string(j, &s, err));
        (void)td_json_eat(j, ':');
    } else if (td_json_peek(j) != '"') {
        return wrong_kind(g, &at, err);
    }
    TD_TRY(td_json_string(j, &s, err));
    TD_TRY(s.escaped || b64 ? decode_string(j, &s, b64, to, err) : keep_string(to, s.p, s.len, err));
    if (b64) {
        (void)td_json_eat(j, '}');
    }
    return TD_OK;
}

static enum td_code read_scalar(struct td_gather *g, struct td_json *j, struct td_err *err)
{
    if (g->n == g->cap) {
        TD_TRY(grow(g, (size_t)(j->end - j->at), err));
    }
    void *to = g->data + g->n * g->elem;
    if (g->dtype == TD_STRING) {
        TD_TRY(read_string(g, j, to, err));
    } else if (g->dtype == TD_BOOL) {
        TD_TRY(read_bool(g, j, to, err));
    } else {
        TD_TRY(read_number(g, j, to, err));
    }
    g->n++;
    return TD_OK;
}

/* ------------------------------------------------------------------ nested lists */

TD_CHECK_FN enum td_code nest_check(const struct td_json_nest *nest, struct td_err *err)
{
    TD_WANT(nest->level >= 0 && nest->level <= nest->seen && nest->seen <= TD_JSON_LEVELS &&
                nest->rank <= nest->seen && nest->held <= nest->before,
            err, "at level %d of %d of a value of rank %d", nest->level, nest->seen, nest->rank);
    for (int i = 0; i < nest->level; i++) {
        TD_WANT(nest->dim[i] >= -1 && (nest->rank >= 0 || nest->dim[i] < 0), err,
                "level %d has size %lld though no list of it has closed", i, (long long)nest->dim[i]);
    }
    return TD_OK;
}

static enum td_code open_list(struct td_json_nest *nest, struct td_json *j, struct td_err *err)
{
    TD_FAIL_IF(nest->rank >= 0 && nest->level >= nest->rank, err, INVALID_ARGUMENT,
               "Encountered list at unexpected level: %d expected < %d", nest->level + 1, nest->rank);
    TD_FAIL_IF(nest->level == nest->before + TD_MAX_RANK, err, INVALID_ARGUMENT,
               "Lists are nested more than %d levels deep, the largest rank of a tensor", TD_MAX_RANK);
    j->at++;
    if (nest->level == nest->seen) {
        nest->dim[nest->seen++] = -1;
    }
    nest->count[nest->level++] = 0;
    TD_HOLDS(nest_check, nest);
    return TD_OK;
}

static enum td_code close_list(struct td_json_nest *nest, struct td_err *err)
{
    const int level = --nest->level;
    const int64_t n = nest->count[level];
    if (level < nest->held) { /* its other elements are in the parts before */
        nest->ended[level] = n;
        nest->held = level;
        return TD_OK;
    }
    if (nest->dim[level] < 0) {
        nest->dim[level] = n;
    }
    TD_FAIL_IF(nest->dim[level] != n, err, INVALID_ARGUMENT,
               "Encountered list at unexpected size: %lld at level: %d expected size: %lld", (long long)n,
               level, (long long)nest->dim[level]);
    if (nest->rank < 0) { /* an empty list: nothing can be inside it */
        nest->rank = level + 1;
    }
    TD_HOLDS(nest_check, nest);
    return TD_OK;
}

static enum td_code leaf(struct td_gather *g, struct td_json_nest *nest, struct td_json *j,
                         struct td_err *err)
{
    struct td_json at = *j;
    TD_TRY(read_scalar(g, j, err));
    if (nest->rank < 0) {
        nest->rank = nest->level;
    }
    if (nest->level != nest->rank) {
        (void)td_json_peek(&at);
        const int len = j->at - at.at > 256 ? 256 : (int)(j->at - at.at);
        TD_FAIL(err, INVALID_ARGUMENT,
                "JSON Value: %.*s found at incorrect level: %d in the JSON DOM. Expected at level: %d", len,
                at.at, nest->level + 1, nest->rank);
    }
    return TD_OK;
}

/* Whether the text of a part is over. */
static bool is_over(const struct td_json_nest *nest, struct td_json *j)
{
    return nest->is_part && td_json_peek(j) == '\0' && j->at == j->end;
}

/* After a value: closes the lists that end here. Sets *more when another value follows. */
static enum td_code after(struct td_json_nest *nest, struct td_json *j, bool *more, struct td_err *err)
{
    *more = false;
    while (nest->level > 0) {
        nest->count[nest->level - 1]++;
        const char c = td_json_peek(j);
        if (c == ',') {
            j->at++;
            *more = true;
            return TD_OK;
        }
        if (c == '\0' && is_over(nest, j)) {
            return TD_OK;
        }
        if (c != ']') {
            return td_json_fail(j, err, "Missing a comma or ] after an array element.");
        }
        j->at++;
        TD_TRY(close_list(nest, err));
    }
    return TD_OK;
}

enum td_code td_gather_lists(struct td_gather *g, struct td_json_nest *nest, struct td_json *j, bool *more,
                             struct td_err *err)
{
    *more = true;
    while (*more && !is_over(nest, j)) {
        if (td_json_peek(j) == '[') {
            TD_TRY(open_list(nest, j, err));
            if (td_json_peek(j) != ']') {
                continue;
            }
            j->at++;
            TD_TRY(close_list(nest, err));
        } else if (!td_json_list(g, nest, j)) {
            if (td_json_peek(j) == '[' || is_over(nest, j)) { /* behind numbers, wrong: said above */
                continue;
            }
            TD_TRY(leaf(g, nest, j, err));
        }
        TD_TRY(after(nest, j, more, err));
    }
    return TD_OK;
}

enum td_code td_gather_value(struct td_gather *g, struct td_json *j, struct td_shape *shape,
                             struct td_err *err)
{
    struct td_json_nest nest;
    bool more;
    if (td_json_ahead_take(j, g, shape) || td_gather_by_parts(g, j, shape)) {
        return TD_OK;
    }
    nest.level = nest.seen = 0;
    nest.rank = -1;
    nest.is_part = false;
    nest.before = nest.held = 0;
    TD_TRY(td_gather_lists(g, &nest, j, &more, err));
    return td_shape_make(shape, nest.dim, nest.rank, err);
}

enum td_code td_gather_flat(struct td_gather *g, struct td_json *j, struct td_err *err)
{
    int64_t depth = 0;
    struct td_shape ignored;
    if (td_json_ahead_take(j, g, &ignored) || td_gather_by_parts(g, j, &ignored)) {
        return TD_OK;
    }
    do {
        bool opened = false;
        for (; td_json_eat(j, '['); depth++) {
            opened = true;
        }
        if (!opened || td_json_peek(j) != ']') {
            struct td_json_nest here = {.level = depth > 0, .rank = -1, .dim = {-1}};
            const bool behind = td_json_list(g, &here, j);
            if (!behind && depth > 0 && td_json_peek(j) == '[') {
                continue;
            }
            TD_TRY(behind ? TD_OK : read_scalar(g, j, err));
        }
        while (depth > 0 && td_json_eat(j, ']')) {
            depth--;
        }
        if (depth > 0 && !td_json_eat(j, ',')) {
            return td_json_fail(j, err, "Missing a comma or ] after an array element.");
        }
    } while (depth > 0);
    return TD_OK;
}

enum td_code td_gather_take(struct td_gather *g, const struct td_shape *shape, struct td_tensor *out,
                            struct td_err *err)
{
    TD_CHECK(td_shape_count(shape) == (int64_t)g->n);
    if (g->block != NULL && g->block->bytes / 8 * 7 <= g->n * g->elem) {
        *out = (struct td_tensor){.buf = g->block, .data = g->data, .dtype = g->dtype, .shape = *shape};
        g->block = NULL;
        g->data = g->own;
        g->n = 0;
        return TD_OK;
    }
    TD_TRY(td_tensor_new(out, g->dtype, shape, err));
    if (g->n > 0) {
        memcpy(out->data, g->data, g->n * g->elem);
        g->n = 0; /* strings are the tensor's now */
    }
    return TD_OK;
}
