/* kernels/nn/norm_batchable.h - rules (core/batchable/batchable_rule.h) of FusedBatchNorm and its gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_NORM_BATCHABLE_H
#define TD_KERNELS_NN_NORM_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_norm;      /* training or not */
td_batchable_fn td_batchable_norm_grad; /* its gradient */

#endif
