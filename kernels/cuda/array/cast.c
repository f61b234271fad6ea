/* kernels/cuda/array/cast.c - rows of Cast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/cast.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static const char *refuse(const struct td_node *n)
{
    return td_attr_bool(n, "Truncate") ? "it cuts bits off instead of rounding" : NULL;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    return td_cuda_launched(c,
                            td_cuda_cast(td_cuda_type_of(x->dtype), td_cuda_type_of(y->dtype), x->data,
                                         y->data, td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

#define TYPES (TD_CUDA_NUMBERS | TD_CUDA_BOOLS)
TD_CUDA_ROWS(rows, "cast.cuda", .types = {{"SrcT", TYPES}, {"DstT", TYPES}}, .refuse = refuse, .run = run);

const struct td_op_rows td_cuda_rows_cast[] = {{"Cast", rows}, {NULL, NULL}};
