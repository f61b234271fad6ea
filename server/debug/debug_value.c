/* server/debug/debug_value.c - every element as one or two doubles, which statistics and comparisons are made
 * of.
 *
 * `element` reads any number type as a real and an imaginary part. Statistics are one pass; integers above
 * 2^53 are shown rounded there, never in the value itself. Comparing is exact, byte by byte, for everything
 * but floats and complex numbers, so no precision is lost where none may be; strings are compared as texts.
 * For floats, NaN equals NaN and infinities must be the same one.
 *
 * Values are written by the writer of answers (proto/json), so the debugger shows a number as Predict does.
 * Does not: decide what is shown of a run, print to anything but a sink.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "proto/json/json_tensor.h"
#include "proto/json/json_write.h"

enum { MAX_SHOWN_ELEMENTS = 1 << 20 };

/* ------------------------------------------------------------------ elements as numbers */

/* Element i; the imaginary part of real types is 0. */
static void element(const struct td_tensor *t, int64_t i, double *re, double *im)
{
    *im = 0;
    switch (t->dtype) {
    case TD_HALF:
        *re = (double)td_half_to_float(TD_DATA(t, td_half)[i]);
        break;
    case TD_BFLOAT16:
        *re = (double)td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
        break;
    case TD_FLOAT:
        *re = (double)TD_DATA(t, float)[i];
        break;
    case TD_DOUBLE:
        *re = TD_DATA(t, double)[i];
        break;
    case TD_COMPLEX64:
        *re = (double)TD_DATA(t, td_c64)[i].re;
        *im = (double)TD_DATA(t, td_c64)[i].im;
        break;
    case TD_COMPLEX128:
        *re = TD_DATA(t, td_c128)[i].re;
        *im = TD_DATA(t, td_c128)[i].im;
        break;
    case TD_UINT64:
        *re = (double)TD_DATA(t, uint64_t)[i];
        break;
    case TD_UINT32:
        *re = (double)TD_DATA(t, uint32_t)[i];
        break;
    default:
        *re = t->dtype == TD_BOOL ? (double)TD_DATA(t, td_bool)[i] : (double)td_tensor_int(t, i);
        break;
    }
}

static bool is_number(enum td_dtype t)
{
    return td_dtype_in(t, TD_SET_NUMBERS | TD_BIT(TD_BOOL));
}

void td_debug_stat(const struct td_tensor *t, struct td_debug_stat *out)
{
    *out = (struct td_debug_stat){.min = INFINITY,
                                  .max = -INFINITY,
                                  .ordered = is_number(t->dtype) && !td_dtype_in(t->dtype, TD_SET_COMPLEX)};
    const int64_t n = is_number(t->dtype) ? td_tensor_count(t) : 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double re, im;
        element(t, i, &re, &im);
        if (isnan(re) || isnan(im)) {
            out->nan++;
        } else if (isinf(re) || isinf(im)) {
            out->inf++;
        } else {
            out->finite++;
            sum += re;
            out->min = re < out->min ? re : out->min;
            out->max = re > out->max ? re : out->max;
        }
    }
    out->mean = out->finite > 0 ? sum / (double)out->finite : 0;
    out->ordered = out->ordered && out->finite > 0;
}

/* ------------------------------------------------------------------ writing */

enum td_code td_debug_put(struct td_sink *s, struct td_err *err, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return td_sink_put(s, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, err);
}

enum td_code td_debug_put_text(struct td_sink *s, const char *text, size_t n, struct td_err *err)
{
    if (td_utf8(text, n)) {
        return td_json_put_string(s, text, n, err);
    }
    char *plain = td_strndup(text, n);
    if (plain == NULL) {
        return td_no_memory(err, n, "a text");
    }
    const size_t len = strlen(plain);
    for (size_t i = 0; i < len; i++) {
        plain[i] = (unsigned char)plain[i] < 0x80 ? plain[i] : '?';
    }
    const enum td_code rc = td_json_put_string(s, plain, len, err);
    td_free(plain);
    return rc;
}

/* Numbers of 32 bits and less are written as such: their shortest form is what people know. */
static enum td_code put_number(struct td_sink *s, const char *key, double v, enum td_dtype dtype,
                               struct td_err *err)
{
    char text[TD_JSON_NUM_CHARS];
    const bool wide = dtype == TD_DOUBLE || !td_dtype_in(dtype, TD_SET_FLOATS);
    const size_t n = wide ? td_json_put_double(text, v) : td_json_put_float(text, (float)v);
    return td_debug_put(s, err, ", \"%s\": %.*s", key, (int)n, text);
}

