/* core/rewrite.c - the order of the passes.
 *
 * After each pass the nodes are sorted, which drops what nothing needs any more. Rounds repeat because what
 * one pass finds (a constant condition, a product with 1 gone) is news to those before it; they end when a
 * round has changed nothing, or after MAX_ROUNDS: every pass is complete for the graph it is given, so that
 * more rounds only follow longer chains.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "core/passes.h"

enum { MAX_ROUNDS = 3 };

static const struct td_pass_info infos[] = {
#define PASS_AT_BUILD(name, what) {#name, what},
#define PASS_ON_STEPS(name, what) {#name, what},
#define PASS(name, when, what) {#name, what},
#include "core/passes.def"
#undef PASS
#undef PASS_AT_BUILD
#undef PASS_ON_STEPS
    {NULL, NULL},
};

enum when { AT_BUILD, ROUND, LAST, ON_STEPS };

static const struct {
    td_pass_fn *run;
    enum when when;
} passes[] = {
#define PASS_AT_BUILD(name, what) {NULL, AT_BUILD},
#define PASS_ON_STEPS(name, what) {NULL, ON_STEPS},
#define PASS(name, when, what) {td_pass_##name, when},
#include "core/passes.def"
#undef PASS
#undef PASS_AT_BUILD
#undef PASS_ON_STEPS
};

bool td_rewrite_is_off(const char *passes_off, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = passes_off; p != NULL && *p != 0;) {
        size_t len = strcspn(p, ",");
        if ((len == n && strncmp(p, name, n) == 0) || (len == 3 && strncmp(p, "all", 3) == 0)) {
            return true;
        }
        p += len + (p[len] == ',');
    }
    return false;
}

enum td_code td_rewrite_check(const char *passes_off, struct td_err *err)
{
    char names[200] = "all";
    for (const struct td_pass_info *p = infos; p->name != NULL; p++) {
        if (strcmp(p->name, "handles") != 0) {
            snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", p->name);
        }
    }
    for (const char *p = passes_off; p != NULL && *p != 0;) {
        size_t len = strcspn(p, ",");
        bool known = len == 0 || (len == 3 && strncmp(p, "all", 3) == 0);
        for (const struct td_pass_info *i = infos; !known && i->name != NULL; i++) {
            known =
                strlen(i->name) == len && strncmp(p, i->name, len) == 0 && strcmp(i->name, "handles") != 0;
        }
        TD_FAIL_IF(!known, err, INVALID_ARGUMENT,
                   "passes_off: no compiler pass that can be switched off is called '%.*s'; there are %s",
                   (int)(len > 40 ? 40 : len), p, names);
        p += len + (p[len] == ',');
    }
    return TD_OK;
}

/* Runs the passes of one kind that are not switched off. */
static enum td_code run_passes(struct td_ir *ir, struct td_model *m, enum when when, const char *passes_off,
                               struct td_err *err)
{
    for (int i = 0; infos[i].name != NULL; i++) {
        bool off = passes[i].run != td_pass_handles && td_rewrite_is_off(passes_off, infos[i].name);
        if (passes[i].when == when && !off) {
            TD_TRY(passes[i].run(ir, m, err));
            TD_TRY(td_ir_sort(ir, err));
        }
    }
    return TD_OK;
}

enum td_code td_rewrite_run(struct td_ir *ir, struct td_model *m, const char *passes_off, struct td_err *err)
{
    TD_TRY(td_ir_sort(ir, err));
    for (int round = 0, before = -1; round < MAX_ROUNDS && ir->changes != before; round++) {
        before = ir->changes;
        TD_TRY(run_passes(ir, m, ROUND, passes_off, err));
    }
    return run_passes(ir, m, LAST, passes_off, err);
}

const struct td_pass_info *td_rewrite_passes(void)
{
    return infos;
}
