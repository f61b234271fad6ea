/* kernels/cuda/base/cuda_call.h - what a row's run needs on a GPU: the stream, and what became of a launch.
 *
 *   run(c, err):   td_out for each output, then the launcher of the .cu file beside, on td_cuda_stream_of(c)
 *
 * Inputs and outputs lie on the device, but for inputs that the op's row keeps on the host (host_in).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDA_CALL_H
#define TD_KERNELS_CUDA_BASE_CUDA_CALL_H

#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

struct td_cuda_stream *td_cuda_stream_of(const struct td_call *c);

/* Queues a copy of an input that is on the host to `there`, in the workspace or an output. */
TD_MUST enum td_code td_cuda_send(const struct td_call *c, const struct td_tensor *here, void *there,
                                  struct td_err *err);

#define TD_CUDA_FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
#define TD_CUDA_WIDE (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define TD_CUDA_BOOLS TD_BIT(TD_BOOL)
#define TD_CUDA_NUMBERS (TD_CUDA_FLOATS | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))
#define TD_CUDA_SIGNED (TD_CUDA_NUMBERS | TD_BIT(TD_INT8) | TD_BIT(TD_INT16))
#define TD_CUDA_NATIVE (TD_CUDA_WIDE | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))
#define TD_CUDA_INTS TD_SET_INTS
#define TD_CUDA_REALS (TD_CUDA_FLOATS | TD_CUDA_INTS)
#define TD_CUDA_ALL (TD_CUDA_REALS | TD_SET_COMPLEX)
#define TD_CUDA_ALL_FLOATS (TD_CUDA_FLOATS | TD_SET_COMPLEX)
#define TD_CUDA_ALL_NUMBERS (TD_CUDA_NUMBERS | TD_SET_COMPLEX)
#define TD_CUDA_ALL_SIGNED (TD_CUDA_SIGNED | TD_SET_COMPLEX)
#define TD_CUDA_EQUALS (TD_CUDA_ALL | TD_CUDA_BOOLS)

static inline enum td_cuda_type td_cuda_type_of(enum td_dtype t)
{
    switch (t) {
#define TYPE(name)                                                                                           \
    case TD_##name:                                                                                          \
        return TD_CUDA_##name;
        TYPE(FLOAT)
        TYPE(DOUBLE)
        TYPE(HALF)
        TYPE(BFLOAT16)
        TYPE(INT32)
        TYPE(INT64)
        TYPE(BOOL)
        TYPE(INT8)
        TYPE(INT16)
        TYPE(UINT8)
        TYPE(UINT16)
        TYPE(UINT32)
        TYPE(UINT64)
        TYPE(COMPLEX64)
        TYPE(COMPLEX128)
#undef TYPE
    default:
        return TD_CUDA_NO_TYPE;
    }
}

/* How y reads two operands that are broadcast to its shape. False: more dims than a kernel takes. */
bool td_cuda_steps_of(const struct td_shape *a, const struct td_shape *b, const struct td_shape *y,
                      struct td_cuda_steps *s);

/* Prepare of a row that asks no more than that of its first two inputs. */
TD_MUST enum td_code td_cuda_prepare_two(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                         struct td_err *err);

/* How far apart neighbours along each axis of a row-major tensor are, in elements. */
void td_cuda_row_major(const struct td_shape *s, int64_t *step);

/* y = zeros; y = x's bytes, which are as many. */
TD_MUST enum td_code td_cuda_zero(const struct td_call *c, const struct td_tensor *y, struct td_err *err);
TD_MUST enum td_code td_cuda_copy_all(const struct td_call *c, const struct td_tensor *x,
                                      const struct td_tensor *y, struct td_err *err);

/* What a launcher returned, as the call's outcome. */
static inline enum td_code td_cuda_launched(const struct td_call *c, int error, struct td_err *err)
{
    return error == 0 ? TD_OK : td_cuda_fail(error, c->node->op_name, err);
}

#endif
