/* core/graph/graph.h - nodes, edges and functions of a loaded model.
 *
 * A loader adds nodes with their input texts ("node", "node:1", "node:out_arg:1", "^node"), then
 * td_graph_resolve links them against the op table, fills in default attributes and checks arity and dtypes
 * along every edge. All of a graph lives in its arena. Graphs are immutable once resolved, except through the
 * compiler's own copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_GRAPH_H
#define TD_CORE_GRAPH_GRAPH_H

#include <string.h>

#include "core/base/arena.h"
#include "core/graph/attr.h"
#include "core/graph/op.h"

struct td_loop;
struct td_fused;

struct td_node {
    /* what passes look at most, together */
    const struct td_op *op; /* NULL: unknown here, or a function called by its name */
    struct td_value *in;
    struct td_node **control; /* run before this one */
    int n_in, n_control, n_out;
    int id;                  /* position in its graph */
    enum td_dtype *out_type; /* n_out of them */
    bool *out_ref;           /* the edge carries the variable itself (TF1 reference types) */
    bool *in_ref;            /* this input wants the variable itself */

    const char *name;
    const char *op_name;
    const struct td_op_def *def; /* NULL: neither an op of ours, nor a function, nor described by the file */
    const char *device;          /* as the file says; "" */
    struct td_attr *attrs;
    int n_attrs;
    enum td_dtype *in_type; /* what each input must be; NULL where no definition says */
    const char *function;   /* the function whose body the file has it in; "" for the main graph */
    const char **inputs;    /* texts, as loaded */
    int n_inputs;
    const char *path;     /* compiler's copies: which inlined call it came with; NULL otherwise */
    struct td_loop *loop; /* a lifted TF1 loop (core/compile/loop.h); NULL otherwise */
    /* the nodes that this one stands for (core/graph/fused.h); NULL otherwise */
    const struct td_fused *fused;
    const struct td_tensor *value; /* of ops with TD_OP_CONST: attribute "value"; not read for others */
};

/* The constant tensor of n, or NULL. */
static inline const struct td_tensor *td_node_const(const struct td_node *n)
{
    return n->op != NULL && (n->op->flags & TD_OP_CONST) ? n->value : NULL;
}
/* The definition of n's op in the table; NULL for functions, unknown ops and the engine's own. */
static inline const struct td_op_def *td_node_def(const struct td_node *n)
{
    return n->op != NULL && n->def != NULL && n->def->op == n->op ? n->def : NULL;
}
/* Flags of n's op; a call of what is not known may have effects. */
static inline uint32_t td_node_flags(const struct td_node *n)
{
    return n->op == NULL ? (uint32_t)TD_OP_STATEFUL : n->op->flags;
}
/* Whether n's attributes name functions that it runs: a call, a branch, a loop. */
static inline bool td_node_runs_functions(const struct td_node *n)
{
    return n->op != NULL && ((n->op->flags & TD_OP_CALL) != 0 || n->op->branch.taken != NULL ||
                             n->op->branch.loop_body != NULL);
}

