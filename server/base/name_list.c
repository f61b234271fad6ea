/* server/base/name_list.c - printed behind what is there, and cut off again where it does not fit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/name_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td_name_list_add(struct td_name_list *l, const char *fmt, ...)
{
    const char *between = l->n > 0 ? ", " : "";
    const size_t from = l->n + strlen(between);
    if (from >= sizeof l->s) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    const int put = vsnprintf(l->s + from, sizeof l->s - from, fmt, args);
    va_end(args);
    if (put < 0 || (size_t)put >= sizeof l->s - from) {
        l->s[l->n] = 0;
        return;
    }
    memcpy(l->s + l->n, between, from - l->n);
    l->n = from + (size_t)put;
}
