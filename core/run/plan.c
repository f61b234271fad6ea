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

void td_plan_free(struct td_plan *p)
{
    if (p != NULL) {
        td_arena_free(p->arena);
        td_free(p);
    }
}
