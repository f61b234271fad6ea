/* kernels/cuda/math/complex.c - rows of Complex, Real, Imag, Angle, ComplexAbs and Conj.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/complex.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code run_part(struct td_call *c, enum td_cuda_part part, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *x = c->in[0];
    return td_cuda_launched(c,
                            td_cuda_part_of(part, td_cuda_type_of(x->dtype), x->data, y->data,
                                            td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_join(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_steps steps;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    TD_FAIL_IF(!td_cuda_steps_of(&a->shape, &b->shape, &y->shape, &steps), err, INTERNAL,
               "%s: more than eight dimensions", c->node->op_name);
    return td_cuda_launched(c,
                            td_cuda_join_parts(td_cuda_type_of(a->dtype), &steps, a->data, b->data, y->data,
                                               td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

/* The attributes allow pairs of types that have no meaning, such as float and complex128. */
static const char *refuse_mixed(const struct td_node *n)
{
    const enum td_dtype t = td_attr_type(n, "T"), out = td_attr_type(n, "Tout");
    const bool single = t == TD_FLOAT || t == TD_COMPLEX64,
               single_out = out == TD_FLOAT || out == TD_COMPLEX64;
    return single == single_out ? NULL : "T and Tout are of two precisions";
}

#define ROWS(table, fn, asked, refuses, ...)                                                                 \
    TD_CUDA_ROWS(table, "complex.cuda", .types = {__VA_ARGS__}, .refuse = refuses, .prepare = asked,         \
                 .run = fn);
#define PART(what, part, refuses, ...)                                                                       \
    static enum td_code run_##what(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return run_part(c, part, err);                                                                       \
    }                                                                                                        \
    ROWS(rows_##what, run_##what, NULL, refuses, __VA_ARGS__)
PART(real, TD_CUDA_REAL_PART, refuse_mixed, {"T", TD_SET_COMPLEX}, {"Tout", TD_CUDA_WIDE})
PART(imaginary, TD_CUDA_IMAGINARY_PART, refuse_mixed, {"T", TD_SET_COMPLEX}, {"Tout", TD_CUDA_WIDE})
PART(angle, TD_CUDA_ANGLE, refuse_mixed, {"T", TD_SET_COMPLEX}, {"Tout", TD_CUDA_WIDE})
PART(length, TD_CUDA_LENGTH, refuse_mixed, {"T", TD_SET_COMPLEX}, {"Tout", TD_CUDA_WIDE})
PART(conj, TD_CUDA_CONJ, NULL, {"T", TD_SET_COMPLEX})
ROWS(rows_join, run_join, td_cuda_prepare_two, refuse_mixed, {"T", TD_CUDA_WIDE}, {"Tout", TD_SET_COMPLEX})

const struct td_op_rows td_cuda_rows_complex[] = {{"Complex", rows_join},
                                                  {"Real", rows_real},
                                                  {"Imag", rows_imaginary},
                                                  {"Angle", rows_angle},
                                                  {"Conj", rows_conj},
                                                  {"ComplexAbs", rows_length},
                                                  {NULL, NULL}};
