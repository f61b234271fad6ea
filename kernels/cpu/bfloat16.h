/* kernels/cpu/bfloat16.h - how this processor is best asked for products of bfloat16.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_BFLOAT16_H
#define TD_KERNELS_CPU_BFLOAT16_H

#include <stdbool.h>

enum td_bfloat16_way {
    TD_BFLOAT16_AS_FLOAT, /* no instructions for it: operands become floats, whose products are exact */
    TD_BFLOAT16_SLOW,     /* instructions that do less a second than those on floats: as AS_FLOAT */
    TD_BFLOAT16_NATIVE,   /* by its instructions, in oneDNN */
};
#define TD_BFLOAT16_REFUSAL "this processor multiplies floats faster than bfloat16"
/* The same during the life of a process. Any thread. */
enum td_bfloat16_way td_bfloat16_way(void);
/* For tests: another one from now on, while nothing runs. What oneDNN cannot do it refuses. */
void td_bfloat16_set(enum td_bfloat16_way way);

#endif
