/* core/run/device_arena.h - where the values of a stretch (core/run/stretch.h) lie in one block on a device,
 * so that they have the same addresses in every launch of what was recorded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_ARENA_H
#define TD_CORE_RUN_DEVICE_ARENA_H

#include "core/run/stretch.h"

enum { TD_DEVICE_ARENA_ALIGN = 256 };

/* By the order in which a run asks for them: each step's outputs, then its workspace. */
struct td_device_arena {
    size_t bytes; /* of the block, what was reserved included */
    size_t *at;   /* n */
    int n;
};

/* reserved: bytes at the block's start that are somebody else's. Outputs that are read behind the stretch or
 * assigned by it, and what kernels of it judge, keep their bytes to its end. RESOURCE_EXHAUSTED also where
 * sizes add up to more than there can be. */
TD_MUST enum td_code td_device_arena_plan(const struct td_bound_plan *l, const struct td_stretch *s,
                                          size_t reserved, struct td_device_arena *out, struct td_err *err);
void td_device_arena_fini(struct td_device_arena *a);

/* Whether output o of step k has a piece: not what a loop leaves as it was, and nobody reads behind it. */
static inline bool td_device_arena_has(const struct td_bound_plan *l, int k, int o)
{
    const struct td_inner *x = l->inner[k];
    return x == NULL || !x->loop || x->from[o] != o || l->plan->last_use[l->plan->steps[k].out0 + o] >= 0;
}

static inline size_t td_device_arena_aligned(size_t bytes)
{
    return (bytes + TD_DEVICE_ARENA_ALIGN - 1) / TD_DEVICE_ARENA_ALIGN * TD_DEVICE_ARENA_ALIGN;
}

#endif
