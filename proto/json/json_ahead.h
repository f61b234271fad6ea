/* proto/json/json_ahead.h - the one large value of a request's body, read before anybody has looked where it
 * ends.
 *
 *   read      which inputs may come, and the text
 *   body      as ever (json_tensor.h), with the td_json's `ahead` set: where the value begins that was read
 *             ahead, its numbers are taken and its text is passed over
 *
 * What was not read, or not as it is wanted then, is read from the text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_AHEAD_H
#define TD_PROTO_JSON_JSON_AHEAD_H

#include "proto/json/json_tensor.h"
#include "proto/json/json_value.h"

struct td_json_ahead {
    bool there;      /* a value was read, and nobody has taken it */
    size_t from, to; /* its text */
    struct td_gather g;
    struct td_shape shape;
};

/* Reads the value of a body that has nothing else but, before it, a signature's name: that of one of the
 * fields. text[n] is NUL. */
void td_json_ahead_read(struct td_json_ahead *a, const char *text, size_t n,
                        const struct td_json_field *fields, int n_fields, struct td_thread_pool *pool);
/* Reads the value at j, of numbers of that dtype: the last member of its object, of which, and of all that
 * is behind it, only some KB follow. */
void td_json_ahead_last(struct td_json_ahead *a, const struct td_json *j, enum td_dtype dtype);
void td_json_ahead_fini(struct td_json_ahead *a); /* accepts a zeroed one */

/* For json_leap.c: where the value ends that begins at `at`; 0: none was read there. a may be NULL. */
size_t td_json_ahead_end(const struct td_json_ahead *a, size_t at);
/* For who reads values: the numbers of the value at j, if it was read ahead as g's dtype, into g, which is
 * empty; j is behind it. */
bool td_json_ahead_take(struct td_json *j, struct td_gather *g, struct td_shape *shape);

#endif
