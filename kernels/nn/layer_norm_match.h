/* kernels/nn/layer_norm_match.h - the rule that finds rows being normalised in a graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_LAYER_NORM_MATCH_H
#define TD_KERNELS_NN_LAYER_NORM_MATCH_H

#include "core/graph/op.h"

td_group_rule_fn td_layer_norm_rule;

#endif
