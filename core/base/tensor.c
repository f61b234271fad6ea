/* core/base/tensor.c - tensors as views: a counted buffer, a place in it, a dtype and a shape.
 *
 * Making one multiplies count and size with overflow checked, then takes a buffer; sharing counts the buffer;
 * rows are the same buffer from another place. Changing needs td_tensor_own, which copies unless the buffer
 * has one user. Elements of object dtypes are counted pointers, NULL standing for the empty string or
 * nothing, so they are copied one by one, the new one taken before the old one is dropped.
 *
 * A tensor struct is its holder's: clearing zeroes it first and then drops the buffer. Does not: check
 * indices or dtypes of element access (callers have), convert.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/tensor.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/base/work.h"

static enum td_code size_of(enum td_dtype dtype, const struct td_shape *shape, size_t *bytes,
                            struct td_err *err)
{
    int64_t n = td_shape_count(shape);
    size_t size = td_dtype_size(dtype);
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT,
               "tensor of shape %s: the number of elements is not known or overflows", TD_SHAPE_STR(shape));
    TD_FAIL_IF(size == 0, err, INVALID_ARGUMENT, "tensor of shape %s: dtype %d does not exist",
               TD_SHAPE_STR(shape), (int)dtype);
    TD_FAIL_IF(!td_size_mul((size_t)n, size, bytes), err, INVALID_ARGUMENT,
               "tensor of shape %s and dtype %s: its size overflows", TD_SHAPE_STR(shape),
               td_dtype_name(dtype));
    return TD_OK;
}

enum td_code td_tensor_new(struct td_tensor *t, enum td_dtype dtype, const struct td_shape *shape,
                           struct td_err *err)
{
    size_t bytes;
    struct td_buffer *b;
    TD_TRY(size_of(dtype, shape, &bytes, err));
    TD_TRY(td_buffer_new(bytes, td_dtype_is_object(dtype), &b, err));
    *t = (struct td_tensor){.buf = b, .data = b->data, .dtype = dtype, .shape = *shape};
    return TD_OK;
}

enum td_code td_tensor_new_pinned(struct td_tensor *t, const struct td_device *d, enum td_dtype dtype,
                                  const struct td_shape *shape, struct td_err *err)
{
    size_t bytes;
    struct td_buffer *b;
    TD_TRY(size_of(dtype, shape, &bytes, err));
    TD_TRY(td_buffer_new_pinned(d, bytes, &b, err));
    *t = (struct td_tensor){.buf = b, .data = b->data, .dtype = dtype, .shape = *shape};
    return TD_OK;
}

void td_tensor_ref(struct td_tensor *dst, const struct td_tensor *src)
{
    TD_CHECK(src->buf != NULL || src->data == NULL || td_tensor_count(src) == 0);
    *dst = *src;
    td_buffer_ref(dst->buf);
}

void td_elems_copy(enum td_dtype dtype, void *dst, const void *src, int64_t n)
{
    if (n <= 0) {
        return;
    }
    if (!td_dtype_is_object(dtype)) {
        memcpy(dst, src, (size_t)n * td_dtype_size(dtype));
        return;
    }
    td_objp *d = dst;
    const td_objp *s = src;
    for (int64_t i = 0; i < n; i++) {
        struct td_obj *old = d[i];
        d[i] = td_obj_ref(s[i]);
        td_obj_unref(old);
    }
}

enum td_code td_tensor_copy(struct td_tensor *dst, const struct td_tensor *src, struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, src->dtype, &src->shape, err));
    td_elems_copy(src->dtype, t.data, src->data, td_tensor_count(src));
    *dst = t;
    return TD_OK;
}

static void drop(void *t)
{
    td_tensor_clear(t);
}

enum td_code td_tensor_keep(struct td_arena *a, struct td_tensor *t, struct td_err *err)
{
    if (td_arena_defer(a, drop, t) != 0) {
        td_tensor_clear(t);
        return td_no_memory(err, sizeof *t, "a tensor");
    }
    return TD_OK;
}

bool td_tensor_same(const struct td_tensor *a, const struct td_tensor *b)
{
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    const size_t bytes = td_tensor_bytes(a);
    return bytes == 0 || a->data == b->data || memcmp(a->data, b->data, bytes) == 0;
}

void td_tensor_clear(struct td_tensor *t)
{
    struct td_buffer *b = t->buf;
    memset(t, 0, sizeof *t);
    td_buffer_unref(b);
}

enum td_code td_tensor_own(struct td_tensor *t, struct td_err *err)
{
    if (t->buf != NULL && td_buffer_unique(t->buf)) {
        return TD_OK;
    }
    struct td_tensor mine;
    TD_TRY(td_tensor_copy(&mine, t, err));
    td_tensor_clear(t);
    *t = mine;
    TD_HOLDS(td_buffer_write_check, t->buf);
    return TD_OK;
}

void td_tensor_rows(struct td_tensor *dst, const struct td_tensor *src, int64_t from, int64_t to)
{
    TD_CHECK(src->shape.rank >= 1 && 0 <= from && from <= to && to <= src->shape.dim[0]);
    size_t row = (size_t)td_shape_range(&src->shape, 1, src->shape.rank) * td_dtype_size(src->dtype);
    td_tensor_ref(dst, src);
    dst->data = row == 0 ? src->data : (char *)src->data + (size_t)from * row;
    dst->shape.dim[0] = to - from;
}

const char *td_tensor_str(const struct td_tensor *t, int64_t i, size_t *len)
{
    const struct td_str *s = (const struct td_str *)((td_objp *)t->data)[i];
    if (s == NULL) {
        *len = 0;
        return "";
    }
    *len = s->len;
    return s->bytes;
}

void td_tensor_set_obj(struct td_tensor *t, int64_t i, struct td_obj *takes)
{
    td_objp *e = (td_objp *)t->data + i;
    struct td_obj *old = *e;
    *e = takes;
    td_obj_unref(old);
}

enum td_code td_tensor_set_str(struct td_tensor *t, int64_t i, const char *bytes, size_t len,
                               struct td_err *err)
{
    struct td_str *s = NULL;
    if (td_work_spent(64 + (int64_t)(len / 4))) {
        return td_work_error(td_work_over(), err);
    }
    TD_FAIL_IF(len > TD_STR_MAX, err, RESOURCE_EXHAUSTED,
               "a string element of %zu bytes: a string may have at most %zu", len, TD_STR_MAX);
    if (len > 0) {
        s = td_str_new(bytes, len);
        if (s == NULL) {
            return td_no_memory(err, len, "string element");
        }
    }
    td_tensor_set_obj(t, i, (struct td_obj *)s);
    return TD_OK;
}

int64_t td_tensor_int(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_INT8:
        return TD_DATA(t, int8_t)[i];
    case TD_INT16:
        return TD_DATA(t, int16_t)[i];
    case TD_INT32:
        return TD_DATA(t, int32_t)[i];
    case TD_INT64:
        return TD_DATA(t, int64_t)[i];
    case TD_UINT8:
    case TD_BOOL:
        return TD_DATA(t, uint8_t)[i];
    case TD_UINT16:
        return TD_DATA(t, uint16_t)[i];
    case TD_UINT32:
        return TD_DATA(t, uint32_t)[i];
    case TD_UINT64:
        return (int64_t)TD_DATA(t, uint64_t)[i];
    default:
        return 0;
    }
}
