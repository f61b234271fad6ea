/* kernels/array/slice_spec.h - the arithmetic of StridedSlice: x[a:b:c, ..., newaxis, i].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_SLICE_SPEC_H
#define TD_KERNELS_ARRAY_SLICE_SPEC_H

#include "core/base/tensor.h"

struct td_node;

/* What the sparse specification comes to for one input shape: per input axis where to start, how to step,
 * how many. */
struct td_slice_spec {
    int rank;                                                           /* of the input */
    int64_t begin[TD_MAX_RANK], stride[TD_MAX_RANK], size[TD_MAX_RANK]; /* size -1: not known yet */
    struct td_shape shape;   /* of the result: without shrunk axes, with new ones */
    int source[TD_MAX_RANK]; /* of each result axis: an input axis, or -1 for a new one */
    int index
        [TD_MAX_RANK]; /* of each input axis that is shrunk: which entry of `begin` is its index; else -1 */
};

/* Begin, end and strides are vectors of n entries, NULL while not known. */
struct td_slice_bounds {
    int64_t n;
    const struct td_tensor *begin, *end, *strides;
};
/* The masks are node attributes. Dims of `in` may be unknown, its rank not. INVALID_ARGUMENT in TensorFlow's
 * words. */
TD_MUST enum td_code td_slice_spec_make(const struct td_node *node, const struct td_shape *in,
                                        const struct td_slice_bounds *b, struct td_slice_spec *out,
                                        struct td_err *err);
/* Inputs first..first+2 of a call or shape function are begin, end, strides: checks that they are vectors
 * of one length below 32. *n is -1 while no length is known. */
TD_MUST enum td_code td_slice_spec_lengths(const struct td_node *node,
                                           const struct td_shape *const vectors[3], int64_t *n,
                                           struct td_err *err);
/* A value of shape `value` may be assigned to the slice: it broadcasts to s->shape. INVALID_ARGUMENT
 * otherwise. */
TD_MUST enum td_code td_slice_spec_assignable(const struct td_node *node, const struct td_slice_spec *s,
                                              const struct td_shape *value, struct td_err *err);
/* Where the selected elements of a row-major tensor of shape `in` lie, in elements: how far apart along each
 * of its axes, and the first. Needs a fully known spec. */
void td_slice_spec_place(const struct td_slice_spec *s, const struct td_shape *in, int64_t *step,
                         int64_t *first);

#endif
