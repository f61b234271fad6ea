/* proto/json/json_list.c - digits by the eight, numbers until one is not plain.
 *
 * Where the processor can, json_block.c finds the numbers of 64 bytes at once where they are brief, and
 * json_eight.c takes floats of any length by eight; the last ones of a text, and those next to what these do
 * not know, are read here one by one.
 *
 * A plain number is an integer or a decimal fraction of at most 19 digits without an exponent. The eight
 * bytes where digits may be are taken at once, those that are none found by one sum, and the digits behind
 * each other made a number by three multiplications: so a number's length, which changes all the time, costs
 * no guess of a branch. Where there are more than eight, the others are taken by sixteen in the same way, in
 * a vector. The number's value is m / 10^e, both exact in a double for nearly all, so that the one division
 * rounds; td_json_decimal knows the rest, and of those only what a float depends on is asked of it.
 *
 * The end of a list is gone over when the next begins behind it and all is as it was with the list before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_list.h"

#include <endian.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "proto/json/json_block.h"
#include "proto/json/json_eight.h"

static const double EXACT_TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
#define E8 UINT64_C(100000000)
static const uint64_t TENS[] = {1,          10,          100,          1000,          10000,    100000,
                                1000000,    10000000,    E8,           10 * E8,       100 * E8, 1000 * E8,
                                10000 * E8, 100000 * E8, 1000000 * E8, 10000000 * E8, E8 *E8};
#define MOST_DIGITS 19

/* Eight bytes of text, the first in the lowest; zeros behind the end. */
static inline uint64_t word_at(const char *p, const char *end)
{
    uint64_t v = 0;
    if (end - p >= 8) {
        memcpy(&v, p, sizeof v);
        return le64toh(v);
    }
    for (int i = 0; i < end - p; i++) {
        v |= (uint64_t)(unsigned char)p[i] << 8 * i;
    }
    return v;
}

/* How many digits, 0 to 9 each in a byte, the word begins with. */
static inline int count_digits(uint64_t word)
{
    const uint64_t other = ((word + UINT64_C(0x7676767676767676)) | word) & UINT64_C(0x8080808080808080);
    return other == 0 ? 8 : __builtin_ctzll(other) >> 3; /* what one byte carries only reaches those behind */
}

/* The first n of them as a number. */
static inline uint64_t number_of(uint64_t word, int n)
{
    const uint64_t mask = UINT64_C(0x000000ff000000ff);
    word = word << 4 * (8 - n) << 4 * (8 - n); /* by up to 64 */
    word = word * 10 + (word >> 8);            /* bytes 0, 2, 4, 6 now hold two digits each */
    return ((word & mask) * (100 + (UINT64_C(1000000) << 32)) +
            (word >> 16 & mask) * (1 + (UINT64_C(10000) << 32))) >>
           32;
}

/* The digits at p as text, 0 to 9 each in a byte. */
static inline uint64_t digits_at(const char *p, const char *end)
{
    return word_at(p, end) ^ UINT64_C(0x3030303030303030);
}

static inline void append(uint64_t *m, uint64_t word, int n)
{
    *m = *m * TENS[n] + (uint32_t)number_of(word, n);
}

/* Appends the digits at p to those of *m; how many there are, or more than MOST_DIGITS. */
static __attribute__((noinline)) int gather_more(const char *p, const char *end, uint64_t *m)
{
    int n = 0, all = 0;
    do {
        const uint64_t word = digits_at(p + all, end);
        n = count_digits(word);
        append(m, word, n);
        all += n;
    } while (n == 8 && all <= MOST_DIGITS);
    return all;
}

#if defined(__x86_64__)
/* The same for sixteen bytes that all are text; 16: there may be more. */
static __attribute__((noinline, target("sse4.1"))) int gather_sixteen(const char *p, uint64_t *m)
{
    static const int8_t to_end[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15};
    const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i values = _mm_sub_epi8(text, _mm_set1_epi8('0'));
    const __m128i others = _mm_cmpeq_epi8(_mm_max_epu8(values, _mm_set1_epi8(10)), values);
    const int n = __builtin_ctz((unsigned)_mm_movemask_epi8(others) | 1U << 16);
    const __m128i which = _mm_loadu_si128((const __m128i *)(const void *)(to_end + n));
    const __m128i twos = _mm_maddubs_epi16(_mm_shuffle_epi8(values, which), _mm_set1_epi16(10 | 1 << 8));
    const __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(100 | 1 << 16));
    const __m128i eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), _mm_set1_epi32(10000 | 1 << 16));
    const uint64_t both = (uint64_t)_mm_cvtsi128_si64(eights);
    *m = *m * TENS[n] + (uint32_t)both * E8 + (both >> 32);
    return n;
}
#endif

/* Those behind the first eight. */
static inline int gather_behind(const char *p, const char *end, uint64_t *m)
{
#if defined(__x86_64__)
    if (end - p >= 16 && __builtin_cpu_supports("sse4.1")) {
        return gather_sixteen(p, m);
    }
#endif
    return gather_more(p, end, m);
}

