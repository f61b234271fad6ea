/* kernels/control/optional.h - optionals outside optional.c: making them, reading them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_OPTIONAL_H
#define TD_KERNELS_CONTROL_OPTIONAL_H

#include "core/base/tensor.h"

bool td_optional_is(const struct td_obj *o);
/* An optional that holds n tensors (taken over, zeroed), or none when items is NULL. Returns new. */
TD_MUST enum td_code td_optional_make(struct td_tensor *items, int n, struct td_obj **out,
                                      struct td_err *err);
/* What an optional holds, n tensors; NULL when o is none, or holds nothing. */
const struct td_tensor *td_optional_items(const struct td_obj *o, int *n);

#endif
