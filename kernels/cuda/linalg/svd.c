/* kernels/cuda/linalg/svd.c - rows of Svd and of MatrixSolveLs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg/svd.h"

#include "kernels/cuda/linalg/matrix_call.h"
#include "kernels/cuda/rows.h"

/* ------------------------------------------------------------------ Svd */

static struct td_cuda_svd svd_of(const struct td_node *node, const struct td_shape *a)
{
    struct td_cuda_svd s = {
        .batch = td_cuda_matrix_batch(a), .m = td_cuda_matrix_rows(a), .n = td_cuda_matrix_cols(a)};
    const int64_t p = s.m < s.n ? s.m : s.n;
    const bool full = td_attr_bool(node, "full_matrices");
    if (td_attr_bool(node, "compute_uv")) {
        s.u_width = full ? s.m : p;
        s.v_width = full ? s.n : p;
    }
    return s;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_cuda_svd s = svd_of(q->node, &q->in[0]);
    (void)err;
    if (s.m == 0 || s.n == 0) {
        o->refusal = "matrices of nothing";
        return TD_OK;
    }
    td_cuda_matrix_offer(s.batch, td_cuda_svd_bytes(&s, td_cuda_matrix_cell(q->node->out_type[0])), o);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *values, *u, *v;
    const struct td_tensor *a = c->in[0];
    struct td_cuda_svd s = svd_of(c->node, &a->shape);
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &u, err));
    TD_TRY(td_out(c, 2, NULL, &v, err));
    if (s.u_width == 0) {
        TD_TRY(td_cuda_zero(c, u, err));
        TD_TRY(td_cuda_zero(c, v, err));
    }
    if (s.batch == 0) {
        return TD_OK;
    }
    s.a = a->data;
    s.values = values->data;
    s.u = u->data;
    s.v = v->data;
    s.room = td_cuda_room_of(s.batch, td_cuda_svd_bytes(&s, td_cuda_matrix_cell(a->dtype)), c->workspace);
    return td_cuda_launched(c, td_cuda_svd_all(td_cuda_type_of(a->dtype), &s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ MatrixSolveLs */

static struct td_cuda_ls least_of(const struct td_node *node, const struct td_shape *a,
                                  const struct td_shape *x)
{
    struct td_cuda_ls s = {.batch = td_cuda_matrix_batch(a),
                           .m = td_cuda_matrix_rows(a),
                           .n = td_cuda_matrix_cols(a),
                           .k = td_cuda_matrix_cols(x),
                           .fast = td_attr_bool(node, "fast")};
    const bool single = node->out_type[0] == TD_FLOAT || node->out_type[0] == TD_COMPLEX64;
    s.epsilon = (single ? 1.2e-7 : 2.3e-16) * (double)(s.m < s.n ? s.m : s.n); /* as on the host */
    return s;
}

static enum td_code prepare_least(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const struct td_cuda_ls s = least_of(q->node, &q->in[0], &q->out[0]);
    (void)err;
    if (s.m == 0 || td_shape_count(&q->out[0]) == 0 || td_shape_count(&q->in[2]) != 1) {
        o->refusal = "nothing to solve";
        return TD_OK;
    }
    td_cuda_matrix_offer(s.batch, td_cuda_least_bytes(&s, td_cuda_matrix_cell(q->node->out_type[0])), o);
    return TD_OK;
}

static enum td_code run_least(struct td_call *c, struct td_err *err)
{
    struct td_tensor *x;
    const struct td_tensor *a = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &x, err));
    struct td_cuda_ls s = least_of(c->node, &a->shape, &x->shape);
    s.a = a->data;
    s.b = c->in[1]->data;
    s.l2 = c->in[2]->data;
    s.x = x->data;
    s.fault = c->fault;
    s.room = td_cuda_room_of(s.batch, td_cuda_least_bytes(&s, td_cuda_matrix_cell(a->dtype)), c->workspace);
    return td_cuda_launched(c, td_cuda_least_squares(td_cuda_type_of(a->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

#define T                                                                                                    \
    {                                                                                                        \
        "T", TD_CUDA_MATRICES                                                                                \
    }
TD_CUDA_MATRIX_ROWS(rows, "svd.cuda", 0, NULL, prepare, run, T)
TD_CUDA_MATRIX_ROWS(rows_least, "matrix_solve_ls.cuda", 1 | 1 << 2, NULL, prepare_least, run_least, T)

const struct td_op_rows td_cuda_rows_svd[] = {{"Svd", rows},
                                              {"BatchSvd", rows},
                                              {"MatrixSolveLs", rows_least},
                                              {"BatchMatrixSolveLs", rows_least},
                                              {NULL, NULL}};
