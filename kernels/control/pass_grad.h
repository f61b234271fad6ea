/* kernels/control/pass_grad.h - gradients of ops that hand values on: checks, prints, Optionals.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_PASS_GRAD_H
#define TD_KERNELS_CONTROL_PASS_GRAD_H

#include "core/grad/grad.h"

void td_check_numerics_grad(struct td_grad *g); /* CheckNumerics, CheckNumericsV2 */
void td_print_grad(struct td_grad *g);
void td_optional_from_value_grad(struct td_grad *g);
void td_optional_get_value_grad(struct td_grad *g);

#endif
