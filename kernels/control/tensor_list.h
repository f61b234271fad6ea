/* kernels/control/tensor_list.h - the list of tensors inside a variant, and how deep such containers may
 * nest.
 *
 * A list has value semantics: ops answer a new list. They change it in place when the caller holds the only
 * reference to the variant and the variant the only one to the list, so that a loop that fills a list is
 * linear in its length. Lists and optionals may hold variants in turn; TD_NEST_LIMIT bounds that, because
 * releasing them recurses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_TENSOR_LIST_H
#define TD_KERNELS_CONTROL_TENSOR_LIST_H

#include "core/graph/op.h"

#define TD_NEST_LIMIT 64
#define TD_LIST_LIMIT ((int64_t)1 << 24) /* elements */

/* First member of every container that variants hold. */
struct td_nest {
    struct td_obj obj;
    int depth; /* 1 + the depth of the deepest container inside */
};

struct td_tensor_list {
    struct td_nest nest;
    enum td_dtype dtype;   /* of the elements */
    struct td_shape shape; /* of each element; may be partly unknown */
    int64_t max_n;         /* elements allowed; -1: no limit */
    int64_t n, cap;
    struct td_tensor *items; /* dtype TD_DTYPE_NONE where never set */
};

/* Depth of a container that is to hold t: 1 when t holds none itself. RESOURCE_EXHAUSTED past TD_NEST_LIMIT.
 */
TD_MUST enum td_code td_tensor_list_nest(const struct td_tensor *t, int *depth, struct td_err *err);
/* A container as the op's output 0; takes the reference, on failure too. */
TD_MUST enum td_code td_tensor_list_out_nest(struct td_call *c, struct td_nest *takes, struct td_err *err);

/* Returns new, with n unset elements. RESOURCE_EXHAUSTED past TD_LIST_LIMIT. */
TD_MUST enum td_code td_tensor_list_new(enum td_dtype dtype, const struct td_shape *shape, int64_t n,
                                        struct td_tensor_list **out, struct td_err *err);
/* A list of the same elements (shared). Returns new. */
TD_MUST enum td_code td_tensor_list_copy(const struct td_tensor_list *l, struct td_tensor_list **out,
                                         struct td_err *err);
/* Makes the list n elements long; added ones are unset. */
TD_MUST enum td_code td_tensor_list_resize(struct td_tensor_list *l, int64_t n, struct td_err *err);
/* Element i becomes *t (its reference), which is zeroed. */
TD_MUST enum td_code td_tensor_list_set(struct td_tensor_list *l, int64_t i, struct td_tensor *t,
                                        struct td_err *err);
/* The list in element i of a variant tensor; NULL when it holds something else. Borrowed. */
struct td_tensor_list *td_tensor_list_at(const struct td_tensor *t, int64_t i);

#endif
