/* server/base/rest_json.h - documents (not tensors) of the HTTP API, by way of jansson.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_REST_JSON_H
#define TD_SERVER_BASE_REST_JSON_H

#include <jansson.h>

#include "core/base/shape.h"
#include "proto/bytes/sink.h"

/* From now on documents count towards the budget and the account of the work at hand: for a program that does
 * not free() what jansson gives it, before its first document. */
void td_rest_json_start(void);
/* Appends the document's text and drops the reference to it. RESOURCE_EXHAUSTED when doc is NULL, or
 * lacks a part that memory was short for. */
TD_MUST enum td_code td_rest_put_json(struct td_sink *s, json_t *takes_doc, struct td_err *err);
/* The same on one line, with every number as short as it reads back to the same value. Borrows doc. */
TD_MUST enum td_code td_rest_put_exact(struct td_sink *s, const json_t *doc, struct td_err *err);
/* The object in a request's body, returned new; an empty body is {}. INVALID_ARGUMENT. */
TD_MUST enum td_code td_rest_get_json(const char *body, size_t n, json_t **out, struct td_err *err);
/* Text that may hold bytes that are not UTF-8: those become '?'. */
json_t *td_rest_json_text(const char *text);
/* 64-bit integers of protobuf's JSON are strings. */
json_t *td_rest_json_int64(int64_t v);
/* {"dim": [{"size": "-1", "name": ""}], "unknown_rank": false} */
json_t *td_rest_json_shape(const struct td_shape *shape);

#endif
