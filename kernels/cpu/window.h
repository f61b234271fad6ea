/* kernels/cpu/window.h - sliding windows: how convolution, pooling, dilation and patches step along one
 * spatial axis.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_WINDOW_H
#define TD_KERNELS_CPU_WINDOW_H

#include "core/graph/graph.h"

/* One axis. Window o covers input positions o * stride - before + t * dilation for t in [0, k). */
struct td_window {
    int64_t in, k, stride, dilation;
    int64_t out;           /* number of windows; -1 while `in` or `k` is not known (-1) */
    int64_t before, after; /* padding */
};

enum td_padding { TD_PAD_SAME, TD_PAD_VALID, TD_PAD_EXPLICIT };

/* Attribute "padding" of the node. */
enum td_padding td_window_padding(const struct td_node *n);

/* Fills in out, before and after from in, k, stride, dilation (and, for EXPLICIT, the before and after
 * given). INVALID_ARGUMENT when a stride or dilation is below 1, a padding is negative, or the window does
 * not fit. */
TD_MUST enum td_code td_window_make(struct td_window *w, enum td_padding padding, const struct td_node *n,
                                    struct td_err *err);

/* For those ops of TensorFlow that split the padding also where it is negative, because the stride skips
 * cells at the end: their windows begin inside of the input. 3-D convolutions and pools forward do so with
 * SAME, QuantizedConv2D always. Half of the cells, rounded down, are skipped at the start; with VALID half of
 * one cell less. */
void td_window_skip(struct td_window *w, enum td_padding padding);

/* The taps [from, to) of window o that lie inside the input. */
void td_window_taps(const struct td_window *w, int64_t o, int64_t *from, int64_t *to);
/* The windows [from, to) whose tap t lies inside the input. */
void td_window_having(const struct td_window *w, int64_t t, int64_t *from, int64_t *to);

/* Axes of a data format for tensors of `rank` (4 or 5, or 3 for Conv1D-like): batch is axis 0. */
struct td_data_layout {
    int channel, spatial; /* first spatial axis */
    int n_spatial;
    bool channels_first;
};
struct td_data_layout td_data_layout_of(const char *data_format, int rank);

/* Swaps between channels-first and channels-last: x is [batch][rows][cols] with cells of `size` bytes (1, 2,
 * 4, 8, 16); y becomes [batch][cols][rows]. Plain bytes only. */
void td_layout_swap(void *y, const void *x, int64_t batch, int64_t rows, int64_t cols, size_t size);

#endif
