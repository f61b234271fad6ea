/* proto/json/json_leap.c - past values without reading them: brackets and commas are counted by the block.
 *
 * Text is looked at 64 bytes at a time where the processor has AVX2, else a word or a small vector at a time:
 * no block may hold a quote, behind which brackets are text, nor the bracket that ends the value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_ahead.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__SSE2__)
#define BLOCK 16 /* bytes that are looked at at once */
#else
#define BLOCK 8
#endif

#if defined(__SSE2__)
static inline __m128i bytes_that_are(__m128i v, char c)
{
    return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

static inline int count_marks(__m128i marks)
{
    const __m128i zero = _mm_setzero_si128(), sums = _mm_sad_epu8(_mm_sub_epi8(zero, marks), zero);
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
}

/* The brackets that open and close among BLOCK bytes; false where a quote or the text's end may be. */
static inline bool count_brackets(const char *p, int *opening, int *closing)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i curly = _mm_or_si128(v, _mm_set1_epi8(0x20)); /* [ and ] as { and } */
    *opening = count_marks(bytes_that_are(curly, '{'));
    *closing = count_marks(bytes_that_are(curly, '}'));
    return _mm_movemask_epi8(_mm_or_si128(bytes_that_are(v, '"'), bytes_that_are(v, '\0'))) == 0;
}
#else
/* The bytes of v that are c, as 0x80 each. */
static inline uint64_t bytes_that_are(uint64_t v, char c)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), low = ~(ones << 7);
    v ^= ones * (unsigned char)c;
    return ~(((v & low) + low) | v | low);
}

static inline int count_marks(uint64_t marks)
{
    return (int)((marks >> 7) * UINT64_C(0x0101010101010101) >> 56);
}

static inline bool count_brackets(const char *p, int *opening, int *closing)
{
    uint64_t v;
    memcpy(&v, p, BLOCK);
    const uint64_t curly = v | UINT64_C(0x2020202020202020); /* [ and ] as { and } */
    *opening = count_marks(bytes_that_are(curly, '{'));
    *closing = count_marks(bytes_that_are(curly, '}'));
    return (bytes_that_are(v, '"') | bytes_that_are(v, '\0')) == 0;
}
#endif

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,popcnt")))
#define WIDE 64

/* Bit i is of byte i. */
AVX2 static inline __attribute__((always_inline)) uint64_t that_are(__m256i low, __m256i high, char c)
{
    const __m256i all = _mm256_set1_epi8(c);
    const uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all));
    return first | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all)) << 32;
}

/* Whether depth, over brackets in their order, stays above 0. */
static bool stays_inside(int64_t depth, uint64_t opening, uint64_t closing)
{
    for (uint64_t left = opening | closing; left != 0 && depth > 0; left &= left - 1) {
        depth += opening & left & -left ? 1 : -1;
    }
    return depth > 0;
}

AVX2 static void leap_wide(struct td_json *j, int64_t *depth)
{
    const __m256i space = _mm256_set1_epi8(0x20), quote = _mm256_set1_epi8('"'),
                  zero = _mm256_setzero_si256();
    for (; j->end - j->at >= WIDE; j->at += WIDE) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)j->at);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(j->at + WIDE / 2));
        const __m256i quotes = _mm256_or_si256(_mm256_cmpeq_epi8(low, quote), _mm256_cmpeq_epi8(high, quote));
        const __m256i ends = _mm256_cmpeq_epi8(_mm256_min_epu8(low, high), zero);
        const __m256i curly = _mm256_or_si256(low, space), others = _mm256_or_si256(high, space);
        const uint64_t opening = that_are(curly, others, '{'), closing = that_are(curly, others, '}');
        const int closed = (int)_mm_popcnt_u64(closing);
        if (_mm256_movemask_epi8(_mm256_or_si256(quotes, ends)) != 0 ||
            (*depth <= closed && !stays_inside(*depth, opening, closing))) {
            return;
        }
        *depth += (int)_mm_popcnt_u64(opening) - closed;
    }
}

AVX2 static const char *commas_wide(const char *p, const char *end, size_t *n)
{
    for (; end - p >= WIDE; p += WIDE) {
        *n += (size_t)_mm_popcnt_u64(
            that_are(_mm256_loadu_si256((const __m256i *)(const void *)p),
                     _mm256_loadu_si256((const __m256i *)(const void *)(p + WIDE / 2)), ','));
    }
    return p;
}

static bool is_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}
#endif

size_t td_json_commas(const char *p, const char *end)
{
    size_t n = 0;
#if defined(__x86_64__)
    p = is_wide() ? commas_wide(p, end, &n) : p;
#endif
    for (; p < end; p++) {
        n += *p == ',';
    }
    return n;
}

/* Over whole blocks in which the value does not end. */
static void leap_blocks(struct td_json *j, int64_t *depth)
{
#if defined(__x86_64__)
    if (is_wide()) {
        leap_wide(j, depth);
    }
#endif
    int opening, closing;
    while (j->end - j->at >= BLOCK && count_brackets(j->at, &opening, &closing) && *depth > closing) {
        *depth += opening - closing;
        j->at += BLOCK;
    }
}

enum td_code td_json_leap(struct td_json *j, struct td_err *err)
{
    struct td_json_str s;
    int64_t depth = 0;
    do {
        const char c = td_json_peek(j);
        if (c == '"') {
            TD_TRY(td_json_string(j, &s, err));
            continue;
        }
        if (c == '\0') {
            return td_json_fail(j, err, "Invalid value.");
        }
        const size_t end = c == '[' ? td_json_ahead_end(j->ahead, (size_t)(j->at - j->text)) : 0;
        if (end > 0) {
            j->at = j->text + end;
            continue;
        }
        if (c == ':' && depth > 0) { /* the value is looked at by itself */
            j->at++;
            continue;
        }
        if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            depth--;
        }
        j->at++;
        leap_blocks(j, &depth);
        j->at += strcspn(j->at, depth > 0 ? "\"[]{}" : "\"[]{},"); /* a NUL comes, if behind the end */
        j->at = j->at < j->end ? j->at : j->end;
    } while (depth > 0);
    if (depth < 0) {
        return td_json_fail(j, err, "Invalid value.");
    }
    return TD_OK;
}
