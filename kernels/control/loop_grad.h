/* kernels/control/loop_grad.h - gradients of While.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_LOOP_GRAD_H
#define TD_KERNELS_CONTROL_LOOP_GRAD_H

#include "core/grad/body.h"

void td_while_grad(struct td_grad *g);

#endif
