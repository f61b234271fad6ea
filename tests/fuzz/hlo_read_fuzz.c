/* tests/fuzz/hlo_read_fuzz.c - any bytes as a StableHLO artifact: an error, or a module that holds together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/hlo_read.h"
#include "tests/hlo/hlo_walk.h"

enum { MAX_BYTES = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_err err = {0};
    struct td_hlo_module m;
    struct td_arena *a = td_arena_new(MAX_BYTES);
    if (a != NULL && td_hlo_read(a, (struct td_bytes){(const char *)data, size}, &m, &err) == TD_OK) {
        hlo_walk(&m, a);
    }
    td_arena_free(a);
    return 0;
}
