/* core/graph/op.c - the op table: signatures parsed once, names in a hash table.
 *
 * All rows of all families are added when an engine is made, those of op libraries behind them; a row never
 * replaces an earlier one. Each gets a td_op_def, its signature parsed (core/graph/sig.c), which stands in
 * two arrays: sorted, in alphabetical order for lists, and slots, open-addressed by name, a power of two and
 * at most half full. Beside them is the one op of each role. Kernel rows that modules add hang on the op's
 * definition as a list, the last added first; the rows themselves stay const.
 *
 * All of it lies in the table's arena; what is outgrown stays there. Nothing is locked: tables are filled
 * before anything uses them, and only read from then on.
 *
 * Does not: choose among kernels (core/run/select.c), or look at graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/op.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/graph/sig.h"

struct td_op_table {
    struct td_arena *arena;
    const struct td_op_def **sorted;
    int n;
    const struct td_op_def **slots; /* NULL empty; n_slots is a power of two, at most half full */
    size_t n_slots;
    const struct td_op_def *role[TD_ROLES];
};

static size_t slot_of(const struct td_op_table *t, const char *name)
{
    size_t i = td_hash_bytes(name, strlen(name)) & (t->n_slots - 1);
    while (t->slots[i] != NULL && strcmp(t->slots[i]->name, name) != 0) {
        i = (i + 1) & (t->n_slots - 1);
    }
    return i;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct td_op_def *const *)a)->name, (*(const struct td_op_def *const *)b)->name);
}

/* Room for `more` further rows. */
static enum td_code reserve(struct td_op_table *t, size_t more, struct td_err *err)
{
    size_t total = (size_t)t->n + more, n_slots = 16;
    while (n_slots < 2 * total) {
        n_slots *= 2;
    }
    if (n_slots <= t->n_slots) {
        return TD_OK;
    }
    const struct td_op_def **sorted = td_arena_alloc(t->arena, n_slots / 2, sizeof *sorted);
    const struct td_op_def **slots = td_arena_alloc(t->arena, n_slots, sizeof *slots);
    if (sorted == NULL || slots == NULL) {
        return td_no_memory(err, total, "op table");
    }
    t->slots = slots;
    t->n_slots = n_slots;
    for (int i = 0; i < t->n; i++) {
        sorted[i] = t->sorted[i];
        slots[slot_of(t, sorted[i]->name)] = sorted[i];
    }
    t->sorted = sorted;
    return TD_OK;
}

static enum td_code add_row(struct td_op_table *t, const struct td_op *op, struct td_op_def *def,
                            struct td_err *err)
{
    TD_TRY(td_sig_parse(t->arena, op->name, op->sig == NULL ? "() -> ()" : op->sig, def, err));
    def->op = op;
    size_t i = slot_of(t, op->name);
    TD_FAIL_IF(t->slots[i] != NULL, err, INTERNAL, "op '%s' is in the table twice", op->name);
    t->slots[i] = t->sorted[t->n++] = def;
    if (op->role != TD_ROLE_NONE) {
        TD_FAIL_IF(t->role[op->role] != NULL, err, INTERNAL, "op '%s' has the role of op '%s'", op->name,
                   t->role[op->role]->name);
        t->role[op->role] = def;
    }
    return TD_OK;
}

static enum td_code add_families(struct td_op_table *t, const struct td_op *const *families,
                                 struct td_err *err)
{
    size_t n = 0, at = 0;
    for (const struct td_op *const *f = families; *f != NULL; f++) {
        for (const struct td_op *op = *f; op->name != NULL; op++) {
            n++;
        }
    }
    TD_TRY(reserve(t, n, err));
    struct td_op_def *defs = td_arena_alloc(t->arena, n + 1, sizeof *defs);
    if (defs == NULL) {
        return td_no_memory(err, n, "op table");
    }
    for (const struct td_op *const *f = families; *f != NULL; f++) {
        for (const struct td_op *op = *f; op->name != NULL; op++) {
            TD_TRY(add_row(t, op, &defs[at++], err));
        }
    }
    qsort(t->sorted, (size_t)t->n, sizeof t->sorted[0], by_name);
    return TD_OK;
}

enum td_code td_op_table_new(const struct td_op *const *families, struct td_op_table **out,
                             struct td_err *err)
{
    struct td_op_table *t = td_calloc(1, sizeof *t);
    struct td_arena *arena = td_arena_new(64 << 20);
    if (t == NULL || arena == NULL) {
        td_free(t);
        td_arena_free(arena);
        return td_no_memory(err, sizeof *t, "op table");
    }
    t->arena = arena;
    enum td_code rc = add_families(t, families, err);
    if (rc) {
        td_op_table_free(t);
        return rc;
    }
    *out = t;
    return TD_OK;
}

enum td_code td_op_table_add(struct td_op_table *t, const struct td_op *rows, struct td_err *err)
{
    const struct td_op *const families[] = {rows, NULL};
    return add_families(t, families, err);
}

static int count_rows(const struct td_kernel *k)
{
    int n = 0;
    while (k != NULL && k[n].name != NULL) {
        n++;
    }
    return n;
}

enum td_code td_op_table_add_kernels(struct td_op_table *t, const char *op, const struct td_kernel *rows,
                                     struct td_err *err)
{
    struct td_op_def *def = (struct td_op_def *)td_op_find(t, op); /* the table's own */
    TD_FAIL_IF(def == NULL, err, NOT_FOUND, "kernels for op '%.100s': there is no such op", op);
    int n = count_rows(rows), all = n + count_rows(def->op->kernels);
    for (const struct td_kernel_rows *more = def->added; more != NULL; more = more->next) {
        all += more->n;
    }
    TD_FAIL_IF(n == 0 || all > TD_KERNEL_MOST, err, INVALID_ARGUMENT,
               "kernels for op '%s': %d of them, %d with those it has, want 1 and at most %d", op, n, all,
               TD_KERNEL_MOST);
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(rows[i].run == NULL, err, INVALID_ARGUMENT, "kernel '%s' for op '%s' has no run",
                   rows[i].name, op);
    }
    struct td_kernel_rows *added = td_arena_alloc(t->arena, 1, sizeof *added);
    if (added == NULL) {
        return td_no_memory(err, sizeof *added, "op table");
    }
    *added = (struct td_kernel_rows){.next = def->added, .rows = rows, .n = n};
    def->added = added;
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
    return t->slots[slot_of(t, name)];
}

void td_not_differentiable(struct td_grad *g)
{
    (void)g;
}

const struct td_op_def *td_op_of_role(const struct td_op_table *t, enum td_op_role role)
{
    return t == NULL ? NULL : t->role[role];
}

const struct td_op_def *const *td_op_list(const struct td_op_table *t, int *n)
{
    *n = t->n;
    return t->sorted;
}
