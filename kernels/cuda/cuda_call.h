/* kernels/cuda/cuda_call.h - what a row's run needs on a GPU: the stream, and what became of a launch.
 *
 *   run(c, err):   td_out for each output, then the launcher of the .cu file beside, on td_cuda_stream_of(c)
 *
 * Inputs and outputs lie on the device, but for inputs that the op's row keeps on the host (host_in).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_CUDA_CALL_H
#define TD_KERNELS_CUDA_CUDA_CALL_H

#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/runtime.h"

struct td_cuda_stream *td_cuda_stream_of(const struct td_call *c);

#define TD_CUDA_FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
#define TD_CUDA_WIDE (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define TD_CUDA_BOOLS TD_BIT(TD_BOOL)
#define TD_CUDA_NUMBERS (TD_CUDA_FLOATS | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))

static inline enum td_cuda_type td_cuda_type_of(enum td_dtype t)
{
    return t == TD_FLOAT      ? TD_CUDA_FLOAT
           : t == TD_DOUBLE   ? TD_CUDA_DOUBLE
           : t == TD_HALF     ? TD_CUDA_HALF
           : t == TD_BFLOAT16 ? TD_CUDA_BFLOAT16
           : t == TD_INT32    ? TD_CUDA_INT32
           : t == TD_INT64    ? TD_CUDA_INT64
           : t == TD_BOOL     ? TD_CUDA_BOOL
                              : TD_CUDA_NO_TYPE;
}

/* How y reads two operands that are broadcast to its shape. False: more dims than a kernel takes. */
bool td_cuda_steps_of(const struct td_shape *a, const struct td_shape *b, const struct td_shape *y,
                      struct td_cuda_steps *s);

/* How far apart neighbours along each axis of a row-major tensor are, in elements. */
void td_cuda_row_major(const struct td_shape *s, int64_t *step);

/* What a launcher returned, as the call's outcome. */
static inline enum td_code td_cuda_launched(const struct td_call *c, int error, struct td_err *err)
{
    return error == 0 ? TD_OK : td_cuda_fail(error, c->node->op_name, err);
}

#endif
