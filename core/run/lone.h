/* core/run/lone.h - one node run by itself, outside of a plan: for folding, handles, values that follow from
 * shapes, the head of a fused node; and what a device runs of a launch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_LONE_H
#define TD_CORE_RUN_LONE_H

#include "core/run/device_run.h"
#include "core/run/select.h"

struct td_lone {
    struct td_model *model;
    const struct td_node *node;
    const struct td_kernel *const
        *rows; /* of td_select_rows; the first that serves the inputs' shapes runs */
    int n_rows;
    bool ahead;                  /* of a run: with an allowance of memory */
    const struct td_run *within; /* the run that it is a part of; NULL: of none */
};
/* in[] borrowed, out[i] owned by the caller, nothing on failure. */
TD_MUST enum td_code td_lone_run(const struct td_lone *one, const struct td_tensor *const *in,
                                 struct td_tensor *out, struct td_err *err);
/* Lists the host's rows for n and runs one of them, ahead. */
TD_MUST enum td_code td_lone_node(struct td_model *m, const struct td_node *n,
                                  const struct td_tensor *const *in, struct td_tensor *out,
                                  struct td_err *err);
/* The same for a node that that of c stands for: within c's run. */
TD_MUST enum td_code td_lone_inside(const struct td_call *c, const struct td_node *n,
                                    const struct td_tensor *const *in, struct td_tensor *out,
                                    struct td_err *err);
/* Runs the head of a fused node alone, into a tensor of its own (*out is the caller's): where the node's
 * output is larger. */
TD_MUST enum td_code td_lone_head(struct td_call *c, enum td_kernel_choice kernels, struct td_tensor *out,
                                  struct td_err *err);
/* Runs the kernel of a launch on this thread: td_out gives it l->out, whose bytes it writes or queues the
 * writing of. Where tensors and workspace are the host's to touch, a kernel that hands other bytes on (a
 * view) has them copied. */
TD_MUST enum td_code td_lone_launch(const struct td_launch *l, struct td_err *err);

#endif
