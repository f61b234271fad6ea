/* core/function/placement.h - what a callable would run, and on what: for people who ask why.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_FUNCTION_PLACEMENT_H
#define TD_CORE_FUNCTION_PLACEMENT_H

#include "core/function/callable.h"

enum td_fate {
    TD_FATE_STEP,     /* runs in every call, maybe as a part of a fused step */
    TD_FATE_CONSTANT, /* a value of the graph */
    TD_FATE_FED,      /* comes with the call */
    TD_FATE_REMOVED,  /* the compiler folded it, merged it with an equal node, or passed its input on */
};

/* A node of the graph as it was saved, calls inlined. Everything is borrowed for the call that hands it out.
 */
struct td_placement {
    const struct td_node *node;
    enum td_fate fate;
    /* that ran when the callable ran last; before, the first that may. NULL: it needs none, or none fits */
    const char *kernel;
    const char *device; /* "cpu", or the name of the model's device, where kernel would run */
    const char *why;    /* the device asked for in vain, kernel rows passed over, or why none fits; "" */
};
/* Calls fn for each node of f, then for those of the functions that its nodes call while they run (branches,
 * bodies of loops), each function once. A node without a kernel is no failure: it says why. */
TD_MUST enum td_code td_placement_each(struct td_callable *f,
                                       void (*fn)(void *ctx, const struct td_placement *p), void *ctx,
                                       struct td_err *err);

#endif
