/* kernels/array/slice_copy.c - a slice as loops over strided elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/slice_copy.h"

#include "core/graph/graph.h"

void td_slice_spec_read(const struct td_slice_spec *s, const struct td_shape *in, struct td_strided *w,
                        int64_t *offset)
{
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK], run = 1;
    td_slice_spec_place(s, in, from, offset);
    for (int a = s->rank - 1; a >= 0; a--) {
        to[a] = run;
        run *= s->size[a];
    }
    w->rank = 0;
    for (int a = 0; a < s->rank; a++) {
        td_strided_push(w, s->size[a], to[a], from[a]);
    }
}

void td_slice_spec_put(const struct td_slice_spec *s, const struct td_tensor *value, struct td_tensor *y)
{
    int64_t to[TD_MAX_RANK], dense[TD_MAX_RANK], from[TD_MAX_RANK] = {0}, offset;
    if (td_tensor_count(value) == 0 || td_tensor_count(y) == 0) {
        return;
    }
    td_slice_spec_place(s, &y->shape, to, &offset);
    td_strided_row_major(&value->shape, dense);
    for (int i = 0; i < value->shape.rank; i++) {
        const int at = s->shape.rank - value->shape.rank + i;
        if (at >= 0 && s->source[at] >= 0 && value->shape.dim[i] > 1) {
            from[s->source[at]] = dense[i];
        }
    }
    struct td_strided w = {.rank = 0};
    for (int a = 0; a < s->rank; a++) {
        td_strided_push(&w, s->size[a], to[a], from[a]);
    }
    td_strided_copy(y->dtype, &w, (char *)y->data + offset * (int64_t)td_dtype_size(y->dtype), value->data);
}
