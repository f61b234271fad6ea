/* core/graph/emit.h - the node builder: adds nodes to a graph by formulas, values in and values out.
 *
 *   struct td_emitter e = td_ir_emitter(..);          or td_graph_emitter: where the nodes go
 *   e.at = n;                                         what follows takes n's name, path, function and device
 *   struct td_value two = td_emit_number(&e, td_dtype_of(x), 2);
 *   struct td_value y = td_emit(&e, "Mul", TD_IN(x, two), TD_NO_ATTRS);
 *   ..
 *   return td_emit_close(&e);
 *
 * Whatever adds nodes does it so: the compiler's passes, the rules in ops' rows (td_simplify_fn,
 * td_permute_rule), gradients. Type, number and list attributes that follow from the inputs are filled in
 * from them; those that are left out take their defaults; the dtypes of the outputs follow. Equal small
 * constants are made once.
 *
 * Errors stick: the first one stands in e->rc and *e->err, and every call after it does nothing and gives
 * td_no_value, which all calls take. So rules read as formulas, and whoever opened the emitter asks once,
 * when closing it.
 *
 * Ownership: nodes, attributes and edges lie in the graph's arena. Attributes are copied, tensors referenced:
 * their bytes must not change. Nodes that are added are not yet in order: a pass's caller sorts (td_ir_sort).
 *
 * Invariant (emit_check): what td_emit gave has passed the checks that a loaded node has
 * (core/graph/define.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_EMIT_H
#define TD_CORE_GRAPH_EMIT_H

#include "core/graph/constants.h"

extern const struct td_op td_op_literal; /* a constant that the compiler made: attribute "value" */

struct td_emitter {
    const struct td_node *at; /* the node at hand; NULL: what is built has the empty name, and no device */
    enum td_code rc;
    struct td_err *err;
    const struct td_op_table *ops;
    /* the rest is that of whoever opens it */
    struct td_arena *arena;
    void *graph;
    enum td_code (*add)(void *graph, const struct td_node *at, const char *op_name, struct td_node **out,
                        struct td_err *err);
    const void *shapes;
    const struct td_shape *(*shape_of)(const void *shapes, struct td_value v);
    struct td_constants constants;
};

static const struct td_value td_no_value = {NULL, 0};

/* Nodes go into g, a loaded graph or the body of a function, under the names "<scope>/<op>_<number>", which
 * must not be taken; td_graph_find does not find them. scope, ops and err outlive the emitter. */
struct td_emitter td_graph_emitter(struct td_graph *g, const char *scope, const struct td_op_table *ops,
                                   struct td_err *err);
/* Makes constants anew: those it has may be gone from the graph, which was sorted. */
void td_emit_forget(struct td_emitter *e);
/* Frees what the emitter keeps for itself. Returns the first error. */
TD_MUST enum td_code td_emit_close(struct td_emitter *e);
/* Notes an error as td_fail does; for rules of one's own. */
struct td_value td_emit_fail(struct td_emitter *e, enum td_code code, const char *fmt, ...) TD_PRINTF(3, 4);

/* ------------------------------------------------------------------ nodes */

/* TD_IN(x, y): inputs and their number. TD_ATTRS(TD_ATTR_OF_INT("axis", 1), ..): a table of attributes and
 * its length. */
#define TD_IN(...)                                                                                           \
    (const struct td_value[]){__VA_ARGS__},                                                                  \
        (int)(sizeof((const struct td_value[]){__VA_ARGS__}) / sizeof(struct td_value))
#define TD_ATTRS(...)                                                                                        \
    (const struct td_attr[]){__VA_ARGS__},                                                                   \
        (int)(sizeof((const struct td_attr[]){__VA_ARGS__}) / sizeof(struct td_attr))
#define TD_NO_INPUTS NULL, 0
#define TD_NO_ATTRS NULL, 0
#define TD_ATTR_OF_INT(key, v)                                                                               \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_INT, .n = 1, .i = (int64_t[])                                         \
        {                                                                                                    \
            v                                                                                                \
        }                                                                                                    \
    }
