/* core/graph/instantiate.h - polymorphic functions: a copy of a body for each set of attribute values it is
 * called with.
 *
 * A function whose signature has attributes (T:type, N:int, f:func) is a template: in its body such an
 * attribute is a placeholder, and how many arguments and results it has may depend on one. Nodes call it by
 * its name with the attributes as their own, or through an attribute of kind func that carries them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_INSTANTIATE_H
#define TD_CORE_GRAPH_INSTANTIATE_H

#include "core/graph/graph.h"

/* Adds to lib, sorted, an instance "f[T=float, N=2]" for every set of values that g, the functions and the
 * instances themselves call templates with, once each; *any tells that there are some. The callers then name
 * the instance. A call that leaves out a value stays as it is: whoever reaches it says so. INVALID_ARGUMENT
 * names function, attribute and value; RESOURCE_EXHAUSTED when the instances do not end. */
TD_MUST enum td_code td_functions_instantiate(struct td_graph *g, struct td_library *lib,
                                              const struct td_op_table *ops, bool *any, struct td_err *err);

#endif
