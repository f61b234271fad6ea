/* kernels/cuda/linalg/qr.c - the row of Qr.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/qr.h"

#include "kernels/cuda/linalg/matrix_call.h"
#include "kernels/cuda/rows.h"

static int64_t room_bytes(const struct td_shape *a, const struct td_shape *q, enum td_dtype t)
{
    const int64_t m = td_cuda_matrix_rows(a), n = td_cuda_matrix_cols(a), p = td_cuda_matrix_cols(q);
    return (m * n + m * p + (m < n ? m : n)) * td_cuda_matrix_cell(t);
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    td_cuda_matrix_offer(td_cuda_matrix_batch(&q->in[0]),
                         room_bytes(&q->in[0], &q->out[0], q->node->out_type[0]), o);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *q, *r;
    const struct td_tensor *a = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &q, err));
    TD_TRY(td_out(c, 1, NULL, &r, err));
    if (td_tensor_count(q) == 0) { /* and so r */
        return TD_OK;
    }
    struct td_cuda_qr s = {.a = a->data,
                           .q = q->data,
                           .r = r->data,
                           .batch = td_cuda_matrix_batch(&a->shape),
                           .m = td_cuda_matrix_rows(&a->shape),
                           .n = td_cuda_matrix_cols(&a->shape),
                           .p = td_cuda_matrix_cols(&q->shape)};
    s.room = td_cuda_room_of(s.batch, room_bytes(&a->shape, &q->shape, a->dtype), c->workspace);
    return td_cuda_launched(c, td_cuda_qr_all(td_cuda_type_of(a->dtype), &s, td_cuda_stream_of(c)), err);
}

TD_CUDA_MATRIX_ROWS(rows, "qr.cuda", 0, NULL, prepare, run, {"T", TD_CUDA_MATRICES})

const struct td_op_rows td_cuda_rows_qr[] = {{"Qr", rows}, {NULL, NULL}};
