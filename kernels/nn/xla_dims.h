/* kernels/nn/xla_dims.h - attribute dimension_numbers of XLA's ops: a message of lists of axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_XLA_DIMS_H
#define TD_KERNELS_NN_XLA_DIMS_H

#include "core/graph/graph.h"

/* Axes, each below the rank that they are of, none twice. */
struct td_axes {
    int n;
    int axis[TD_MAX_RANK];
};

/* Fields 1 to `fields` of the message; a field that has one number is a list of one. INVALID_ARGUMENT for
 * bytes that are no message, and for more axes than a tensor has. */
TD_MUST enum td_code td_axes_read(const struct td_node *n, int fields, struct td_axes *to,
                                  struct td_err *err);
/* INVALID_ARGUMENT unless all of them are axes of that rank, and none is there twice. */
TD_MUST enum td_code td_axes_check(const struct td_node *n, const struct td_axes *a, const char *what,
                                   int rank, struct td_err *err);
static inline bool td_axes_has(const struct td_axes *a, int axis)
{
    for (int i = 0; i < a->n; i++) {
        if (a->axis[i] == axis) {
            return true;
        }
    }
    return false;
}

#endif
