/* kernels/array/slice_copy.h - a slice (kernels/array/slice_spec.h) read out of a tensor, or put into one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_SLICE_COPY_H
#define TD_KERNELS_ARRAY_SLICE_COPY_H

#include "kernels/array/slice_spec.h"
#include "kernels/cpu/strided.h"

/* Walk that reads the selected elements of a dense tensor of shape `in` into a dense result of s->shape;
 * *offset is the tensor's first selected element. Needs a fully known spec. */
void td_slice_spec_read(const struct td_slice_spec *s, const struct td_shape *in, struct td_strided *w,
                        int64_t *offset);
/* Puts `value` (assignable to the slice) at the slice's place in y. */
void td_slice_spec_put(const struct td_slice_spec *s, const struct td_tensor *value, struct td_tensor *y);

#endif
