/* proto/json/json_eight.c - where numbers end by the commas, their first sixteen digits by vectors.
 *
 *   text      - 0 . 6 3 9 4 ,   1 2 . 5 ] ,   [ 7 ..
 *   commas                  #               #        of 64 bytes; two are taken, the next 64 begin behind
 *   digits      # . # # # #                          of the 32 bytes at a number; "." and the end by bits
 *   packed      0 6 3 9 4 0 0 0 0 0 0 0 0 0 0 0      to the left: the value is that / 10^(16 - before)
 *
 * What a number's text costs does not hold up the next one: only the commas lead on. Each number is then held
 * against the rules by itself, and those before the first that breaks one are taken.
 *
 * A value is a product of rounded factors, its digits beyond the sixteenth cut off: it may be off by some of
 * a double's last places, by 10^-12 of it at most. The nearest float is the same as that of the nearest
 * double unless half way between two floats is as near; such a number (one of 16,000) is left to the reader
 * of single ones, which is exact.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_eight.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VBMI2                                                                                                \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,bmi,bmi2,popcnt")))
#define INLINE VBMI2 static inline __attribute__((always_inline))

enum {
    NUMBERS = 8,
    WINDOW = 64,     /* bytes that commas are looked for in */
    LONGEST = 32,    /* bytes of a number and what is before it, behind the last comma */
    DIGITS = 16,     /* of it that are used */
    SEEN = 128,      /* bytes from a window's start that may be looked at */
    CLEAR = 1 << 14, /* of a double's last places: no value is so much off */
};

/* The texts of numbers, each from behind a comma to the next one, bit 0 its first byte. */
struct texts {
    const char *first;              /* where they begin */
    const char *last;               /* their last comma */
    __m128i packed[2][NUMBERS / 2]; /* the first digits of even and odd ones, 0 to 9 each, and zeros */
    int32_t commas[NUMBERS + 1];    /* from the first text; the first is before it, -1 */
    uint32_t digits[NUMBERS], points[NUMBERS];
};

/* Text i, from `from` on: notes where its digits and its comma are. */
INLINE void note(struct texts *t, int i, const char *from, uint32_t length)
{
    const __m256i text = _mm256_loadu_si256((const __m256i *)(const void *)from);
    const __m256i values = _mm256_sub_epi8(text, _mm256_set1_epi8('0'));
    const uint32_t digits = _bzhi_u32(_mm256_cmple_epu8_mask(values, _mm256_set1_epi8(9)), length);
    t->commas[i + 1] = (int32_t)(from - t->first) + (int32_t)length;
    t->digits[i] = digits;
    t->points[i] = _mm256_cmpeq_epi8_mask(text, _mm256_set1_epi8('.'));
    t->packed[i % 2][i / 2] = _mm256_castsi256_si128(_mm256_maskz_compress_epi8(digits, values));
}

/* The texts of eight numbers from p on. False: they are not there. */
INLINE bool find(struct texts *t, const char *p, const char *end)
{
    t->first = p;
    t->commas[0] = -1;
#pragma GCC unroll 4
    for (int i = 0; i < NUMBERS; i += 2) {
        if (end - p < SEEN) {
            return false;
        }
        const __m512i text = _mm512_loadu_si512(p);
        const uint64_t commas = _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(','));
        const uint64_t others = _blsr_u64(commas);
        if (others == 0) {
            return false;
        }
        const uint32_t one = (uint32_t)_tzcnt_u64(commas), two = (uint32_t)_tzcnt_u64(others);
        note(t, i, p, one);
        note(t, i + 1, p + one + 1, two - one - 1);
        t->last = p + two;
        p += two + 1;
    }
    return true;
}

/* What is known of eight numbers; a mask's bit is a number's. */
struct marks {
    __m256i before; /* digits before the point */
    __mmask8 minus, real, cut, closes, bad;
};

INLINE __mmask8 begin_with(__m256i words, char c)
{
    return _mm256_cmpeq_epi32_mask(_mm256_and_si256(words, _mm256_set1_epi32(0xff)), _mm256_set1_epi32(c));
}

