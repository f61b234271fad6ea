/* proto/json/json_read.c - tokens of JSON text; number conversion.
 *
 * Numbers: the decimal mantissa m is gathered in 64 bits, the value is m * 10^e. Where both are exact in a
 * double (m <= 2^53, |e| <= 22) one multiplication or division gives the nearest. Where they are in an 80-bit
 * long double (m < 2^64, |e| <= 27) its 64 bits round to the same, unless the 11 bits cut off are within one
 * of the middle. Those, and everything longer, go to strtod.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_read.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"

enum td_code td_json_fail(const struct td_json *j, struct td_err *err, const char *what)
{
    TD_FAIL(err, INVALID_ARGUMENT, "JSON Parse error: %s at offset: %zu", what, (size_t)(j->at - j->text));
}

/* ------------------------------------------------------------------ numbers */

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static locale_t c_locale;
static void make_c_locale(void)
{
    c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

/* Text that the grammar has already accepted and that ends in a character no number holds. */
static double by_library(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    return c_locale != (locale_t)0 ? strtod_l(text, NULL, c_locale) : strtod(text, NULL);
}

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool shortest_way(uint64_t m, int e, double *out)
{
    if (m > (UINT64_C(1) << 53) || e < -22 || e > 22) {
        return false;
    }
    *out = e < 0 ? (double)m / TENS[-e] : (double)m * TENS[e];
    return true;
}

#if LDBL_MANT_DIG == 64
static const long double LONG_TENS[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                        1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                        1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static bool short_way(uint64_t m, int e, double *out)
{
    const bool exact = shortest_way(m, e, out);
    if (exact || e < -27 || e > 27) {
        return exact;
    }
    const long double v = e < 0 ? (long double)m / LONG_TENS[-e] : (long double)m * LONG_TENS[e];
    uint64_t bits; /* the x87 format begins with the 64 bits of its mantissa */
    memcpy(&bits, &v, sizeof bits);
    const unsigned cut = bits & 0x7ff;
    if (cut >= 0x3ff && cut <= 0x401) {
        return false;
    }
    *out = (double)v;
    return true;
}
#else
#define short_way shortest_way
#endif

/* Eight ASCII digits at p as a number, 0xffffffff when one of them is none (little endian). */
static uint32_t eight_digits(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    const uint64_t low = v - UINT64_C(0x3030303030303030);
    if (((v + UINT64_C(0x4646464646464646)) | low) & UINT64_C(0x8080808080808080)) {
        return 0xffffffff;
    }
    uint64_t pairs = low * 10 + (low >> 8); /* bytes 0, 2, 4, 6 now hold two digits each */
    const uint64_t mask = UINT64_C(0x000000ff000000ff);
    pairs = ((pairs & mask) * (100 + (UINT64_C(1000000) << 32)) +
             ((pairs >> 16) & mask) * (1 + (UINT64_C(10000) << 32))) >>
            32;
    return (uint32_t)pairs;
}

double td_json_decimal(uint64_t m, int e)
{
    double v = 0;
    if (m != 0 && !short_way(m, e, &v)) {
        char text[48];
        (void)snprintf(text, sizeof text, "%" PRIu64 "e%d", m, e);
        v = by_library(text);
    }
    return v;
}

struct decimal {
    uint64_t m; /* the first 19 significant digits */
    int n;      /* how many there are in m, leading zeros left out */
    int64_t e;  /* power of ten */
    bool cut;   /* digits beyond m were dropped */
};

/* Digits from p on; in the fraction (frac) each lowers the exponent. Returns where they end. */
static const char *gather(const char *p, const char *end, struct decimal *d, bool frac)
{
    while (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && end - p >= 8 && d->n <= 11) {
        const uint32_t eight = eight_digits(p);
        if (eight == 0xffffffff) {
            break;
        }
        d->m = d->m * 100000000 + eight;
        d->n = d->m == 0
                   ? 0
                   : d->n + 8; /* leading zeros inside the group only make n too large: cut is then early */
        d->e -= frac ? 8 : 0;
        p += 8;
    }
    for (; is_digit(*p); p++) {
        if (d->n < 19) {
            d->m = d->m * 10 + (uint64_t)(*p - '0');
            d->n += d->m != 0;
            d->e -= frac;
        } else {
            d->cut = true;
            d->e += !frac;
        }
    }
    return p;
}

static enum td_code read_exponent(struct td_json *j, struct decimal *d, struct td_err *err)
{
    j->at++;
    const bool minus = *j->at == '-';
    j->at += minus || *j->at == '+';
    if (!is_digit(*j->at)) {
        return td_json_fail(j, err, "Miss exponent in number.");
    }
    int64_t e = 0;
    for (; is_digit(*j->at); j->at++) {
        e = e < 100000 ? e * 10 + (*j->at - '0') : e;
    }
    d->e += minus ? -e : e;
    return TD_OK;
}

/* NaN, Inf, Infinity after an optional minus. */
static enum td_code read_non_finite(struct td_json *j, bool minus, struct td_json_num *out,
                                    struct td_err *err)
{
    static const struct {
        const char *word;
        size_t len;
    } words[] = {{"NaN", 3}, {"Infinity", 8}, {"Inf", 3}};
    for (int i = 0; i < 3; i++) {
        if (strncmp(j->at, words[i].word, words[i].len) == 0) {
            j->at += words[i].len;
            const double v = i == 0 ? (double)NAN : (double)INFINITY;
            *out = (struct td_json_num){.kind = TD_JSON_REAL, .d = minus ? -v : v};
            return TD_OK;
        }
    }
    return td_json_fail(j, err, "Invalid value.");
}

bool td_json_at_number(struct td_json *j)
{
    const char c = td_json_peek(j);
    return is_digit(c) || c == '-' || c == 'N' || c == 'I';
}

static void integer(const struct decimal *d, bool minus, const char *from, struct td_json_num *out)
{
    /* 20 digits may still fit in 64 bits: m holds 19 of them */
    uint64_t u = d->m;
    bool fits = !d->cut;
    if (d->cut && d->e == 1) {
        const char *last = from;
        while (is_digit(last[1])) {
            last++;
        }
        fits = !__builtin_mul_overflow(u, 10u, &u) && !__builtin_add_overflow(u, (uint64_t)(*last - '0'), &u);
    }
    if (fits && u <= (uint64_t)INT64_MAX + minus) {
        *out = (struct td_json_num){.kind = TD_JSON_INT, .i = minus ? (int64_t)(0 - u) : (int64_t)u};
    } else if (fits && !minus) {
        *out = (struct td_json_num){.kind = TD_JSON_UINT, .u = u};
    } else {
        const double v = by_library(from);
        *out = (struct td_json_num){.kind = TD_JSON_REAL, .d = minus ? -v : v};
    }
}

enum td_code td_json_number(struct td_json *j, struct td_json_num *out, struct td_err *err)
{
    (void)td_json_peek(j);
    const bool minus = *j->at == '-';
    j->at += minus;
    const char *from = j->at;
    if (!is_digit(*from)) {
        return read_non_finite(j, minus, out, err);
    }
    struct decimal d = {0};
    j->at = *from == '0' ? from + 1 : gather(from, j->end, &d, false);
    bool real = false;
    if (*j->at == '.') {
        const char *frac = ++j->at;
        real = true;
        j->at = gather(frac, j->end, &d, true);
        if (j->at == frac) {
            return td_json_fail(j, err, "Miss fraction part in number.");
        }
    }
    if (*j->at == 'e' || *j->at == 'E') {
        real = true;
        TD_TRY(read_exponent(j, &d, err));
    }
    if (!real) {
        integer(&d, minus, from, out);
        return TD_OK;
    }
    double v = 0;
    if (d.m != 0 && (d.cut || d.e < -1000 || d.e > 1000 || !short_way(d.m, (int)d.e, &v))) {
        v = by_library(from);
    }
    *out = (struct td_json_num){.kind = TD_JSON_REAL, .d = minus ? -v : v};
    return TD_OK;
}

/* ------------------------------------------------------------------ strings and literals */

enum td_code td_json_string(struct td_json *j, struct td_json_str *out, struct td_err *err)
{
    if (!td_json_eat(j, '"')) {
        return td_json_fail(j, err, "Invalid value.");
    }
    *out = (struct td_json_str){.p = j->at};
    while (j->at < j->end && *j->at != '"') {
        const unsigned char c = (unsigned char)*j->at;
        if (c < 0x20) {
            return td_json_fail(j, err, "Invalid encoding in string.");
        }
        if (c == '\\') {
            out->escaped = true;
            j->at++; /* whatever follows is not the closing quote; td_json_unescape looks at it */
            if (j->at >= j->end) {
                break;
            }
        }
        j->at++;
    }
    if (j->at >= j->end) {
        return td_json_fail(j, err, "Missing a closing quotation mark in string.");
    }
    out->len = (size_t)(j->at - out->p);
    j->at++;
    return TD_OK;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int digit = is_digit(c)            ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return -1;
        }
        v = v * 16 + digit;
    }
    return v;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The code point of \uXXXX (and the surrogate that follows a high one) at *p, which is behind the 'u'; -1 for
 * none. */
static int32_t code_point(const char **p, const char *end)
{
    const int first = hex4(*p, end);
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff)) {
        return -1;
    }
    *p += 4;
    if (first < 0xd800 || first > 0xdbff) {
        return first;
    }
    if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') {
        return -1;
    }
    const int second = hex4(*p + 2, end);
    if (second < 0xdc00 || second > 0xdfff) {
        return -1;
    }
    *p += 6;
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
}

