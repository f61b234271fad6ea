/* kernels/cuda/base/steps.c - dims that become one: x [2,3,4] + b [4] is a matrix of 6 rows, so that most
 * shapes need one dim or two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/steps.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"

static bool goes_on(int64_t step, int64_t last_step, int64_t last_dim)
{
    return step == (last_step == 0 ? 0 : last_step * last_dim);
}

bool td_cuda_steps_add(struct td_cuda_steps *s, int64_t dim, int64_t a, int64_t b)
{
    const int last = s->rank - 1;
    if (dim == 1) {
        return true;
    }
    if (last >= 0 && goes_on(a, s->a[last], s->dim[last]) && goes_on(b, s->b[last], s->dim[last])) {
        s->dim[last] *= dim;
        return true;
    }
    if (s->rank == TD_CUDA_DIMS) {
        return false;
    }
    s->dim[s->rank] = dim;
    s->a[s->rank] = a;
    s->b[s->rank++] = b;
    return true;
}

/* ------------------------------------------------------------------ two operands, broadcast */

static int64_t step_of(const struct td_shape *s, int from_the_end, int64_t elements)
{
    return from_the_end <= s->rank && s->dim[s->rank - from_the_end] != 1 ? elements : 0;
}

static int64_t length_of(const struct td_shape *s, int from_the_end)
{
    return from_the_end <= s->rank ? s->dim[s->rank - from_the_end] : 1;
}

bool td_cuda_steps_of(const struct td_shape *a, const struct td_shape *b, const struct td_shape *y,
                      struct td_cuda_steps *s)
{
    int64_t in_a = 1, in_b = 1;
    bool fits = true;
    memset(s, 0, sizeof *s);
    for (int i = 1; i <= y->rank && fits; i++) {
        fits = td_cuda_steps_add(s, y->dim[y->rank - i], step_of(a, i, in_a), step_of(b, i, in_b));
        in_a *= length_of(a, i);
        in_b *= length_of(b, i);
    }
    return fits;
}

enum td_code td_cuda_prepare_two(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    struct td_cuda_steps steps;
    (void)err;
    o->refusal =
        td_cuda_steps_of(&q->in[0], &q->in[1], &q->out[0], &steps) ? NULL : "more than eight dimensions";
    return TD_OK;
}

void td_cuda_row_major(const struct td_shape *s, int64_t *step)
{
    int64_t n = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        step[i] = n;
        n *= s->dim[i];
    }
}
