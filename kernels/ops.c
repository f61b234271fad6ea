/* kernels/ops.c - expands ops.def into the one list of op tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

const struct td_op *const td_op_families[] = {
#define FAMILY(name) td_ops_##name,
#include "kernels/ops.def"
#undef FAMILY
    NULL,
};
