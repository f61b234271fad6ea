/* proto/json/json_block.h - plain numbers of lists, 64 bytes of text at a time: for json_list.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_BLOCK_H
#define TD_PROTO_JSON_JSON_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_JSON_BLOCK 64 /* bytes that are looked at */
#define TD_JSON_BLOCK_NUMBERS (TD_JSON_BLOCK / 2)
#define TD_JSON_BLOCK_DIGITS 8 /* of each of its numbers, at most */

/* Numbers without an exponent; bit i of a word is of number i. */
struct td_json_numbers {
    size_t n;
    const char *next;                       /* the number that follows them */
    uint64_t digits[TD_JSON_BLOCK_NUMBERS]; /* as a whole number */
    double size[TD_JSON_BLOCK_NUMBERS];     /* the nearest to that, divided by 10^after */
    uint8_t after[TD_JSON_BLOCK];           /* digits behind the point */
    uint32_t minus, real;                   /* real ones have a point */
    uint32_t closes;                        /* is its list's last; the next one begins another */
};

/* The numbers at the start of the TD_JSON_BLOCK bytes at p that have another number behind them there. What
 * is between is "," or "],[" with white space behind commas. floats, which has room for
 * TD_JSON_BLOCK_NUMBERS, are the nearest to size, with the numbers' signs. False: there are none, or one is
 * longer; so it is on processors that lack AVX512_VBMI2. */
bool td_json_block(const char *p, struct td_json_numbers *out, float *floats);

#endif
