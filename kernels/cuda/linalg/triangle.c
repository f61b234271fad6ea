/* kernels/cuda/linalg/triangle.c - rows of MatrixTriangularSolve, BandedTriangularSolve, TridiagonalSolve
 * and TridiagonalMatMul.
 *
 * What has no solution is refused in the host's words (core/run/device_faults.h), but for
 * MatrixTriangularSolve, which divides by what is there, as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/triangle.h"

#include <string.h>

#include "kernels/cuda/linalg/matrix_call.h"
#include "kernels/cuda/rows.h"

/* WIDTH: columns of a right-hand side that a block has. LONG: a chain of steps that one thread is asked
 * for. */
enum { WIDTH = 32, LONG = 1 << 13 };

/* ------------------------------------------------------------------ triangles */

static struct td_shape batch_of(struct td_shape s)
{
    s.rank -= 2;
    return s;
}

static bool batches_of(const struct td_shape *a, const struct td_shape *b, const struct td_shape *y,
                       struct td_cuda_steps *steps)
{
    const struct td_shape in_a = batch_of(*a), in_b = batch_of(*b), in_y = batch_of(*y);
    return td_cuda_steps_of(&in_a, &in_b, &in_y, steps);
}

static struct td_cuda_room triangle_room(const struct td_shape *y, enum td_dtype t, void *workspace)
{
    const int64_t m = td_cuda_matrix_cols(y), tiles = (m + WIDTH - 1) / WIDTH;
    const int64_t bytes = td_cuda_matrix_rows(y) * (m < WIDTH ? m : WIDTH) * td_cuda_matrix_cell(t);
    return td_cuda_room_of(td_cuda_matrix_batch(y) * tiles, bytes, workspace);
}

static enum td_code prepare_triangle(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    struct td_cuda_steps steps;
    const struct td_cuda_room r = triangle_room(&q->out[0], q->node->out_type[0], NULL);
    (void)err;
    if (batches_of(&q->in[0], &q->in[1], &q->out[0], &steps)) {
        td_cuda_matrix_offer(r.blocks, r.bytes, o);
    } else {
        o->refusal = "more than eight dimensions";
    }
    return TD_OK;
}

static enum td_code run_triangle(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const bool banded = strcmp(c->node->op_name, "BandedTriangularSolve") == 0;
    struct td_cuda_triangles s = {.a = a->data,
                                  .b = b->data,
                                  .y = y->data,
                                  .batch = td_cuda_matrix_batch(&y->shape),
                                  .n = td_cuda_matrix_rows(&y->shape),
                                  .m = td_cuda_matrix_cols(&y->shape),
                                  .width = WIDTH,
                                  .bands = banded ? td_cuda_matrix_rows(&a->shape) : 0,
                                  .lower = td_attr_bool(c->node, "lower"),
                                  .adjoint = td_attr_bool(c->node, "adjoint"),
                                  .fault = c->fault,
                                  .room = triangle_room(&y->shape, y->dtype, c->workspace)};
    TD_FAIL_IF(!batches_of(&a->shape, &b->shape, &y->shape, &s.batches), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c, td_cuda_triangle_solve(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ three diagonals */

static int64_t three_bytes(const struct td_shape *y, enum td_dtype t)
{
    const int64_t n = td_cuda_matrix_rows(y), m = td_cuda_matrix_cols(y);
    return n * (4 + m) * td_cuda_matrix_cell(t) + n * (int64_t)sizeof(int32_t);
}

static enum td_code prepare_three(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const struct td_shape *y = &q->out[0];
    (void)err;
    if (td_cuda_matrix_rows(y) > LONG) {
        o->refusal = "a long chain of steps";
        return TD_OK;
    }
    td_cuda_matrix_offer(td_cuda_matrix_batch(y), three_bytes(y, q->node->out_type[0]), o);
    return TD_OK;
}

static const char *refuse_perturbed(const struct td_node *n)
{
    return td_attr_bool(n, "perturb_singular") ? "perturb_singular" : NULL;
}

static enum td_code run_three(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct td_cuda_tridiagonal s = {.main = c->in[0]->data,
                                    .b = c->in[1]->data,
                                    .y = y->data,
                                    .batch = td_cuda_matrix_batch(&y->shape),
                                    .n = td_cuda_matrix_rows(&y->shape),
                                    .m = td_cuda_matrix_cols(&y->shape),
                                    .pivots = td_attr_bool(c->node, "partial_pivoting"),
                                    .fault = c->fault};
    s.room = td_cuda_room_of(s.batch, three_bytes(&y->shape, y->dtype), c->workspace);
    return td_cuda_launched(c, td_cuda_tridiagonal_solve(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_three_times(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_tridiagonal s = {.above = c->in[0]->data,
                                          .main = c->in[1]->data,
                                          .below = c->in[2]->data,
                                          .b = c->in[3]->data,
                                          .y = y->data,
                                          .batch = td_cuda_matrix_batch(&y->shape),
                                          .n = td_cuda_matrix_rows(&y->shape),
                                          .m = td_cuda_matrix_cols(&y->shape)};
    return td_cuda_launched(c, td_cuda_tridiagonal_times(td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

#define T                                                                                                    \
    {                                                                                                        \
        "T", TD_CUDA_MATRICES                                                                                \
    }
TD_CUDA_MATRIX_ROWS(rows_triangle, "triangular_solve.cuda", 0, NULL, prepare_triangle, run_triangle, T)
TD_CUDA_MATRIX_ROWS(rows_banded, "banded_triangular_solve.cuda", 1, NULL, prepare_triangle, run_triangle, T)
TD_CUDA_MATRIX_ROWS(rows_three, "tridiagonal_solve.cuda", 1, refuse_perturbed, prepare_three, run_three, T)
TD_CUDA_MATRIX_ROWS(rows_three_times, "tridiagonal_matmul.cuda", 0, NULL, NULL, run_three_times, T)

const struct td_op_rows td_cuda_rows_triangle[] = {
    {"MatrixTriangularSolve", rows_triangle}, {"BatchMatrixTriangularSolve", rows_triangle},
    {"BandedTriangularSolve", rows_banded},   {"TridiagonalSolve", rows_three},
    {"TridiagonalMatMul", rows_three_times},  {NULL, NULL}};
