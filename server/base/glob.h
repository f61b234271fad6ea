/* server/base/glob.h - whether a pattern with * and ? takes a text, all of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_GLOB_H
#define TD_SERVER_BASE_GLOB_H

#include <stdbool.h>

/* One '*' is remembered at a time: the last one decides, so the work is at most pattern times text. */
static inline bool td_glob(const char *p, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text != '\0') {
        if (*p == '*') {
            star = ++p;
            from = text;
        } else if (*p == '?' || *p == *text) {
            p++;
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

#endif
