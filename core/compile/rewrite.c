/* core/compile/rewrite.c - the order of the passes.
 *
 * After a pass that changed something the nodes are sorted, which drops what nothing needs any more. Rounds
 * repeat because what one pass finds (a constant condition, a product with 1 gone) is news to those before
 * it; a pass runs again only when something has changed since it last ran. There are at most MAX_ROUNDS:
 * every pass is complete for the graph it is given, so that more rounds only follow longer chains.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/compile/ir_check.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/passes.h"

enum { MAX_ROUNDS = 3 };

static const struct td_pass_info infos[] = {
#define PASS_AT_BUILD(name, what) {#name, what},
#define PASS_ON_STEPS(name, what) {#name, what},
#define PASS(name, when, what) {#name, what},
#include "core/compile/passes.def"
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
#include "core/compile/passes.def"
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

enum { N_PASSES = sizeof passes / sizeof passes[0] };

struct rewrite {
    struct td_ir *ir;
    struct td_model *m;
    const char *passes_off;
    int seen[N_PASSES]; /* ir->changes when the pass began to run last; -1: never */
};

static enum td_code run_pass(struct rewrite *w, int i, struct td_err *err)
{
    struct td_ir *ir = w->ir;
    const int before = ir->changes;
#ifndef NDEBUG
    struct td_pass_promise promise;
    td_pass_promise(ir, &promise);
#endif
    TD_TRY(passes[i].run(ir, w->m, err));
    if (ir->changes != before) {
        TD_TRY(td_ir_sort(ir, err));
    }
    TD_HOLDS(td_ir_check, ir);
    TD_HOLDS(td_pass_check, ir, &promise);
    return TD_OK;
}

/* Runs the passes of one kind that are not switched off and have something new to see. */
static enum td_code run_passes(struct rewrite *w, enum when when, struct td_err *err)
{
    struct td_ir *ir = w->ir;
    for (int i = 0; i < N_PASSES; i++) {
        const bool off = passes[i].run != td_pass_handles && td_rewrite_is_off(w->passes_off, infos[i].name);
        if (passes[i].when != when || off || w->seen[i] == ir->changes) {
            continue;
        }
        const int before = ir->changes;
        TD_TRY(run_pass(w, i, err));
        w->seen[i] = before; /* what it changed may be news to itself */
    }
    return TD_OK;
}

static enum td_code run_rounds(struct rewrite *w, struct td_err *err)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        TD_TRY(run_passes(w, ROUND, err));
    }
    return run_passes(w, LAST, err);
}

enum td_code td_rewrite_run(struct td_ir *ir, struct td_model *m, const char *passes_off, struct td_err *err)
{
    TD_TRY(td_ir_sort(ir, err));
    TD_HOLDS(td_ir_check, ir);
    struct rewrite w = {.ir = ir, .m = m, .passes_off = passes_off};
    memset(w.seen, 0xff, sizeof w.seen);
    enum td_code rc = run_rounds(&w, err);
    td_ir_shapes_fini(&ir->shapes);
    return rc;
}

const struct td_pass_info *td_rewrite_passes(void)
{
    return infos;
}
