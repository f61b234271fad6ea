/* kernels/nn/norm_batchable.h - rule (core/batchable/batchable_rule.h) of FusedBatchNorm, training or not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_NORM_BATCHABLE_H
#define TD_KERNELS_NN_NORM_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_norm;

#endif
