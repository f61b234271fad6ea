/* kernels/text/parse_number.c - a small grammar is checked before strtod sees a byte, so that half-numbers
 * never pass.
 *
 * White space is cut off both ends. Floats are digits with a point and an exponent, hexadecimal ones after
 * 0x, or inf, infinity, nan and nan(...); all of the text must be one of these, and only then does strtof or
 * strtod compute it. It stops by itself: the byte behind is white space or NUL. Integers are read digit by
 * digit against the limit of their type, minus signs only where the type has them.
 *
 * Does not: look at the locale (the server sets none), accept separators or suffixes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/parse_number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static size_t digits(const char *s, size_t n, size_t at, bool hex)
{
    size_t from = at;
    while (at < n && (hex ? isxdigit((unsigned char)s[at]) : isdigit((unsigned char)s[at]))) {
        at++;
    }
    return at - from;
}

/* nan(letters, digits, underscores) */
static bool is_nan_text(const char *s, size_t n)
{
    bool ok = n > 4 && strncasecmp(s, "nan(", 4) == 0 && s[n - 1] == ')';
    for (size_t i = 4; ok && i + 1 < n; i++) {
        ok = isalnum((unsigned char)s[i]) || s[i] == '_';
    }
    return ok;
}

/* digits [. digits] [e|p [sign] digits], at least one digit before the exponent; hexadecimal after 0x. */
static bool is_float_text(const char *s, size_t n)
{
    size_t at = n > 0 && (s[0] == '+' || s[0] == '-');
    static const char *const words[] = {"inf", "infinity", "nan"};
    for (int i = 0; i < 3; i++) {
        if (strlen(words[i]) == n - at && strncasecmp(s + at, words[i], n - at) == 0) {
            return true;
        }
    }
    if (is_nan_text(s + at, n - at)) {
        return true;
    }
    bool hex = n - at > 2 && s[at] == '0' && (s[at + 1] | 32) == 'x';
    at += hex ? 2 : 0;
    size_t mantissa = digits(s, n, at, hex);
    at += mantissa;
    if (at < n && s[at] == '.') {
        size_t fraction = digits(s, n, ++at, hex);
        mantissa += fraction;
        at += fraction;
    }
    if (mantissa > 0 && at < n && (s[at] | 32) == (hex ? 'p' : 'e')) {
        at++;
        at += at < n && (s[at] == '+' || s[at] == '-');
        size_t exponent = digits(s, n, at, false);
        at += exponent;
        mantissa = exponent ? mantissa : 0;
    }
    return mantissa > 0 && at == n;
}

/* The byte behind the number is white space or NUL: strtod stops there. */
static bool parse_float(const char *s, size_t n, enum td_dtype t, void *out)
{
    if (!is_float_text(s, n)) {
        return false;
    }
    if (t == TD_FLOAT) {
        *(float *)out = strtof(s, NULL);
    } else {
        *(double *)out = strtod(s, NULL);
    }
    return true;
}

static bool parse_digits(const char *s, size_t n, bool minus, uint64_t limit, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)s[i])) {
            return false;
        }
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (v > (limit - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *out = minus ? 0 - v : v;
    return n > 0;
}

static bool parse_int(const char *s, size_t n, enum td_dtype t, void *out)
{
    bool minus = n > 0 && s[0] == '-', is_unsigned = t == TD_UINT32 || t == TD_UINT64;
    bool sign = minus || (n > 0 && s[0] == '+'), wide = t == TD_INT64 || t == TD_UINT64;
    uint64_t limit = is_unsigned ? (wide ? UINT64_MAX : UINT32_MAX)
                                 : (wide ? (uint64_t)INT64_MAX : (uint64_t)INT32_MAX) + minus;
    uint64_t v;
    if ((minus && is_unsigned) || !parse_digits(s + sign, n - sign, minus, limit, &v)) {
        return false;
    }
    memcpy(out, &v, wide ? 8 : 4); /* little-endian: the low half comes first */
    return true;
}

static bool is_space(char ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

bool td_parse_number(const char *s, size_t n, enum td_dtype dtype, void *out)
{
    while (n > 0 && is_space(s[0])) {
        s++;
        n--;
    }
    while (n > 0 && is_space(s[n - 1])) {
        n--;
    }
    return dtype == TD_FLOAT || dtype == TD_DOUBLE ? parse_float(s, n, dtype, out)
                                                   : parse_int(s, n, dtype, out);
}
