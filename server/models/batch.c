/* server/models/batch.c - joins tensors along axis 0, and says what may be joined.
 *
 * Likeness is a hash of dtypes, ranks and inner sizes, made once for each request, so that the scheduler
 * compares numbers and no shapes. Two that are alike by chance only are caught here: joining checks the
 * shapes themselves.
 *
 * Equal inner sizes are one copy a part. Parts that must be padded are copied run by run of their innermost
 * axis into the corner of their rows, in a block of zeros (of empty strings for strings). Rows that fill a
 * batch up to an allowed size repeat the first row of the last part: values that the model takes, and whose
 * results nobody reads.
 *
 * Holds no state. Does not: split outputs again (server/sched/batch_run.c), choose who shares a batch
 * (server/sched/sched.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/batch.h"

#include <string.h>

#include "core/base/hash.h"

int64_t td_batch_rows(const struct td_tensor *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (in[i].shape.rank < 1 || in[i].shape.dim[0] != in[0].shape.dim[0]) {
            return 0;
        }
    }
    return n > 0 ? in[0].shape.dim[0] : 0;
}

uint64_t td_batch_likeness(const struct td_tensor *in, int n, bool pad)
{
    uint64_t h = td_hash_start;
    for (int i = 0; i < n; i++) {
        const struct td_shape *s = &in[i].shape;
        const int64_t head[2] = {(int64_t)in[i].dtype, s->rank};
        h = td_hash_more(h, head, sizeof head);
        if (!pad && s->rank > 1) {
            h = td_hash_more(h, s->dim + 1, (size_t)(s->rank - 1) * sizeof s->dim[0]);
        }
    }
    return td_hash_mix(h);
}

/* The joined shape; *padded when some part is smaller than it. */
static enum td_code joined_shape(const struct td_tensor *const *parts, int n, int64_t extra, bool pad,
                                 struct td_shape *out, bool *padded, struct td_err *err)
{
    *out = parts[0]->shape;
    *padded = false;
    out->dim[0] = extra;
    for (int i = 0; i < n; i++) {
        const struct td_shape *s = &parts[i]->shape;
        TD_FAIL_IF(s->rank != out->rank || parts[i]->dtype != parts[0]->dtype, err, INVALID_ARGUMENT,
                   "joining requests: one has shape %s, another %s", TD_SHAPE_STR(&parts[0]->shape),
                   TD_SHAPE_STR(s));
        out->dim[0] += s->dim[0];
        for (int k = 1; k < s->rank; k++) {
            *padded = *padded || (i > 0 && s->dim[k] != out->dim[k]);
            out->dim[k] = s->dim[k] > out->dim[k] ? s->dim[k] : out->dim[k];
        }
    }
    TD_FAIL_IF(*padded && !pad, err, INVALID_ARGUMENT,
               "joining requests: inner sizes differ (the first has shape %s) and padding is turned off",
               TD_SHAPE_STR(&parts[0]->shape));
    return TD_OK;
}

/* Copies src into the corner of dst's rows from `row`: its innermost runs one by one, `at` counting the sizes
 * outside. */
static void copy_padded(struct td_tensor *dst, int64_t row, const struct td_tensor *src)
{
    const int inner = src->shape.rank - 1;
    const size_t size = td_dtype_size(src->dtype);
    const int64_t run = src->shape.dim[inner], total = td_tensor_count(src);
    int64_t at[TD_MAX_RANK] = {0};
    for (int64_t done = 0; done < total; done += run) {
        int64_t offset = row + at[0];
        for (int k = 1; k < inner; k++) {
            offset = offset * dst->shape.dim[k] + at[k];
        }
        td_elems_copy(src->dtype, (char *)dst->data + (size_t)(offset * dst->shape.dim[inner]) * size,
                      (const char *)src->data + (size_t)done * size, run);
        for (int k = inner - 1; k >= 0 && ++at[k] == src->shape.dim[k] && k > 0; k--) {
            at[k] = 0;
        }
    }
}

static void copy_rows(struct td_tensor *dst, int64_t row, const struct td_tensor *src, int64_t row_count)
{
    const size_t size = td_dtype_size(src->dtype);
    td_elems_copy(src->dtype, (char *)dst->data + (size_t)(row * row_count) * size, src->data,
                  td_tensor_count(src));
}

enum td_code td_batch_join(const struct td_tensor *const *parts, int n, int64_t extra, bool pad,
                           const struct td_device *d, struct td_tensor *out, struct td_err *err)
{
    struct td_shape shape;
    struct td_tensor first = {0};
    bool padded;
    if (n == 1 && extra == 0) {
        td_tensor_ref(out, parts[0]);
        return TD_OK;
    }
    TD_TRY(joined_shape(parts, n, extra, pad, &shape, &padded, err));
    if (td_dtype_is_object(parts[0]->dtype)) {
        TD_TRY(td_tensor_new(out, parts[0]->dtype, &shape, err));
    } else {
        TD_TRY(td_tensor_new_pinned(out, d, parts[0]->dtype, &shape, err));
    }
    if (padded && !td_dtype_is_object(out->dtype)) {
        memset(out->data, 0, td_tensor_bytes(out));
    }
    if (extra > 0) {
        td_tensor_rows(&first, parts[n - 1], 0, 1);
    }
    const int64_t row_count = shape.dim[0] > 0 ? td_shape_count(&shape) / shape.dim[0] : 0;
    int64_t row = 0;
    for (int64_t i = 0; i < n + extra; i++) {
        const struct td_tensor *part = i < n ? parts[i] : &first;
        padded ? copy_padded(out, row, part) : copy_rows(out, row, part, row_count);
        row += part->shape.dim[0];
    }
    td_tensor_clear(&first);
    return TD_OK;
}
