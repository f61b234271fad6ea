/* core/run/precision.h - in which precision a model's products with its weights are to be computed.
 *
 * Floats, unless the model asks for less: then core/compile/pass_precision.c marks the products whose second
 * operand is a weight, and kernels that can (kernels/dense/low.h) round what they multiply. Weights go by the
 * name of their variable, or of their constant behind that of its function: "dense/kernel",
 * "__inference_f_12/dense/MatMul/b".
 *
 * Immutable once made, and counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_PRECISION_H
#define TD_CORE_RUN_PRECISION_H

#include "core/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

enum td_precision_kind {
    TD_PRECISION_BFLOAT16, /* of all products with weights */
    TD_PRECISION_INT8,     /* of those with the weights that are listed */
    TD_PRECISION_LOOK,     /* floats: products are marked with their weights' names, to be observed */
};

/* What the other operand of products with these weights was seen to be: min <= x <= max. */
struct td_precision_range {
    char *weights;
    float min, max;
};

struct td_precision {
    atomic_int refs;
    enum td_precision_kind kind;
    struct td_precision_range *range; /* by name, ascending; each once */
    int n;
};

/* Returns new. Ranges are copied, in any order; names are distinct. */
TD_MUST enum td_code td_precision_new(enum td_precision_kind kind, const struct td_precision_range *range,
                                      int n, struct td_precision **out, struct td_err *err);
struct td_precision *td_precision_ref(const struct td_precision *p); /* accepts NULL, as does unref */
void td_precision_unref(struct td_precision *p);
/* The range of the weights called so, or NULL. */
const struct td_precision_range *td_precision_find(const struct td_precision *p, const char *weights);

#endif
