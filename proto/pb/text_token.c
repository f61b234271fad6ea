/* proto/pb/text_token.c - tokens of the text format, read straight from the text at t->p.
 *
 * There is no list of tokens: each function reads what its caller expects at the place and fails if it is not
 * there. Numbers are first copied, as the run of characters that numbers are made of, into a buffer of 320
 * bytes, then parsed: integers in base 10, 16 (0x) or 8 (0) with overflow checked digit by digit, floats by
 * strtod with inf, nan and a trailing f. Strings are copied to the sink in runs between escapes; \u and \U
 * become UTF-8, surrogate pairs one character. Line and column are counted from the beginning of the text,
 * and only for an error.
 *
 * Does not: know fields or messages (proto/pb/textpb.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/text_token.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES = 320 };

struct td_text td_text_make(const char *text, size_t n, const char *what)
{
    return (struct td_text){.p = text, .end = text + n, .begin = text, .what = what};
}

enum td_code td_text_fail(const struct td_text *t, struct td_err *err, const char *why)
{
    int line = 1, column = 1;
    for (const char *p = t->begin; p < t->p; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    TD_FAIL(err, INVALID_ARGUMENT, "Error parsing text-format %s: %d:%d: %s", t->what, line, column, why);
}

char td_text_peek(struct td_text *t)
{
    while (t->p < t->end) {
        if (*t->p == '#') {
            while (t->p < t->end && *t->p != '\n') {
                t->p++;
            }
        } else if (isspace((unsigned char)*t->p)) {
            t->p++;
        } else {
            return *t->p;
        }
    }
    return 0;
}

bool td_text_take(struct td_text *t, char c)
{
    if (td_text_peek(t) != c) {
        return false;
    }
    t->p++;
    return true;
}

bool td_text_at_number(struct td_text *t)
{
    char c = td_text_peek(t);
    return c == '-' || isdigit((unsigned char)c);
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

enum td_code td_text_name(struct td_text *t, char *name, struct td_err *err)
{
    char c = td_text_peek(t);
    size_t n = 0;
    if (!in_name(c) || isdigit((unsigned char)c)) {
        return td_text_fail(t, err, c == 0 ? "Expected identifier, got end of text" : "Expected identifier");
    }
    const char *start = t->p;
    while (t->p < t->end && in_name(*t->p)) {
        t->p++;
    }
    n = (size_t)(t->p - start);
    if (n >= TD_TEXT_NAME) {
        return td_text_fail(t, err, "A name is longer than 127 bytes");
    }
    memcpy(name, start, n);
    name[n] = 0;
    return TD_OK;
}

/* ---- numbers */

/* A run of the characters that numbers are made of, NUL-terminated in buf; a leading '-' may stand apart. */
static enum td_code number_token(struct td_text *t, char *buf, struct td_err *err)
{
    size_t n = 0;
    if (td_text_take(t, '-')) {
        buf[n++] = '-';
    }
    td_text_peek(t);
    while (t->p < t->end && (in_name(*t->p) || *t->p == '.' ||
                             ((*t->p == '-' || *t->p == '+') && n > 0 && (buf[n - 1] | 32) == 'e'))) {
        if (n == NUMBER_BYTES - 1) {
            return td_text_fail(t, err, "A number is too long");
        }
        buf[n++] = *t->p++;
    }
    buf[n] = 0;
    return TD_OK;
}

/* Digits in base 10, 0x or 0 up to the end of s. */
static bool parse_digits(const char *s, uint64_t max, uint64_t *v)
{
    unsigned base = 10;
    uint64_t sum = 0;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
        base = 16;
        s += 2;
    } else if (s[0] == '0' && s[1] != 0) {
        base = 8;
        s++;
    }
    if (*s == 0) {
        return false;
    }
    for (; *s; s++) {
        unsigned digit = isdigit((unsigned char)*s)    ? (unsigned)(*s - '0')
                         : isxdigit((unsigned char)*s) ? (unsigned)(tolower((unsigned char)*s) - 'a' + 10)
                                                       : 99;
        if (digit >= base || sum > (max - digit) / base) {
            return false;
        }
        sum = sum * base + digit;
    }
    *v = sum;
    return true;
}

enum td_code td_text_uint(struct td_text *t, uint64_t max, uint64_t *v, struct td_err *err)
{
    char buf[NUMBER_BYTES];
    struct td_text at = *t;
    td_text_peek(&at);
    TD_TRY(number_token(t, buf, err));
    return parse_digits(buf, max, v) ? TD_OK
                                     : td_text_fail(&at, err, "Expected an unsigned integer in range");
}

enum td_code td_text_int(struct td_text *t, int64_t min, int64_t max, int64_t *v, struct td_err *err)
{
    char buf[NUMBER_BYTES];
    uint64_t u;
    struct td_text at = *t;
    td_text_peek(&at);
    TD_TRY(number_token(t, buf, err));
    bool negative = buf[0] == '-';
    if (!parse_digits(buf + negative, negative ? (uint64_t)max + 1 : (uint64_t)max, &u)) {
        return td_text_fail(&at, err, "Expected an integer in range");
    }
    (void)min; /* -max - 1 */
    *v = negative ? (int64_t)(0 - u) : (int64_t)u;
    return TD_OK;
}