enum td_code td_json_unescape(const struct td_json *j, const struct td_json_str *s, char *buf, size_t *n,
                              struct td_err *err)
{
    static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    const char *p = s->p, *end = s->p + s->len;
    char *to = buf;
    while (p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        p++; /* a string never ends in a lone backslash */
        const char *which = memchr(plain, *p, sizeof plain - 1);
        int32_t c = -1;
        if (which != NULL) {
            *to++ = meaning[which - plain];
            p++;
            continue;
        }
        if (*p == 'u') {
            p++;
            c = code_point(&p, end);
        }
        if (c < 0) {
            const struct td_json at = {.text = j->text, .at = p};
            return td_json_fail(&at, err, "Invalid escape character in string.");
        }
        to += put_utf8(to, (uint32_t)c); /* never longer than its escape */
    }
    *n = (size_t)(to - buf);
    return TD_OK;
}

enum td_code td_json_text(const struct td_json *j, const struct td_json_str *s, struct td_arena *a,
                          const char **out, struct td_err *err)
{
    size_t n = 0;
    char *text = td_arena_alloc(a, s->len + 1, 1);
    if (text == NULL) {
        return td_no_memory(err, s->len, "a request's text");
    }
    TD_TRY(td_json_unescape(j, s, text, &n, err));
    TD_FAIL_IF(strlen(text) != n, err, INVALID_ARGUMENT, "text '%.100s...' holds a NUL byte", text);
    *out = text;
    return TD_OK;
}

