/* kernels/linalg/einsum_equation.h - what an Einsum's equation says: labels, and their sizes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_EINSUM_EQUATION_H
#define TD_KERNELS_LINALG_EINSUM_EQUATION_H

#include "core/graph/graph.h"

/* Labels: letters as they are; dimension i of the ellipsis, counted from its right end, is TD_EINSUM_ELLIPSIS
 * + i. */
enum { TD_EINSUM_ELLIPSIS = 256, TD_EINSUM_LABELS = TD_EINSUM_ELLIPSIS + TD_MAX_RANK };

struct td_einsum_term {
    int n;
    int label[TD_MAX_RANK];
    bool ellipsis;
    int ellipsis_at;
};
struct td_einsum {
    struct td_einsum_term in[2], out;
    int n_in;
};

/* Parses, expands the ellipses for these shapes and sizes all labels. *ready is false while a rank is
 * unknown. */
TD_MUST enum td_code td_einsum_analyse(const struct td_node *n, const struct td_shape *const *in,
                                       struct td_einsum *e, int64_t size[TD_EINSUM_LABELS], bool *ready,
                                       struct td_err *err);

#endif
