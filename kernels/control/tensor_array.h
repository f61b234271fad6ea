/* kernels/control/tensor_array.h - TensorArrays: an array of tensors that is changed in place and read once.
 *
 *   handle RESOURCE -> struct td_array, made anew by every run of TensorArrayV3
 *   flow float: carries only the order
 *
 * An element is written once; the array of gradients, which TensorArrayGrad finds or makes by its source
 * name, adds up what is written. With clear_after_read an element is gone once read. Elements never written
 * read as zeros where their shape is known. Threads: mu guards everything below it; the lock of an array may
 * be held while taking that of its gradient array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_TENSOR_ARRAY_H
#define TD_KERNELS_CONTROL_TENSOR_ARRAY_H

#include <pthread.h>

#include "core/graph/op.h"

struct td_array_element {
    struct td_tensor value;
    struct td_shape shape; /* of zeros to read while not written; unknown rank: take the array's */
    bool written, read, cleared;
};

struct td_array {
    struct td_obj obj;
    pthread_mutex_t mu;
    char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    bool dynamic, clear_after_read, identical, aggregate, closed;
    int64_t n, cap;
    struct td_array_element *items;
    struct td_array **grads; /* by their names, "<name>@<source>" */
    int n_grads;
};

extern const struct td_obj_type td_array_type;

/* Number of its gradient arrays, 0 of another object; those from `from` on are forgotten. */
int td_array_n_grads(struct td_obj *o);
void td_array_forget_grads(struct td_obj *o, int from);
/* Forgets all elements. */
void td_array_drop(struct td_array *a);
/* n elements, none written. Returns a new reference. */
TD_MUST enum td_code td_array_new(const char *name, enum td_dtype dtype, const struct td_shape *shape,
                                  int64_t n, struct td_array **out, struct td_err *err);
/* Input 0, locked: the caller unlocks a->mu. */
TD_MUST enum td_code td_array_in(const struct td_call *c, struct td_array **out, struct td_err *err);
/* Output i, a flow: 0. */
TD_MUST enum td_code td_array_out_flow(struct td_call *c, int i, struct td_err *err);
/* Output 0 becomes the handle, output 1 the flow. Takes the reference to a, also on failure. */
TD_MUST enum td_code td_array_out(struct td_call *c, struct td_array *takes, struct td_err *err);
/* INVALID_ARGUMENT when elements are of another dtype. */
TD_MUST enum td_code td_array_check_write(const struct td_array *a, enum td_dtype dtype, struct td_err *err);
TD_MUST enum td_code td_array_check_read(const struct td_array *a, enum td_dtype dtype, struct td_err *err);
/* Element i becomes *t (taken over), which is zeroed. */
TD_MUST enum td_code td_array_write(struct td_array *a, int64_t i, struct td_tensor *t, struct td_err *err);
/* *t = element i, the caller's; the array forgets it with clear_after_read. */
TD_MUST enum td_code td_array_read(struct td_array *a, int64_t i, struct td_tensor *t, struct td_err *err);

#endif
