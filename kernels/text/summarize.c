/* kernels/text/summarize.c - tensors as text.
 *
 * Both forms walk the shape by recursion over its axes (at most TD_MAX_RANK deep). Floats are printed with
 * %.6g (double %.15g) when that reads back equal, else with %.9g (%.17g). A quantized number is its integer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/summarize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum td_code put_double(struct td_strbuf *b, double v, struct td_err *err)
{
    char text[40];
    if (isnan(v)) {
        return td_strbuf_puts(b, "nan", err);
    }
    snprintf(text, sizeof(text), "%.15g", v);
    if (strtod(text, NULL) != v) {
        snprintf(text, sizeof(text), "%.17g", v);
    }
    return td_strbuf_puts(b, text, err);
}

static enum td_code put_float(struct td_strbuf *b, float v, struct td_err *err)
{
    char text[40];
    if (isnan(v)) {
        return td_strbuf_puts(b, "nan", err);
    }
    snprintf(text, sizeof(text), "%.6g", (double)v);
    if (strtof(text, NULL) != v) {
        snprintf(text, sizeof(text), "%.9g", (double)v);
    }
    return td_strbuf_puts(b, text, err);
}

/* The integer type that a quantized one is stored as; any other is its own. */
static enum td_dtype plain_of(enum td_dtype t)
{
    return t == TD_QINT8     ? TD_INT8
           : t == TD_QUINT8  ? TD_UINT8
           : t == TD_QINT16  ? TD_INT16
           : t == TD_QUINT16 ? TD_UINT16
           : t == TD_QINT32  ? TD_INT32
                             : t;
}

enum td_code td_summarize_element(struct td_strbuf *b, const struct td_tensor *t, int64_t i,
                                  struct td_err *err)
{
    struct td_tensor plain = *t;
    size_t n;
    const char *s;
    switch (t->dtype) {
    case TD_FLOAT:
        return put_float(b, TD_DATA(t, float)[i], err);
    case TD_DOUBLE:
        return put_double(b, TD_DATA(t, double)[i], err);
    case TD_HALF:
        return put_float(b, td_half_to_float(TD_DATA(t, td_half)[i]), err);
    case TD_BFLOAT16:
        return put_float(b, td_bf16_to_float(TD_DATA(t, td_bf16)[i]), err);
    case TD_UINT64:
        return td_strbuf_printf(b, err, "%" PRIu64, TD_DATA(t, uint64_t)[i]);
    case TD_BOOL:
        return td_strbuf_puts(b, TD_DATA(t, td_bool)[i] ? "1" : "0", err);
    case TD_STRING:
        s = td_tensor_str(t, i, &n);
        return td_strbuf_put(b, s, n, err);
    default:
        plain.dtype = plain_of(t->dtype);
        return td_dtype_in(plain.dtype, TD_SET_INTS)
                   ? td_strbuf_printf(b, err, "%" PRId64, td_tensor_int(&plain, i))
                   : td_strbuf_puts(b, "?", err);
    }
}

/* C escapes; bytes from 0x80 up stay, so that UTF-8 survives. */
static enum td_code put_escaped(struct td_strbuf *b, const char *s, size_t n, struct td_err *err)
{
    static const char special[] = "\n\r\t\"'\\", letter[] = "nrt\"'\\";
    for (size_t i = 0; i < n; i++) {
        const unsigned char ch = (unsigned char)s[i];
        const char *hit = ch != 0 ? strchr(special, ch) : NULL;
        if (hit != NULL) {
            TD_TRY(td_strbuf_printf(b, err, "\\%c", letter[hit - special]));
        } else if (ch < 0x20 || ch == 0x7f) {
            TD_TRY(td_strbuf_printf(b, err, "\\%03o", ch));
        } else {
            TD_TRY(td_strbuf_putc(b, s[i], err));
        }
    }
    return TD_OK;
}

/* Element i, a string escaped and between `quote`s. */
static enum td_code put_item(struct td_strbuf *b, const struct td_tensor *t, int64_t i, const char *quote,
                             struct td_err *err)
{
    size_t n;
    if (t->dtype != TD_STRING) {
        return td_summarize_element(b, t, i, err);
    }
    const char *s = td_tensor_str(t, i, &n);
    TD_TRY(td_strbuf_puts(b, quote, err));
    TD_TRY(put_escaped(b, s, n, err));
    return td_strbuf_puts(b, quote, err);
}

/* Types that TensorFlow cannot print: a row of question marks, whatever the shape. */
static bool unprintable(enum td_dtype d)
{
    return d == TD_COMPLEX64 || d == TD_COMPLEX128 || d == TD_RESOURCE || d == TD_VARIANT;
}

