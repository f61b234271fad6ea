/* proto/json/json_digits.h - eight decimal digits at a time, one in each byte of a word.
 *
 * In the word the first digit is in the lowest byte; in memory it comes first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_DIGITS_H
#define TD_PROTO_JSON_JSON_DIGITS_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TD_DIGIT_ZEROS UINT64_C(0x3030303030303030) /* "00000000" */

/* "000", "001" .. "999", four bytes each. */
extern const char td_digits_table[];

/* v < 1000 as text of three digits. */
static inline uint64_t td_digits_three(uint32_t v)
{
    uint32_t text;
    memcpy(&text, td_digits_table + (size_t)v * 4, sizeof text);
    return le32toh(text);
}

/* v < 10^6 as six digits, 0 to 9, and two zeros behind. */
static inline uint64_t td_digits_six(uint32_t v)
{
    const uint32_t high = v / 1000, low = v - high * 1000;
    return (td_digits_three(high) | td_digits_three(low) << 24) ^ TD_DIGIT_ZEROS >> 16;
}

/* v < 10^8 as its eight digits. */
static inline uint64_t td_digits(uint32_t v)
{
    const uint32_t high = v / 100000, rest = v - high * 100000, middle = rest / 100,
                   low = rest - middle * 100;
    return (td_digits_three(high) | td_digits_three(middle) << 24 | td_digits_three(low) >> 8 << 48) ^
           TD_DIGIT_ZEROS;
}

/* How many of them count, zeros behind them left out; 0 for none. */
static inline int td_digits_count(uint64_t digits)
{
    return digits == 0 ? 0 : 8 - (__builtin_clzll(digits) >> 3);
}

static inline void td_digits_put(char *to, uint64_t text)
{
    text = htole64(text);
    memcpy(to, &text, sizeof text);
}

/* v < 10^8 as text without zeros before it; writes eight bytes, and returns how many count. */
static inline size_t td_digits_put_small(char *to, uint32_t v)
{
    const uint64_t digits = td_digits(v);
    const int zeros = __builtin_ctzll(digits | UINT64_C(1) << 56) >> 3;
    td_digits_put(to, (digits | TD_DIGIT_ZEROS) >> 8 * zeros);
    return (size_t)(8 - zeros);
}

#endif
