/* kernels/array/nd_index.h - index tuples, as GatherNd and the ScatterNd ops take them: indices [..., depth].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ND_INDEX_H
#define TD_KERNELS_ARRAY_ND_INDEX_H

#include "kernels/cpu/combine.h"

struct td_node;

/* "[1,2]": where element i stands in a tensor of shape s; "" in a scalar. buf has TD_SHAPE_TEXT bytes;
 * returns it. */
const char *td_nd_index_position(const struct td_shape *s, int64_t i, char *buf);
/* What a tuple outside the tensor means: an error, or nothing (attribute bad_indices_policy). */
TD_MUST enum td_code td_nd_index_policy(const struct td_node *node, bool *ignore, struct td_err *err);
/* Number of the slice that tuple `row` names among those of s.dim[0..depth); false outside. */
bool td_nd_index_flat(const struct td_tensor *indices, int64_t row, int64_t depth, const struct td_shape *s,
                      int64_t *flat);
/* INVALID_ARGUMENT "indices[row] = [tuple] does not index into <what> [shape]". */
enum td_code td_nd_index_fail(const struct td_node *node, const struct td_tensor *indices, int64_t row,
                              int64_t depth, const char *what, const struct td_shape *s, struct td_err *err);

/* Shapes of a scatter of `updates` at `indices` into a tensor of shape `into` agree: updates is indices
 * without its last axis, then into's axes from depth on. A vector of indices is a column: tuples of one.
 * Unknown dims agree with everything. */
TD_MUST enum td_code td_nd_scatter_check(const struct td_node *node, const struct td_shape *into,
                                         const struct td_shape *indices, const struct td_shape *updates,
                                         struct td_err *err);
/* Slices of dst named by indices = slice op update, in order; shapes checked. All indices are looked at
 * before anything is written. */
TD_MUST enum td_code td_nd_scatter(const struct td_node *node, enum td_combine_op op, struct td_tensor *dst,
                                   const struct td_tensor *indices, const struct td_tensor *updates,
                                   struct td_err *err);

#endif
