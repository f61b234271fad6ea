/* kernels/linalg/labels.h - what products call the axes of their operands and of their result, and how that
 * goes through Transposes: for rules that look at several nodes as one.
 *
 * A letter of an Einsum is a label. MatMul and BatchMatMul call an axis of the result by its distance from
 * the end, 0 the last, and what they sum along TD_LABEL_SUMMED; so the rank of what a BatchMatMul
 * multiplies need not be known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_LABELS_H
#define TD_KERNELS_LINALG_LABELS_H

#include <string.h>

#include "core/compile/permute.h"
#include "core/graph/graph.h"

enum { TD_NO_LABEL = -1, TD_LABEL_SUMMED = 100 };

/* The labels of a value's axes, from the last on. */
struct td_labels {
    int n, at[TD_MAX_RANK];
    bool open; /* more may follow, axis i then called i; else there are n */
};

struct td_product {
    const struct td_node *n;
    struct td_labels in[2], out;
    int summed;
    bool same; /* batch axes must be equal: nothing broadcasts */
};

/* Of axis i; TD_NO_LABEL: there is none. */
int td_label_at(const struct td_labels *l, int i);
bool td_labels_have(const struct td_labels *l, int label);
bool td_labels_equal(const struct td_labels *a, const struct td_labels *b);
/* Names the first n axes. False: there are fewer. */
bool td_labels_spell_out(struct td_labels *l, int n);
/* Of Transpose(x, p), from x's. False: x has another rank. */
bool td_labels_permute(struct td_labels *l, const struct td_perm *p);

/* n as a product of two values of its own type that sums along one axis. False: it is none. */
bool td_product_of(const struct td_node *n, struct td_product *p);
/* Whether the shape of the product, its axes in the order of `of`, can be told by those of its operands. */
bool td_product_tells_shape(const struct td_product *p, const struct td_labels *of);
/* Then the node, a Shape of it, becomes one that asks them. */
void td_product_tell_shape(struct td_emitter *e, const struct td_product *p, const struct td_labels *of,
                           struct td_node *shape);

#endif
