/* proto/bytes/sink.c - one block that doubles, from 256 bytes up to the limit.
 *
 * Every writer goes through td_sink_grow: it checks the limit before it adds, makes room, and counts the
 * bytes as written; who has written fewer takes the rest off s->n again. Moving the block invalidates what
 * grow gave out before. After an error the sink is as it was.
 *
 * Does not: know any format (proto/pb/wire.c and the writers of proto/json are built on it), shrink, share
 * its bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/sink.h"

#include <stdint.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"

char *td_sink_take(struct td_sink *s)
{
    char *p = s->p;
    td_account_give(s->account, s->cap);
    td_budget_note(s->kind, -(int64_t)s->cap);
    *s = (struct td_sink){.limit = s->limit, .kind = s->kind};
    return p;
}

void td_sink_fini(struct td_sink *s)
{
    td_free(td_sink_take(s));
}

enum td_code td_sink_charge(struct td_sink *s, struct td_account *a, struct td_err *err)
{
    td_account_give(s->account, s->cap);
    s->account = NULL;
    TD_TRY(td_account_take(a, s->cap, "a message", err));
    s->account = a;
    return TD_OK;
}

/* Room for cap bytes, more than there is. */
static enum td_code enlarge(struct td_sink *s, size_t cap, struct td_err *err)
{
    if (s->p == NULL) {
        s->account = td_work_account();
    }
    const size_t more = cap - s->cap;
    TD_TRY(td_account_take(s->account, more, "an encoded message", err));
    char *p = td_realloc(s->p, cap, 1);
    if (p == NULL) {
        td_account_give(s->account, more);
        return td_no_memory(err, cap, "an encoded message");
    }
    td_budget_note(s->kind, (int64_t)more);
    s->p = p;
    s->cap = cap;
    return TD_OK;
}

enum td_code td_sink_grow(struct td_sink *s, size_t n, char **out, struct td_err *err)
{
    size_t limit = s->limit ? s->limit : SIZE_MAX / 2;
    TD_FAIL_IF(n > limit || s->n > limit - n, err, RESOURCE_EXHAUSTED,
               "Encoding a message: %zu bytes and %zu more pass the limit of %zu bytes", s->n, n, limit);
    if (s->n + n > s->cap) {
        size_t cap = s->cap < 256 ? 256 : s->cap * 2;
        cap = cap < s->n + n ? s->n + n : cap;
        cap = cap > limit ? limit : cap;
        TD_TRY(enlarge(s, cap, err));
    }
    *out = s->p + s->n;
    s->n += n;
    return TD_OK;
}

enum td_code td_sink_put(struct td_sink *s, const void *bytes, size_t n, struct td_err *err)
{
    char *to;
    if (n == 0) {
        return TD_OK;
    }
    TD_TRY(td_sink_grow(s, n, &to, err));
    memcpy(to, bytes, n);
    return TD_OK;
}
