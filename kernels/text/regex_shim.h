/* kernels/text/regex_shim.h - RE2 behind a C interface.
 *
 * RE2 matches in time linear in the text and compiles within a memory budget, so patterns may come from
 * models and requests. The shim catches what C++ throws: it answers "out of memory" instead.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_REGEX_SHIM_H
#define TD_KERNELS_TEXT_REGEX_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct td_regex;

enum {
    TD_REGEX_GROUPS = 10,     /* a rewrite names \0 to \9 */
    TD_REGEX_BYTES = 8 << 20, /* that a regular expression may take, program and automata: TensorFlow's bound,
                                  which decides what compiles */
};
enum { TD_REGEX_NO_MEMORY = -1 };

/* Compiles; NULL with the reason in why when the pattern is no regular expression. Returns new. */
struct td_regex *td_regex_new(const char *pattern, size_t n, char *why, size_t why_bytes);
void td_regex_free(struct td_regex *r); /* accepts NULL */
/* Bytes of what it was compiled to; the automata that matching makes come on top. */
size_t td_regex_program_bytes(const struct td_regex *r);
/* Groups in parentheses. */
int td_regex_groups(const struct td_regex *r);
/* Is all of s matched? Negative without memory. */
int td_regex_full_match(const struct td_regex *r, const char *s, size_t n);

struct td_regex_span {
    const char *p; /* NULL: the group matched nothing */
    size_t n;
};
/* The first match in s from byte `from` on: group[0] is all of it. 1, 0 when there is none, or
 * TD_REGEX_NO_MEMORY. n_groups is at most TD_REGEX_GROUPS. */
int td_regex_match(const struct td_regex *r, const char *s, size_t n, size_t from,
                   struct td_regex_span *group, int n_groups);

#ifdef __cplusplus
}
#endif

#endif
