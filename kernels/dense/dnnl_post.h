/* kernels/dense/dnnl_post.h - epilogues (core/graph/op.h, struct td_post) in oneDNN's terms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_POST_H
#define TD_KERNELS_CPU_DNNL_POST_H

#include <dnnl.h>

#include "core/graph/op.h"

enum { TD_DNNL_POSTS = 16 };

/* What a primitive does to its output, and the layouts of the operands it wants with each run. */
struct td_dnnl_posts {
    int n;             /* of the query's posts, from the first on */
    bool bias, scaled; /* post 0 is the primitive's bias, and a scale that goes into the weights */
    bool stepped;      /* sums are multiplied by a number a column first; post 0 is then a post-op too */
    dnnl_memory_desc_t steps;
    bool has_operand[TD_DNNL_POSTS];
    dnnl_memory_desc_t operand[TD_DNNL_POSTS];
};

/* Adds the first n posts to attr for an output laid out as y (channels: axis 1), behind the steps where
 * out->stepped is set. False when oneDNN lacks one. */
bool td_dnnl_posts_set(dnnl_primitive_attr_t attr, const struct td_post *post, int n,
                       const dnnl_memory_desc_t *y, struct td_dnnl_posts *out);
/* The execution argument of post i's operand. */
int td_dnnl_post_arg(const struct td_dnnl_posts *posts, int i);
int td_dnnl_steps_arg(void);

#endif
