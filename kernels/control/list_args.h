/* kernels/control/list_args.h - arguments and results that the TensorList ops share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_LIST_ARGS_H
#define TD_KERNELS_CONTROL_LIST_ARGS_H

#include "kernels/control/tensor_list.h"

/* Input i as a list of `dtype` (TD_DTYPE_NONE: any); borrowed. */
TD_MUST enum td_code td_list_args_in(const struct td_call *c, int i, enum td_dtype dtype,
                                     struct td_tensor_list **out, struct td_err *err);
/* Input i as a variant tensor of one's own whose list may be changed; *handle is the caller's. */
TD_MUST enum td_code td_list_args_take(struct td_call *c, int i, enum td_dtype dtype,
                                       struct td_tensor *handle, struct td_tensor_list **out,
                                       struct td_err *err);
/* Output i becomes a scalar variant that takes l over, also on failure. */
TD_MUST enum td_code td_list_args_out(struct td_call *c, int i, struct td_tensor_list *takes,
                                      struct td_err *err);
/* Input i as the shape of elements: a vector with -1 for unknown, or the scalar -1. */
TD_MUST enum td_code td_list_args_shape(const struct td_call *c, int i, struct td_shape *out,
                                        struct td_err *err);
/* Input i as one integer. */
TD_MUST enum td_code td_list_args_int(const struct td_call *c, int i, int64_t *out, struct td_err *err);
/* The shape common to `given`, the list's own and all its set elements among indices (NULL: all);
 * INVALID_ARGUMENT while it is not fully known. `verb` goes into the text. */
TD_MUST enum td_code td_list_args_element(const struct td_call *c, const struct td_tensor_list *l,
                                          const struct td_shape *given, const struct td_tensor *indices,
                                          const char *verb, struct td_shape *out, struct td_err *err);
/* Writes item (unset: zeros) as the elements [at, at + count) of out. */
void td_list_args_put(struct td_tensor *out, int64_t at, const struct td_tensor *item, int64_t count);
/* Row i of axis 0 without that axis, sharing bytes. */
void td_list_args_row(struct td_tensor *dst, const struct td_tensor *src, int64_t i);

#endif
