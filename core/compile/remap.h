/* core/compile/remap.h - how a pass replaces nodes: it marks them, then one sweep redirects every edge.
 *
 * Where a node with control inputs goes away, those inputs become roots, so that effects before it still
 * happen. In graphs with Switch, a control edge also carries deadness: nodes with control inputs are left
 * alone there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_REMAP_H
#define TD_CORE_COMPILE_REMAP_H

#include "core/compile/ir.h"

struct td_remap {
    struct td_value **to; /* by node id, then port: what is read instead; NULL: the node stays */
    int n;                /* nodes when the pass began: those added since are not replaced */
};

/* One at a time: it takes the room of the one before. */
TD_MUST enum td_code td_remap_init(struct td_ir *ir, struct td_remap *r, struct td_err *err);
/* What a replaced output has in common with what is read instead: its type, and whether it is a reference. */
TD_MUST enum td_code td_remap_check(const struct td_ir *ir, const struct td_remap *r, struct td_err *err);
/* What stands for v now. */
struct td_value td_remap_follow(const struct td_remap *r, struct td_value v);
/* Output 0 of n is v from now on; of a node with one output. */
TD_MUST enum td_code td_remap_set(struct td_ir *ir, struct td_remap *r, struct td_node *n, struct td_value v,
                                  struct td_err *err);
/* Redirects inputs, fetches and control edges. Roots stay: they run. */
void td_remap_apply(struct td_ir *ir, const struct td_remap *r);
/* *ok: whether n may be replaced as far as its control inputs go; they become roots then. */
TD_MUST enum td_code td_remap_release(struct td_ir *ir, struct td_node *n, bool dead_values, bool *ok,
                                      struct td_err *err);

#endif
