/* core/run/plan.c - the end of a plan. Everything a plan points to lies in its own arena, so freeing that is
 * all there is to it.
 *
 * Nodes, steps, constants and regions are the arena's; values of variables and the bound plans are not, and
 * the model is only borrowed. Plans are made by core/compile/plan_make.c, checked by core/run/plan_check.c,
 * bound to shapes by core/run/bound_plan.c and run by core/run/exec.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/plan.h"

#include "core/base/mem.h"

/* Counting changes nothing that a plan says. */
static atomic_int *refs_of(const struct td_plan *p)
{
    return &((struct td_plan *)(uintptr_t)p)->refs;
}

const struct td_plan *td_plan_ref(const struct td_plan *p)
{
    atomic_fetch_add_explicit(refs_of(p), 1, memory_order_relaxed);
    return p;
}

void td_plan_unref(const struct td_plan *p)
{
    if (p != NULL && atomic_fetch_sub_explicit(refs_of(p), 1, memory_order_acq_rel) == 1) {
        td_arena_free(p->arena);
        td_free((struct td_plan *)(uintptr_t)p);
    }
}
