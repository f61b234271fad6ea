/* proto/json/json_block.c - where numbers begin and end, by one bit for each byte; their digits, by vectors.
 *
 * Of 64 bytes each kind of character gives a word of bits, and each rule of the grammar is an expression of
 * such words for all numbers at once: its bits are where the rule is broken. What is before the first of them
 * is in order. No branch depends on how long a number is, and none waits for where the one before it ends.
 *
 *   text     1 2 . 5 ,   - 7 ] ,   [ 0
 *   number   # # # # . . # # . . . . #     of digits, points, minus signs
 *   starts   # . . . . . # . . . . . #     its first bytes
 *   ends     . . . . # . . . # . . . .     the first bytes behind: a comma, or the bracket of its list
 *
 * Then eight numbers are taken at a time, the eight digits of each in a lane. A permutation of the text
 * fetches them all, leaving out the points. (Of longer numbers too few are in a block to be worth it.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VBMI2                                                                                                \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")))
#define INLINE VBMI2 static inline __attribute__((always_inline))

/* Bit i is of byte i. */
struct marks {
    uint64_t digits, zeros, points, minuses, commas, spaces, opening, closing;
};

INLINE uint64_t that_are(__m512i v, char c)
{
    return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(c));
}

INLINE struct marks marks_of(__m512i v)
{
    const __m512i size = _mm512_sub_epi8(v, _mm512_set1_epi8('0'));
    return (struct marks){
        .digits = _mm512_cmple_epu8_mask(size, _mm512_set1_epi8(9)),
        .zeros = that_are(v, '0'),
        .points = that_are(v, '.'),
        .minuses = that_are(v, '-'),
        .commas = that_are(v, ','),
        .spaces = that_are(v, ' ') | that_are(v, '\n') | that_are(v, '\t') | that_are(v, '\r'),
        .opening = that_are(v, '['),
        .closing = that_are(v, ']'),
    };
}

/* What comes behind each of the bits, spaces left out: a carry runs through those. */
INLINE uint64_t behind(uint64_t bits, uint64_t spaces)
{
    return ((bits << 1) + spaces) & ~spaces;
}

/* Where a rule of numbers is broken. */
INLINE uint64_t bad_numbers(const struct marks *m, uint64_t number)
{
    const uint64_t first = m->digits & ~((m->digits | m->points) << 1);
    return (m->minuses & number << 1) | (m->points & ~(m->digits << 1)) |
           ((m->minuses | m->points) & ~(m->digits >> 1)) | ((first & m->zeros) << 1 & m->digits);
}

/* Where one of what is between them is. */
INLINE uint64_t bad_between(const struct marks *m, uint64_t number, uint64_t ends)
{
    const uint64_t of_lists = m->closing << 1, next_list = behind(m->commas & of_lists, m->spaces);
    const uint64_t known = number | m->commas | m->spaces | m->opening | m->closing;
    return ~known | (ends & ~(m->commas | m->closing)) | (m->closing & ~ends) | (of_lists & ~m->commas) |
           (m->commas & ~(ends | of_lists)) | (behind(m->commas & ~of_lists, m->spaces) & ~number) |
           (next_list ^ m->opening) | (m->opening << 1 & ~number);
}

/* A byte for each number. */
struct places {
    __m512i first, point, end; /* its first digit; -1: none; behind its last digit */
};

/* A number of eight digits has seven behind its point at most. */
static const double TENS[8] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};

