/* kernels/nn/layer_norm.h - rows that are normalised as one node (op _LayerNorm): what layer_norm_match.c
 * finds in a graph, and kernels compute.
 *
 *   x [.., C], scale [C], offset [C]  ->  y [.., C]
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + offset            mean and variance of each row
 *   y = x / sqrt(mean of squares + epsilon) * scale + offset              where it is not centred
 *
 * x and y are of float, half or bfloat16, one each; scale and offset of one, too. All is computed in float.
 *
 * That a row lies along the last axis, and is as long as scale and offset, shapes tell that are not known
 * when the node is made. Where they tell something else, the node still is what its nodes were: a row may lie
 * along any axis, and scale and offset, of which the compiler only takes vectors along their last one,
 * broadcast with x, as if they had `rank` axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_LAYER_NORM_H
#define TD_KERNELS_NN_LAYER_NORM_H

#include "core/graph/graph.h"

/* What the node's attributes say. */
struct td_layer_norm {
    float epsilon;
    bool centred;
    int64_t axis;      /* below 0: from the last */
    int64_t rank;      /* the result has at least */
    int scale, offset; /* inputs; 0: there is none */
};

/* x is [outer, n, inner] in its order: a row has n numbers, `inner` apart. Its last axis has `last`, that of
 * the result `width`: as many, or, where last is 1, as the vectors have. */
struct td_layer_norm_sizes {
    int64_t n, inner, rows, last, width;
};

/* False: it is none that the compiler made. */
static inline bool td_layer_norm_read(const struct td_node *n, struct td_layer_norm *f)
{
    const bool made = td_attr_len(n, "_epsilon") == 1 && n->n_in > 0;
    if (made) {
        const bool scale = td_attr_bool(n, "_scale"), offset = td_attr_bool(n, "_offset");
        *f = (struct td_layer_norm){.epsilon = (float)td_attr_float(n, "_epsilon"),
                                    .centred = td_attr_bool(n, "_centred"),
                                    .axis = td_attr_int(n, "_axis"),
                                    .rank = td_attr_int(n, "_rank"),
                                    .scale = scale,
                                    .offset = offset ? 1 + scale : 0};
    }
    return made && n->n_in == 1 + (f->scale > 0) + (f->offset > 0);
}

/* Why no kernel has the node; NULL: they do. */
static inline const char *td_layer_norm_refuses(const struct td_node *n)
{
    struct td_layer_norm f;
    bool fits = td_layer_norm_read(n, &f);
    for (int i = 1; fits && i < n->n_in; i++) {
        const enum td_dtype t = n->in[i].node->out_type[n->in[i].port];
        fits = (t == TD_FLOAT || t == TD_HALF || t == TD_BFLOAT16) &&
               t == n->in[1].node->out_type[n->in[1].port];
    }
    return fits ? NULL : "only the compiler makes nodes of this op";
}

/* Of x, and vectors of so many numbers (0: there are none); false: x has no such axis, or it and the vectors
 * do not broadcast. */
static inline bool td_layer_norm_sizes_of(const struct td_layer_norm *f, const struct td_shape *x,
                                          int64_t vector, struct td_layer_norm_sizes *s)
{
    int axis;
    if (!td_shape_axis(x->rank, f->axis, &axis)) {
        return false;
    }
    const int64_t last = x->dim[x->rank - 1];
    *s = (struct td_layer_norm_sizes){.n = x->dim[axis], .inner = 1, .rows = 1, .last = last};
    s->width = vector > 0 ? vector : last;
    for (int i = 0; i < x->rank; i++) {
        s->inner *= i > axis ? x->dim[i] : 1;
        s->rows *= i == axis ? 1 : x->dim[i];
    }
    return vector == 0 || vector == last || (last == 1 && vector > 0);
}

/* How many numbers the vectors among a call's inputs have, 0: there are none, -1: they differ. */
static inline int64_t td_layer_norm_vector(const struct td_tensor *const *in, int n_in)
{
    const int64_t first = n_in > 1 ? td_tensor_count(in[1]) : 0;
    return n_in > 2 && td_tensor_count(in[2]) != first ? -1 : first;
}

/* Whether rows are of neighbours, and vectors as long. */
static inline bool td_layer_norm_is_plain(const struct td_layer_norm_sizes *s)
{
    return s->inner == 1 && s->n == s->last && s->last == s->width;
}

#endif
