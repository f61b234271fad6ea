/* kernels/bitwise.c - (being written)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

const struct td_op td_ops_bitwise[] = {
    {.name = NULL},
};
