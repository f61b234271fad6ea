/* core/op.c - the op table: signatures parsed at start, names in an open-addressed hash table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/op.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/sig.h"

struct td_op_table {
    struct td_arena *arena;
    struct td_op_def *defs;
    const struct td_op_def **sorted;
    int n;
    int *slots; /* index + 1 of defs; 0 empty; n_slots is a power of two, at most half full */
    size_t n_slots;
};

static size_t slot_of(const struct td_op_table *t, const char *name)
{
    size_t i = td_hash_bytes(name, strlen(name)) & (t->n_slots - 1);
    while (t->slots[i] != 0 && strcmp(t->defs[t->slots[i] - 1].name, name) != 0) {
        i = (i + 1) & (t->n_slots - 1);
    }
    return i;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct td_op_def *const *)a)->name, (*(const struct td_op_def *const *)b)->name);
}

static enum td_code fill(struct td_op_table *t, const struct td_op *const *families, struct td_err *err)
{
    for (; *families != NULL; families++) {
        for (const struct td_op *op = *families; op->name != NULL; op++) {
            struct td_op_def *def = &t->defs[t->n];
            TD_TRY(td_sig_parse(t->arena, op->name, op->sig == NULL ? "() -> ()" : op->sig, def, err));
            def->op = op;
            size_t i = slot_of(t, op->name);
            TD_FAIL_IF(t->slots[i] != 0, err, INTERNAL, "op '%s' is in the table twice", op->name);
            t->sorted[t->n] = def;
            t->slots[i] = ++t->n;
        }
    }
    qsort(t->sorted, (size_t)t->n, sizeof t->sorted[0], by_name);
    return TD_OK;
}

enum td_code td_op_table_new(const struct td_op *const *families, struct td_op_table **out, struct td_err *err)
{
    size_t n = 0;
    for (const struct td_op *const *f = families; *f != NULL; f++) {
        for (const struct td_op *op = *f; op->name != NULL; op++) {
            n++;
        }
    }
    struct td_op_table *t = td_calloc(1, sizeof *t);
    struct td_arena *arena = td_arena_new(64 << 20);
    if (t == NULL || arena == NULL) {
        td_free(t);
        td_arena_free(arena);
        return td_no_memory(err, sizeof *t, "op table");
    }
    t->arena = arena;
    for (t->n_slots = 16; t->n_slots < 2 * n;) {
        t->n_slots *= 2;
    }
    t->defs = td_arena_alloc(arena, n + 1, sizeof t->defs[0]);
    t->sorted = td_arena_alloc(arena, n + 1, sizeof t->sorted[0]);
    t->slots = td_arena_alloc(arena, t->n_slots, sizeof t->slots[0]);
    enum td_code rc = TD_OK;
    if (t->defs == NULL || t->sorted == NULL || t->slots == NULL) {
        rc = td_no_memory(err, n, "op table");
    } else {
        rc = fill(t, families, err);
    }
    if (rc) {
        td_op_table_free(t);
        return rc;
    }
    *out = t;
    return TD_OK;
}

void td_op_table_free(struct td_op_table *t)
{
    if (t != NULL) {
        td_arena_free(t->arena);
        td_free(t);
    }
}

const struct td_op_def *td_op_find(const struct td_op_table *t, const char *name)
{
    int i = t->slots[slot_of(t, name)];
    return i == 0 ? NULL : &t->defs[i - 1];
}

const struct td_op_def *const *td_op_list(const struct td_op_table *t, int *n)
{
    *n = t->n;
    return t->sorted;
}
