/* kernels/cuda/rows.h - which ops have rows for a GPU: a table for each family of kernels; and how a family
 * writes its rows, so that its file says only what is its own:
 *
 *   TD_CUDA_ROWS(rows_cross, "cross.cuda", .types = {{"T", TD_CUDA_REALS}}, .run = run);
 *   const struct td_op_rows td_cuda_rows_cross[] = {{"Cross", rows_cross}, {NULL, NULL}};
 *
 * Behind the label come the fields of struct td_kernel (core/graph/kernel.h) that are not zero: types,
 * judged, refuse, prepare, release, run. A family with many rows alike has a short macro of its own around
 * this one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ROWS_H
#define TD_KERNELS_CUDA_ROWS_H

#include "core/run/device_module.h"

extern const struct td_op_rows td_cuda_rows_adam[], td_cuda_rows_arg[], td_cuda_rows_attention[],
    td_cuda_rows_bins[], td_cuda_rows_canvas[], td_cuda_rows_cast[], td_cuda_rows_classes[],
    td_cuda_rows_clip[], td_cuda_rows_complex[], td_cuda_rows_conv[], td_cuda_rows_cross[],
    td_cuda_rows_ctc_loss[], td_cuda_rows_cut[], td_cuda_rows_diagonal[], td_cuda_rows_dilation[],
    td_cuda_rows_eigen[], td_cuda_rows_einsum[], td_cuda_rows_elementwise[], td_cuda_rows_entries[],
    td_cuda_rows_factor[], td_cuda_rows_fake_quant[], td_cuda_rows_fft[], td_cuda_rows_fill_rows[],
    td_cuda_rows_fused[], td_cuda_rows_gather[], td_cuda_rows_layer_norm[], td_cuda_rows_loss[],
    td_cuda_rows_lrn[], td_cuda_rows_matmul[], td_cuda_rows_move[], td_cuda_rows_norm[],
    td_cuda_rows_partition[], td_cuda_rows_pick[], td_cuda_rows_picture[], td_cuda_rows_pool[],
    td_cuda_rows_pool_places[], td_cuda_rows_qr[], td_cuda_rows_quantize[], td_cuda_rows_ramp[],
    td_cuda_rows_random[], td_cuda_rows_recurrence[], td_cuda_rows_reduce[], td_cuda_rows_reorder[],
    td_cuda_rows_resize[], td_cuda_rows_rnn[], td_cuda_rows_rnn_grad[], td_cuda_rows_scan[],
    td_cuda_rows_scatter[], td_cuda_rows_search[], td_cuda_rows_segment[], td_cuda_rows_select[],
    td_cuda_rows_slice[], td_cuda_rows_softmax[], td_cuda_rows_special[], td_cuda_rows_spmm[],
    td_cuda_rows_suppress[], td_cuda_rows_svd[], td_cuda_rows_top[], td_cuda_rows_triangle[],
    td_cuda_rows_unique[], td_cuda_rows_view[], td_cuda_rows_where[];

/* A row: of the module's library, on a GPU. */
#define TD_CUDA_ROW(label, ...)                                                                              \
    {                                                                                                        \
        .name = label, .device = TD_CUDA, .library = TD_LIB_MODULE, __VA_ARGS__                              \
    }

/* `table`: one row; ops that choose among several list TD_CUDA_ROWs and {.name = NULL} themselves. */
#define TD_CUDA_ROWS(table, label, ...)                                                                      \
    static const struct td_kernel table[] = {TD_CUDA_ROW(label, __VA_ARGS__), {.name = NULL}}

/* Three rows of a library's, by the way that it thinks best and by the next two, which are tried against the
 * others alone. Their prepare functions name_0 to name_2 are
 *
 *   TD_CUDA_CHOICES(name, prepare(q, choice, o, err))
 *
 * with the query, the row's number and the offer; and the rows, in a table, TD_CUDA_CHOICE_ROWS. */
#define TD_CUDA_CHOICES(name, ...)                                                                           \
    TD_CUDA_CHOICE(name##_0, 0, __VA_ARGS__)                                                                 \
    TD_CUDA_CHOICE(name##_1, 1, __VA_ARGS__)                                                                 \
    TD_CUDA_CHOICE(name##_2, 2, __VA_ARGS__)
#define TD_CUDA_CHOICE(name, number, ...)                                                                    \
    static enum td_code name(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err) \
    {                                                                                                        \
        const int choice = number;                                                                           \
        return __VA_ARGS__;                                                                                  \
    }
#define TD_CUDA_CHOICE_ROWS(label, name, ...)                                                                \
    TD_CUDA_ROW(label, .competes = true, .prepare = name##_0, __VA_ARGS__),                                  \
        TD_CUDA_ROW(label ".2", .competes = true, .prepare = name##_1, __VA_ARGS__),                         \
        TD_CUDA_ROW(label ".3", .competes = true, .prepare = name##_2, __VA_ARGS__)

/* All of them, NULL at the end. */
extern const struct td_op_rows *const td_cuda_families[];

#endif