static enum td_code put_unprintable(struct td_strbuf *b, const struct td_tensor *t, int64_t most,
                                    struct td_err *err)
{
    int64_t n = td_tensor_count(t), limit = most < 0 || most > n ? n : most;
    for (int64_t i = 0; i < limit; i++) {
        TD_TRY(td_strbuf_puts(b, i > 0 ? " ?" : "?", err));
    }
    return limit < n ? td_strbuf_puts(b, "...", err) : TD_OK;
}

/* Between two items of axis `axis`: a space on the last axis, else line breaks and the indent of the
 * brackets. */
static enum td_code put_gap(struct td_strbuf *b, int axis, int rank, struct td_err *err)
{
    for (int i = axis; i < rank - 1; i++) {
        TD_TRY(td_strbuf_putc(b, '\n', err));
    }
    for (int i = 0; i <= (axis == rank - 1 ? 0 : axis); i++) {
        TD_TRY(td_strbuf_putc(b, ' ', err));
    }
    return TD_OK;
}

static enum td_code axis_v2(struct td_strbuf *b, const struct td_tensor *t, int axis, int64_t ends,
                            int64_t at, struct td_err *err)
{
    int rank = t->shape.rank;
    if (axis == rank) {
        return put_item(b, t, at, "\"", err);
    }
    int64_t n = t->shape.dim[axis], step = td_shape_range(&t->shape, axis + 1, rank);
    int64_t tail = n - ends > ends ? n - ends : ends;
    TD_TRY(td_strbuf_putc(b, '[', err));
    for (int64_t i = 0; i < n; i++) {
        if (i >= ends && i < tail) {
            i = tail;
            TD_TRY(put_gap(b, axis, rank, err));
            TD_TRY(td_strbuf_puts(b, "...", err));
        }
        if (i >= n) {
            break;
        }
        if (i > 0) {
            TD_TRY(put_gap(b, axis, rank, err));
        }
        TD_TRY(axis_v2(b, t, axis + 1, ends, at + i * step, err));
    }
    return td_strbuf_putc(b, ']', err);
}

enum td_code td_summarize_v2(struct td_strbuf *b, const struct td_tensor *t, int64_t ends, struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    if (unprintable(t->dtype) && t->shape.rank > 0) {
        TD_TRY(td_strbuf_putc(b, '[', err));
        TD_TRY(put_unprintable(b, t, ends, err));
        return td_strbuf_putc(b, ']', err);
    }
    if (unprintable(t->dtype)) {
        return put_unprintable(b, t, ends, err);
    }
    if (t->dtype == TD_BOOL && (n == 0 || ends == 0)) {
        return TD_OK; /* TensorFlow prints no bools as nothing, without brackets */
    }
    if (t->shape.rank == 0 && ends == 0) {
        return td_strbuf_puts(b, "...", err);
    }
    return axis_v2(b, t, 0, ends < 0 || ends > n ? n : ends, 0, err);
}

/* One axis and all inside it; *at is the next element, of at most limit. */
static enum td_code axis_v1(struct td_strbuf *b, const struct td_tensor *t, int axis, int64_t limit,
                            int64_t *at, struct td_err *err)
{
    const bool last = axis == t->shape.rank - 1;
    for (int64_t i = 0; i < t->shape.dim[axis]; i++) {
        if (*at >= limit) {
            return last && axis > 0 ? td_strbuf_puts(b, "...", err) : TD_OK;
        }
        if (last) {
            TD_TRY(td_strbuf_puts(b, i > 0 ? " " : "", err));
            TD_TRY(put_item(b, t, (*at)++, "", err));
            continue;
        }
        TD_TRY(td_strbuf_putc(b, '[', err));
        TD_TRY(axis_v1(b, t, axis + 1, limit, at, err));
        TD_TRY(td_strbuf_putc(b, ']', err));
    }
    return TD_OK;
}

enum td_code td_summarize_v1(struct td_strbuf *b, const struct td_tensor *t, int64_t max_entries,
                             struct td_err *err)
{
    int64_t n = td_tensor_count(t), limit = max_entries < 0 || max_entries > n ? n : max_entries, at = 0;
    if (unprintable(t->dtype)) {
        return put_unprintable(b, t, max_entries, err);
    }
    if (t->shape.rank > 0 && limit > 0) {
        TD_TRY(axis_v1(b, t, 0, limit, &at, err));
    } else if (limit > 0) {
        TD_TRY(put_item(b, t, 0, "", err));
    }
    return limit < n ? td_strbuf_puts(b, "...", err) : TD_OK;
}
