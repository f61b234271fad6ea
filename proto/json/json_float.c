/* proto/json/json_float.c - floats to text.
 *
 * Nearly all floats are of everyday size (EVERYDAY): scaled in a double to six digits; where those are no
 * nearer to it than half way to the next float, to nine, which always identify a float, and from those to
 * eight and seven. The digits are put together in registers.
 *
 * Any other value v = m * 10^e is scaled in an 80-bit long double to p significant digits, p rising from the
 * number any decimal survives (6 for float, 15 for double) to the number that always identifies the value (9,
 * 17); the first p whose digits read back as v is taken and its trailing zeros dropped. "Reads back" is
 * computed, not assumed, so a digit lost in scaling costs another try, never a wrong answer; the C library's
 * printf is the last resort.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_float.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json/json_digits.h"
#include "proto/json/json_read.h"
#include "proto/json/json_write.h"

/* ------------------------------------------------------------------ any value */

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
static bool at_digits(double v, int p, int point, uint64_t *m)
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
    int n = (int)td_json_put_uint(out->d, m);
    out->point = point + (n - p);
    while (n > 1 && out->d[n - 1] == '0') {
        n--;
    }
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
        if (at_digits(v, tries[i], point, &m)) {
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
    const size_t all = (size_t)g->n;
    if (g->point <= 0) { /* above 1e-5: four zeros at most */
        const size_t n = 2 + (size_t)-g->point;
        memcpy(to, "0.0000", 6);
        memcpy(to + n, g->d, all);
        return n + all;
    }
    const size_t point = (size_t)g->point;
    memcpy(to, g->d, point < all ? point : all);
    for (size_t i = all; i < point; i++) {
        to[i] = '0';
    }
    to[point] = '.';
    if (point >= all) {
        to[point + 1] = '0';
        return point + 2;
    }
    memcpy(to + point + 1, g->d + point, all - point);
    return all + 1;
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
    const int p = shortest(v, is_float, &g);
    const int widest = p <= 6 ? 6 : is_float ? 9 : 17;
    const bool exponent = g.point - 1 < -4 || g.point - 1 >= widest;
    return n + (exponent ? exponent_form(to + n, &g) : plain_form(to + n, &g));
}

/* ------------------------------------------------------------------ floats of everyday size */

#define EVERYDAY(v) ((v) >= 1e-9f && (v) < 1e15f)