#define TD_ATTR_OF_FLOAT(key, v)                                                                             \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_FLOAT, .n = 1, .f = (float[])                                         \
        {                                                                                                    \
            v                                                                                                \
        }                                                                                                    \
    }
#define TD_ATTR_OF_BOOL(key, v)                                                                              \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_BOOL, .n = 1, .b = (bool[])                                           \
        {                                                                                                    \
            v                                                                                                \
        }                                                                                                    \
    }
#define TD_ATTR_OF_TYPE(key, v)                                                                              \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_TYPE, .n = 1, .type = (enum td_dtype[])                               \
        {                                                                                                    \
            v                                                                                                \
        }                                                                                                    \
    }
#define TD_ATTR_OF_TEXT(key, v)                                                                              \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_STRING, .n = 1, .str = (struct td_bytes[])                            \
        {                                                                                                    \
            {                                                                                                \
                (v), strlen(v)                                                                               \
            }                                                                                                \
        }                                                                                                    \
    }
#define TD_ATTR_OF_INTS(key, v, count)                                                                       \
    {                                                                                                        \
        .name = (key), .kind = TD_ATTR_INT, .is_list = true, .n = (count), .i = (v)                          \
    }

/* A node of the op: its output 0; the others are those of the same node. INTERNAL names what does not fit: no
 * such op, inputs of other dtypes, a missing attribute. `name` is that of an op in the table; _def: core,
 * which names none, has its role. */
struct td_value td_emit(struct td_emitter *e, const char *name, const struct td_value *in, int n_in,
                        const struct td_attr *attrs, int n_attrs);
struct td_value td_emit_def(struct td_emitter *e, const struct td_op_def *def, const struct td_value *in,
                            int n_in, const struct td_attr *attrs, int n_attrs);
/* The node itself becomes one of the op. It keeps its name, its place, and its outputs, which must have the
 * dtypes they had (INTERNAL); more may follow behind them. */
void td_emit_again(struct td_emitter *e, struct td_node *n, const struct td_op_def *def,
                   const struct td_value *in, int n_in, const struct td_attr *attrs, int n_attrs);
/* A node of an op whose signature does not tell its ports (the engine's own): room for so many, all zeroed,
 * for the caller to fill in. NULL after an error. */
struct td_node *td_emit_bare(struct td_emitter *e, const struct td_op *op, const char *op_name, int n_in,
                             int n_out);
/* n's attribute of that name takes the value, in a list of n's own: those of a loaded graph are shared. */
void td_emit_attr(struct td_emitter *e, struct td_node *n, const struct td_attr *value);

/* ------------------------------------------------------------------ constants */

/* t as a node of its own; or as one with all equal ones that this emitter made for the device at hand. */
struct td_value td_emit_literal(struct td_emitter *e, const struct td_tensor *t);
struct td_value td_emit_const(struct td_emitter *e, const struct td_tensor *t);
/* Vectors and scalars of int32, int64 or another integer dtype. */
struct td_value td_emit_ints(struct td_emitter *e, enum td_dtype dtype, const int64_t *v, int count);
struct td_value td_emit_int(struct td_emitter *e, enum td_dtype dtype, int64_t v);
/* A scalar of a real dtype: v rounded to it. */
struct td_value td_emit_number(struct td_emitter *e, enum td_dtype dtype, double v);

/* ------------------------------------------------------------------ what is known of values */

static inline enum td_dtype td_dtype_of(struct td_value v)
{
    return v.node == NULL ? TD_DTYPE_NONE : v.node->out_type[v.port];
}
/* The value, when it is constant; NULL. */
static inline const struct td_tensor *td_known_value(struct td_value v)
{
    const struct td_op *op = v.node == NULL ? NULL : v.node->op;
    return op != NULL && (op->flags & TD_OP_CONST) ? v.node->value : NULL;
}
/* What can be told of the shape before any input is seen; unknown for nodes added since. */
const struct td_shape *td_emit_shape(const struct td_emitter *e, struct td_value v);
/* The node that makes v, when v is its only output, no reference, and it waits for nothing; NULL. */
const struct td_node *td_only_maker(struct td_value v);

#endif
