/* tests/bench/json_floats.h - every number of a JSON text as a float, by simdjson: the least that reading a
 * request of tensors takes who uses a well-kept library for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_BENCH_JSON_FLOATS_H
#define TD_TESTS_BENCH_JSON_FLOATS_H

#include <stddef.h>

enum { JSON_FLOATS_PADDING = 64 }; /* bytes behind the text that may be read */

#ifdef __cplusplus
extern "C" {
#endif

/* In the text's order; how many there are, of which out has at most room. -1: it is no JSON. */
long json_floats(const char *text, size_t n, float *out, size_t room);

#ifdef __cplusplus
}
#endif

#endif
