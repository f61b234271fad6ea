/* core/graph/expand.h - nodes that stand for several of other ops become these when their graph is loaded.
 *
 * Optimizers of other engines leave such nodes behind: a convolution with what follows it, by the names in an
 * attribute. An op says in its row how (td_expand_fn); whatever looks at the graph later, passes, gradients
 * and devices, sees only what the node stood for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_EXPAND_H
#define TD_CORE_GRAPH_EXPAND_H

#include "core/graph/graph.h"

/* Of g, whose nodes are linked. A node of dtypes that no kernel row of its op takes stays. */
TD_MUST enum td_code td_graph_expand(struct td_graph *g, const struct td_op_table *ops, struct td_err *err);

/* The kernel of a row whose nodes are all expanded: there to say of which dtypes they may be. */
TD_MUST enum td_code td_expanded_run(struct td_call *c, struct td_err *err);

#endif