/* Holds the texts against the rules. */
INLINE struct marks judge(const struct texts *t)
{
    struct marks m;
    const char *p = t->first;
    const __m256i one = _mm256_set1_epi32(1), zero = _mm256_setzero_si256();
    const __m256i from = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)t->commas), one);
    const __m256i comma = _mm256_loadu_si256((const __m256i *)(const void *)(t->commas + 1));
    const __m256i length = _mm256_sub_epi32(comma, from);
    const __m256i inside = _mm256_sub_epi32(_mm256_sllv_epi32(one, length), one);
    const __m256i digits = _mm256_loadu_si256((const __m256i *)(const void *)t->digits);
    const __m256i points =
        _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)t->points), inside);
    const __m256i number = _mm256_or_si256(digits, points);
    m.real = _mm256_test_epi32_mask(points, points);

    __m256i words = _mm256_i32gather_epi32((const int *)(const void *)p, from, 1);
    const __mmask8 spaced = begin_with(words, ' ');
    words = _mm256_mask_srli_epi32(words, spaced, words, 8);
    const __mmask8 opens = begin_with(words, '[');
    words = _mm256_mask_srli_epi32(words, opens, words, 8);
    m.minus = begin_with(words, '-');
    __m256i start = _mm256_maskz_mov_epi32(spaced, one);
    start = _mm256_mask_add_epi32(start, opens, start, one);
    start = _mm256_mask_add_epi32(start, m.minus, start, one);
    m.closes = begin_with(_mm256_i32gather_epi32((const int *)(const void *)(p - 1), comma, 1), ']');
    const __m256i last = _mm256_mask_sub_epi32(length, m.closes, length, one);

    const __m256i first = _mm256_and_si256(number, _mm256_sub_epi32(zero, number));
    const __m256i end = _mm256_add_epi32(number, first); /* a carry runs through what has no gap */
    const __m256i at_ends = _mm256_or_si256(first, _mm256_srli_epi32(end, 1));
    m.bad = _mm256_cmpge_epu32_mask(_mm256_sub_epi32(length, one), _mm256_set1_epi32(LONGEST - 1)) |
            _mm256_cmpneq_epi32_mask(first, _mm256_sllv_epi32(one, start)) |
            _mm256_cmpneq_epi32_mask(end, _mm256_sllv_epi32(one, last)) |
            _mm256_test_epi32_mask(points, _mm256_sub_epi32(points, one)) |
            _mm256_test_epi32_mask(points, at_ends) | ((opens ^ m.closes << 1) & 0xfe) |
            ((spaced | opens) & 1);
    const __m256i point = _mm256_mask_mov_epi32(end, m.real, points);
    m.before = _mm256_sub_epi32(_mm256_sub_epi32(_mm256_set1_epi32(31), _mm256_lzcnt_epi32(point)), start);
    m.bad |= _mm256_cmpgt_epu32_mask(_mm256_sub_epi32(m.before, one), _mm256_set1_epi32(NUMBERS - 1));
    m.cut = _mm256_cmpgt_epi32_mask(
        _mm256_sub_epi32(last, start),
        _mm256_mask_add_epi32(_mm256_set1_epi32(DIGITS), m.real, _mm256_set1_epi32(DIGITS), one));
    return m;
}

/* The numbers of sixteen digits each, from even and odd ones. */
INLINE __m512i numbers_of(__m512i even, __m512i odd)
{
    const __m512i tens = _mm512_set1_epi16(10 | 1 << 8), hundreds = _mm512_set1_epi32(100 | 1 << 16);
    const __m512i first = _mm512_madd_epi16(_mm512_maddubs_epi16(even, tens), hundreds);
    const __m512i second = _mm512_madd_epi16(_mm512_maddubs_epi16(odd, tens), hundreds);
    const __m512i eights =
        _mm512_madd_epi16(_mm512_packus_epi32(first, second), _mm512_set1_epi32(10000 | 1 << 16));
    return _mm512_add_epi64(_mm512_mul_epu32(eights, _mm512_set1_epi64(100000000)),
                            _mm512_srli_epi64(eights, 32));
}

/* By the digits before the point, less one: 10^(before - 16). */
static const double SCALE[NUMBERS] = {1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8};

