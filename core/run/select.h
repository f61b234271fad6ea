/* core/run/select.h - which kernel row serves a node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_SELECT_H
#define TD_CORE_RUN_SELECT_H

#include "core/graph/graph.h"
#include "core/run/model.h"

/* The first row that takes the node's dtypes on `device`, is allowed by `choice` and does not refuse.
 * UNIMPLEMENTED names node, op, function and why no row fits. why (may be NULL) gets the reasons of rows
 * passed over. */
TD_MUST enum td_code td_select_kernel(const struct td_node *n, enum td_device_kind device,
                                      enum td_kernel_choice choice, const struct td_kernel **out, char *why,
                                      size_t why_bytes, struct td_err *err);

#endif
