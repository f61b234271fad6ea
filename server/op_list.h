/* server/op_list.h - the supported ops as a document: for `tensorctl ops`, docs/ops.md and the C API.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_OP_LIST_H
#define TD_SERVER_OP_LIST_H

#include "core/graph/op.h"

/* JSON, {"ops":[{"name","signature","stateful","gradient":"yes"|"not"|"missing",
 *                "gradient_why"?,"refused"?,
 *                "kernels":[{"name","device","types":{"T":["float",...]}}]}]}
 * Returns new (free), NULL without memory. */
char *td_op_list_json(const struct td_op_table *ops);

#endif
