/* proto/json/json_list.h - numbers of a nested list, many at a time: for json_value.c, which knows the rules
 * and says what is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_LIST_H
#define TD_PROTO_JSON_JSON_LIST_H

#include "proto/json/json_value.h"

#define TD_JSON_LEVELS (2 * TD_MAX_RANK)

/* Where in nested lists the reader is. Of a part of a value (json_parts.h) the text begins behind a comma;
 * how many lists are open there is not known, and their levels are counted as if they were TD_MAX_RANK. */
struct td_json_nest {
    int level, rank;               /* rank -1: not known yet */
    int seen;                      /* levels that a list has been opened at: dim[0..seen) are set */
    int64_t dim[TD_JSON_LEVELS];   /* -1: not known yet */
    int64_t count[TD_JSON_LEVELS]; /* elements seen of the list open at each level */
    /* of parts; else all 0 */
    bool is_part;               /* its text may end within the value */
    int before;                 /* levels of lists that were open before it */
    int held;                   /* of those, the lists that have not ended in it */
    int64_t ended[TD_MAX_RANK]; /* elements that the others of them had in it: [held, before) */
};

/* Reads on from the value at j->at (or white space before it) as long as numbers are written plainly and fit,
 * in this list and in those of the same level behind it that are as long as the first was. True: j is behind
 * the last number of a list, or at what follows it; false: a value is still to be read, by who can say what
 * is wrong with it, if anything is. */
bool td_json_list(struct td_gather *g, struct td_json_nest *nest, struct td_json *j);

#endif
