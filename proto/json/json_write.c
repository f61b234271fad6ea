/* proto/json/json_write.c - numbers to text.
 *
 * A float v = m * 10^e is scaled in an 80-bit long double to p significant digits, p rising from the number
 * any decimal survives (6 for float, 15 for double) to the number that always identifies the value (9, 17);
 * the first p whose digits read back as v is taken and its trailing zeros dropped. "Reads back" is computed,
 * not assumed, so a digit lost in scaling costs another try, never a wrong answer; the C library's printf is
 * the last resort.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_write.h"
#include "core/base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json/json_read.h"

/* ------------------------------------------------------------------ integers */

size_t td_json_put_uint(char *to, uint64_t v)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    for (size_t i = 0; i < n; i++) {
        to[i] = digits[n - 1 - i];
    }
    return n;
}

size_t td_json_put_int(char *to, int64_t v)
{
    if (v >= 0) {
        return td_json_put_uint(to, (uint64_t)v);
    }
    *to = '-';
    return 1 + td_json_put_uint(to + 1, 0 - (uint64_t)v);
}

/* ------------------------------------------------------------------ floats */

/* A positive value as 0.DDDD * 10^point: n digits without trailing zeros. */
struct digits {
    char d[24];
    int n;
    int point;
};

static const long double TENS[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                   1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                   1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
#define MOST_TENS 27

/* m of p digits with m * 10^(point - p) nearest to v; false when the scale is outside the exact powers. */
static bool scaled(double v, int p, int point, uint64_t *m)
{
    const int shift = p - point;
    if (shift > MOST_TENS || shift < -MOST_TENS) {
        return false;
    }
    const long double x = shift >= 0 ? (long double)v * TENS[shift] : (long double)v / TENS[-shift];
    *m = (uint64_t)llrintl(x);
    return true;
}

/* The p digits of m as text, trailing zeros dropped. m may be 10^p, where rounding carried. */
static void spell(uint64_t m, int p, int point, struct digits *out)
{
    char text[TD_JSON_NUM_CHARS];
    int n = (int)td_json_put_uint(text, m);
    out->point = point + (n - p);
    while (n > 1 && text[n - 1] == '0') {
        n--;
    }
    memcpy(out->d, text, (size_t)n);
    out->n = n;
}

/* By way of printf: p significant digits. */
static void by_library(double v, int p, struct digits *out)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%.*e", p - 1, v); /* D.DDDDe+XX */
    const char *e = strchr(text, 'e');
    out->point = (int)strtol(e + 1, NULL, 10) + 1;
    out->n = 0;
    for (const char *c = text; c < e; c++) {
        if (*c >= '0' && *c <= '9') {
            out->d[out->n++] = *c;
        }
    }
    while (out->n > 1 && out->d[out->n - 1] == '0') {
        out->n--;
    }
}

static bool same(double got, double v, bool is_float)
{
    return is_float ? (float)got == (float)v : got == v;
}

static const double EXACT_TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Whether m * 10^-shift reads back as the float v; both factors are exact, so this is what any reader
 * computes. */
static bool float_reads_back(uint64_t m, int shift, float v)
{
    const double d = shift >= 0 ? (double)m / EXACT_TENS[shift] : (double)m * EXACT_TENS[-shift];
    return (float)d == v;
}

/* Floats of everyday size in double arithmetic: nine digits at once, then fewer where they suffice. Returns
 * the precision, or 0 when the long way must be gone. */
static int shortest_float(float v, struct digits *out)
{
    static const uint32_t drop[] = {1, 10, 100, 1000};
    if (!(v >= 1e-9f && v < 1e15f)) {
        return 0;
    }
    uint32_t bits;
    memcpy(&bits, &v, 4);
    int point =
        (((int)(bits >> 23) - 127) * 1233 >> 12) + 1; /* log10(2) * 4096 = 1233.02: one too low at most */
    point += point >= 0 ? (double)v >= EXACT_TENS[point] : (double)v * EXACT_TENS[-point] >= 1;
    const int shift = 9 - point;
    const double x = shift >= 0 ? (double)v * EXACT_TENS[shift] : (double)v / EXACT_TENS[-shift];
    const uint64_t nine = (uint64_t)(x + 0.5);
    if (!float_reads_back(nine, shift, v)) {
        return 0;
    }
    int p = 9;
    uint64_t m = nine;
    for (int fewer = 8; fewer >= 6; fewer--) {
        const uint32_t unit = drop[9 - fewer];
        const uint64_t rounded = (nine + unit / 2) / unit;
        if (!float_reads_back(rounded, shift - (9 - fewer), v)) {
            break;
        }
        p = fewer;
        m = rounded;
    }
    spell(m, p, point, out);
    return p;
}

