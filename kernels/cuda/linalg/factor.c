/* kernels/cuda/linalg/factor.c - rows of Cholesky, determinants, Lu, MatrixSolve and MatrixInverse.
 *
 * A singular matrix is refused in the host's words (core/run/device_faults.h); one that is not positive
 * definite has a factor of NaN, as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/factor.h"

#include "kernels/cuda/linalg/matrix_call.h"
#include "kernels/cuda/rows.h"

/* Bytes of a room for a matrix and so many right-hand sides. */
static int64_t room_bytes(const struct td_shape *a, int64_t m, enum td_dtype t)
{
    const int64_t n = td_cuda_matrix_cols(a);
    return n * (n + m) * td_cuda_matrix_cell(t) + n * (int64_t)sizeof(int64_t);
}

static enum td_code prepare_factor(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    (void)err;
    td_cuda_matrix_offer(td_cuda_matrix_batch(&q->in[0]), room_bytes(&q->in[0], 0, q->node->out_type[0]), o);
    return TD_OK;
}

static enum td_code prepare_solve(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    td_cuda_matrix_offer(td_cuda_matrix_batch(&q->in[0]),
                         room_bytes(&q->in[0], td_cuda_matrix_cols(&q->out[0]), q->node->out_type[0]), o);
    return TD_OK;
}

static enum td_code run(struct td_call *c, enum td_cuda_factor what, struct td_err *err)
{
    struct td_tensor *y, *z = NULL;
    const struct td_tensor *a = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (c->n_out > 1) {
        TD_TRY(td_out(c, 1, NULL, &z, err));
    }
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct td_cuda_factors s = {.what = what,
                                .a = a->data,
                                .b = c->n_in > 1 ? c->in[1]->data : NULL,
                                .y = y->data,
                                .z = z != NULL ? z->data : NULL,
                                .batch = td_cuda_matrix_batch(&a->shape),
                                .n = td_cuda_matrix_cols(&a->shape),
                                .wide_index = z != NULL && z->dtype == TD_INT64,
                                .fault = c->fault};
    if (what >= TD_CUDA_SOLVE) {
        s.m = td_cuda_matrix_cols(&y->shape);
        s.adjoint = td_attr_bool(c->node, "adjoint");
    }
    s.room = td_cuda_room_of(s.batch, room_bytes(&a->shape, s.m, a->dtype), c->workspace);
    return td_cuda_launched(c, td_cuda_factor_all(td_cuda_type_of(a->dtype), &s, td_cuda_stream_of(c)), err);
}

#define FACTOR(tag, what, label, asked, judged, ...)                                                         \
    static enum td_code run_##tag(struct td_call *c, struct td_err *err)                                     \
    {                                                                                                        \
        return run(c, what, err);                                                                            \
    }                                                                                                        \
    TD_CUDA_MATRIX_ROWS(rows_##tag, label, judged, NULL, asked, run_##tag, {"T", TD_CUDA_MATRICES},          \
                        __VA_ARGS__)
FACTOR(cholesky, TD_CUDA_CHOLESKY, "cholesky.cuda", prepare_factor, 0)
FACTOR(det, TD_CUDA_DETERMINANT, "matrix_determinant.cuda", prepare_factor, 0)
FACTOR(log_det, TD_CUDA_LOG_DETERMINANT, "matrix_determinant.cuda", prepare_factor, 0)
FACTOR(lu, TD_CUDA_LU, "lu.cuda", prepare_factor, 1, {"output_idx_type", TD_SET_INDEX})
FACTOR(solve, TD_CUDA_SOLVE, "matrix_solve.cuda", prepare_solve, 1)
FACTOR(inverse, TD_CUDA_INVERSE, "matrix_inverse.cuda", prepare_solve, 1)

const struct td_op_rows td_cuda_rows_factor[] = {{"Cholesky", rows_cholesky},
                                                 {"BatchCholesky", rows_cholesky},
                                                 {"MatrixDeterminant", rows_det},
                                                 {"BatchMatrixDeterminant", rows_det},
                                                 {"LogMatrixDeterminant", rows_log_det},
                                                 {"Lu", rows_lu},
                                                 {"MatrixSolve", rows_solve},
                                                 {"BatchMatrixSolve", rows_solve},
                                                 {"MatrixInverse", rows_inverse},
                                                 {"BatchMatrixInverse", rows_inverse},
                                                 {NULL, NULL}};
