/* kernels/cuda/linalg/eigen.c - the row of SelfAdjointEigV2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/eigen.h"

#include "kernels/cuda/linalg/matrix_call.h"
#include "kernels/cuda/rows.h"

/* As eigen.cu lays it out; a rotation is two doubles and a cell. */
static int64_t room_bytes(int64_t n, bool vectors, enum td_dtype t)
{
    const int64_t cell = td_cuda_matrix_cell(t), number = sizeof(double);
    return (vectors ? 2 : 1) * n * n * cell + (n + 1) / 2 * (2 * number + cell) + 2 * n * number;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    td_cuda_matrix_offer(
        td_cuda_matrix_batch(&q->in[0]),
        room_bytes(td_cuda_matrix_cols(&q->in[0]), td_attr_bool(q->node, "compute_v"), q->node->out_type[0]),
        o);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *values, *vectors;
    const struct td_tensor *a = c->in[0];
    const bool wanted = td_attr_bool(c->node, "compute_v");
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &vectors, err));
    if (!wanted) {
        TD_TRY(td_cuda_zero(c, vectors, err));
    }
    if (td_tensor_count(values) == 0) {
        return TD_OK;
    }
    struct td_cuda_eigen s = {.a = a->data,
                              .values = values->data,
                              .vectors = wanted ? vectors->data : NULL,
                              .batch = td_cuda_matrix_batch(&a->shape),
                              .n = td_cuda_matrix_cols(&a->shape),
                              .fault = c->fault};
    s.room = td_cuda_room_of(s.batch, room_bytes(s.n, wanted, a->dtype), c->workspace);
    return td_cuda_launched(c, td_cuda_eigen_all(td_cuda_type_of(a->dtype), &s, td_cuda_stream_of(c)), err);
}

TD_CUDA_MATRIX_ROWS(rows, "self_adjoint_eig.cuda", 1, NULL, prepare, run, {"T", TD_CUDA_MATRICES})

const struct td_op_rows td_cuda_rows_eigen[] = {
    {"SelfAdjointEigV2", rows}, {"BatchSelfAdjointEigV2", rows}, {NULL, NULL}};
