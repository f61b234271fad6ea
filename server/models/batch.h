/* server/models/batch.h - several requests' tensors as one, and its rows apart again.
 *
 * Rows are the leading dimension. Parts of one input must be of one dtype; their other sizes must be equal
 * unless pad is asked for, which fills up to the largest with zeros and empty strings, as TF Serving's
 * pad_variable_length_inputs does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_BATCH_H
#define TD_SERVER_MODELS_BATCH_H

#include "core/base/tensor.h"

/* Returns new in *out: parts[0..n) one after the other, then the first row of the last part again `extra`
 * times. A lone part without extra rows is shared, not copied. INVALID_ARGUMENT when the other sizes differ
 * and pad is false, or ranks differ. d: the device that it is for, whose copies are faster from some memory;
 * NULL: none. */
TD_MUST enum td_code td_batch_join(const struct td_tensor *const *parts, int n, int64_t extra, bool pad,
                                   const struct td_device *d, struct td_tensor *out, struct td_err *err);
/* A number that is equal for tensors that join: of dtypes and inner sizes, or with pad of dtypes and ranks.
 */
uint64_t td_batch_likeness(const struct td_tensor *in, int n, bool pad);
/* The leading dimension that all n share; 0 when there is none (a scalar, no inputs, unequal sizes) or it is
 * 0. */
int64_t td_batch_rows(const struct td_tensor *in, int n);

#endif
