/* kernels/cuda/reduce.c - rows of Sum, Mean, Prod, Max and Min.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal = q->in[0].rank <= TD_CUDA_DIMS ? NULL : "more than eight dimensions";
    return TD_OK;
}

/* The axes that the vector names, which infer has checked. */
static uint32_t axes_named(const struct td_tensor *axes, int rank)
{
    uint32_t mask = 0;
    for (int64_t i = 0; i < td_tensor_count(axes); i++) {
        int axis = 0;
        mask |= td_shape_axis(rank, td_tensor_int(axes, i), &axis) ? 1u << axis : 0;
    }
    return mask;
}

static bool describe(const struct td_shape *in, uint32_t folded, struct td_cuda_axes *s)
{
    int64_t step = 1;
    bool fits = true, seen = false;
    *s = (struct td_cuda_axes){.n_kept = 1, .n_folded = 1};
    for (int i = in->rank - 1; i >= 0 && fits; i--) {
        const bool folds = folded >> i & 1;
        const int64_t dim = in->dim[i];
        s->rows = seen || dim == 1 ? s->rows : folds;
        seen = seen || dim != 1;
        s->n_folded *= folds ? dim : 1;
        s->n_kept *= folds ? 1 : dim;
        fits = td_cuda_steps_add(folds ? &s->folded : &s->kept, dim, step, 0);
        step *= dim;
    }
    return fits;
}

static enum td_code reduce(struct td_call *c, enum td_cuda_reduce op, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_axes s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(!describe(&x->shape, axes_named(c->in[1], x->shape.rank), &s), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(
        c, td_cuda_reduce(op, td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

#define REDUCE(op, which)                                                                                    \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return reduce(c, which, err);                                                                        \
    }                                                                                                        \
    static const struct td_kernel rows_##op[] = {{.name = "reduce.cuda",                                     \
                                                  .device = TD_CUDA,                                         \
                                                  .types = {{"T", TD_CUDA_NUMBERS}},                         \
                                                  .library = TD_LIB_MODULE,                                  \
                                                  .prepare = prepare,                                        \
                                                  .run = run_##op},                                          \
                                                 {.name = NULL}};
REDUCE(sum, TD_CUDA_SUM)
REDUCE(mean, TD_CUDA_MEAN)
REDUCE(prod, TD_CUDA_PROD)
REDUCE(max, TD_CUDA_MAX)
REDUCE(min, TD_CUDA_MIN)

const struct td_op_rows td_cuda_rows_reduce[] = {{"Sum", rows_sum}, {"Mean", rows_mean}, {"Prod", rows_prod},
                                                 {"Max", rows_max}, {"Min", rows_min},   {NULL, NULL}};
