/* kernels/nn/layer_norm.h - rows that are normalised as one node (op _LayerNorm): what layer_norm_match.c
 * finds in a graph, and kernels compute.
 *
 *   x [.., C], scale [C], offset [C]  ->  y [.., C]
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + offset            mean and variance of each row
 *   y = x / sqrt(mean of squares + epsilon) * scale + offset              where it is not centred
 *
 * x and y are of float, half or bfloat16, one each; scale and offset of one, too. All is computed in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_LAYER_NORM_H
#define TD_KERNELS_NN_LAYER_NORM_H

#include "core/graph/graph.h"

/* What the node's attributes say. */
struct td_layer_norm {
    float epsilon;
    bool centred;
    int scale, offset; /* inputs; 0: there is none */
};

/* False: it is none that the compiler made. */
static inline bool td_layer_norm_read(const struct td_node *n, struct td_layer_norm *f)
{
    const bool made = td_attr_len(n, "_epsilon") == 1 && n->n_in > 0;
    if (made) {
        const bool scale = td_attr_bool(n, "_scale"), offset = td_attr_bool(n, "_offset");
        *f = (struct td_layer_norm){.epsilon = (float)td_attr_float(n, "_epsilon"),
                                    .centred = td_attr_bool(n, "_centred"),
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

#endif
