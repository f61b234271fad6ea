/* kernels/nn/pool_spec.h - pools: their windows and shapes, the cells of a window, and tensors as pooling
 * wants them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_POOL_SPEC_H
#define TD_KERNELS_NN_POOL_SPEC_H

#include "core/graph/op.h"
#include "kernels/cpu/window.h"

/* Parts of the ops' signatures. */
#define TD_POOL_WINDOW "ksize:list(int); strides:list(int); padding:string in ['SAME','VALID']; "
#define TD_POOL_2D "data_format:string='NHWC' in ['NHWC','NCHW']; "
#define TD_POOL_3D "data_format:string='NDHWC' in ['NDHWC','NCDHW']; "

struct td_pool {
    struct td_data_layout layout;
    int64_t batch, channels, depth; /* depth: channels a group, 1 unless pooling along the channels */
    struct td_window axis[3];       /* leading ones of size 1 for 2-D */
    double lowest, lowest_at_edge; /* what the greatest of floats is sought from; argmax seeks from nothing */
    /* A window that is larger than the input and begins before it reaches to its end: so do the gradients of
     * averages in TensorFlow. */
    bool stretched;
};

/* A place among the input cells of one window: in_cell numbers them over all images, count is how many there
 * are. */
struct td_pool_walk {
    int64_t image, from[3], to[3], at[3], in_cell, count;
    bool cut; /* the window reaches over the edge */
};

/* Windows from the attributes, over an input of shape x, which may be partly unknown. */
TD_MUST enum td_code td_pool_attrs(const struct td_node *n, const struct td_shape *x, struct td_pool *p,
                                   struct td_err *err);
/* Windows from int32 vectors (the V2 ops). */
TD_MUST enum td_code td_pool_values(const struct td_node *n, const struct td_shape *x,
                                    const struct td_tensor *k, const struct td_tensor *s, struct td_pool *p,
                                    struct td_err *err);
/* Shape functions. */
TD_MUST enum td_code td_pool_infer(struct td_infer *c, struct td_err *err);
TD_MUST enum td_code td_pool_v2_infer(struct td_infer *c, struct td_err *err);
/* (orig_input, orig_output, grad[, ksize, strides]) of MaxPoolGrad; GradGrad takes the gradient at the input
 * instead. */
TD_MUST enum td_code td_pool_max_grad_infer(struct td_infer *c, struct td_err *err);
/* (input, grad, argmax). */
TD_MUST enum td_code td_pool_argmax_grad_infer(struct td_infer *c, struct td_err *err);
/* (orig_input_shape, grad). */
TD_MUST enum td_code td_pool_avg_grad_infer(struct td_infer *c, struct td_err *err);
/* Of one image. */
int64_t td_pool_in_cells(const struct td_pool *p);
int64_t td_pool_out_cells(const struct td_pool *p);
/* Stands on the first cell of output cell `cell`'s window; false when the window is empty. */
bool td_pool_cell_start(struct td_pool_walk *w, const struct td_pool *p, int64_t cell);
bool td_pool_cell_next(struct td_pool_walk *w, const struct td_pool *p);
/* How many output cells from `cell` on, up to `to`, are of one row and have their windows wholly inside;
 * in_cell: the first input cell of the first of them. The next one's lies axis[2].stride cells further. */
int64_t td_pool_inside(const struct td_pool *p, int64_t cell, int64_t to, int64_t *in_cell);
/* Output cells [from, to) of x's into y, all of channels last; at: where each came from, if it is asked. */
struct td_pool_part {
    const void *x;
    void *y;
    int64_t *at;
    int64_t from, to;
};
typedef void td_pool_fn(const struct td_pool *p, const struct td_pool_part *part);
/* All output cells, on this thread and on those that idle. */
void td_pool_spread(const struct td_call *c, const struct td_pool *p, td_pool_fn *fn, const void *x, void *y,
                    int64_t *at);
/* The node's op pools over three axes. */
bool td_pool_is_3d(const struct td_node *n);
/* half and bfloat16 are pooled in float. */
enum td_dtype td_pool_arithmetic(enum td_dtype t);
/* t in its arithmetic type and channels last; `cells` a image. */
TD_MUST enum td_code td_pool_bring(struct td_call *c, const struct td_pool *p, const struct td_tensor *t,
                                   int64_t cells, const void **out, struct td_err *err);
/* Where to compute output t, channels last: its own bytes where that does. */
TD_MUST enum td_code td_pool_room(struct td_call *c, const struct td_pool *p, const struct td_tensor *t,
                                  void **out, struct td_err *err);
/* From that room into t. */
TD_MUST enum td_code td_pool_deliver(struct td_call *c, const struct td_pool *p, struct td_tensor *t,
                                     int64_t cells, void *from, struct td_err *err);
/* The image is the only input. */
extern const struct td_op_channels td_pool_channels;

#endif
