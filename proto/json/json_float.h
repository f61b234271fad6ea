/* proto/json/json_float.h - floats as JSON text.
 *
 * The shortest decimal that reads back as the same value, laid out as TF Serving does: six significant digits
 * decide between plain and exponent form where they suffice, whole numbers end in ".0", and non-finite values
 * are NaN, Infinity and -Infinity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_FLOAT_H
#define TD_PROTO_JSON_JSON_FLOAT_H

#include <stddef.h>
#include <stdint.h>

#define TD_JSON_NUM_CHARS 32

/* Each writes at most TD_JSON_NUM_CHARS bytes, without a NUL, and returns how many count. */
size_t td_json_put_float(char *to, float v);
size_t td_json_put_double(char *to, double v);
/* n of them, n at least 1, separated by ", ". */
size_t td_json_put_floats(char *to, const float *v, int64_t n);

#endif
