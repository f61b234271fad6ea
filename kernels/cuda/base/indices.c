/* kernels/cuda/base/indices.c - what a node says of its indices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/indices.h"

#include <assert.h>
#include <string.h>

#include "core/graph/graph.h"

struct td_cuda_indices td_cuda_indices_of(const struct td_tensor *t)
{
    return (struct td_cuda_indices){.at = t->data,
                                    .type = t->dtype == TD_INT32   ? TD_CUDA_INDEX_32
                                            : t->dtype == TD_INT64 ? TD_CUDA_INDEX_64
                                            : t->dtype == TD_INT16 ? TD_CUDA_INDEX_16
                                            : t->dtype == TD_INT8  ? TD_CUDA_INDEX_8
                                                                   : TD_CUDA_INDEX_U8};
}

void td_cuda_tuples_of(const struct td_shape *s, int64_t depth, struct td_cuda_tuples *out)
{
    static_assert((int)TD_CUDA_DEPTH == (int)TD_MAX_RANK, "a tuple names an element");
    *out = (struct td_cuda_tuples){.depth = (int)depth};
    memcpy(out->dim, s->dim, (size_t)depth * sizeof *out->dim);
}

bool td_cuda_ignores_bad(const struct td_node *n)
{
    return strcmp(td_attr_str(n, "bad_indices_policy"), "IGNORE") == 0;
}

const char *td_cuda_refuses_policy(const struct td_node *n)
{
    const char *policy = td_attr_str(n, "bad_indices_policy");
    const bool known = policy[0] == '\0' || strcmp(policy, "DEFAULT") == 0 || strcmp(policy, "ERROR") == 0;
    return known || td_cuda_ignores_bad(n) ? NULL : "a bad_indices_policy that is not known";
}
