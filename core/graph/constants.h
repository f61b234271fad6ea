/* core/graph/constants.h - equal small constants of a graph are one node.
 *
 * Graphs are full of the same axes, sizes and masks: a function that is called a hundred times brings its own
 * a hundred times. Those that are the same in value and device are found here, so that whoever adds constants
 * makes each once and no pass ever walks the others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_CONSTANTS_H
#define TD_CORE_GRAPH_CONSTANTS_H

#include "core/graph/graph.h"

/* Zeroed: empty. */
struct td_constants {
    struct td_node **slots; /* open-addressed by op, value and device; malloc'ed */
    size_t n, n_slots;
};

/* Where the node stands, or is to be put, that is one with all constants of this op and value on that device.
 * NULL for values that are not shared: large ones, objects, those that lie on a device. */
struct td_node **td_constants_slot(struct td_constants *c, const struct td_op *op,
                                   const struct td_tensor *value, const char *device);
void td_constants_free(struct td_constants *c);

#endif