bool td_json_str_is(const struct td_json_str *s, const char *text)
{
    const size_t len = strlen(text);
    if (!s->escaped) {
        return s->len == len && memcmp(s->p, text, len) == 0;
    }
    char buf[1024];
    size_t n = 0;
    const struct td_json at = {.text = s->p, .at = s->p};
    struct td_err err = {0};
    return s->len <= sizeof buf && td_json_unescape(&at, s, buf, &n, &err) == TD_OK && n == len &&
           memcmp(buf, text, n) == 0;
}

char td_json_literal(struct td_json *j)
{
    static const struct {
        const char *word;
        size_t len;
    } words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    (void)td_json_peek(j);
    for (int i = 0; i < 3; i++) {
        if ((size_t)(j->end - j->at) >= words[i].len && memcmp(j->at, words[i].word, words[i].len) == 0) {
            j->at += words[i].len;
            return words[i].word[0];
        }
    }
    return '\0';
}

/* ------------------------------------------------------------------ members */

enum td_code td_json_member(struct td_json *j, bool first, struct td_json_str *key, bool *more,
                            struct td_err *err)
{
    *more = !td_json_eat(j, '}');
    if (!*more) {
        return TD_OK;
    }
    if (!first) {
        if (!td_json_eat(j, ',')) {
            return td_json_fail(j, err, "Missing a comma or } after an object member.");
        }
    }
    if (td_json_peek(j) != '"') {
        return td_json_fail(j, err, "Missing a name for object member.");
    }
    TD_TRY(td_json_string(j, key, err));
    return td_json_eat(j, ':') ? TD_OK
                               : td_json_fail(j, err, "Missing a colon after a name of object member.");
}

/* ------------------------------------------------------------------ base64 */

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (is_digit(c)) {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool td_json_base64(const char *text, size_t len, char *buf, size_t *n)
{
    if (len > 0 && len % 4 == 0 && text[len - 1] == '=') {
        len -= text[len - 2] == '=' ? 2 : 1;
    }
    if (len % 4 == 1) {
        return false;
    }
    uint32_t bits = 0;
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        const int v = sextet(text[i]);
        if (v < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 != 0) {
            buf[at++] = (char)(bits >> (6 - 2 * (i % 4)));
        }
    }
    *n = at;
    return true;
}
