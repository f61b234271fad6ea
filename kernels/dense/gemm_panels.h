/* kernels/dense/gemm_panels.h - products of floats with packed weights:
 * c [m,n] = a [m,k] * b [k,n], where b lies in panels of TD_PANEL columns, each as a matrix [depth,TD_PANEL]
 * of its own.
 *
 * A product of one row reads each weight once: it is as fast as the memory gives the weights, and a processor
 * fetches ahead best along one run of bytes (measured on Zen 4, 4 MiB in the third cache: 98 GB/s, against 73
 * where four rows of 8 KiB are read side by side). More rows go over a panel tile by tile, and each tile
 * fetches a part of the next panel: what a tile computes hides how far the third cache is, and the memory.
 * Long sums go in blocks of some hundred of their products, so that a tile's rows of a stay in the first
 * cache. (128 rows with weights that lie in memory, Sapphire Rapids: 180 GFLOP/s, oneDNN's 150; of 243.
 * With weights in the second cache oneDNN is ahead by up to a fifth.)
 *
 * Epilogues (tile_posts.h) are done to a tile when its sums are complete, while it is in the first cache.
 *
 * Weights are packed when they are met for the second time (kernels/dense/dnnl_pack.h), and multiplied as
 * they are until then, few rows in place and many from scratch: the results are the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_GEMM_PANELS_H
#define TD_KERNELS_CPU_GEMM_PANELS_H

#include "kernels/dense/gemm_cpu.h"
#include "kernels/cpu/vecmath.h"

enum { TD_PANEL = 64 };

/* What a tile fetches of the weights behind those that it multiplies by: so many cache lines in
 * TD_AHEAD_EVERY steps. As evenly as can be: there are a dozen places for what is on its way, and the tile's
 * own loads want some. */
struct td_ahead {
    const char *at;
    int lines;
};
enum { TD_AHEAD_LINE = 64, TD_AHEAD_EVERY = 4 };

/* So that so many tiles fetch a panel, of which a step multiplies by so many bytes. */
static inline int64_t td_ahead_lines(int64_t bytes, int64_t tiles)
{
    return (bytes / TD_AHEAD_LINE * TD_AHEAD_EVERY + tiles - 1) / tiles;
}

/* In step p. */
TD_INLINE void td_ahead_fetch(struct td_ahead *a, int64_t p)
{
    for (int i = 0; i < a->lines && p % TD_AHEAD_EVERY == 0; i++, a->at += TD_AHEAD_LINE) {
        __builtin_prefetch(a->at, 0, 2);
    }
}

/* g: a not transposed, nothing added to; b in panels, zeros behind the last column, and ldb their depth, k or
 * more. Any m works; a row's result does not depend on m, bit for bit, and is td_gemm_small's but for posts.
 * ahead: the panel of the same depth that will be wanted next, NULL: none. */
void td_gemm_panels(const struct td_gemm *g, const void *ahead);

/* Whether that beats oneDNN's packed products, as a rule: the weights are too many for the second cache,
 * there are 512-bit registers, and it takes all of the query's posts. */
bool td_gemm_panels_are_faster(const struct td_gemm *g, const struct td_kernel_query *q);

/* For a row's prepare: a state for weights [k,n] (stored [n,k] where g->tb says so), which are input 1. The
 * result is one [m,n]: g->ldc is n. */
TD_MUST enum td_code td_gemm_panels_offer(const struct td_gemm *g, const struct td_kernel_query *q,
                                          struct td_kernel_offer *o, struct td_err *err);
void td_gemm_panels_free(void *state);
/* g: a and c set, c the whole result. */
TD_MUST enum td_code td_gemm_panels_run(const void *state, struct td_call *c, const struct td_gemm *g,
                                        const struct td_tensor *weights, struct td_err *err);

#endif
