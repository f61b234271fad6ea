/* server/train/fault.c - sets a fault: the first one wins, as in a td_err.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void place(struct td_fault *f, const char *code, const char *param)
{
    snprintf(f->code, sizeof f->code, "%s", code);
    snprintf(f->param, sizeof f->param, "%s", param == NULL ? "" : param);
}

enum td_code td_fault_set(struct td_fault *f, const char *code, const char *param, const char *fmt, ...)
{
    char text[sizeof f->err.msg];
    va_list args;
    if (f->err.code) {
        return f->err.code;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    place(f, code, param);
    return td_fail(&f->err, strcmp(code, "server_error") == 0 ? TD_INTERNAL : TD_INVALID_ARGUMENT, "%s",
                   text);
}

enum td_code td_fault_of(struct td_fault *f, enum td_code rc, const char *code, const char *param)
{
    if (rc && f->code[0] == '\0') {
        place(f, code, param);
    }
    return rc;
}
