/* core/base/tensor.h - dense row-major tensors.
 *
 * A tensor is a small value: shape and dtype inline, bytes in a counted buffer. No strides; views exist only
 * as the same bytes under another shape, or as rows [from, to) of axis 0. Passing `const struct td_tensor *`
 * borrows; keeping one means td_tensor_ref into storage of one's own, and td_tensor_clear later.
 *
 * Inside a plan a tensor may have buf == NULL with data set: bytes inside the run's planned block. Such a
 * tensor never leaves core/run/exec.c and the kernel call; td_keep (core/graph/op.h) makes one that may.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_TENSOR_H
#define TD_CORE_BASE_TENSOR_H

#include "core/base/buffer.h"
#include "core/base/dtype.h"
#include "core/base/obj.h"
#include "core/base/shape.h"

struct td_tensor {
    struct td_buffer *buf;          /* counted owner of data; NULL: planned bytes, or an unset tensor */
    void *data;                     /* count * element size bytes; may be NULL only when the count is 0 */
    enum td_dtype dtype;            /* TD_DTYPE_NONE: unset */
    const struct td_device *device; /* NULL: host */
    struct td_shape shape;          /* fully known */
};

/* A tensor under the alias that a signature gives it. */
struct td_named {
    const char *name;
    struct td_tensor t;
};

static inline int64_t td_tensor_count(const struct td_tensor *t)
{
    return td_shape_count(&t->shape);
}
static inline size_t td_tensor_bytes(const struct td_tensor *t)
{
    return (size_t)td_shape_count(&t->shape) * td_dtype_size(t->dtype);
}

/* Returns new bytes on the host, uninitialised (objects zeroed). INVALID_ARGUMENT when the shape is not known
 * or its byte size overflows; RESOURCE_EXHAUSTED without memory. On failure *t is untouched. */
TD_MUST enum td_code td_tensor_new(struct td_tensor *t, enum td_dtype dtype, const struct td_shape *shape,
                                   struct td_err *err);
/* The same, pinned for d where that has some left (td_buffer_new_pinned). No objects. */
TD_MUST enum td_code td_tensor_new_pinned(struct td_tensor *t, const struct td_device *d, enum td_dtype dtype,
                                          const struct td_shape *shape, struct td_err *err);
/* *dst = another reference to src's bytes. src must have a buffer (or no elements). dst is overwritten, not
 * cleared. */
void td_tensor_ref(struct td_tensor *dst, const struct td_tensor *src);
/* A deep copy with a buffer of its own (string elements are shared, being immutable). */
TD_MUST enum td_code td_tensor_copy(struct td_tensor *dst, const struct td_tensor *src, struct td_err *err);
/* Drops the reference and zeroes *t. Safe on a zeroed tensor. */
void td_tensor_clear(struct td_tensor *t);
struct td_arena;
/* *t, which lies in a or outlives it, is cleared when a is freed; without memory for that at once. */
TD_MUST enum td_code td_tensor_keep(struct td_arena *a, struct td_tensor *t, struct td_err *err);
/* Same dtype, shape and bytes (of objects: the very same ones). Both on the host. */
bool td_tensor_same(const struct td_tensor *a, const struct td_tensor *b);
/* Makes *t writable: copies its bytes unless nobody else holds them. */
TD_MUST enum td_code td_tensor_own(struct td_tensor *t, struct td_err *err);
/* Rows [from, to) of axis 0, sharing bytes. Rank >= 1, 0 <= from <= to <= dim 0. dst owns a reference. */
void td_tensor_rows(struct td_tensor *dst, const struct td_tensor *src, int64_t from, int64_t to);

/* Copies n elements between arrays of dtype, keeping the counts of object elements right. dst elements must
 * be initialised (NULL objects are). */
void td_elems_copy(enum td_dtype dtype, void *dst, const void *src, int64_t n);

/* String elements. td_tensor_str borrows until the element changes; the bytes end with a NUL beyond *len. */
const char *td_tensor_str(const struct td_tensor *t, int64_t i, size_t *len);
/* RESOURCE_EXHAUSTED without memory; or why the work at hand is over (core/base/work.h). */
TD_MUST enum td_code td_tensor_set_str(struct td_tensor *t, int64_t i, const char *bytes, size_t len,
                                       struct td_err *err);
/* Object elements (variant, resource). set takes the reference. */
static inline struct td_obj *td_tensor_obj(const struct td_tensor *t, int64_t i)
{
    return ((td_objp *)t->data)[i];
}
void td_tensor_set_obj(struct td_tensor *t, int64_t i, struct td_obj *takes);

/* Element i of an int32 or int64 (or other integer) tensor as int64. */
int64_t td_tensor_int(const struct td_tensor *t, int64_t i);

/* Typed access:  const float *x = TD_DATA(t, float); */
#define TD_DATA(t, ctype) ((ctype *)(t)->data)

/* Element i of an int32 or int64 tensor becomes v, which fits. */
static inline void td_tensor_set_int(struct td_tensor *t, int64_t i, int64_t v)
{
    switch (t->dtype) {
    case TD_INT32:
    case TD_UINT32:
    case TD_QINT32:
        TD_DATA(t, uint32_t)[i] = (uint32_t)v;
        return;
    case TD_INT16:
    case TD_UINT16:
    case TD_QINT16:
    case TD_QUINT16:
        TD_DATA(t, uint16_t)[i] = (uint16_t)v;
        return;
    case TD_INT8:
    case TD_UINT8:
    case TD_QINT8:
    case TD_QUINT8:
        TD_DATA(t, uint8_t)[i] = (uint8_t)v;
        return;
    default:
        TD_DATA(t, int64_t)[i] = v;
    }
}

#endif
