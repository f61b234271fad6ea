/* server/base/audit.c - one line each, and a count of those that are not written.
 *
 * A second's refusals are counted in one word with the second they are of; who moves it on to another second
 * tells how many of the last one were left out. Texts of a request are cut, and written without quotes in
 * them; core/base/log.c keeps control characters out.
 *
 * Does not: decide (server/base/access.h, server/base/local_only.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/audit.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "server/base/access.h"
#include "server/base/clock.h"

#define A_SECOND 10 /* refusals that are written */
#define TOKEN_CHARS 8
#define MODEL_CHARS 128
#define OBJECT_CHARS 256
#define WHY_CHARS 320

static _Atomic int64_t second;    /* of the refusals that are counted */
static _Atomic int64_t n_refused; /* in it */
static _Atomic int64_t n_left_out;

/* Whether one more may be written now. */
static bool may_write(void)
{
    const int64_t now = td_clock_ns() / 1000000000 + 1;
    int64_t was = atomic_load(&second);
    if (was != now && atomic_compare_exchange_strong(&second, &was, now)) {
        atomic_store(&n_refused, 0);
    }
    if (atomic_fetch_add(&n_refused, 1) < A_SECOND) {
        return true;
    }
    atomic_fetch_add(&n_left_out, 1);
    return false;
}

/* At most n - 1 bytes, and ' in place of ". */
static const char *quoted(const char *text, char *out, size_t n)
{
    size_t i = 0;
    for (; i + 1 < n && text[i] != '\0'; i++) {
        out[i] = (char)(text[i] == '"' ? '\'' : text[i]);
    }
    out[i] = '\0';
    return out;
}

void td_audit_tell(const struct td_audit *a, const struct td_err *err)
{
    char owner[TD_OWNER_CHARS], object[OBJECT_CHARS], model[MODEL_CHARS], why[WHY_CHARS], rest[512] = "";
    const bool refused = td_audit_refused(err->code);
    if (refused && !may_write()) {
        return;
    }
    td_access_owner(a->authorization, a->n, owner);
    const struct td_log_about about = {
        .model = *a->model != '\0' ? quoted(a->model, model, sizeof model) : NULL, .trace = a->trace};
    const long long left_out = refused ? (long long)atomic_exchange(&n_left_out, 0) : 0;
    size_t n = 0;
    if (err->code) {
        n = (size_t)snprintf(rest, sizeof rest, " why=\"%s\"", quoted(err->msg, why, sizeof why));
    }
    if (left_out > 0) {
        (void)snprintf(rest + n, sizeof rest - n, " left_out=%lld", left_out);
    }
    td_log(TD_LOG_AUDIT, &about, "act=\"%s%s%s\" wire=%s from=%s token=%.*s outcome=%s%s", a->verb,
           *a->verb != '\0' ? " " : "", quoted(a->object, object, sizeof object), a->wire,
           *a->from != '\0' ? a->from : "-", TOKEN_CHARS, *owner != '\0' ? owner : "-",
           td_code_name(err->code), rest);
}
