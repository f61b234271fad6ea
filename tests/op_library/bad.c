/* tests/op_library/bad.c - op libraries that must stop the start; built once a mistake (BAD, see the CMake
 * list).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/tensord_op.h"

#define BAD_ABI 1
#define BAD_SIGNATURE 2
#define BAD_TYPES 3
#define BAD_TAKEN 4
#define BAD_TWICE 5
#define BAD_ENTRY 6
#define BAD_REFUSES 7
#define BAD_KERNEL 8 /* the start works, its runs do not */

static const tensord_op_api *api;

static int silent_infer(tensord_op_context *c)
{
    (void)c;
    return 0;
}

/* Asks for what is not there, makes no output, and says that all is well. */
static int wrong_run(tensord_op_context *c)
{
    tensord_op_tensor t;
    api->output(c, 7, NULL, &t);
    return 0;
}

static const tensord_op ops[] = {
    {.name = BAD == BAD_TAKEN ? "MatMul" : "TensordBad",
     .signature = BAD == BAD_SIGNATURE ? "(x:T) -> y:T {T:type}" : "(x:T) -> (y:T) {T:type}",
     .types = BAD == BAD_TYPES ? "U: float" : "T: float",
     .infer = silent_infer,
     .run = wrong_run},
    {.name = BAD == BAD_TWICE ? "TensordBad" : "TensordBadToo", .signature = "() -> ()", .run = wrong_run},
};

#if BAD == BAD_ENTRY
#define tensord_op_library another_name
#endif
TENSORD_OP_EXPORT const tensord_op_library_info *tensord_op_library(const tensord_op_api *table);
const tensord_op_library_info *tensord_op_library(const tensord_op_api *table)
{
    static const tensord_op_library_info info = {TENSORD_OP_ABI + (BAD == BAD_ABI), sizeof(tensord_op), 2,
                                                 ops};
    api = table;
    return BAD == BAD_REFUSES ? NULL : &info;
}
