/* kernels/cuda/math/classes.c - rows of Multinomial and StatelessMultinomial.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/classes.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/math/random_generator.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    int64_t bytes;
    (void)err;
    const bool fits = td_i64_mul(td_shape_count(&q->in[0]), (int64_t)sizeof(double), &bytes);
    o->refusal = fits ? NULL : "more weights than there can be";
    o->workspace_bytes = fits ? (size_t)bytes : 0;
    return TD_OK;
}

static enum td_code draw(struct td_call *c, struct td_philox g, struct td_tensor *y, struct td_err *err)
{
    const struct td_tensor *logits = c->in[0];
    const struct td_cuda_classes s = {.logits = logits->data,
                                      .y = y->data,
                                      .sums = c->workspace,
                                      .rows = y->shape.dim[0],
                                      .n = logits->shape.dim[1],
                                      .draws = y->shape.dim[1],
                                      .wide = y->dtype == TD_INT64,
                                      .g = g};
    if (s.rows == 0 || s.draws == 0) {
        return TD_OK;
    }
    return td_cuda_launched(c, td_cuda_draw_classes(td_cuda_type_of(logits->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_stateless(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return draw(c, td_random_from_seeds(c, 2), y, err);
}

static enum td_code run_kept(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_random_reserve(c, td_random_class_steps(y->shape.dim[0], y->shape.dim[1]), &g, err));
    return draw(c, g, y, err);
}

TD_CUDA_ROWS(rows_kept, "classes.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare,
             .run = run_kept);
TD_CUDA_ROWS(rows_stateless, "classes.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare,
             .run = run_stateless);

const struct td_op_rows td_cuda_rows_classes[] = {
    {"Multinomial", rows_kept}, {"StatelessMultinomial", rows_stateless}, {NULL, NULL}};
