/* kernels/math/special.c - the functions of special.h for the host; how they are computed is in the two files
 * included here, which GPUs have as well (kernels/cuda/math/special.cu).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/special.h"

#include <math.h>
#include <stdbool.h>

#define TD_SPECIAL
#define TD_SPECIAL_OWN static
#include "kernels/math/special_gamma.inc"

#include "kernels/math/special_bessel.inc"
