/* kernels/linalg/attention_pack.c
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/attention_pack.h"

#include <string.h>

#include "kernels/dense/gemm_panels.h"

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Four keys, four of their entries: to[h][key]. */
TD_INLINE void transpose_four(const float *k, int64_t step, float *to)
{
    const four a = *(const four *)k, b = *(const four *)(k + step), c = *(const four *)(k + 2 * step),
               d = *(const four *)(k + 3 * step);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + TD_PANEL) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * TD_PANEL) = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
    *(four *)(to + 3 * TD_PANEL) = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
}

#define SOME(n)                                                                                              \
    if (left & (n)) {                                                                                        \
        memcpy(to, from, (n) * sizeof *to);                                                                  \
        to += (n);                                                                                           \
        from += (n);                                                                                         \
    }

/* A panel's row: so many entries, at most all, and zeros. By sizes that the compiler knows: for what
 * is short and of unknown size it has an instruction that begins in the time of a whole row. */
TD_INLINE void put_row(float *to, const float *from, int64_t left)
{
    _Static_assert(TD_PANEL == 64, "these sizes make up any part of a row");
    if (left == TD_PANEL) {
        memcpy(to, from, TD_PANEL * sizeof *to);
        return;
    }
    memset(to, 0, TD_PANEL * sizeof *to);
    SOME(32)
    SOME(16)
    SOME(8)
    SOME(4)
    SOME(2)
    SOME(1)
}

/* n keys, at most a panel of them, as its columns; zeros behind them. */
static void pack_panel(const float *k, const int64_t *step, int64_t n, int64_t depth, float *to)
{
    const int64_t fours = step[0] == 1 ? n / 4 * 4 : 0, deep = depth / 4 * 4;
    for (int64_t h = 0; h < depth && n < TD_PANEL; h++) {
        memset(to + h * TD_PANEL, 0, TD_PANEL * sizeof *to);
    }
    for (int64_t h = 0; h < deep; h += 4) {
        for (int64_t i = 0; i < fours; i += 4) {
            transpose_four(k + i * step[1] + h, step[1], to + h * TD_PANEL + i);
        }
    }
    for (int64_t h = 0; h < depth; h++) {
        for (int64_t i = h < deep ? fours : 0; i < n; i++) {
            to[h * TD_PANEL + i] = k[i * step[1] + h * step[0]];
        }
    }
}

void td_attention_pack_keys(const float *k, const int64_t *step, int64_t n, int64_t depth, float *to)
{
    for (int64_t i = 0; i < n; i += TD_PANEL) {
        pack_panel(k + i * step[1], step, n - i < TD_PANEL ? n - i : TD_PANEL, depth, to + i * depth);
    }
}

void td_attention_pack_values(const float *v, const int64_t *step, int64_t n, int64_t width, float *to)
{
    for (int64_t d = 0; d < width; d += TD_PANEL) {
        const int64_t some = width - d < TD_PANEL ? width - d : TD_PANEL;
        for (int64_t i = 0; i < n; i++, to += TD_PANEL) {
            const float *from = v + i * step[1] + d * step[0];
            put_row(to, from, step[0] == 1 ? some : 0);
            for (int64_t l = 0; l < some && step[0] != 1; l++) {
                to[l] = from[l * step[0]];
            }
        }
    }
}
