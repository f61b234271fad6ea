/* proto/json/json_skip.c - past values: checking them, or only looking for their end.
 *
 * The end of a value that is read later is found by counting brackets, a block at a time where no string
 * begins.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_read.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#define BLOCK 16 /* bytes that are looked at at once */
#else
#define BLOCK 8
#endif

/* The kinds of the brackets that are open around a value, innermost last. */
struct nest {
    char open[TD_JSON_MAX_DEPTH];
    int n;
};

/* One value that holds no others, or the opening of one that does. */
static enum td_code skip_start(struct td_json *j, struct nest *nest, struct td_err *err)
{
    const char c = td_json_peek(j);
    if (c == '[' || c == '{') {
        if (nest->n == TD_JSON_MAX_DEPTH) {
            return td_json_fail(j, err, "Values are nested too deeply (more than 128 levels).");
        }
        nest->open[nest->n++] = c;
        j->at++;
        return TD_OK;
    }
    struct td_json_str s;
    struct td_json_num number;
    if (c == '"') {
        return td_json_string(j, &s, err);
    }
    if (td_json_at_number(j)) {
        return td_json_number(j, &number, err);
    }
    return td_json_literal(j) ? TD_OK : td_json_fail(j, err, "Invalid value.");
}

static enum td_code skip_key(struct td_json *j, struct td_err *err)
{
    struct td_json_str key;
    if (td_json_peek(j) != '"') {
        return td_json_fail(j, err, "Missing a name for object member.");
    }
    TD_TRY(td_json_string(j, &key, err));
    return td_json_eat(j, ':') ? TD_OK
                               : td_json_fail(j, err, "Missing a colon after a name of object member.");
}

/* After a value: closes what ends here. *more is set when another value must follow. */
static enum td_code skip_after(struct td_json *j, struct nest *nest, bool *more, struct td_err *err)
{
    *more = false;
    while (nest->n > 0) {
        const bool object = nest->open[nest->n - 1] == '{';
        if (td_json_eat(j, ',')) {
            *more = true;
            return object ? skip_key(j, err) : TD_OK;
        }
        if (!td_json_eat(j, object ? '}' : ']')) {
            return td_json_fail(j, err,
                                object ? "Missing a comma or } after an object member."
                                       : "Missing a comma or ] after an array element.");
        }
        nest->n--;
    }
    return TD_OK;
}

enum td_code td_json_skip(struct td_json *j, struct td_err *err)
{
    struct nest nest = {.n = 0};
    bool more = true;
    while (more) {
        const int depth = nest.n;
        TD_TRY(skip_start(j, &nest, err));
        if (nest.n > depth) { /* opened: either empty or a first member follows */
            const bool object = nest.open[nest.n - 1] == '{';
            if (!td_json_eat(j, object ? '}' : ']')) {
                if (object) {
                    TD_TRY(skip_key(j, err));
                }
                continue;
            }
            nest.n--;
        }
        TD_TRY(skip_after(j, &nest, &more, err));
    }
    return TD_OK;
}

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

/* Over whole blocks in which the value does not end. */
static void leap_blocks(struct td_json *j, int64_t *depth)
{
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
