/* core/grad/differentiable.h - whether an op has a gradient: what `tensorctl ops --gradients` prints.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_DIFFERENTIABLE_H
#define TD_CORE_GRAD_DIFFERENTIABLE_H

#include "core/graph/op.h"

enum td_differentiable {
    TD_DIFFERENTIABLE,
    TD_DIFFERENTIABLE_NOT, /* as TensorFlow says, or by its signature: nothing passes, and that is no error */
    TD_DIFFERENTIABLE_MISSING,
};

/* *why: the reason, borrowed; NULL of a differentiable op. A path through an op that is MISSING is an
 * error. */
enum td_differentiable td_op_differentiable(const struct td_op_def *def, const char **why);

/* "yes", "not", "missing". */
const char *td_differentiable_name(enum td_differentiable d);

#endif
