/* proto/stablehlo/vhlo_ops.c - finds an operation of VHLO in its table.
 *
 * Properties are written in the order of their names, without these; an operation's version never changes,
 * so that the table holds for every artifact. Levelled are, so that a version 1 reads as its version 2:
 *
 *   gather, scatter    version 2 has batching dimensions, of which version 1 has none; so has dynamic_gather
 *   dot_general        version 2 without an algorithm says that each part of one is of type none: left out
 *                      (hlo_op_attrs.c)
 *   cbrt, cosine, ...  version 2's result_accuracy is left out where it is the default
 *   all_gather, all_reduce, all_to_all, send, recv   version 2 has more operands or pairs: as it is
 *   dynamic_conv       version 1 has an attribute padding, of zeros, beside the operand
 *   composite          version 2 has regions
 *
 * The table is in the order of strcmp (its unit test looks).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/vhlo_ops.h"

#include <stdlib.h>
#include <string.h>

#define LISTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE LISTS(NULL)
#define GATHER_BATCHES LISTS("operand_batching_dims", "start_indices_batching_dims")
#define SCATTER_BATCHES LISTS("input_batching_dims", "scatter_indices_batching_dims")

static const struct td_vhlo_op ops[] = {
#define X(name, ...) {name, ROW(__VA_ARGS__, NULL)},
#define ROW(later, ...)                                                                                      \
    later, (const char *const[])                                                                             \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#include "proto/stablehlo/vhlo_ops.def"
#undef ROW
#undef X
};

static int compare(const void *name, const void *op)
{
    return strcmp(name, ((const struct td_vhlo_op *)op)->name);
}

const struct td_vhlo_op *td_vhlo_ops_find(const char *name)
{
    return bsearch(name, ops, sizeof ops / sizeof *ops, sizeof *ops, compare);
}
