/* kernels/cuda/sparse/spmm.c - rows of SparseTensorDenseMatMul.
 *
 *   indices -> rows of y, as keys -> sorted -> each row takes its entries in order
 *
 * An index that is outside is refused as on the host. Products of nothing stay there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/spmm.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const int64_t n = q->in[0].dim[0];
    (void)err;
    o->refusal = n == 0 || td_shape_count(&q->in[3]) == 0 || td_shape_count(&q->out[0]) == 0
                     ? "nothing is multiplied"
                 : n >= INT32_MAX || q->out[0].dim[0] >= INT32_MAX ? "more rows than 32 bits count"
                                                                   : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) : 0;
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *b = c->in[3];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    const bool adjoint_b = td_attr_bool(c->node, "adjoint_b");
    const struct td_cuda_spmm s = {.indices = td_cuda_indices_of(c->in[0]),
                                   .n = c->in[0]->shape.dim[0],
                                   .rows = y->shape.dim[0],
                                   .inner = b->shape.dim[adjoint_b ? 1 : 0],
                                   .columns = y->shape.dim[1],
                                   .adjoint_a = td_attr_bool(c->node, "adjoint_a"),
                                   .adjoint_b = adjoint_b,
                                   .fault = c->fault};
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, s.n);
    int error = td_cuda_spmm_keys(&s, sort.keys, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, (int32_t)s.rows, stream);
    const struct td_cuda_spmm_data d = {
        .keys = sort.keys, .order = sort.order, .a = c->in[1]->data, .b = b->data, .y = y->data};
    return td_cuda_launched(
        c, error != 0 ? error : td_cuda_spmm_run(td_cuda_type_of(y->dtype), &s, &d, stream), err);
}

TD_CUDA_ROWS(rows, "spmm.cuda",
             .types = {{"T", TD_CUDA_ALL_FLOATS | TD_BIT(TD_INT32)}, {"Tindices", TD_SET_INDEX}}, .judged = 1,
             .prepare = prepare, .run = run);

const struct td_op_rows td_cuda_rows_spmm[] = {{"SparseTensorDenseMatMul", rows}, {NULL, NULL}};
