/* core/base/obj.c - reference counts by atomics, and the string, the object that needs nothing else.
 *
 * Taking a reference is relaxed, for it is only taken by who has one. Dropping one releases what this thread
 * has written, and the last one acquires what all others have, before the type's destroy runs. td_obj_unique
 * is what lets an owner change an object in place: with one reference nobody else can take another.
 *
 * A string is one block: head, bytes, and a NUL behind them that len does not count. Does not: find cycles
 * (types that hold objects refuse to make them).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/obj.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"

void td_obj_init(struct td_obj *o, const struct td_obj_type *type)
{
    atomic_init(&o->refs, 1);
    o->type = type;
}

struct td_obj *td_obj_ref(struct td_obj *o)
{
    if (o != NULL) {
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    }
    return o;
}

void td_obj_unref(struct td_obj *o)
{
    if (o != NULL && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1) {
        o->type->destroy(o);
    }
}

bool td_obj_unique(const struct td_obj *o)
{
    return atomic_load_explicit(&o->refs, memory_order_acquire) == 1;
}

static void str_destroy(struct td_obj *o)
{
    struct td_str *s = (struct td_str *)o;
    td_account_give(s->account, sizeof *s + s->len + 1);
    td_budget_note(TD_MEMORY_STRINGS, -(int64_t)(sizeof *s + s->len + 1));
    td_free(s);
}

static const struct td_obj_type str_type = {.name = "string", .destroy = str_destroy};

struct td_str *td_str_new(const char *bytes, size_t len)
{
    if (len > SIZE_MAX - sizeof(struct td_str) - 1) {
        return NULL;
    }
    struct td_account *account = td_work_account();
    const size_t room = sizeof(struct td_str) + len + 1;
    if (td_account_take(account, room, "a string", NULL)) {
        return NULL;
    }
    struct td_str *s = td_realloc(NULL, room, 1);
    if (s == NULL) {
        td_account_give(account, room);
        return NULL;
    }
    td_budget_note(TD_MEMORY_STRINGS, (int64_t)room);
    s->account = account;
    td_obj_init(&s->obj, &str_type);
    s->len = len;
    if (bytes != NULL && len > 0) {
        memcpy(s->bytes, bytes, len);
    }
    s->bytes[len] = 0;
    return s;
}