enum td_code td_text_double(struct td_text *t, double *v, struct td_err *err)
{
    char buf[NUMBER_BYTES];
    struct td_text at = *t;
    td_text_peek(&at);
    TD_TRY(number_token(t, buf, err));
    const char *s = buf + (buf[0] == '-');
    double sign = s == buf ? 1 : -1;
    if (strcasecmp(s, "inf") == 0 || strcasecmp(s, "infinity") == 0) {
        *v = sign * INFINITY;
        return TD_OK;
    }
    if (strcasecmp(s, "nan") == 0) {
        *v = (double)NAN;
        return TD_OK;
    }
    size_t n = strlen(buf);
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    if (n > 0 && !hex && (buf[n - 1] == 'f' || buf[n - 1] == 'F')) {
        buf[n - 1] = 0;
    }
    char *end;
    *v = strtod(buf, &end);
    bool ok = end != buf && *end == 0 && (isdigit((unsigned char)*s) || *s == '.');
    return ok ? TD_OK : td_text_fail(&at, err, "Expected a number");
}

enum td_code td_text_bool(struct td_text *t, bool *v, struct td_err *err)
{
    char buf[NUMBER_BYTES];
    static const char *const yes[] = {"true", "True", "t", "1"}, *const no[] = {"false", "False", "f", "0"};
    struct td_text at = *t;
    td_text_peek(&at);
    TD_TRY(number_token(t, buf, err));
    for (int i = 0; i < 4; i++) {
        if (strcmp(buf, yes[i]) == 0 || strcmp(buf, no[i]) == 0) {
            *v = strcmp(buf, yes[i]) == 0;
            return TD_OK;
        }
    }
    return td_text_fail(&at, err, "Expected true or false");
}

/* ---- strings */

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* Up to max digits of base 8 or 16 at t->p. */
static int read_digits(struct td_text *t, int base, int max, uint32_t *v)
{
    int n = 0;
    for (*v = 0; n < max && t->p < t->end; n++, t->p++) {
        int digit = hex_digit(*t->p);
        if (digit < 0 || digit >= base) {
            break;
        }
        *v = *v * (uint32_t)base + (uint32_t)digit;
    }
    return n;
}

static enum td_code put_utf8(struct td_sink *out, uint32_t c, struct td_err *err)
{
    char b[4];
    if (c < 0x80) {
        b[0] = (char)c;
        return td_sink_put(out, b, 1, err);
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    b[0] = (char)(lead[more] | (c >> 6 * more));
    for (int i = 1; i <= more; i++) {
        b[i] = (char)(0x80 | ((c >> 6 * (more - i)) & 0x3f));
    }
    return td_sink_put(out, b, (size_t)more + 1, err);
}

/* t->p is behind "\u" or "\U". Surrogate pairs make one character. */
static enum td_code unescape_unicode(struct td_text *t, int digits, struct td_sink *out, struct td_err *err)
{
    uint32_t c, low;
    if (read_digits(t, 16, digits, &c) != digits) {
        return td_text_fail(t, err, "Expected hexadecimal digits after \\u or \\U");
    }
    if (c >= 0xd800 && c < 0xdc00 && t->end - t->p >= 6 && t->p[0] == '\\' && t->p[1] == 'u') {
        t->p += 2;
        if (read_digits(t, 16, 4, &low) != 4 || low < 0xdc00 || low > 0xdfff) {
            return td_text_fail(t, err, "Expected a low surrogate");
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > 0x10ffff) {
        return td_text_fail(t, err, "A character beyond U+10FFFF");
    }
    return put_utf8(out, c, err);
}

/* t->p is behind the backslash, inside the text. */
static enum td_code unescape(struct td_text *t, struct td_sink *out, struct td_err *err)
{
    static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
    char c = *t->p;
    const char *at = memchr(from, c, sizeof from - 1);
    uint32_t v;
    if (at != NULL) {
        t->p++;
        return td_sink_put(out, to + (at - from), 1, err);
    }
    if (c == 'u' || c == 'U') {
        t->p++;
        return unescape_unicode(t, c == 'u' ? 4 : 8, out, err);
    }
    bool hex = c == 'x' || c == 'X';
    t->p += hex;
    if (read_digits(t, hex ? 16 : 8, hex ? 2 : 3, &v) == 0 || v > 255) {
        return td_text_fail(t, err, "Invalid escape sequence in string literal");
    }
    c = (char)v;
    return td_sink_put(out, &c, 1, err);
}

static enum td_code quoted(struct td_text *t, char quote, struct td_sink *out, struct td_err *err)
{
    while (t->p < t->end && *t->p != quote) {
        if (*t->p == '\n') {
            return td_text_fail(t, err, "String literals cannot cross line boundaries");
        }
        if (*t->p == '\\') {
            t->p++;
            if (t->p == t->end) {
                break;
            }
            TD_TRY(unescape(t, out, err));
            continue;
        }
        const char *start = t->p;
        while (t->p < t->end && *t->p != quote && *t->p != '\\' && *t->p != '\n') {
            t->p++;
        }
        TD_TRY(td_sink_put(out, start, (size_t)(t->p - start), err));
    }
    return td_text_take(t, quote) ? TD_OK : td_text_fail(t, err, "Unexpected end of string");
}

enum td_code td_text_string(struct td_text *t, struct td_sink *out, struct td_err *err)
{
    bool any = false;
    for (char q = td_text_peek(t); q == '"' || q == '\''; q = td_text_peek(t)) {
        any = true;
        t->p++;
        TD_TRY(quoted(t, q, out, err));
    }
    return any ? TD_OK : td_text_fail(t, err, "Expected string");
}

enum td_code td_text_skip_scalar(struct td_text *t, struct td_err *err)
{
    char buf[NUMBER_BYTES];
    char c = td_text_peek(t);
    if (c == '"' || c == '\'') {
        struct td_sink drop = {.limit = (size_t)1 << 30};
        enum td_code rc = td_text_string(t, &drop, err);
        td_sink_fini(&drop);
        return rc;
    }
    if (!in_name(c) && c != '-' && c != '.') {
        return td_text_fail(t, err, "Expected a value");
    }
    return number_token(t, buf, err);
}