/* Each byte's own place. */
static const uint8_t IOTA[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* Where the numbers are that begin at starts, but for the last one. False: one of them is none, or long. */
INLINE bool place(const struct marks *m, uint64_t number, uint64_t starts, struct places *at,
                  struct td_json_numbers *out)
{
    const uint64_t before_last = UINT64_MAX >> _lzcnt_u64(starts) >> 1;
    const uint64_t ends = ~number & number << 1 & before_last, points = m->points & before_last;
    const uint64_t real = _pext_u64(number + points, ends); /* from a point a carry runs to the end */
    out->n = (size_t)_mm_popcnt_u64(ends);
    out->real = (uint32_t)real;
    out->minus = (uint32_t)_pext_u64(m->minuses, starts);
    out->closes = (uint32_t)_pext_u64(m->closing, ends);
    const __m512i iota = _mm512_loadu_si512(IOTA), one = _mm512_set1_epi8(1);
    const __m512i start = _mm512_maskz_compress_epi8(starts & before_last, iota);
    at->end = _mm512_maskz_compress_epi8(ends, iota);
    at->point = _mm512_mask_expand_epi8(_mm512_set1_epi8(-1), real, _mm512_maskz_compress_epi8(points, iota));
    at->first = _mm512_mask_add_epi8(start, out->minus, start, one);
    const __m512i after = _mm512_sub_epi8(_mm512_sub_epi8(at->end, at->point), one);
    _mm512_storeu_si512(out->after, _mm512_maskz_mov_epi8(real, after));
    const __m512i all = _mm512_sub_epi8(at->end, at->first);
    const __m512i digits = _mm512_mask_sub_epi8(all, real, all, one);
    const uint64_t long_ones = _mm512_cmpgt_epu8_mask(digits, _mm512_set1_epi8(TD_JSON_BLOCK_DIGITS));
    return long_ones == 0 && _mm_popcnt_u64(points) == _mm_popcnt_u64(real);
}

/* Eight numbers as 64-bit values. Byte k of a lane is that digit which has 7 - k behind it, or 0. */
INLINE __m512i value(__m512i text, const struct places *at)
{
    const __m512i k = _mm512_and_si512(_mm512_loadu_si512(IOTA), _mm512_set1_epi8(7));
    __m512i from = _mm512_add_epi8(at->end, _mm512_sub_epi8(k, _mm512_set1_epi8(8)));
    const __mmask64 before_point = _mm512_cmple_epi8_mask(from, at->point);
    from = _mm512_mask_sub_epi8(from, before_point, from, _mm512_set1_epi8(1));
    const __mmask64 there = _mm512_cmpge_epi8_mask(from, at->first);
    const __m512i digits =
        _mm512_maskz_sub_epi8(there, _mm512_permutexvar_epi8(from, text), _mm512_set1_epi8('0'));
    const __m512i twos = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(10 | 1 << 8));
    const __m512i fours = _mm512_madd_epi16(twos, _mm512_set1_epi32(100 | 1 << 16));
    return _mm512_add_epi64(_mm512_mul_epu32(fours, _mm512_set1_epi64(10000)), _mm512_srli_epi64(fours, 32));
}

/* Takes numbers i to i + 7. */
INLINE void take(__m512i text, const struct places *all, size_t i, struct td_json_numbers *out, float *floats)
{
    const __m512i which =
        _mm512_add_epi8(/* a lane for each */
                        _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(IOTA), 3), _mm512_set1_epi8(7)),
                        _mm512_set1_epi8((char)i));
    const struct places at = {.first = _mm512_permutexvar_epi8(which, all->first),
                              .point = _mm512_permutexvar_epi8(which, all->point),
                              .end = _mm512_permutexvar_epi8(which, all->end)};
    const __m512i digits = value(text, &at);
    const __m512i after =
        _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)(out->after + i)));
    const __m512d tens = _mm512_permutexvar_pd(after, _mm512_loadu_pd(TENS));
    const __m512d size = _mm512_div_pd(_mm512_cvtepu64_pd(digits), tens);
    const uint32_t signed_ones =
        out->real >> i | _mm512_test_epi64_mask(digits, digits); /* not the integer 0 */
    const __mmask8 minus = (__mmask8)(out->minus >> i & signed_ones);
    const __m512d v = _mm512_mask_xor_pd(size, minus, size, _mm512_set1_pd(-0.0));
    _mm512_storeu_si512(out->digits + i, digits);
    _mm512_storeu_pd(out->size + i, size);
    _mm256_storeu_ps(floats + i, _mm512_cvtpd_ps(v));
}

VBMI2 static bool block(const char *p, struct td_json_numbers *out, float *floats)
{
    const __m512i text = _mm512_loadu_si512(p);
    const struct marks m = marks_of(text);
    const uint64_t number = m.digits | m.points | m.minuses, ends = ~number & number << 1;
    const uint64_t bad = bad_numbers(&m, number) | bad_between(&m, number, ends);
    const uint64_t starts =
        number & ~(number << 1) & _blsmsk_u64(bad) >> 1; /* before the first that is bad */
    struct places at;
    if ((number & 1) == 0 || (starts & (starts - 1)) == 0) {
        return false;
    }
    out->next = p + 63 - _lzcnt_u64(starts);
    const bool in_order = place(&m, number, starts, &at, out);
    for (size_t i = 0; in_order && i < out->n; i += 8) {
        take(text, &at, i, out, floats);
    }
    return in_order;
}

static bool can(void)
{
    return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("bmi2");
}
#endif

bool td_json_block(const char *p, struct td_json_numbers *out, float *floats)
{
#if defined(__x86_64__)
    if (can()) {
        return block(p, out, floats);
    }
#endif
    (void)p, (void)out, (void)floats;
    return false;
}
