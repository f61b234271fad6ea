/* kernels/array/nd_index.c - tuples of indices: from a tuple to a flat place, and scattering by tuples.
 *
 * A tuple of `depth` numbers names a slice: its parts are multiplied up over the leading axes, each checked
 * against its size. Scattering checks all tuples before it writes anything, unless bad ones are to be
 * ignored, and then combines slice by slice in the order of the tuples, so equal tuples add up as they stand.
 * Strings are joined where numbers would be added.
 *
 * Errors are TensorFlow's. Does not: copy the tensor that is written into (the op owns it by then), gather.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/nd_index.h"

#include <stdio.h>

#include "core/graph/graph.h"
#include "core/base/mem.h"
#include "core/base/work.h"

const char *td_nd_index_position(const struct td_shape *s, int64_t i, char *buf)
{
    struct td_shape at = td_shape_of_rank(s->rank);
    for (int k = s->rank - 1; k >= 0; k--) {
        at.dim[k] = i % s->dim[k];
        i /= s->dim[k];
    }
    buf[0] = '\0';
    return s->rank > 0 ? td_shape_text(&at, buf) : buf;
}

enum td_code td_nd_index_policy(const struct td_node *node, bool *ignore, struct td_err *err)
{
    const char *policy = td_attr_str(node, "bad_indices_policy");
    *ignore = strcmp(policy, "IGNORE") == 0;
    TD_FAIL_IF(!*ignore && policy[0] != '\0' && strcmp(policy, "DEFAULT") != 0 &&
                   strcmp(policy, "ERROR") != 0,
               err, INVALID_ARGUMENT, "%s: bad_indices_policy '%.40s' is none of '', DEFAULT, ERROR, IGNORE",
               TD_NODE_STR(node), policy);
    return TD_OK;
}

bool td_nd_index_flat(const struct td_tensor *indices, int64_t row, int64_t depth, const struct td_shape *s,
                      int64_t *flat)
{
    int64_t at = 0;
    for (int64_t k = 0; k < depth; k++) {
        const int64_t v = td_tensor_int(indices, row * depth + k);
        if (v < 0 || v >= s->dim[k]) {
            return false;
        }
        at = at * s->dim[k] + v;
    }
    *flat = at;
    return true;
}

enum td_code td_nd_index_fail(const struct td_node *node, const struct td_tensor *indices, int64_t row,
                              int64_t depth, const char *what, const struct td_shape *s, struct td_err *err)
{
    char tuple[TD_MAX_RANK * 22 + 1] = "";
    size_t n = 0;
    for (int64_t k = 0; k < depth && n < sizeof tuple; k++) {
        n += (size_t)snprintf(tuple + n, sizeof tuple - n, "%s%lld", k > 0 ? ", " : "",
                              (long long)td_tensor_int(indices, row * depth + k));
    }
    TD_FAIL(err, INVALID_ARGUMENT, "%s: indices[%lld] = [%s] does not index into %s %s", TD_NODE_STR(node),
            (long long)row, tuple, what, TD_SHAPE_STR(s));
}

/* Either nothing is written, or there is something of everything; and no tuple of no parts names a place. */
static enum td_code check_counts(const struct td_node *node, int64_t depth, const struct td_shape *into,
                                 const struct td_shape *indices, const struct td_shape *updates,
                                 struct td_err *err)
{
    if (!td_shape_known(into) || !td_shape_known(indices) || !td_shape_known(updates)) {
        return TD_OK;
    }
    const int64_t n = td_shape_count(into), n_indices = td_shape_count(indices);
    const int64_t n_updates = td_shape_count(updates);
    TD_FAIL_IF((n_indices > 0 || n_updates > 0) && (n == 0 || n_indices == 0 || n_updates == 0), err,
               INVALID_ARGUMENT,
               "%s: Indices and updates specified for empty output. indices shape: %s, output shape: %s",
               TD_NODE_STR(node), TD_SHAPE_STR(indices), TD_SHAPE_STR(into));
    TD_FAIL_IF(n > 0 && (depth < 1 || depth > 7), err, INVALID_ARGUMENT,
               "%s: Only indices.shape[-1] values between 1 and 7 are supported. Requested rank: %lld",
               TD_NODE_STR(node), (long long)depth);
    return TD_OK;
}