/* Returns the precision that sufficed. */
static int shortest(double v, bool is_float, struct digits *out)
{
    static const int float_tries[] = {6, 7, 8, 9}, double_tries[] = {6, 15, 16, 17};
    const int *tries = is_float ? float_tries : double_tries;
    int binary = 0;
    (void)frexp(v, &binary);
    int point = (int)floor((binary - 1) * 0.30102999566398120) + 1; /* 10^(point-1) <= v, or one too low */
    if (point <= MOST_TENS && point >= -MOST_TENS) {
        point += point >= 0 ? (long double)v >= TENS[point] : (long double)v * TENS[-point] >= 1;
    }
    for (int i = 0; i < 4; i++) {
        uint64_t m = 0;
        if (scaled(v, tries[i], point, &m)) {
            spell(m, tries[i], point, out);
            if (same(td_json_decimal(m, point - tries[i]), v, is_float)) {
                return tries[i];
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%.*e", tries[i] - 1, v);
        if (same(strtod(text, NULL), v, is_float) || i == 3) {
            by_library(v, tries[i], out);
            return tries[i];
        }
    }
    return tries[3];
}

/* D.DDDe-07 */
static size_t exponent_form(char *to, const struct digits *g)
{
    size_t n = 0;
    to[n++] = g->d[0];
    if (g->n > 1) {
        to[n++] = '.';
        memcpy(to + n, g->d + 1, (size_t)g->n - 1);
        n += (size_t)g->n - 1;
    }
    const int e = g->point - 1;
    to[n++] = 'e';
    to[n++] = e < 0 ? '-' : '+';
    const int size = e < 0 ? -e : e;
    if (size < 10) {
        to[n++] = '0';
    }
    return n + td_json_put_uint(to + n, (uint64_t)size);
}

/* 0.00DDD, DD.DDD or DDD00.0 */
static size_t plain_form(char *to, const struct digits *g)
{
    size_t n = 0;
    if (g->point <= 0) {
        to[n++] = '0';
        to[n++] = '.';
        for (int i = g->point; i < 0; i++) {
            to[n++] = '0';
        }
    }
    for (int i = 0; i < g->n; i++) {
        if (i == g->point && i > 0) {
            to[n++] = '.';
        }
        to[n++] = g->d[i];
    }
    for (int i = g->n; i < g->point; i++) {
        to[n++] = '0';
    }
    if (g->point >= g->n) {
        to[n++] = '.';
        to[n++] = '0';
    }
    return n;
}

static size_t put_text(char *to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to, text, n);
    return n;
}

static size_t put_real(char *to, double v, bool is_float)
{
    if (isnan(v)) {
        return put_text(to, "NaN");
    }
    if (isinf(v)) {
        return put_text(to, v > 0 ? "Infinity" : "-Infinity");
    }
    if (v == 0) {
        return put_text(to, signbit(v) ? "-0.0" : "0.0");
    }
    size_t n = 0;
    if (v < 0) {
        to[n++] = '-';
        v = -v;
    }
    if (v < 1e6 &&
        v == (double)(uint32_t)v) { /* small whole numbers are most of what labels and counts are */
        n += td_json_put_uint(to + n, (uint32_t)v);
        return n + put_text(to + n, ".0");
    }
    struct digits g;
    int p = is_float ? shortest_float((float)v, &g) : 0;
    p = p > 0 ? p : shortest(v, is_float, &g);
    const int widest = p <= 6 ? 6 : is_float ? 9 : 17;
    const bool exponent = g.point - 1 < -4 || g.point - 1 >= widest;
    return n + (exponent ? exponent_form(to + n, &g) : plain_form(to + n, &g));
}

size_t td_json_put_float(char *to, float v)
{
    return put_real(to, (double)v, true);
}

size_t td_json_put_double(char *to, double v)
{
    return put_real(to, v, false);
}

/* ------------------------------------------------------------------ strings */

/* One byte of a string inside quotes; returns how many bytes that took, at most 6. */
static size_t put_escaped(char *to, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    if (c >= 0x20 && c != '"' && c != '\\') {
        *to = (char)c;
        return 1;
    }
    *to++ = '\\';
    const char *which = memchr(plain, c, sizeof plain - 1);
    if (which != NULL) {
        *to = letter[which - plain];
        return 2;
    }
    memcpy(to, "u00", 3);
    to[3] = hex[c >> 4];
    to[4] = hex[c & 15];
    return 6;
}

enum td_code td_json_put_string(struct td_sink *s, const char *p, size_t len, struct td_err *err)
{
    char *to = NULL;
    TD_TRY(td_sink_put(s, "\"", 1, err));
    for (size_t i = 0;
         i < len;) { /* in pieces, so that room is asked for what is needed and not six times that */
        const size_t chunk = len - i < 512 ? len - i : 512, before = s->n;
        TD_TRY(td_sink_grow(s, chunk * 6, &to, err));
        size_t n = 0;
        for (size_t k = 0; k < chunk; k++) {
            n += put_escaped(to + n, (unsigned char)p[i + k]);
        }
        s->n = before + n;
        i += chunk;
    }
    return td_sink_put(s, "\"", 1, err);
}

enum td_code td_json_put_b64(struct td_sink *s, const char *p, size_t len, struct td_err *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = (const unsigned char *)p;
    char *to = NULL;
    TD_TRY(td_sink_put(s, "{\"b64\": \"", 9, err));
    TD_TRY(td_sink_grow(s, (len + 2) / 3 * 4, &to, err));
    for (size_t i = 0; i < len; i += 3) {
        const uint32_t bits =
            (uint32_t)b[i] << 16 | (i + 1 < len ? (uint32_t)b[i + 1] << 8 : 0) | (i + 2 < len ? b[i + 2] : 0);
        *to++ = letters[bits >> 18];
        *to++ = letters[bits >> 12 & 63];
        *to++ = i + 1 < len ? letters[bits >> 6 & 63] : '=';
        *to++ = i + 2 < len ? letters[bits & 63] : '=';
    }
    return td_sink_put(s, "\"}", 2, err);
}

/* ------------------------------------------------------------------ elements */

/* Element i of a tensor of numbers; returns how many bytes, 0 for a dtype that has no form in JSON. */
static size_t put_number(char *to, const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return td_json_put_float(to, TD_DATA(t, const float)[i]);
    case TD_DOUBLE:
        return td_json_put_double(to, TD_DATA(t, const double)[i]);
    case TD_HALF:
        return td_json_put_float(to, td_half_to_float(TD_DATA(t, const td_half)[i]));
    case TD_BFLOAT16:
        return td_json_put_float(to, td_bf16_to_float(TD_DATA(t, const td_bf16)[i]));
    case TD_BOOL:
        return put_text(to, TD_DATA(t, const td_bool)[i] ? "true" : "false");
    case TD_UINT64:
        return td_json_put_uint(to, TD_DATA(t, const uint64_t)[i]);
    case TD_INT64:
        return td_json_put_int(to, TD_DATA(t, const int64_t)[i]);
    case TD_UINT32:
        return td_json_put_uint(to, TD_DATA(t, const uint32_t)[i]);
    case TD_INT32:
    case TD_QINT32:
        return td_json_put_int(to, TD_DATA(t, const int32_t)[i]);
    case TD_INT16:
    case TD_QINT16:
        return td_json_put_int(to, TD_DATA(t, const int16_t)[i]);
    case TD_UINT16:
    case TD_QUINT16:
        return td_json_put_uint(to, TD_DATA(t, const uint16_t)[i]);
    case TD_INT8:
    case TD_QINT8:
        return td_json_put_int(to, TD_DATA(t, const int8_t)[i]);
    case TD_UINT8:
    case TD_QUINT8:
        return td_json_put_uint(to, TD_DATA(t, const uint8_t)[i]);
    default:
        return 0;
    }
}

