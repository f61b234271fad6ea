/* proto/hlo_graph/hlo_function.h - functions of the library for functions of a module, and for regions of
 * operations.
 *
 * A region reads values of those around it; a function of the library has arguments only. So a region's
 * function takes them as its last arguments (td_hlo_captured finds them), all but constants, which it makes
 * again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_FUNCTION_H
#define TD_PROTO_HLO_GRAPH_HLO_FUNCTION_H

#include "proto/hlo_graph/hlo_frame.h"

struct td_hlo_captures {
    const struct td_hlo_value **values; /* arguments */
    const struct td_hlo_value **again;  /* constants */
    int n_values, n_again, cap_values, cap_again;
};

/* What the op's regions read of the frame's values. */
void td_hlo_captured(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_hlo_captures *out);
/* Its region's function, of the region's arguments and the captured values; NULL after an error. hands_on:
 * it returns the captured values behind its results. */
const char *td_hlo_region(struct td_hlo_frame *f, const struct td_hlo_op *op, int region,
                          const struct td_hlo_captures *c, bool hands_on);
/* The index of the module's function of that name; -1: it has none. */
int td_hlo_function_index(const struct td_hlo_whole_module *w, const char *name, size_t len);
/* The function of the module's function of that name, made at the first call. NULL after an error. */
const struct td_function *td_hlo_called(struct td_hlo_frame *f, const char *name, size_t len);
/* The function, of the whole module, that is called by no other. */
TD_MUST enum td_code td_hlo_function(struct td_hlo_whole_module *w, int index, int depth,
                                     struct td_function **out, struct td_err *err);
/* The node runs before the function returns. */
void td_hlo_must_run(struct td_hlo_frame *f, struct td_value v);

#endif
