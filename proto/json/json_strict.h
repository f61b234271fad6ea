/* proto/json/json_strict.h - whether a text is one JSON value, and nothing else, by RFC 8259 alone.
 *
 * The other readers of this room take what TF Serving takes (NaN, a key twice). Where a
 * file must be JSON as any other program reads it, it is checked here first: UTF-8, escapes with whole
 * surrogate pairs, numbers, each key of an object once, nesting. Nothing is converted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_STRICT_H
#define TD_PROTO_JSON_JSON_STRICT_H

#include "core/base/status.h"

/* Scratch that is kept between texts; begins zeroed. One thread at a time. */
struct td_json_strict {
    struct td_json_strict_key *key; /* of the objects that are open */
    size_t n_keys, cap_keys;
};

/* text[n] may be read (it is no part of the value). depth: of lists and objects, at most
 * TD_JSON_STRICT_DEPTH. INVALID_ARGUMENT "WHAT at column N", counted in bytes from 1. */
#define TD_JSON_STRICT_DEPTH 64
TD_MUST enum td_code td_json_strict_check(struct td_json_strict *s, const char *text, size_t n,
                                          struct td_err *err);
void td_json_strict_fini(struct td_json_strict *s);

#endif
