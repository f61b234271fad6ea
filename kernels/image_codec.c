/* kernels/image_codec.c - (being written)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

const struct td_op td_ops_image_codec[] = {
    {.name = NULL},
};
