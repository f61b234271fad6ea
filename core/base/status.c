/* core/base/status.c - an error is a code and a text in the caller's struct; the first one stays.
 *
 * td_fail writes only where there is no error yet, so that code which fails again while it cleans up does not
 * hide the cause. td_err_wrap puts words in front of the text that is there, cutting its end where it must.
 * Names and HTTP numbers come from status.def, one row a code. td_panic is for broken invariants of ours and
 * the only way to end the process from here.
 *
 * Does not: allocate, log, or translate texts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum td_code td_fail(struct td_err *err, enum td_code code, const char *fmt, ...)
{
    if (err == NULL) {
        return code;
    }
    if (err->code != TD_OK) {
        return err->code;
    }
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return code;
}

enum td_code td_err_wrap(struct td_err *err, const char *fmt, ...)
{
    if (err == NULL || err->code == TD_OK) {
        return err == NULL ? TD_OK : err->code;
    }
    char text[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text - 3) {
        return err->code;
    }
    memcpy(text + n, ": ", 2);
    size_t room = sizeof text - (size_t)n - 3, len = strlen(err->msg);
    len = len < room ? len : room;
    memcpy(text + n + 2, err->msg, len);
    text[(size_t)n + 2 + len] = 0;
    memcpy(err->msg, text, sizeof text);
    return err->code;
}

const char *td_code_name(enum td_code code)
{
    switch (code) {
#define X(name, number, http)                                                                                \
    case number:                                                                                             \
        return #name;
#include "core/base/status.def"
#undef X
    }
    return "UNKNOWN";
}

int td_code_http(enum td_code code)
{
    switch (code) {
#define X(name, number, http)                                                                                \
    case number:                                                                                             \
        return http;
#include "core/base/status.def"
#undef X
    }
    return 500;
}

void td_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "tensord: broken invariant at %s:%d: %s\n", file, line, what);
    abort();
}
