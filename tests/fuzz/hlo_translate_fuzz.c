/* tests/fuzz/hlo_translate_fuzz.c - any bytes as a StableHLO artifact: an error, or functions of the graph's
 * library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"
#include "proto/hlo_graph/hlo_translate.h"
#include "proto/stablehlo/hlo_read.h"

enum { MAX_BYTES = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_op_table *ops;
    struct td_err err = {0};
    struct td_hlo_module m;
    struct td_function *made;
    if (ops == NULL && td_op_table_new(td_op_families, &ops, &err)) {
        return 0;
    }
    struct td_arena *a = td_arena_new(MAX_BYTES), *b = td_arena_new(MAX_BYTES);
    struct td_library lib = {.arena = b};
    const struct td_hlo_opts opts = {.prefix = "hlo", .ops = ops};
    if (a != NULL && b != NULL &&
        td_hlo_read(a, (struct td_bytes){(const char *)data, size}, &m, &err) == TD_OK &&
        td_hlo_translate(&m, &opts, &lib, &made, &err) == TD_OK && !made->resolved) {
        __builtin_trap();
    }
    td_arena_free(a);
    td_arena_free(b);
    return 0;
}
