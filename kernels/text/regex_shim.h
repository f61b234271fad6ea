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

/* Compiles; NULL with the reason in why when the pattern is no regular expression. Returns new. */
struct td_regex *td_regex_new(const char *pattern, size_t n, char *why, size_t why_bytes);
void td_regex_free(struct td_regex *r);
/* Is all of s matched? Negative without memory. */
int td_regex_full_match(const struct td_regex *r, const char *s, size_t n);
/* What a match becomes: \1 is its first group; the first match only, or all. */
struct td_regex_rewrite {
    const char *text;
    size_t n;
    bool all;
    size_t most;        /* bytes that the text may become; looked at while it grows */
    bool (*over)(void); /* asked at each match; true: leave */
};
enum { TD_REGEX_NO_MEMORY = -1, TD_REGEX_TOO_LONG = -2, TD_REGEX_OVER = -3 };
/* s with matches rewritten, as *out of *out_n bytes (freed by td_regex_release). 0 when nothing matched (*out
 * is NULL: s as it is), 1 when something did, else one of the three above. */
int td_regex_replace(const struct td_regex *r, const char *s, size_t n, const struct td_regex_rewrite *to,
                     char **out, size_t *out_n);
void td_regex_release(char *out);

#ifdef __cplusplus
}
#endif

#endif