static enum td_code put_strings(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t n, bool b64,
                                struct td_err *err)
{
    for (int64_t k = 0; k < n; k++) {
        if (k > 0) {
            TD_TRY(td_sink_put(s, ", ", 2, err));
        }
        size_t len = 0;
        const char *p = td_tensor_str(t, i + k, &len);
        if (b64 || !td_utf8(p, len)) {
            TD_TRY(td_json_put_b64(s, p, len, err));
        } else {
            TD_TRY(td_json_put_string(s, p, len, err));
        }
    }
    return TD_OK;
}

enum td_code td_json_put_elems(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t n, bool b64,
                               struct td_err *err)
{
    if (t->dtype == TD_STRING) {
        return put_strings(s, t, i, n, b64, err);
    }
    for (int64_t k = 0; k < n;) {
        const int64_t chunk = n - k < 64 ? n - k : 64;
        const size_t before = s->n;
        char *to = NULL;
        TD_TRY(td_sink_grow(s, (size_t)chunk * (TD_JSON_NUM_CHARS + 2), &to, err));
        size_t at = 0;
        for (int64_t e = k; e < k + chunk; e++) {
            if (e > 0) {
                to[at++] = ',';
                to[at++] = ' ';
            }
            const size_t len = put_number(to + at, t, i + e);
            TD_FAIL_IF(len == 0, err, UNIMPLEMENTED, "Failed to write JSON value for tensor type: %s",
                       td_dtype_name(t->dtype));
            at += len;
        }
        s->n = before + at;
        k += chunk;
    }
    return TD_OK;
}
