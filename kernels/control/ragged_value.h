/* kernels/control/ragged_value.h - a ragged tensor in a variant: its row splits and its values.
 *
 * All tensors are counted references that nobody changes. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_RAGGED_VALUE_H
#define TD_KERNELS_CONTROL_RAGGED_VALUE_H

#include "core/base/tensor.h"

struct td_ragged {
    struct td_obj obj;
    int levels;
    struct td_tensor splits[TD_MAX_RANK]; /* outermost first */
    struct td_tensor values;
};

extern const struct td_obj_type td_ragged_type;

/* Returns new: of so many levels, its tensors for the caller to fill in. */
TD_MUST enum td_code td_ragged_new(int levels, struct td_ragged **out, struct td_err *err);
/* Returns new: the splits of r, other values, whose reference is taken (dropped on an error). */
TD_MUST enum td_code td_ragged_with(const struct td_ragged *r, struct td_tensor *values,
                                    struct td_ragged **out, struct td_err *err);
/* What o is; NULL: it is NULL, or no ragged tensor. Borrowed. */
struct td_ragged *td_ragged_of(struct td_obj *o);

#endif