/* The same, quick where there are few. */
static inline int gather(const char *p, const char *end, uint64_t *m)
{
    const uint64_t word = digits_at(p, end);
    const int n = count_digits(word);
    append(m, word, n);
    return n < 8 ? n : 8 + gather_behind(p + 8, end, m);
}

struct plain {
    uint64_t m;  /* its digits; the value is m / 10^after */
    double size; /* that, of the double nearest to m */
    int after;   /* digits behind the point */
    bool minus, real;
};

/* Where the number at p ends; NULL: it is no plain one. */
static inline const char *plain_number(const char *p, const char *end, struct plain *out)
{
    uint64_t m = 0;
    const bool minus = *p == '-';
    p += minus;
    const bool leading = *p == '0'; /* other digits may not follow */
    int before = 1, after = 0;
    if ((unsigned char)(*p - '0') < 10 && p[1] == '.') { /* as most fractions begin */
        m = (uint64_t)(*p - '0');
    } else {
        before = gather(p, end, &m);
        if (before == 0 || (leading && before > 1)) {
            return NULL;
        }
    }
    p += before;
    before = m != 0 ? before : 0; /* zeros before the point are none of the digits that m holds */
    out->real = *p == '.';
    if (out->real) {
        after = gather(p + 1, end, &m);
        p += 1 + after;
    }
    out->m = m;
    out->size = (double)(int64_t)m / EXACT_TENS[after <= MOST_DIGITS ? after : 0];
    out->after = after;
    out->minus = minus && (out->real || m != 0); /* -0 is the integer 0 */
    return p < end && (*p | 0x20) != 'e' && (!out->real || after > 0) && before + after <= MOST_DIGITS ? p
                                                                                                       : NULL;
}

static inline double value_of(const struct plain *v)
{
    const double size = v->m > UINT64_C(1) << 53 ? td_json_decimal(v->m, -v->after) : v->size;
    return v->minus ? -size : size;
}

/* The float nearest to value_of(v). More digits than a double holds are first taken as the nearest double,
 * and the quotient is then less than four of a double's last places off: which float is nearest is clear
 * unless that is so close to half way between two. */
static inline float float_of(const struct plain *v)
{
    uint64_t bits;
    memcpy(&bits, &v->size, sizeof bits);
    const uint64_t from_half = (bits & 0x1fffffff) - (0x10000000 - 4); /* of what a float cuts off */
    if ((v->m > INT64_MAX || from_half <= 8) && v->m > UINT64_C(1) << 53) {
        return (float)value_of(v);
    }
    return (float)(v->minus ? -v->size : v->size);
}

static inline bool store(const struct td_gather *g, size_t at, const struct plain *v)
{
    if (g->dtype == TD_FLOAT) {
        ((float *)(void *)g->data)[at] = float_of(v);
        return true;
    }
    struct td_json_num num = {.kind = TD_JSON_REAL};
    if (td_dtype_in(g->dtype, TD_SET_FLOATS)) {
        num.d = value_of(v);
    } else if (v->real || (v->minus && v->m > (uint64_t)INT64_MAX + 1)) {
        return false;
    } else if (v->m > (uint64_t)INT64_MAX && !v->minus) {
        num = (struct td_json_num){.kind = TD_JSON_UINT, .u = v->m};
    } else {
        num = (struct td_json_num){.kind = TD_JSON_INT, .i = (int64_t)(v->minus ? 0 - v->m : v->m)};
    }
    return td_gather_store(g, g->data + at * g->elem, &num);
}

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && td_json_is_space(*p)) {
        p++;
    }
    return p;
}

/* The first number of the list that begins behind the bracket at p; NULL: none does. */
static inline const char *next_list(const char *p, const char *end)
{
    p = skip_space(p + 1, end);
    if (p >= end || *p != ',') {
        return NULL;
    }
    p = skip_space(p + 1, end);
    if (p >= end || *p != '[') {
        return NULL;
    }
    p = skip_space(p + 1, end);
    return p < end && ((unsigned char)(*p - '0') < 10 || *p == '-') ? p : NULL;
}

static inline struct plain number_of_block(const struct td_json_numbers *b, size_t i)
{
    struct plain v = {.m = b->digits[i], .size = b->size[i], .after = b->after[i], .real = b->real >> i & 1};
    v.minus = (b->minus >> i & 1) && (v.real || v.m != 0);
    return v;
}

/* Writes a block's numbers behind the gathered ones, where the floats of floats are already; false: one does
 * not fit the dtype. */
static bool store_block(const struct td_gather *g, const struct td_json_numbers *b)
{
    for (size_t i = 0; g->dtype != TD_FLOAT && i < b->n; i++) {
        const struct plain v = number_of_block(b, i);
        if (!store(g, g->n + i, &v)) {
            return false;
        }
    }
    return true;
}

enum { MOST_AT_ONCE = 64 }; /* numbers */

/* Lists of one level, and where in them the reader is. */
struct lists {
    int64_t width;  /* numbers in each; -1: not known */
    uint64_t every; /* bits 0, width, 2 * width, .. */
    int64_t count;  /* numbers before this one in its list */
    int64_t n;      /* lists that it came to the end of */
};

