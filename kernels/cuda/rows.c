/* kernels/cuda/rows.c - the list of families.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/rows.h"

#include <stddef.h>

const struct td_op_rows *const td_cuda_families[] = {
    td_cuda_rows_adam,     td_cuda_rows_arg,        td_cuda_rows_attention,
    td_cuda_rows_bins,     td_cuda_rows_canvas,     td_cuda_rows_cast,
    td_cuda_rows_classes,  td_cuda_rows_clip,       td_cuda_rows_complex,
    td_cuda_rows_conv,     td_cuda_rows_cross,      td_cuda_rows_ctc_loss,
    td_cuda_rows_cut,      td_cuda_rows_diagonal,   td_cuda_rows_dilation,
    td_cuda_rows_eigen,    td_cuda_rows_einsum,     td_cuda_rows_elementwise,
    td_cuda_rows_entries,  td_cuda_rows_factor,     td_cuda_rows_fake_quant,
    td_cuda_rows_fft,      td_cuda_rows_fill_rows,  td_cuda_rows_fused,
    td_cuda_rows_gather,   td_cuda_rows_layer_norm, td_cuda_rows_loss,
    td_cuda_rows_lrn,      td_cuda_rows_matmul,     td_cuda_rows_move,
    td_cuda_rows_norm,     td_cuda_rows_partition,  td_cuda_rows_pick,
    td_cuda_rows_picture,  td_cuda_rows_pool,       td_cuda_rows_pool_places,
    td_cuda_rows_qr,       td_cuda_rows_quantize,   td_cuda_rows_ramp,
    td_cuda_rows_random,   td_cuda_rows_recurrence, td_cuda_rows_reduce,
    td_cuda_rows_reorder,  td_cuda_rows_resize,     td_cuda_rows_rnn,
    td_cuda_rows_rnn_grad, td_cuda_rows_scan,       td_cuda_rows_scatter,
    td_cuda_rows_search,   td_cuda_rows_segment,    td_cuda_rows_select,
    td_cuda_rows_slice,    td_cuda_rows_softmax,    td_cuda_rows_special,
    td_cuda_rows_spmm,     td_cuda_rows_suppress,   td_cuda_rows_svd,
    td_cuda_rows_top,      td_cuda_rows_triangle,   td_cuda_rows_unique,
    td_cuda_rows_view,     td_cuda_rows_where,      NULL,
};