enum td_code td_nd_scatter_check(const struct td_node *node, const struct td_shape *into,
                                 const struct td_shape *indices, const struct td_shape *updates,
                                 struct td_err *err)
{
    TD_FAIL_IF(into->rank == 0, err, INVALID_ARGUMENT, "%s: Output must be at least 1-D, got shape: []",
               TD_NODE_STR(node));
    TD_FAIL_IF(indices->rank == 0, err, INVALID_ARGUMENT,
               "%s: Indices shape must have rank at least one. Found:[]", TD_NODE_STR(node));
    TD_FAIL_IF(updates->rank == 0, err, INVALID_ARGUMENT,
               "%s: Updates shape must have rank at least one. Found:[]", TD_NODE_STR(node));
    if (into->rank < 0 || indices->rank < 0 || updates->rank < 0 || indices->dim[indices->rank - 1] < 0) {
        return TD_OK;
    }
    const int outer = indices->rank > 1 ? indices->rank - 1 : 1;
    const int64_t depth = indices->rank > 1 ? indices->dim[outer] : 1;
    struct td_shape want = td_shape_of_rank(0);
    for (int i = 0; i < outer; i++) {
        want.dim[want.rank++] = indices->dim[i];
    }
    for (int64_t i = depth; i < into->rank && want.rank < TD_MAX_RANK; i++) {
        want.dim[want.rank++] = into->dim[i];
    }
    TD_FAIL_IF(
        depth > into->rank || !td_shape_compatible(&want, updates), err, INVALID_ARGUMENT,
        "%s: Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of updates[shape=%s], and "
        "the inner dimensions of output.shape=%s must match those of updates",
        TD_NODE_STR(node), outer, TD_SHAPE_STR(indices), outer, TD_SHAPE_STR(updates), TD_SHAPE_STR(into));
    return check_counts(node, depth, into, indices, updates, err);
}

/* Strings "add" by joining. */
static enum td_code join_strings(struct td_tensor *dst, int64_t to, const struct td_tensor *src, int64_t from,
                                 int64_t n, struct td_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        size_t la, lb;
        const char *a = td_tensor_str(dst, to + i, &la), *b = td_tensor_str(src, from + i, &lb);
        TD_FAIL_IF(la > TD_STR_MAX - lb, err, RESOURCE_EXHAUSTED,
                   "joining strings of %zu and %zu bytes: a string may have at most %zu", la, lb, TD_STR_MAX);
        struct td_str *s = td_str_new(NULL, la + lb);
        if (s == NULL) {
            return td_no_memory(err, la + lb, "a joined string");
        }
        memcpy(s->bytes, a, la);
        memcpy(s->bytes + la, b, lb);
        s->bytes[la + lb] = '\0';
        td_tensor_set_obj(dst, to + i, &s->obj);
    }
    return TD_OK;
}

enum td_code td_nd_scatter(const struct td_node *node, enum td_combine_op op, struct td_tensor *dst,
                           const struct td_tensor *indices, const struct td_tensor *updates,
                           struct td_err *err)
{
    bool ignore;
    TD_TRY(td_nd_index_policy(node, &ignore, err));
    const struct td_shape *is = &indices->shape;
    const bool tuples = is->rank > 1;
    const int64_t depth = tuples ? is->dim[is->rank - 1] : 1;
    const int64_t rows = td_shape_range(is, 0, tuples ? is->rank - 1 : 1);
    const int64_t inner = td_shape_range(&dst->shape, (int)depth, dst->shape.rank);
    const int64_t size = inner * (int64_t)td_dtype_size(dst->dtype);
    int64_t flat = 0;
    for (int64_t r = 0; r < rows && !ignore; r++) {
        if (!td_nd_index_flat(indices, r, depth, &dst->shape, &flat)) {
            return td_nd_index_fail(node, indices, r, depth, "shape", &dst->shape, err);
        }
    }
    if (td_tensor_count(updates) == 0 || td_tensor_count(dst) == 0) {
        return TD_OK;
    }
    for (int64_t r = 0; r < rows && !td_work_spent(inner + 8); r++) {
        if (!td_nd_index_flat(indices, r, depth, &dst->shape, &flat)) {
            continue;
        }
        if (dst->dtype == TD_STRING && op == TD_COMBINE_ADD) {
            TD_TRY(join_strings(dst, flat * inner, updates, r * inner, inner, err));
        } else {
            td_combine_run(op, dst->dtype, (char *)dst->data + flat * size,
                           (const char *)updates->data + r * size, inner, 1);
        }
    }
    return TD_OK;
}
