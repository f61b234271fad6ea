/* core/compile/build_impl.h - what core/compile/build.c and core/compile/pass_inline.c share: a graph or
 * function body being copied into an IR.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_BUILD_IMPL_H
#define TD_CORE_COMPILE_BUILD_IMPL_H

#include "core/graph/constants.h"
#include "core/compile/ir.h"

enum { TD_MAX_CALL_DEPTH = 64 };

/* What a node of the source graph became. */
struct td_image {
    struct td_node *node;  /* its copy; NULL for an inlined call */
    struct td_value *outs; /* results of an inlined call */
    struct td_node *after; /* what a control edge from it means; NULL: nothing to wait for */
    bool done;             /* an argument: bound before the walk */
};

struct td_instance { /* one graph or body being copied */
    const struct td_graph *graph;
    const struct td_function *function;
    struct td_value *args;   /* of a body: what its arguments are */
    struct td_image *images; /* by node id */
    const char *path;        /* prefix of copied names: "call/" */
    const char *device;      /* of the call: for nodes that name none; "" */
    struct td_node *before;  /* join node that stateful nodes wait for; NULL */
    int depth;
};

struct td_builder {
    struct td_ir *ir;
    const struct td_library *lib;
    const struct td_callable_opts *opts;
    bool inline_calls, share_constants;
    struct td_constants constants;
    int *feed_at, *feed_next; /* by node id and by feed: 1 + the first / next feed of that node; 0 none */
    size_t work; /* nodes of all instances, needed or not: bounds the time that nested calls take */
    struct td_err *err;
};

enum td_code td_build_no_memory(struct td_err *err);
/* Copies what results and targets need; in->images then say what each node became (to be freed by the
 * caller). */
TD_MUST enum td_code td_build_instantiate(struct td_builder *b, struct td_instance *in,
                                          const struct td_value *results, int n_results,
                                          struct td_node *const *targets, int n_targets);
/* The IR value that v of this instance became. Sources are always copied before their consumers, but for the
 * back edges of loops: node NULL then. */
struct td_value td_build_mapped(const struct td_builder *b, const struct td_instance *in, struct td_value v);
/* "call/" and name; NULL without memory. */
const char *td_build_path(struct td_builder *b, const struct td_instance *in, const char *name);
TD_MUST enum td_code td_build_join(struct td_builder *b, const char *name, struct td_node **out);
/* Control inputs of n, mapped, plus the instance's join when n has effects. */
TD_MUST enum td_code td_build_controls(struct td_builder *b, const struct td_instance *in,
                                       const struct td_node *n, struct td_node *copy, bool effects);

/* core/compile/pass_inline.c: the function whose body is copied in place of n, or NULL; and the copying. */
const struct td_function *td_inline_callee(const struct td_builder *b, const struct td_node *n);
TD_MUST enum td_code td_inline_call(struct td_builder *b, struct td_instance *in, const struct td_node *n,
                                    const struct td_function *f);

#endif
