/* proto/json/json_write.c - integers, strings and elements of tensors to text; floats are json_float.c's.
 *
 * Elements are written into room that is asked for some dozens of them at a time: short lists, as the
 * channels of an image are, several together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_write.h"

#include <string.h>

#include "core/base/utf8.h"
#include "proto/json/json_digits.h"

/* ------------------------------------------------------------------ integers */

/* Two digits a number below 100. */
#define TEN(t) t "0" t "1" t "2" t "3" t "4" t "5" t "6" t "7" t "8" t "9"
static const char PAIRS[] =
    TEN("0") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7") TEN("8") TEN("9");
#undef TEN

static size_t count_digits(uint64_t v)
{
    static const uint64_t tens[] = {0,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000,
                                    10000000000000000000U};
    const int guess = (64 - __builtin_clzll(v | 1)) * 1233 >> 12; /* log10(2) * 4096 = 1233.02: or one less */
    return (size_t)guess + (v >= tens[guess]);
}

size_t td_json_put_uint(char *to, uint64_t v)
{
    if (v < 100000000) {
        return td_digits_put_small(to, (uint32_t)v);
    }
    const size_t n = count_digits(v);
    char *at = to + n;
    while (v >= 100) {
        at -= 2;
        memcpy(at, PAIRS + v % 100 * 2, 2);
        v /= 100;
    }
    if (v >= 10) {
        memcpy(to, PAIRS + v * 2, 2);
    } else {
        *to = (char)('0' + v);
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

#define CHUNK 64                           /* numbers that room is asked for at once */
#define ELEM_BYTES (TD_JSON_NUM_CHARS + 2) /* of a number, and what stands before it */

static size_t put_bool(char *to, bool v)
{
    memcpy(to, v ? "true" : "false", 5);
    return v ? 4 : 5;
}

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
        return put_bool(to, TD_DATA(t, const td_bool)[i]);
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

/* n elements from i on, n at least 1, into room for n * ELEM_BYTES; 0 for a dtype that JSON has no form
 * for. */
static size_t put_run(char *to, const struct td_tensor *t, int64_t i, int64_t n)
{
    if (t->dtype == TD_FLOAT) {
        return td_json_put_floats(to, TD_DATA(t, const float) + i, n);
    }
    size_t at = put_number(to, t, i);
    for (int64_t e = 1; e < n && at > 0; e++) {
        memcpy(to + at, ", ", 2);
        at += 2 + put_number(to + at + 2, t, i + e);
    }
    return at;
}

static enum td_code no_form(const struct td_tensor *t, struct td_err *err)
{
    TD_FAIL(err, UNIMPLEMENTED, "Failed to write JSON value for tensor type: %s", td_dtype_name(t->dtype));
}

enum td_code td_json_put_elems(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t n, bool b64,
                               struct td_err *err)
{
    if (t->dtype == TD_STRING) {
        return put_strings(s, t, i, n, b64, err);
    }
    for (int64_t k = 0; k < n; k += CHUNK) {
        const int64_t chunk = n - k < CHUNK ? n - k : CHUNK;
        char *to = NULL;
        TD_TRY(k > 0 ? td_sink_put(s, ", ", 2, err) : TD_OK);
        const size_t before = s->n;
        TD_TRY(td_sink_grow(s, (size_t)chunk * ELEM_BYTES, &to, err));
        const size_t len = put_run(to, t, i + k, chunk);
        s->n = before + len;
        if (len == 0) {
            return no_form(t, err);
        }
    }
    return TD_OK;
}

/* Lists of n numbers, CHUNK of those at most, n at least 1. */
static enum td_code put_short_lists(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t lists,
                                    int64_t n, struct td_err *err)
{
    const size_t before = s->n;
    char *to = NULL;
    TD_TRY(td_sink_grow(s, (size_t)lists * ((size_t)n * ELEM_BYTES + 4), &to, err));
    size_t at = 0;
    for (int64_t k = 0; k < lists; k++) {
        memcpy(to + at, ", [", 3);
        to[at] = k > 0 ? ',' : '[';
        at += k > 0 ? 3 : 1;
        const size_t len = put_run(to + at, t, i + k * n, n);
        if (len == 0) {
            s->n = before;
            return no_form(t, err);
        }
        at += len;
        to[at++] = ']';
    }
    s->n = before + at;
    return TD_OK;
}

enum td_code td_json_put_lists(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t lists,
                               int64_t n, bool b64, struct td_err *err)
{
    const bool is_short = t->dtype != TD_STRING && n > 0 && n < CHUNK;
    const int64_t at_once = is_short ? CHUNK / n : 1;
    for (int64_t k = 0; k < lists; k += at_once) {
        TD_TRY(k > 0 ? td_sink_put(s, ", ", 2, err) : TD_OK);
        if (is_short) {
            TD_TRY(put_short_lists(s, t, i + k * n, lists - k < at_once ? lists - k : at_once, n, err));
            continue;
        }
        TD_TRY(td_sink_put(s, "[", 1, err));
        TD_TRY(td_json_put_elems(s, t, i + k * n, n, b64, err));
        TD_TRY(td_sink_put(s, "]", 1, err));
    }
    return TD_OK;
}
