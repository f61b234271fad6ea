/* proto/json/json_read.h - a JSON reader that hands out one token at a time: no tree, no recursion, no
 * allocation.
 *
 * Beyond RFC 8259 it reads NaN, Infinity, Inf and their negatives, as TF Serving does. The text must be
 * followed by a NUL byte (so that a number at its very end stops). Errors are INVALID_ARGUMENT "JSON Parse
 * error: ... at offset: N".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_READ_H
#define TD_PROTO_JSON_JSON_READ_H

#include <stdint.h>

#include "core/base/status.h"

struct td_arena;
struct td_thread_pool;
struct td_json_ahead;

#define TD_JSON_MAX_DEPTH 128 /* of values that are skipped */

struct td_json {
    const char *text, *at, *end;
    struct td_thread_pool *pool; /* help with large values, if whoever made the reader sets it; borrowed */
    struct td_json_ahead *ahead; /* the same of a value that was read ahead (json_ahead.h) */
};

/* A number: integers keep all 64 bits, others are the nearest double. */
enum td_json_num_kind { TD_JSON_INT, TD_JSON_UINT /* above INT64_MAX */, TD_JSON_REAL };
struct td_json_num {
    enum td_json_num_kind kind;
    union {
        int64_t i;
        uint64_t u;
        double d;
    };
};

/* The text of a string between its quotes, escapes not yet resolved. */
struct td_json_str {
    const char *p;
    size_t len;
    bool escaped;
};

static inline struct td_json td_json_make(const char *text, size_t n)
{
    return (struct td_json){.text = text, .at = text, .end = text + n};
}

static inline bool td_json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Skips white space; the next character, 0 at the end of the text (and at a NUL byte in it). */
static inline char td_json_peek(struct td_json *j)
{
    while (j->at < j->end && td_json_is_space(*j->at)) {
        j->at++;
    }
    return j->at < j->end ? *j->at : '\0';
}

/* Consumes c, after white space, if it is next. */
static inline bool td_json_eat(struct td_json *j, char c)
{
    if (td_json_peek(j) != c) {
        return false;
    }
    j->at++;
    return true;
}

/* Records "JSON Parse error: WHAT at offset: N". */
enum td_code td_json_fail(const struct td_json *j, struct td_err *err, const char *what);

/* True when the next token begins a number (or NaN, Infinity). */
bool td_json_at_number(struct td_json *j);
TD_MUST enum td_code td_json_number(struct td_json *j, struct td_json_num *out, struct td_err *err);
static inline double td_json_num_double(const struct td_json_num *n)
{
    return n->kind == TD_JSON_REAL ? n->d : n->kind == TD_JSON_INT ? (double)n->i : (double)n->u;
}

/* The double nearest to m * 10^e. */
double td_json_decimal(uint64_t m, int e);

TD_MUST enum td_code td_json_string(struct td_json *j, struct td_json_str *out, struct td_err *err);
/* Resolves escapes into buf, which has room for s->len bytes; *n is the length of the result. */
TD_MUST enum td_code td_json_unescape(const struct td_json *j, const struct td_json_str *s, char *buf,
                                      size_t *n, struct td_err *err);
/* The same as a text of the arena: INVALID_ARGUMENT for one that holds a NUL, as no name of anything does. */
TD_MUST enum td_code td_json_text(const struct td_json *j, const struct td_json_str *s, struct td_arena *a,
                                  const char **out, struct td_err *err);
/* Compares a string, escapes resolved, with plain text. */
bool td_json_str_is(const struct td_json_str *s, const char *text);

/* true, false or null: consumes it and returns its first letter; 0 when something else is next. */
char td_json_literal(struct td_json *j);

/* Behind the value that is a document: nothing may follow but white space. */
TD_MUST static inline enum td_code td_json_end(struct td_json *j, struct td_err *err)
{
    return td_json_peek(j) == '\0' && j->at == j->end
               ? TD_OK
               : td_json_fail(j, err, "The document root must not be followed by other values.");
}
/* Skips one value of any kind, checking it. */
TD_MUST enum td_code td_json_skip(struct td_json *j, struct td_err *err);

/* Moves past one value without looking inside: to its closing bracket, or to what ends a scalar. For values
 * that are read, and with that checked, later. */
TD_MUST enum td_code td_json_leap(struct td_json *j, struct td_err *err);
/* How many commas the text has. */
size_t td_json_commas(const char *p, const char *end);
/* Walks the members of the object at j (behind its brace). Returns at each key, with j behind the colon;
 * *more false behind the closing brace. first: no comma is due yet. */
TD_MUST enum td_code td_json_member(struct td_json *j, bool first, struct td_json_str *key, bool *more,
                                    struct td_err *err);

/* Decodes base64 (standard alphabet, padding optional) into buf, which has room for len bytes. False for
 * other text. */
bool td_json_base64(const char *text, size_t len, char *buf, size_t *n);

#endif