static struct lists lists_at(const struct td_json_nest *nest)
{
    const int level = nest->level;
    struct lists l = {.width = level > 1 ? nest->dim[level - 1] : -1, .count = nest->count[level - 1]};
    for (int64_t i = 0; l.width > 0 && i < MOST_AT_ONCE; i += l.width) {
        l.every |= UINT64_C(1) << i;
    }
    return l;
}

/* Which of the next n numbers must be the last ones of their lists. */
static inline uint64_t last_ones(const struct lists *l, size_t n)
{
    const int64_t left = l->width - 1 - l->count;
    return left >= 0 && left < MOST_AT_ONCE ? l->every << left & UINT64_MAX >> (MOST_AT_ONCE - n) : 0;
}

/* Numbers that were taken, of which so many closed their lists. */
static inline void go_on(struct td_gather *g, struct lists *l, size_t n, uint64_t closes)
{
    const int64_t ended = __builtin_popcountll(closes);
    g->n += n;
    l->count += (int64_t)n - ended * l->width;
    l->n += ended;
}

/* The numbers of a block at once, if all is in order with them; *p: the number that follows. */
static inline bool take_block(struct td_gather *g, const struct td_json *j, struct lists *l, const char **p)
{
    struct td_json_numbers b;
    float others[TD_JSON_BLOCK_NUMBERS];
    float *floats = g->dtype == TD_FLOAT ? (float *)(void *)g->data + g->n : others;
    if (j->end - *p < TD_JSON_BLOCK || g->cap - g->n < TD_JSON_BLOCK_NUMBERS ||
        !td_json_block(*p, &b, floats) || b.closes != last_ones(l, b.n) || !store_block(g, &b)) {
        return false;
    }
    go_on(g, l, b.n, b.closes);
    *p = b.next;
    return true;
}

/* The same of floats of any length. */
static inline bool take_eights(struct td_gather *g, const struct td_json *j, struct lists *l, const char **p)
{
    struct td_json_eights e;
    if (g->dtype != TD_FLOAT || g->cap - g->n < TD_JSON_EIGHTS ||
        !td_json_eights(*p, j->end, &e, (float *)(void *)g->data + g->n) || e.closes != last_ones(l, e.n)) {
        return false;
    }
    go_on(g, l, e.n, e.closes);
    *p = e.next;
    return true;
}

/* What the numbers were like: so many in a row make it likely that more such ones follow. */
enum { IN_A_ROW = 4 };
struct likes {
    int plain, brief;
};

/* Some numbers at once, as those before them were; false: one by one. */
static inline bool take_some(struct td_gather *g, const struct td_json *j, struct lists *l, const char **p,
                             struct likes *seen)
{
    if (seen->brief >= IN_A_ROW) {
        if (take_block(g, j, l, p)) {
            return true;
        }
        seen->brief = 0;
    }
    if (seen->plain >= IN_A_ROW) {
        if (take_eights(g, j, l, p)) {
            return true;
        }
        seen->plain = 0;
    }
    return false;
}

/* One number; *p: where it ends. */
static inline bool take_one(struct td_gather *g, const struct td_json *j, const char **p, struct likes *seen)
{
    struct plain v;
    const char *end = plain_number(*p, j->end, &v);
    if (end == NULL || !store(g, g->n, &v)) {
        return false;
    }
    g->n++;
    seen->plain++;
    seen->brief = end - *p <= TD_JSON_BLOCK_DIGITS + 2 ? seen->brief + 1 : 0; /* with sign and point */
    *p = end;
    return true;
}

/* Over what is behind a number, to the next one; false: that is for others to read. */
static inline bool to_next(const struct td_json *j, struct lists *l, const char **p)
{
    if (**p == ',') {
        l->count++;
        *p = skip_space(*p + 1, j->end);
        return true;
    }
    const char *next = **p == ']' && l->count + 1 == l->width ? next_list(*p, j->end) : NULL;
    if (next == NULL) {
        return false;
    }
    l->count = 0;
    l->n++;
    *p = next;
    return true;
}

bool td_json_list(struct td_gather *g, struct td_json_nest *nest, struct td_json *j)
{
    const int level = nest->level;
    if (g->dtype == TD_STRING || g->dtype == TD_BOOL || level == 0 ||
        (nest->rank >= 0 && nest->rank != level)) {
        return false;
    }
    const char *p = skip_space(j->at, j->end);
    const size_t before = g->n;
    struct lists l = lists_at(nest);
    bool behind = false;
    struct likes seen = {IN_A_ROW, IN_A_ROW};
    while (!behind && g->n < g->cap && p < j->end) {
        if (take_some(g, j, &l, &p, &seen)) {
            continue;
        }
        if (!take_one(g, j, &p, &seen)) {
            break;
        }
        behind = !to_next(j, &l, &p);
    }
    nest->rank = g->n > before ? level : nest->rank;
    nest->count[level - 1] = l.count;
    if (level > 1) {
        nest->count[level - 2] += l.n;
    }
    j->at = p;
    return behind;
}
