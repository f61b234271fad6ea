/* kernels/data/parse_lists.h - the feature lists of sequence examples into dense, sparse and ragged outputs.
 *
 * Cells (parse_columns.h) hold FeatureList messages here: a list of features, one a time step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_PARSE_LISTS_H
#define TD_KERNELS_DATA_PARSE_LISTS_H

#include "kernels/data/parse_columns.h"

/* [n, 3] (row, time, place) indices, values, shape; one dimension less when single. */
TD_MUST enum td_code td_lists_sparse(const struct td_parse *p, const struct td_cells *k, int out_indices,
                                     int out_values, int out_shape, struct td_err *err);
/* [rows, longest, shape...], padded with zeros, and the lengths [rows] (out_lengths < 0: not wanted). */
TD_MUST enum td_code td_lists_dense(const struct td_parse *p, const struct td_cells *k,
                                    const struct td_shape *shape, bool may_miss, int out, int out_lengths,
                                    struct td_err *err);
TD_MUST enum td_code td_lists_ragged(const struct td_parse *p, const struct td_cells *k, int out_values,
                                     int out_outer, int out_inner, struct td_err *err);

#endif
