/* server/op_api.h - a library's op as a row of the engine's: what op_library.c and op_api.c share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_OP_API_H
#define TD_SERVER_OP_API_H

#include "core/graph/op.h"
#include "server/tensord_op.h"

enum { TD_OP_NAME_MAX = 200 };

/* First in memory comes the row that nodes point to, so that a node leads back to its library's functions. */
struct td_library_op {
    struct td_op row[2]; /* and the end of a table of one */
    struct td_kernel kernels[2];
    char kernel_name[TD_OP_NAME_MAX + 16];
    char rule_names[TD_TYPE_RULES][TD_OP_NAME_MAX];
    int (*infer)(tensord_op_context *c);
    int (*run)(tensord_op_context *c);
    int (*prepare)(tensord_op_context *c, void **state, size_t *workspace_bytes);
    void (*release)(void *state);
};

extern const tensord_op_api td_op_api;
/* Shape function and kernel of every row whose node's op is the first member of a struct td_library_op. */
td_infer_fn td_op_api_infer;
TD_MUST enum td_code td_op_api_run(struct td_call *c, struct td_err *err);
/* The same of rows that are the first of a td_library_op's kernels, for ops that are not its own. */
TD_MUST enum td_code td_op_api_prepare(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                       struct td_err *err);
void td_op_api_release(void *state);
TD_MUST enum td_code td_op_api_run_kernel(struct td_call *c, struct td_err *err);

#endif
