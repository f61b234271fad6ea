/* proto/json/json_write.h - JSON values appended to a byte sink: numbers, strings, base64.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_WRITE_H
#define TD_PROTO_JSON_JSON_WRITE_H

#include "core/base/tensor.h"
#include "proto/bytes/sink.h"
#include "proto/json/json_float.h" /* TD_JSON_NUM_CHARS; floats */

/* As td_json_put_float. */
size_t td_json_put_int(char *to, int64_t v);
size_t td_json_put_uint(char *to, uint64_t v);

/* The string in quotes, escaped. Bytes that are not UTF-8 are written as they are: see core/base/utf8.h. */
TD_MUST enum td_code td_json_put_string(struct td_sink *s, const char *p, size_t len, struct td_err *err);
/* {"b64": "..."} */
TD_MUST enum td_code td_json_put_b64(struct td_sink *s, const char *p, size_t len, struct td_err *err);

/* n elements of t from element i on, in quotes, base64 or digits, separated by ", ". b64: strings always as
 * base64. UNIMPLEMENTED for dtypes that JSON has no form for, naming them. */
TD_MUST enum td_code td_json_put_elems(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t n,
                                       bool b64, struct td_err *err);
/* So many lists of n elements each, "[..], [..]", from element i on. */
TD_MUST enum td_code td_json_put_lists(struct td_sink *s, const struct td_tensor *t, int64_t i, int64_t lists,
                                       int64_t n, bool b64, struct td_err *err);

#endif
