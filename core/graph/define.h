/* core/graph/define.h - one node against its definition (struct td_op_def): its attributes, then its ports.
 *
 * Used where nodes come to be: when a loaded graph is linked (core/graph/resolve.c) and when code adds them
 * (core/graph/emit.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_DEFINE_H
#define TD_CORE_GRAPH_DEFINE_H

#include "core/graph/graph.h"

enum { TD_MAX_PORTS = 1 << 16 };

/* Checks the attributes of n against n->def and appends defaults for those that it lacks. INVALID_ARGUMENT
 * names one that is missing, of another kind, or not among the values allowed. */
TD_MUST enum td_code td_define_attrs(struct td_arena *a, struct td_node *n, struct td_err *err);
/* How many tensors the argument stands for, by n's attributes; -1 with *err set when their number makes no
 * sense. */
int td_define_width(const struct td_node *n, const struct td_arg_def *arg, struct td_err *err);
/* Outputs as n->def has them, given n's attributes. */
TD_MUST enum td_code td_define_outputs(struct td_arena *a, struct td_node *n, struct td_err *err);
/* Room for so many outputs of unknown dtype; n->n_out stays. */
TD_MUST enum td_code td_define_output_room(struct td_arena *a, struct td_node *n, int total,
                                           struct td_err *err);
/* Room for so many inputs; n->n_in stays. */
TD_MUST enum td_code td_define_input_room(struct td_arena *a, struct td_node *n, int total,
                                          struct td_err *err);
/* What each of n's inputs must be, and compares it with what stands there. INVALID_ARGUMENT names both. */
TD_MUST enum td_code td_define_inputs(struct td_node *n, struct td_err *err);

#endif