/* Writes the eight floats; returns which of them are none, or not certain. */
INLINE uint32_t write(__m512i numbers, const struct marks *m, float *floats)
{
    const __m512i before = _mm512_cvtepu32_epi64(_mm256_sub_epi32(m->before, _mm256_set1_epi32(1)));
    const __m512d scale = _mm512_permutexvar_pd(before, _mm512_loadu_pd(SCALE));
    const __m512d size = _mm512_mul_pd(_mm512_cvtepu64_pd(numbers), scale);
    const __mmask8 minus = m->minus & (m->real | _mm512_test_epi64_mask(numbers, numbers)); /* -0 is 0 */
    const __m512d v = _mm512_mask_xor_pd(size, minus, size, _mm512_set1_pd(-0.0));
    _mm256_storeu_ps(floats, _mm512_cvtpd_ps(v));
    const __m512i lost = _mm512_and_si512(_mm512_castpd_si512(size), _mm512_set1_epi64(0x1fffffff));
    const __m512i from_half = _mm512_sub_epi64(lost, _mm512_set1_epi64(0x10000000 - CLEAR));
    const __mmask8 unsure = _mm512_cmple_epu64_mask(from_half, _mm512_set1_epi64(2 * CLEAR));
    const __mmask8 few = _mm512_cmplt_epu64_mask(numbers, _mm512_set1_epi64(1000000000000));
    const __mmask8 zero = _mm512_cmplt_epu64_mask(numbers, _mm512_set1_epi64(1000000000000000)) &
                          _mm512_test_epi64_mask(before, before); /* before other digits */
    return (uint32_t)unsure | (uint32_t)(few & m->cut) | zero;
}

/* What follows the comma at c, behind a number that closes its list or not; NULL: no number does. */
static inline const char *follows(const char *c, bool closes)
{
    const char *p = c + 1 + (c[1] == ' ');
    return !closes ? p : *p == '[' && ((unsigned char)(p[1] - '0') < 10 || p[1] == '-') ? p + 1 : NULL;
}

/* Writes the numbers of the texts; how many are in order, with *closes of those. */
INLINE unsigned read_texts(const struct texts *t, float *floats, uint32_t *closes)
{
    const struct marks m = judge(t);
    const __m512i numbers = numbers_of(_mm512_loadu_si512(t->packed[0]), _mm512_loadu_si512(t->packed[1]));
    const uint32_t bad = m.bad | write(numbers, &m, floats);
    const unsigned n = _tzcnt_u32(bad | 1U << NUMBERS);
    *closes = _bzhi_u32(m.closes, n);
    return n;
}

/* Behind the nth text, if a number follows; NULL: none does. */
INLINE const char *behind(const struct texts *t, unsigned n)
{
    const char *comma = t->first + t->commas[n];
    return follows(comma, comma[-1] == ']');
}

/* The next texts are found before those at hand are read: what was noted then has reached the memory that
 * vectors are loaded from. */
VBMI2 static bool eights(const char *p, const char *end, struct td_json_eights *out, float *floats)
{
    struct texts texts[2];
    bool more = find(&texts[0], p, end);
    out->n = 0;
    out->closes = 0;
    for (unsigned i = 0; more; i++) {
        const struct texts *t = &texts[i % 2];
        uint32_t closes;
        const char *next = follows(t->last, t->last[-1] == ']');
        more = next != NULL && out->n + 2 * NUMBERS <= TD_JSON_EIGHTS && find(&texts[(i + 1) % 2], next, end);
        unsigned n = read_texts(t, floats + out->n, &closes);
        if (__builtin_expect(n < NUMBERS || next == NULL, false)) {
            more = false;
            n -= n > 0 && behind(t, n) == NULL;
            next = n > 0 ? behind(t, n) : p;
            closes = _bzhi_u32(closes, n);
        }
        out->closes |= (uint64_t)closes << out->n;
        out->n += n;
        p = next;
    }
    out->next = p;
    return out->n > 0;
}

static bool can(void)
{
    return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("bmi2");
}
#endif

bool td_json_eights(const char *p, const char *end, struct td_json_eights *out, float *floats)
{
#if defined(__x86_64__)
    if (can()) {
        return eights(p, end, out, floats);
    }
#endif
    (void)p, (void)end, (void)out, (void)floats;
    return false;
}
