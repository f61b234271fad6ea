/* kernels/ops.c - expands ops.def into the one list of op tables.
 *
 * A table is an array td_ops_<family>, closed by a row without a name, in some file of kernels/. The engine
 * takes the list as a whole (td_op_table_new); a table that ops.def does not name is in no build.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

const struct td_op *const td_op_families[] = {
#define FAMILY(name) td_ops_##name,
#include "kernels/ops.def"
#undef FAMILY
    NULL,
};
