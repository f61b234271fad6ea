/* server/base/glob.c - one '*' is remembered at a time: the last one decides, so the work is at most
 * pattern times text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/glob.h"

#include <stddef.h>
#include <string.h>

/* The ']' of the set that begins at p ('['); NULL: it is none. */
static const char *set_end(const char *p)
{
    p += p[1] == '!' ? 2 : 1;
    return *p == '\0' ? NULL : strchr(p + 1, ']');
}

/* from: behind '[' and '!'; to: at ']'. */
static bool in_set(const char *from, const char *to, unsigned char c)
{
    while (from < to) {
        const bool range = to - from >= 3 && from[1] == '-';
        const unsigned char low = (unsigned char)from[0], high = (unsigned char)from[range ? 2 : 0];
        if (low <= c && c <= high) {
            return true;
        }
        from += range ? 3 : 1;
    }
    return false;
}

/* Whether the element of the pattern at *p takes c; *p moves behind it. */
static bool takes_one(const char **p, char c)
{
    const char *end = **p == '[' ? set_end(*p) : NULL;
    if (end == NULL) {
        const bool takes = **p == '?' || **p == c;
        *p += takes ? 1 : 0;
        return takes;
    }
    const bool other = (*p)[1] == '!';
    if (in_set(*p + (other ? 2 : 1), end, (unsigned char)c) == other) {
        return false;
    }
    *p = end + 1;
    return true;
}

bool td_glob(const char *p, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text != '\0') {
        if (*p == '*') {
            star = ++p;
            from = text;
        } else if (*p != '\0' && takes_one(&p, *text)) {
            text++;
        } else if (star != NULL) {
            p = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*p == '*') {
        p++;
    }
    return *p == '\0';
}
