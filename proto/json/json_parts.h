/* proto/json/json_parts.h - a large nested list of numbers, read by all threads that idle: for json_value.c
 * and json_ahead.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_PARTS_H
#define TD_PROTO_JSON_JSON_PARTS_H

#include "proto/json/json_value.h"

enum { TD_JSON_LARGE = 128 << 10 }; /* bytes of text that are worth it */

/* What td_gather_value does, where the value is large, all is in order with it, and j->pool has help. False:
 * else; nothing has changed, and who reads it in one finds what is wrong. */
bool td_gather_by_parts(struct td_gather *g, struct td_json *j, struct td_shape *shape);

/* The same of a value that ends at `end`, if it is right. False too: it does not. */
bool td_gather_to(struct td_gather *g, struct td_json *j, const char *end, struct td_shape *shape);

#endif
