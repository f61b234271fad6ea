/* core/grad/sources.h - what a program differentiates by: arguments, and variables by all the handles that
 * lead to them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_SOURCES_H
#define TD_CORE_GRAD_SOURCES_H

#include "core/grad/backward.h"
#include "core/grad/program.h"

struct td_grad_sources {
    const struct td_grad_source *source;
    int n_sources;
    struct td_value *at; /* the values that are sources, in the IR; n of them */
    int *part;           /* by value: number of the source's variable */
    int *first; /* by source, and one more: its values begin at this one, and end before the next's */
    int n;
};

/* The values of ir that the sources are. Arrays are ir's arena's. */
TD_MUST enum td_code td_grad_find_sources(const struct td_grad_context *ctx, const struct td_ir *ir,
                                          const struct td_grad_source *source, int n_sources,
                                          struct td_grad_sources *out, struct td_err *err);
/* td_grad_backward by the sources: result[i] is the dense gradient by source i, the sum over its values, the
 * parts of a partitioned variable one behind the other; no node: nothing leads there. ir is in order, and is
 * not afterwards. */
TD_MUST enum td_code td_grad_by_sources(struct td_grad_context *ctx, struct td_ir *ir,
                                        const struct td_grad_sources *s, const struct td_grad_query *targets,
                                        struct td_value *result, struct td_err *err);

#endif
