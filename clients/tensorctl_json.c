/* clients/tensorctl_json.c - tensors as JSON and back: numbers, true and false, strings, nested lists.
 *
 * Reading takes the shape from the first elements on the way down, then walks the value twice: to check it
 * and measure its strings, then to fill one block, elements first and the strings' bytes behind them.
 * Integers must fit their type. Halves are rounded by arithmetic, to even. Writing gives a float the shortest
 * decimal that reads back as the same float; NaN and infinities become strings, and strings that are not
 * UTF-8 {"b64": ...}.
 *
 * Recursion is as deep as a tensor's rank. Does not: talk to a server, know complex numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/tensorctl_args.h"

#define FLOAT 1
#define DOUBLE 2
#define STRING 7
#define INT64 9
#define BOOL 10
#define BFLOAT16 14
#define HALF 19
#define UINT64 23
#define INVALID_ARGUMENT 3

static bool fail(struct tdc_error *err, const struct tdc_tensor *t, const char *what)
{
    err->code = INVALID_ARGUMENT;
    snprintf(err->text, sizeof err->text, "input '%s' (%s): %s", t->name, tdc_dtype_name(t->dtype), what);
    return false;
}

/* ---- 16-bit floats ---- */

static uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)(isnan(f) ? (u >> 16) | 0x40 : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static double from_bf16(uint16_t b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* By arithmetic: a half is sign, 5 bits of exponent and 10 of mantissa. */
static uint16_t to_half(double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    x = fabs(x);
    if (isnan(x)) {
        return 0x7e00;
    }
    if (x >= 65520) {
        return sign | 0x7c00;
    }
    int e;
    (void)frexp(x, &e);
    const int scale = e < -13 ? -14 : e - 1; /* subnormals share the least exponent */
    const double m = nearbyint(ldexp(x, 10 - scale));
    if (x == 0 || m < 1024) {
        return (uint16_t)(sign | (uint16_t)(x == 0 ? 0 : m));
    }
    return (uint16_t)(sign | (uint16_t)((scale + 15) * 1024 + (m - 1024)));
}

static double from_half(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double x = e == 31 ? (m ? NAN : INFINITY) : e == 0 ? ldexp(m, -24) : ldexp(m + 1024, e - 25);
    return h & 0x8000 ? -x : x;
}

/* ---- base64, for bytes that are no text ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *encode(const unsigned char *p, size_t n)
{
    char *text = malloc((n + 2) / 3 * 4 + 1);
    if (text == NULL) {
        return NULL;
    }
    size_t k = 0;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t v =
            (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        for (int b = 0; b < 4; b++) {
            text[k++] = i + (size_t)b > n ? '=' : alphabet[v >> (18 - 6 * b) & 63];
        }
    }
    text[k] = 0;
    json_t *v = json_pack("{s:s}", "b64", text);
    free(text);
    return v;
}

/* Decodes in place; false for other characters. */
static bool decode(const char *text, size_t n, char *to, size_t *len)
{
    uint32_t v = 0;
    int bits = 0;
    *len = 0;
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        const char *at = memchr(alphabet, text[i], sizeof alphabet - 1);
        if (at == NULL) {
            return false;
        }
        v = v << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            to[(*len)++] = (char)(v >> bits);
        }
    }
    return true;
}

/* ---- JSON to tensor ---- */

/* What a walk over the value fills: elements, or for strings their bytes as well. */
struct walk {
    char *data;
    int64_t at;
    char *text;
    size_t n_text;
};

static bool string_value(const json_t *v, const char **text, size_t *n, bool *b64)
{
    const json_t *inner = json_object_size(v) == 1 ? json_object_get(v, "b64") : NULL;
    *b64 = inner != NULL;
    v = inner != NULL ? inner : v;
    *text = json_string_value(v);
    *n = json_string_length(v);
    return *text != NULL;
}

static bool put_string(const json_t *v, const struct tdc_tensor *t, struct walk *w, struct tdc_error *err)
{
    const char *text;
    size_t n;
    bool b64;
    if (!string_value(v, &text, &n, &b64)) {
        return fail(err, t, "a string or {\"b64\": ...} belongs here");
    }
    if (w->data == NULL) { /* measuring */
        w->n_text += n + 1;
        return true;
    }
    struct tdc_bytes *to = (struct tdc_bytes *)w->data + w->at;
    to->p = w->text + w->n_text;
    to->n = n;
    if (b64 && !decode(text, n, w->text + w->n_text, &to->n)) {
        return fail(err, t, "its base64 is malformed");
    }
    if (!b64) {
        memcpy(w->text + w->n_text, text, n);
    }
    w->n_text += n + 1;
    return true;
}

/* Whether i is a value of the integer type t: the numbers are those of TensorFlow's DataType. */
static bool fits(int dtype, int64_t i)
{
    const size_t size = tdc_dtype_size(dtype);
    const bool is_signed =
        dtype == 3 || dtype == 5 || dtype == 6 || dtype == 11 || dtype == 13 || dtype == 15;
    if (size >= 8) {
        return dtype != UINT64 || i >= 0;
    }
    const int64_t range = (int64_t)1 << (8 * size);
    return is_signed ? i >= -range / 2 && i < range / 2 : i >= 0 && i < range;
}