static const double EXACT_TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* From 10^-9 on. */
static const double POWERS[] = {1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0,  1e1,  1e2, 1e3,
                                1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* 0.00DDD, DD.DDD or DDD00.0 of six digits; point is -3 to 6. Writes behind what counts, up to 15 bytes. */
static inline size_t put_six(char *to, uint32_t m, int point)
{
    const uint64_t digits = td_digits_six(m), text = digits | TD_DIGIT_ZEROS;
    const int n = td_digits_count(digits);
    if (point <= 0) {
        memcpy(to, "0.000000", 8);
        td_digits_put(to + 2 - point, text);
        const int all = 2 - point + n;
        return (size_t)all;
    }
    td_digits_put(to, text);
    to[point] = '.';
    td_digits_put(to + point + 1, text >> 8 * point | TD_DIGIT_ZEROS << 8 * (8 - point));
    return (size_t)(n > point ? n : point + 1) + 1;
}

/* The same of nine digits; point is -3 to 9. Up to 18 bytes. */
static inline size_t put_nine(char *to, uint32_t m, int point)
{
    const uint64_t digits = td_digits(m % 100000000), text = digits | TD_DIGIT_ZEROS; /* all but the first */
    const char first = (char)('0' + m / 100000000);
    const int n = 1 + td_digits_count(digits);
    if (point <= 0) {
        memcpy(to, "0.000000", 8);
        to[2 - point] = first;
        td_digits_put(to + 3 - point, text);
        const int all = 2 - point + n;
        return (size_t)all;
    }
    const int whole = 8 * (point - 1); /* bits of text before the point */
    to[0] = first;
    td_digits_put(to + 1, text);
    to[point] = '.';
    td_digits_put(to + point + 1,
                  whole < 64 ? text >> whole | TD_DIGIT_ZEROS << 1 << (63 - whole) : TD_DIGIT_ZEROS);
    return (size_t)(n > point ? n : point + 1) + 1;
}

/* D.DDDe-07 */
static size_t put_scientific(char *to, uint32_t m, int point)
{
    struct digits g;
    spell(m, (int)td_json_put_uint(g.d, m), point, &g);
    return exponent_form(to, &g);
}

/* v and half the distance to the next float (on the side where that is larger), scaled to p digits. */
struct scaled {
    double x, gap;
};

static inline struct scaled scale(double v, double half_gap, int shift)
{
    const double tens = EXACT_TENS[shift >= 0 ? shift : -shift];
    return shift >= 0 ? (struct scaled){v * tens, half_gap * tens}
                      : (struct scaled){v / tens, half_gap / tens};
}

/* A positive v of these bits; 0: the long way must be gone. What is nearer to v than half way to the next
 * float reads back as it. Where six digits do not suffice, which of more do changes from number to number, so
 * that is found without a branch. */
static size_t put_everyday(char *to, float v, uint32_t bits)
{
    const uint64_t power = (uint64_t)((bits >> 23) + 1023 - 127 - 24) << 52;
    double half_gap;
    memcpy(&half_gap, &power, sizeof half_gap);
    int point =
        (((int)(bits >> 23) - 127) * 1233 >> 12) + 1; /* log10(2) * 4096 = 1233.02: one too low at most */
    point += (double)v >= POWERS[point + 9];
    /* Parts of the gap; below a power of two the next float is nearer by half. */
    const double inside = (bits & 0x7fffff) == 0 ? 0.499999 : 0.999999, outside = 1.000001;
    const struct scaled s = scale((double)v, half_gap, 6 - point);
    const uint32_t six = (uint32_t)(int32_t)(s.x + 0.5);
    const double off = fabs((double)(int32_t)six - s.x);
    if (off <= s.gap * outside) {
        const bool carried = six == 1000000;
        const uint32_t m = carried ? 100000 : six;
        point += carried;
        if (off > s.gap * inside) {
            return 0;
        }
        return point < -3 || point > 6 ? put_scientific(to, m, point) : put_six(to, m, point);
    }
    const struct scaled t = scale((double)v, half_gap, 9 - point);
    const uint32_t nine = (uint32_t)(int32_t)(t.x + 0.5); /* below 10^9, or six digits would have done */
    const uint32_t eight = (nine + 5) / 10 * 10, seven = (nine + 50) / 100 * 100;
    const double off8 = fabs((double)(int32_t)eight - t.x), off7 = fabs((double)(int32_t)seven - t.x);
    const double surely = t.gap * inside, hardly = t.gap * outside;
    if (((off8 > surely) & (off8 <= hardly)) | ((off7 > surely) & (off7 <= hardly))) {
        return 0;
    }
    uint32_t m = off8 <= surely ? eight : nine;
    m = off7 <= surely ? seven : m;
    return point < -3 || point > 9 ? put_scientific(to, m, point) : put_nine(to, m, point);
}

static inline size_t put_float(char *to, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const float size = fabsf(v);
    const size_t minus = bits >> 31;
    if (size < 1e6f && (float)(int32_t)size == size) { /* what labels, counts and zeros are */
        to[0] = '-';
        const size_t n = minus + td_digits_put_small(to + minus, (uint32_t)(int32_t)size);
        memcpy(to + n, ".0", 2);
        return n + 2;
    }
    if (EVERYDAY(size)) {
        to[0] = '-';
        const size_t n = put_everyday(to + minus, size, bits & 0x7fffffff);
        if (n > 0) {
            return minus + n;
        }
    }
    return put_real(to, (double)v, true);
}

size_t td_json_put_float(char *to, float v)
{
    return put_float(to, v);
}

size_t td_json_put_floats(char *to, const float *v, int64_t n)
{
    size_t at = put_float(to, v[0]);
    for (int64_t i = 1; i < n; i++) {
        memcpy(to + at, ", ", 2);
        at += 2 + put_float(to + at + 2, v[i]);
    }
    return at;
}

size_t td_json_put_double(char *to, double v)
{
    return put_real(to, v, false);
}
