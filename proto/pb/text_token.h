/* proto/pb/text_token.h - tokens of protobuf's text format (of proto/pb/textpb.c): names, numbers, strings.
 *
 * Every function first passes white space and comments. Positions for errors are counted when an error
 * occurs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_TEXT_TOKEN_H
#define TD_PROTO_PB_TEXT_TOKEN_H

#include <stdint.h>

#include "proto/bytes/sink.h"

struct td_text {
    const char *p, *end, *begin;
    const char *what; /* the message type, for errors */
};

#define TD_TEXT_NAME 128 /* bytes of a name, its NUL included */

struct td_text td_text_make(const char *text, size_t n, const char *what);
/* INVALID_ARGUMENT "Error parsing text-format WHAT: LINE:COLUMN: why" at the current place. */
enum td_code td_text_fail(const struct td_text *t, struct td_err *err, const char *why);
/* The next character that is not white space or comment; 0 at the end. */
char td_text_peek(struct td_text *t);
/* Passes that character if it is c. */
bool td_text_take(struct td_text *t, char c);
bool td_text_at_number(struct td_text *t); /* digit or '-' */

/* An identifier into name (TD_TEXT_NAME bytes). */
TD_MUST enum td_code td_text_name(struct td_text *t, char *name, struct td_err *err);
TD_MUST enum td_code td_text_int(struct td_text *t, int64_t min, int64_t max, int64_t *v, struct td_err *err);
TD_MUST enum td_code td_text_uint(struct td_text *t, uint64_t max, uint64_t *v, struct td_err *err);
TD_MUST enum td_code td_text_double(struct td_text *t, double *v, struct td_err *err);
TD_MUST enum td_code td_text_bool(struct td_text *t, bool *v, struct td_err *err);
/* One or more quoted strings in a row, unescaped, appended to out. */
TD_MUST enum td_code td_text_string(struct td_text *t, struct td_sink *out, struct td_err *err);
/* Any scalar, dropped. */
TD_MUST enum td_code td_text_skip_scalar(struct td_text *t, struct td_err *err);

#endif
