/* tests/fuzz/ops_fuzz.c - any op, with any attributes and inputs, ends with outputs or an error.
 *
 * The first two bytes choose the op, the rest is the script of op_maker.h. OP_FUZZ=Name fuzzes one op;
 * OP_FUZZ_PRINT=1 prints each graph before it runs, to look at a failure.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_maker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* Allocations past td_buffer's limit come back as NULL, as they would from a C library that is short of
 * memory. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=1";
}

static const struct td_op_def *choose(const struct td_op_table *ops, const uint8_t *data)
{
    int n;
    const struct td_op_def *const *list = td_op_list(ops, &n);
    const char *only = getenv("OP_FUZZ");
    const struct td_op_def *def = only != NULL ? td_op_find(ops, only) : NULL;
    return def != NULL ? def : list[(data[0] | data[1] << 8) % n];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_op_table *ops;
    struct td_err err = {0};
    if (ops == NULL && td_op_table_new(td_op_families, &ops, &err)) {
        abort();
    }
    struct op_script script;
    static struct op_graph g; /* large */
    if (size < 2 || !op_graph_open(&g)) {
        return 0;
    }
    op_script_open(&script, data + 2, size - 2);
    if (op_maker_fill(&g, choose(ops, data), &script)) {
        if (getenv("OP_FUZZ_PRINT") != NULL) {
            op_maker_print(&g);
        }
        (void)!op_graph_run(&g, ops, &err);
    }
    op_graph_close(&g);
    return 0;
}