static enum td_code put_stat(struct td_sink *s, const struct td_tensor *t, struct td_err *err)
{
    struct td_debug_stat stat;
    td_debug_stat(t, &stat);
    if (stat.ordered) {
        TD_TRY(put_number(s, "min", stat.min, t->dtype, err));
        TD_TRY(put_number(s, "max", stat.max, t->dtype, err));
        TD_TRY(put_number(s, "mean", stat.mean, t->dtype, err));
    } else {
        TD_TRY(td_debug_put(s, err, ", \"min\": null, \"max\": null, \"mean\": null"));
    }
    return td_debug_put(s, err, ", \"nan\": %lld, \"inf\": %lld", (long long)stat.nan, (long long)stat.inf);
}

static enum td_code put_elements(struct td_sink *s, const struct td_tensor *t, bool wanted,
                                 struct td_err *err)
{
    TD_TRY(td_debug_put(s, err, ", \"value\": "));
    const size_t mark = s->n;
    const bool shown = wanted && td_tensor_count(t) <= MAX_SHOWN_ELEMENTS && t->dtype != TD_RESOURCE &&
                       t->dtype != TD_VARIANT;
    struct td_err why = {0};
    const enum td_code rc = shown ? td_json_put_dims(s, t, 0, 0, false, &why) : TD_UNIMPLEMENTED;
    if (rc == TD_UNIMPLEMENTED) {
        s->n = mark;
        return td_debug_put(s, err, "null");
    }
    return rc ? td_fail(err, rc, "%s", why.msg) : TD_OK;
}

enum td_code td_debug_put_value(struct td_sink *s, const struct td_tensor *t, enum td_debug_values values,
                                struct td_err *err)
{
    if (t->dtype == TD_DTYPE_NONE) {
        return td_debug_put(s, err, "{\"dtype\": null, \"dead\": true");
    }
    TD_TRY(td_debug_put(s, err, "{\"dtype\": \"%s\", \"shape\": [", td_dtype_tf_name(t->dtype)));
    for (int i = 0; i < t->shape.rank; i++) {
        TD_TRY(td_debug_put(s, err, "%s\"%lld\"", i > 0 ? ", " : "", (long long)t->shape.dim[i]));
    }
    TD_TRY(td_sink_put(s, "]", 1, err));
    if (values == TD_VALUES_NONE) {
        return TD_OK;
    }
    TD_TRY(put_stat(s, t, err));
    return put_elements(s, t, values == TD_VALUES_FULL, err);
}

/* ------------------------------------------------------------------ comparing */

static bool strings_differ(const struct td_tensor *a, const struct td_tensor *b, int64_t i)
{
    size_t n, m;
    const char *p = td_tensor_str(a, i, &n), *q = td_tensor_str(b, i, &m);
    return n != m || memcmp(p, q, n) != 0;
}

static bool bytes_differ(const struct td_tensor *a, const struct td_tensor *b, int64_t i)
{
    const size_t size = td_dtype_size(a->dtype), at = (size_t)i * size;
    return memcmp((const char *)a->data + at, (const char *)b->data + at, size) != 0;
}

static bool parts_differ(double x, double y, double rtol, double atol)
{
    if (isnan(x) || isnan(y)) {
        return isnan(x) != isnan(y);
    }
    if (isinf(x) || isinf(y)) {
        return x != y;
    }
    return fabs(x - y) > atol + rtol * fabs(y);
}

/* An element of each: real and imaginary part. */
struct pair {
    double x, y, xi, yi;
};

static struct pair pair_at(const struct td_tensor *a, const struct td_tensor *b, int64_t i)
{
    struct pair p;
    element(a, i, &p.x, &p.xi);
    element(b, i, &p.y, &p.yi);
    return p;
}

static bool floats_differ(const struct pair *p, double rtol, double atol, struct td_debug_diff *d)
{
    const double re = fabs(p->x - p->y), im = fabs(p->xi - p->yi), abs = re > im ? re : im;
    if (isfinite(abs) && abs > d->max_abs) {
        d->max_abs = abs;
    }
    return parts_differ(p->x, p->y, rtol, atol) || parts_differ(p->xi, p->yi, rtol, atol);
}

void td_debug_diff(const struct td_tensor *a, const struct td_tensor *b, double rtol, double atol,
                   struct td_debug_diff *out)
{
    *out = (struct td_debug_diff){.first = -1};
    out->type_or_shape = a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape);
    if (out->type_or_shape || a->dtype == TD_DTYPE_NONE || a->dtype == TD_RESOURCE ||
        a->dtype == TD_VARIANT) {
        return;
    }
    const bool exact = !td_dtype_in(a->dtype, TD_SET_FLOATS | TD_SET_COMPLEX);
    const int64_t n = td_tensor_count(a);
    for (int64_t i = 0; i < n; i++) {
        const struct pair p = is_number(a->dtype) ? pair_at(a, b, i) : (struct pair){0};
        const bool differs = a->dtype == TD_STRING ? strings_differ(a, b, i)
                             : exact               ? bytes_differ(a, b, i)
                                                   : floats_differ(&p, rtol, atol, out);
        if (differs && out->n++ == 0) {
            out->first = i;
            out->a = p.x;
            out->b = p.y;
        }
    }
}
