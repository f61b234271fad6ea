/* kernels/state/lookup_init.h - filling a static lookup table once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_STATE_LOOKUP_INIT_H
#define TD_KERNELS_STATE_LOOKUP_INIT_H

#include "kernels/state/table.h"

/* Fills t with keys [n] and values [n], whose dtypes are the table's. FAILED_PRECONDITION when it holds
 * another number of entries already, or when a key comes twice with different values. */
TD_MUST enum td_code td_lookup_init_from(struct td_call *c, struct td_table *t, const struct td_tensor *keys,
                                         const struct td_tensor *values, struct td_err *err);

#endif
