/* kernels/dense/panel_pack.c - rows are read a few at a time for all panels, columns a tile at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/panel_pack.h"

#include <string.h>

#include "kernels/dense/gemm_panels.h"

enum { DEEP = 16, ROWS_AT_ONCE = 32 /* of some thousand columns: they stay in the second cache */ };

static int64_t depth_of(int64_t k)
{
    return (k + DEEP - 1) / DEEP * DEEP;
}

static void pack_rows(const float *from, int64_t k, int64_t n, float *to)
{
    const int64_t depth = depth_of(k);
    for (int64_t p = 0; p < depth; p += ROWS_AT_ONCE) {
        const int64_t end = p + ROWS_AT_ONCE < depth ? p + ROWS_AT_ONCE : depth;
        for (int64_t j = 0; j < n; j += TD_PANEL) {
            const int64_t columns = n - j < TD_PANEL ? n - j : TD_PANEL;
            for (int64_t i = p; i < end; i++) {
                float *row = to + j * depth + i * TD_PANEL;
                const int64_t there = i < k ? columns : 0;
                if (there > 0) {
                    memcpy(row, from + i * n + j, (size_t)there * sizeof *row);
                }
                memset(row + there, 0, (size_t)(TD_PANEL - there) * sizeof *row);
            }
        }
    }
}

/* from: [n,k] */
static void pack_columns(const float *from, int64_t n, int64_t k, float *to)
{
    const int64_t depth = depth_of(k);
    for (int64_t j = 0; j < n; j += TD_PANEL, to += depth * TD_PANEL) {
        const int64_t columns = n - j < TD_PANEL ? n - j : TD_PANEL;
        for (int64_t p = 0; p < depth; p += DEEP) {
            float *tile = to + p * TD_PANEL;
            const int64_t there = k - p < DEEP ? k - p : DEEP;
            memset(tile, 0, DEEP * TD_PANEL * sizeof *tile);
            for (int64_t c = 0; c < columns; c++) {
                for (int64_t i = 0; i < there; i++) {
                    tile[i * TD_PANEL + c] = from[(j + c) * k + p + i];
                }
            }
        }
    }
}

static const struct td_dnnl_transform by_rows = {.name = "panels", .run = pack_rows};
static const struct td_dnnl_transform by_columns = {.name = "panels of columns", .run = pack_columns};

bool td_panel_pack_set(struct td_dnnl_weights *w, int64_t k, int64_t n, bool transposed, int64_t *depth)
{
    struct td_err ignored = {0};
    *depth = depth_of(k);
    return td_dnnl_weights_transformed(w, transposed ? &by_columns : &by_rows, transposed ? n : k,
                                       transposed ? k : n, (n + TD_PANEL - 1) / TD_PANEL * TD_PANEL * *depth,
                                       &ignored) == TD_OK;
}