static bool put_number(const json_t *v, const struct tdc_tensor *t, struct walk *w, struct tdc_error *err)
{
    const bool real = t->dtype == FLOAT || t->dtype == DOUBLE || t->dtype == HALF || t->dtype == BFLOAT16;
    if (t->dtype == BOOL ? !json_is_boolean(v) : real ? !json_is_number(v) : !json_is_integer(v)) {
        return fail(err, t, t->dtype == BOOL ? "true or false belongs here" : "a number belongs here");
    }
    if (!real && !fits(t->dtype, json_integer_value(v))) {
        return fail(err, t, "the number is out of the type's range");
    }
    if (w->data == NULL) {
        return true;
    }
    const size_t size = tdc_dtype_size(t->dtype);
    char *to = w->data + (size_t)w->at * size;
    const double x = json_number_value(v);
    const float f = (float)x;
    const uint16_t h = t->dtype == HALF ? to_half(x) : to_bf16(f);
    const int64_t i = json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
    const void *from = t->dtype == FLOAT    ? (const void *)&f
                       : t->dtype == DOUBLE ? (const void *)&x
                       : real               ? (const void *)&h
                                            : (const void *)&i;
    memcpy(to, from, size); /* of integers the low bytes, which come first */
    return true;
}

static bool walk(const json_t *v, const struct tdc_tensor *t, int depth, struct walk *w,
                 struct tdc_error *err)
{
    if (depth < t->rank) {
        if (!json_is_array(v) || (int64_t)json_array_size(v) != t->dims[depth]) {
            return fail(err, t, "its lists differ in length or depth");
        }
        for (size_t i = 0; i < json_array_size(v); i++) {
            if (!walk(json_array_get(v, i), t, depth + 1, w, err)) {
                return false;
            }
        }
        return true;
    }
    const bool ok = t->dtype == STRING ? put_string(v, t, w, err) : put_number(v, t, w, err);
    w->at++;
    return ok;
}

bool tdc_from_json(const json_t *v, struct tdc_tensor *t, struct tdc_error *err)
{
    if (t->dtype != STRING && tdc_dtype_size(t->dtype) == 0) {
        return fail(err, t, "the type has no JSON form");
    }
    t->rank = 0;
    for (const json_t *in = v; json_is_array(in); in = json_array_get(in, 0)) {
        if (t->rank == TDC_MAX_RANK) {
            return fail(err, t, "too many dimensions");
        }
        t->dims[t->rank++] = (int64_t)json_array_size(in);
    }
    struct walk w = {0};
    if (!walk(v, t, 0, &w, err)) {
        return false;
    }
    const size_t size = t->dtype == STRING ? sizeof(struct tdc_bytes) : tdc_dtype_size(t->dtype);
    t->bytes = (size_t)w.at * size;
    char *data = calloc(1, t->bytes + w.n_text + 1);
    if (data == NULL) {
        return fail(err, t, "no memory");
    }
    w = (struct walk){.data = data, .text = data + t->bytes};
    t->data = data;
    if (!walk(v, t, 0, &w, err)) {
        free(data);
        t->data = NULL;
        return false;
    }
    return true;
}

/* ---- tensor to JSON ---- */

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

/* A float as the shortest decimal that is the same float. */
static json_t *short_real(float f)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f) {
            break;
        }
    }
    return real(isfinite(f) ? strtod(text, NULL) : (double)f);
}

static json_t *element(const struct tdc_tensor *t, int64_t i)
{
    const size_t size = tdc_dtype_size(t->dtype);
    const char *p = (const char *)t->data + (size_t)i * size;
    if (t->dtype == STRING) {
        const struct tdc_bytes *s = (const struct tdc_bytes *)t->data + i;
        json_t *text = json_stringn(s->p, s->n);
        return text != NULL ? text : encode(s->p, s->n);
    }
    float f;
    double d;
    uint16_t h;
    int64_t v = 0;
    switch (t->dtype) {
    case FLOAT:
        memcpy(&f, p, 4);
        return short_real(f);
    case DOUBLE:
        memcpy(&d, p, 8);
        return real(d);
    case HALF:
    case BFLOAT16:
        memcpy(&h, p, 2);
        return short_real((float)(t->dtype == HALF ? from_half(h) : from_bf16(h)));
    case BOOL:
        return json_boolean(*p);
    case 3: /* signed 32, 16 and 8 bits keep their sign */
    case 5:
    case 6:
    case 11:
    case 13:
    case 15:
        memcpy(&v, p, size);
        v = (int64_t)((uint64_t)v << (64 - 8 * size)) >> (64 - 8 * size);
        return json_integer(v);
    case 4:
    case INT64:
    case 12:
    case 16:
    case 17:
    case 22:
    case UINT64:
        memcpy(&v, p, size);
        return json_integer(v);
    default:
        return NULL;
    }
}

static json_t *rows(const struct tdc_tensor *t, int depth, int64_t *at)
{
    if (depth == t->rank) {
        return element(t, (*at)++);
    }
    json_t *list = json_array();
    for (int64_t i = 0; i < t->dims[depth]; i++) {
        if (json_array_append_new(list, rows(t, depth + 1, at)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *tdc_to_json(const struct tdc_tensor *t)
{
    int64_t at = 0;
    return rows(t, 0, &at);
}
