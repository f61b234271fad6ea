/* proto/json/json_eight.h - plain numbers of lists as floats, eight at a time: for json_list.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_EIGHT_H
#define TD_PROTO_JSON_JSON_EIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_JSON_EIGHTS 64 /* numbers at most */

/* Numbers that were taken, and what is behind them. */
struct td_json_eights {
    size_t n;         /* of them */
    const char *next; /* the number that follows */
    uint64_t closes;  /* bit i: number i is its list's last, the next one begins another */
};

/* The first of the numbers from p on that are written plainly and followed by another: what is between them
 * is "," or "],[" with a space, or none, behind the comma. floats, which has room for TD_JSON_EIGHTS, are
 * the nearest to the doubles nearest to them. False: there are none; so it is on processors that lack
 * AVX512_VBMI2, and near the text's end. */
bool td_json_eights(const char *p, const char *end, struct td_json_eights *out, float *floats);

#endif
