/* core/run/plan.c - see plan.h. Plans are made by core/compile/plan_make.c.
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
