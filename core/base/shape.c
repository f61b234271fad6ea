/* core/base/shape.c - shape arithmetic on plain structs; the one place where element counts are multiplied.
 *
 * td_shape_make is where dims from outside come in: it refuses ranks, negative sizes and products that
 * overflow, zeros left out of the product, so that any part of a shape it made may be multiplied. What
 * combines shapes goes through it again. Unknown is carried along: -1 as a size, rank -1 for the whole;
 * comparing treats it as fitting everything, merging and broadcasting let the known side win.
 *
 * Shapes are copied by value, so nothing here allocates or fails for memory. Texts go to the caller's buffer.
 * Does not: infer an op's shape (core/graph/shape_infer.c and the ops do).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/shape.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

struct td_shape td_shape_scalar(void)
{
    return (struct td_shape){.rank = 0};
}

struct td_shape td_shape_unknown(void)
{
    return (struct td_shape){.rank = -1};
}

struct td_shape td_shape_of_rank(int rank)
{
    struct td_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        s.dim[i] = -1;
    }
    return s;
}

struct td_shape td_shape_vector(int64_t n)
{
    return (struct td_shape){.rank = 1, .dim = {n}};
}

struct td_shape td_shape_matrix(int64_t rows, int64_t cols)
{
    return (struct td_shape){.rank = 2, .dim = {rows, cols}};
}

enum td_code td_shape_make(struct td_shape *s, const int64_t *dims, int rank, struct td_err *err)
{
    TD_FAIL_IF(rank > TD_MAX_RANK || rank < 0, err, INVALID_ARGUMENT,
               "shape of rank %d: the largest rank is %d", rank, TD_MAX_RANK);
    int64_t product = 1;
    struct td_shape made = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        TD_FAIL_IF(dims[i] < -1, err, INVALID_ARGUMENT, "shape dimension %d is %lld, must be >= 0", i,
                   (long long)dims[i]);
        made.dim[i] = dims[i];
        TD_FAIL_IF(dims[i] > 0 && !td_i64_mul(product, dims[i], &product), err, INVALID_ARGUMENT,
                   "shape with dimension %d of %lld: the number of elements overflows int64", i,
                   (long long)dims[i]);
    }
    *s = made;
    return TD_OK;
}

bool td_shape_known(const struct td_shape *s)
{
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0) {
            return false;
        }
    }
    return s->rank >= 0;
}

int64_t td_shape_count(const struct td_shape *s)
{
    int64_t n = 1;
    bool zero = false, overflow = false;
    if (s->rank < 0) {
        return -1;
    }
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0) {
            return -1;
        }
        zero |= s->dim[i] == 0;
        overflow |= !td_i64_mul(n, s->dim[i], &n);
    }
    return zero ? 0 : overflow ? -1 : n;
}

int64_t td_shape_range(const struct td_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) {
        if (!td_i64_mul(n, s->dim[i], &n)) {
            return 0; /* only beside a zero dimension: the count of the whole shape fits */
        }
    }
    return n;
}

bool td_shape_equal(const struct td_shape *a, const struct td_shape *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
}

bool td_shape_compatible(const struct td_shape *a, const struct td_shape *b)
{
    if (a->rank < 0 || b->rank < 0) {
        return true;
    }
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i]) {
            return false;
        }
    }
    return true;
}

enum td_code td_shape_merge(const struct td_shape *a, const struct td_shape *b, struct td_shape *out,
                            struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(a, b), err, INVALID_ARGUMENT, "shapes %s and %s are not compatible",
               TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    struct td_shape m = a->rank < 0 ? *b : *a;
    for (int i = 0; a->rank >= 0 && b->rank >= 0 && i < m.rank; i++) {
        m.dim[i] = a->dim[i] < 0 ? b->dim[i] : a->dim[i];
    }
    *out = m;
    return TD_OK;
}

/* One broadcast dimension of a and b (-1 unknown): -2 when they never agree. */
static int64_t broadcast_dim(int64_t a, int64_t b)
{
    if (a == 1) {
        return b;
    }
    if (b == 1) {
        return a;
    }
    if (a < 0 || b < 0) {
        return a < 0 ? b : a; /* the known one is not 1, so it wins; both unknown: unknown */
    }
    return a == b ? a : -2;
}

enum td_code td_shape_broadcast(const struct td_shape *a, const struct td_shape *b, struct td_shape *out,
                                struct td_err *err)
{
    if (a->rank < 0 || b->rank < 0) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    struct td_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    int64_t dims[TD_MAX_RANK];
    for (int i = 0; i < r.rank; i++) {
        int ia = i - (r.rank - a->rank), ib = i - (r.rank - b->rank);
        dims[i] = broadcast_dim(ia < 0 ? 1 : a->dim[ia], ib < 0 ? 1 : b->dim[ib]);
        TD_FAIL_IF(dims[i] == -2, err, INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", TD_SHAPE_STR(a),
                   TD_SHAPE_STR(b));
    }
    return td_shape_make(out, dims, r.rank, err);
}

enum td_code td_shape_concat(const struct td_shape *a, const struct td_shape *b, struct td_shape *out,
                             struct td_err *err)
{
    if (a->rank < 0 || b->rank < 0) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    int64_t dims[2 * TD_MAX_RANK];
    memcpy(dims, a->dim, (size_t)a->rank * sizeof dims[0]);
    memcpy(dims + a->rank, b->dim, (size_t)b->rank * sizeof dims[0]);
    return td_shape_make(out, dims, a->rank + b->rank, err);
}

int64_t td_shape_spread_index(const struct td_shape *own, const struct td_shape *all, int64_t at)
{
    int64_t index = 0, step = 1;
    for (int d = all->rank - 1; d >= 0; d--) {
        const int64_t here = at % all->dim[d];
        const int own_d = d - (all->rank - own->rank);
        at /= all->dim[d];
        if (own_d >= 0) {
            index += own->dim[own_d] == 1 ? 0 : here * step;
            step *= own->dim[own_d];
        }
    }
    return index;
}

bool td_shape_axis(int rank, int64_t axis, int *out)
{
    if (axis < -(int64_t)rank || axis >= rank) {
        return false;
    }
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

char *td_shape_text(const struct td_shape *s, char *buf)
{
    if (s->rank < 0) {
        snprintf(buf, TD_SHAPE_TEXT, "<unknown>");
        return buf;
    }
    size_t n = 0;
    buf[n++] = '[';
    for (int i = 0; i < s->rank && n < TD_SHAPE_TEXT - 24; i++) {
        const char *comma = i ? "," : "";
        int put = s->dim[i] < 0 ? snprintf(buf + n, TD_SHAPE_TEXT - n, "%s?", comma)
                                : snprintf(buf + n, TD_SHAPE_TEXT - n, "%s%lld", comma, (long long)s->dim[i]);
        n += (size_t)put;
    }
    buf[n++] = ']';
    buf[n] = 0;
    return buf;
}

struct td_shape_str td_shape_str(const struct td_shape *s)
{
    struct td_shape_str t;
    td_shape_text(s, t.s);
    return t;
}
