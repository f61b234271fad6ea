/* server/request/infer_top.c - the classification extension: the largest values of an output as texts.
 *
 * Values are compared as long double, which holds every element type exactly. NaN is smaller than any number;
 * of equal values the lower index comes first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "proto/request/infer_pb.h"
#include "server/request/infer_request.h"

struct ranked {
    long double v;
    int64_t i;
};

static long double value_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (long double)TD_DATA(t, const float)[i];
    case TD_DOUBLE:
        return (long double)TD_DATA(t, const double)[i];
    case TD_HALF:
        return (long double)td_half_to_float(TD_DATA(t, const td_half)[i]);
    case TD_BFLOAT16:
        return (long double)td_bf16_to_float(TD_DATA(t, const td_bf16)[i]);
    case TD_UINT64:
        return (long double)TD_DATA(t, const uint64_t)[i];
    default:
        return (long double)td_tensor_int(t, i);
    }
}

static int larger_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    const bool x_nan = isnan(x->v), y_nan = isnan(y->v);
    if (x_nan != y_nan) {
        return x_nan ? 1 : -1;
    }
    if (!x_nan && x->v != y->v) {
        return x->v > y->v ? -1 : 1;
    }
    return x->i < y->i ? -1 : 1;
}

/* The largest double has 309 digits before the point. */
static enum td_code put_class(const struct td_tensor *t, const struct ranked *r, const char *label,
                              struct td_tensor *out, int64_t at, struct td_err *err)
{
    char text[400 + TD_LABEL_BYTES];
    const bool real = td_dtype_in(t->dtype, TD_SET_FLOATS);
    const char *colon = label != NULL ? ":" : "";
    label = label != NULL ? label : "";
    const int n =
        real ? snprintf(text, sizeof text, "%f:%lld%s%s", (double)r->v, (long long)r->i, colon, label)
             : snprintf(text, sizeof text, "%.0Lf:%lld%s%s", r->v, (long long)r->i, colon, label);
    return td_tensor_set_str(out, at, text, (size_t)n, err);
}

static const char *label_of(const struct td_label_list *labels, int64_t i)
{
    return labels != NULL && i < labels->n ? labels->text[i] : NULL;
}

static enum td_code fill(const struct td_tensor *t, struct ranked *r, int64_t n, int64_t k,
                         const struct td_label_list *labels, struct td_tensor *out, struct td_err *err)
{
    const int64_t rows = k > 0 ? td_tensor_count(out) / k : 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < n; i++) {
            r[i] = (struct ranked){value_at(t, row * n + i), i};
        }
        qsort(r, (size_t)n, sizeof *r, larger_first);
        for (int64_t i = 0; i < k; i++) {
            TD_TRY(put_class(t, &r[i], label_of(labels, r[i].i), out, row * k + i, err));
        }
    }
    return TD_OK;
}

enum td_code td_infer_top(const struct td_tensor *t, bool rows, int64_t k, const struct td_label_list *labels,
                          struct td_tensor *out, struct td_err *err)
{
    const char *type = td_v2_name(t->dtype);
    TD_FAIL_IF(!td_dtype_in(t->dtype, TD_SET_REALS), err, INVALID_ARGUMENT,
               "class result not available for output due to unsupported type '%s'",
               type != NULL ? type : td_dtype_name(t->dtype));
    rows = rows && t->shape.rank >= 2;
    const int64_t n = td_shape_range(&t->shape, rows ? 1 : 0, t->shape.rank);
    k = k < n ? k : n;
    const struct td_shape shape = rows ? td_shape_matrix(t->shape.dim[0], k) : td_shape_vector(k);
    struct td_tensor made;
    struct ranked *r = td_calloc((size_t)n + 1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *r, "classes");
    }
    enum td_code rc = td_tensor_new(&made, TD_STRING, &shape, err);
    if (rc == TD_OK) {
        rc = fill(t, r, n, k, labels, &made, err);
        if (rc) {
            td_tensor_clear(&made);
        } else {
            *out = made;
        }
    }
    td_free(r);
    return rc;
}