/* For rules of ops, which know others by name. */
static inline bool td_is_op(const struct td_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

struct td_graph {
    struct td_arena *arena; /* borrowed */
    struct td_node **nodes;
    int n_nodes, cap_nodes;
    struct td_node **by_name; /* open-addressed; built by td_graph_resolve */
    int n_slots;
    const char *function; /* name of the function whose body this is; "" */
};

struct td_function {
    const char *name;
    struct td_graph body;
    struct td_node **args; /* n_args nodes in body, one a signature input element */
    int n_args;
    struct td_value *rets;  /* n_rets results, one a signature output element */
    const char **ret_texts; /* as loaded; resolved into rets */
    int n_rets;
    struct td_node **control_rets; /* must have run before the function returns */
    const char **control_texts;
    int n_control_rets;
    struct td_op_def def; /* its signature */
    /* it has attributes: only its instances run (core/graph/instantiate.h); no args, rets */
    bool is_template;
    bool resolved;
};

/* A function that is the gradient of the nodes whose attribute _gradient_op_type has this value
 * (tf.custom_gradient). It takes a gradient for each output of the node, then tensors captured[i]
 * ("node:port") of functions captured_in[i]; its result r is the gradient of the node's input input[r]. */
struct td_custom_gradient {
    const char *type, *function;
    const char **captured, **captured_in;
    int n_captured;
    int *input;
    int n_results;
};

struct td_library {
    struct td_arena *arena;
    struct td_function **functions; /* sorted by name once resolved */
    int n_functions, cap_functions;
    struct td_custom_gradient *gradients;
    int n_gradients, cap_gradients;
    const struct td_op_def *file_ops; /* ops that the file describes (stripped_op_list) */
    int n_file_ops;
};

void td_graph_init(struct td_graph *g, struct td_arena *arena, const char *function);
/* Adds a node; strings (device: "" for none) are the arena's already or static, as attrs and inputs will be.
 * Returns borrowed. RESOURCE_EXHAUSTED past the arena's limit. */
TD_MUST enum td_code td_graph_add(struct td_graph *g, const char *name, const char *op_name,
                                  const char *device, struct td_node **out, struct td_err *err);
/* Adds an empty function called name (the arena's) with an initialised body; the loader fills it in. */
TD_MUST enum td_code td_library_add(struct td_library *lib, const char *name, struct td_function **out,
                                    struct td_err *err);
/* Adds a gradient, all but empty; its strings are the arena's. */
TD_MUST enum td_code td_library_add_gradient(struct td_library *lib, const char *type, const char *function,
                                             struct td_err *err);
/* The nodes of f's arguments, one for each input of its definition, into its body, which is empty yet;
 * op_name: of the op that has TD_ROLE_ARG. Their type may be the placeholder of a type attribute. */
TD_MUST enum td_code td_function_add_args(struct td_arena *a, struct td_function *f, const char *op_name,
                                          struct td_err *err);
/* *out: a library in arena a with the functions of lib, which it borrows, that more may be inserted into. */
TD_MUST enum td_code td_library_extend(const struct td_library *lib, struct td_arena *a,
                                       struct td_library *out, struct td_err *err);
/* f, resolved, comes to stand among the sorted ones; its name must be new. */
TD_MUST enum td_code td_library_insert(struct td_library *lib, struct td_function *f, struct td_err *err);
struct td_function *td_library_find(const struct td_library *lib, const char *name);

/* Links everything: g and every function of lib. INVALID_ARGUMENT names node, input and rule (unknown input,
 * arity, dtype mismatch, duplicate name, missing attribute, wrong kind, recursion). */
TD_MUST enum td_code td_graph_resolve(struct td_graph *g, struct td_library *lib,
                                      const struct td_op_table *ops, struct td_err *err);
struct td_node *td_graph_find(const struct td_graph *g, const char *name, size_t len);
/* "node", "node:1" to a value. NOT_FOUND names it. */
TD_MUST enum td_code td_graph_value(const struct td_graph *g, const char *text, struct td_value *out,
                                    struct td_err *err);

/* ---- attributes of a resolved node. The loader has checked presence and kind against the signature, so
 * these return the value plainly; an attribute the signature does not have gives 0 / "" / empty. Borrowed
 * from the graph. */
int64_t td_attr_int(const struct td_node *n, const char *name);
double td_attr_float(const struct td_node *n, const char *name);
bool td_attr_bool(const struct td_node *n, const char *name);
enum td_dtype td_attr_type(const struct td_node *n, const char *name);
const char *td_attr_str(const struct td_node *n, const char *name); /* NUL-terminated */
struct td_bytes td_attr_bytes(const struct td_node *n, const char *name);
const struct td_shape *td_attr_shape(const struct td_node *n, const char *name);
const struct td_tensor *td_attr_tensor(const struct td_node *n, const char *name);
const struct td_func_ref *td_attr_func(const struct td_node *n, const char *name, int i);
int td_attr_len(const struct td_node *n, const char *name);
const int64_t *td_attr_ints(const struct td_node *n, const char *name, int *count);
const float *td_attr_floats(const struct td_node *n, const char *name, int *count);
const bool *td_attr_bools(const struct td_node *n, const char *name, int *count);
const enum td_dtype *td_attr_types(const struct td_node *n, const char *name, int *count);
const struct td_bytes *td_attr_strs(const struct td_node *n, const char *name, int *count);
const struct td_shape *td_attr_shapes(const struct td_node *n, const char *name, int *count);

/* "node 'head/probs' (Softmax)" for error texts; a temporary. */
struct td_node_str {
    char s[256];
};
struct td_node_str td_node_str(const struct td_node *n);
#define TD_NODE_STR(n) (td_node_str(n).s)

#endif
