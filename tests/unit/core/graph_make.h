/* tests/unit/core/graph_make.h - small graphs for the tests of the compiler: a tiny op set, nodes and
 * functions by text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_CORE_GRAPH_MAKE_H
#define TD_TESTS_UNIT_CORE_GRAPH_MAKE_H

#include "core/graph/graph.h"
#include "core/compile/plan_make.h"
#include "core/function/callable.h"
#include "tests/test.h"

static inline enum td_code make_negate(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        TD_DATA(y, float)[i] = -TD_DATA(c->in[0], float)[i];
    }
    return TD_OK;
}

static inline enum td_code make_late_negate(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, &c->in[0]->shape, &y, err));
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        TD_DATA(y, float)[i] = -TD_DATA(c->in[0], float)[i];
    }
    return TD_OK;
}

static inline enum td_code make_add(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        TD_DATA(y, float)[i] = TD_DATA(c->in[0], float)[i] + TD_DATA(c->in[1], float)[i];
    }
    return TD_OK;
}

static inline enum td_code make_view(struct td_call *c, struct td_err *err)
{
    return td_out_view(c, 0, 0, NULL, err);
}

static inline enum td_code make_one(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_DATA(y, float)[0] = 1;
    return TD_OK;
}

/* How making 1 GiB ended. */
static enum td_code made_big;

static inline enum td_code make_big(struct td_call *c, struct td_err *err)
{
    const struct td_shape shape = td_shape_vector(1 << 28);
    struct td_tensor *y;
    made_big = td_out(c, 0, &shape, &y, err);
    return made_big;
}

static const struct td_op make_ops[] = {
    {.name = "Big", .sig = "() -> (y:float)", .kernels = TD_KERNEL("big", make_big)},
    {.name = "X", .sig = "() -> (y:float)", .flags = TD_OP_ARG},
    {.name = "_Arg", .sig = "() -> (y:float)", .flags = TD_OP_ARG, .role = TD_ROLE_ARG},
    {.name = "Const", .sig = "() -> (y:dtype) {value:tensor; dtype:type}", .flags = TD_OP_CONST},
    {.name = "One",
     .sig = "() -> (y:float)",
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("one", make_one)},
    {.name = "Neg",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_ELEMENTWISE,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("neg", make_negate)},
    {.name = "Add",
     .sig = "(x:float, y:float) -> (z:float)",
     .flags = TD_OP_ELEMENTWISE,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("add", make_add)},
    {.name = "Same",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_IDENTITY | TD_OP_VIEW,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("same", make_view)},
    {.name = "Pair", .sig = "(x:float, y:float) -> (v:float, w:float)", .flags = TD_OP_IDENTITY},
    {.name = "Effect",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("effect", make_negate)},
    {.name = "Draw",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_STATEFUL | TD_OP_DRAWS,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("draw", make_negate)},
    {.name = "View",
     .sig = "(x:float) -> (y:float)",
     .flags = TD_OP_VIEW,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("view", make_view)},
    {.name = "Text",
     .sig = "(x:string) -> (y:string)",
     .infer = td_infer_same,
     .kernels = TD_KERNEL("text", make_view)},
    {.name = "Word", .sig = "() -> (y:string)", .flags = TD_OP_ARG},
    {.name = "LateNeg",
     .sig = "(x:float) -> (y:float)",
     .kernels = TD_KERNEL("late", make_late_negate)}, /* no shape function */
    {.name = "Wide", .sig = "() -> (y:N*float) {N:int}", .kernels = TD_KERNEL("wide", make_one)},
    {.name = "True", .sig = "() -> (y:bool)", .flags = TD_OP_ARG},
    {.name = "Positive", .sig = "(x:float) -> (y:bool)"},
    {.name = "SameBool", .sig = "(x:bool) -> (y:bool)"},
    {.name = "LoopCond", .sig = "(x:bool) -> (y:bool)", .flags = TD_OP_LOOP_COND},
    {.name = "Enter", .sig = "(x:float) -> (y:float)", .flags = TD_OP_ENTER},
    {.name = "Merge", .sig = "(x:float, y:float) -> (z:float)", .flags = TD_OP_DEAD_OK},
    {.name = "Switch", .sig = "(x:float, p:bool) -> (f:float, t:float)", .flags = TD_OP_SWITCH},
    {.name = "Next", .sig = "(x:float) -> (y:float)", .flags = TD_OP_NEXT},
    {.name = "Exit", .sig = "(x:float) -> (y:float)", .flags = TD_OP_EXIT},
    {.name = NULL},
};

struct made {
    struct td_arena *arena;
    struct td_graph graph;
    struct td_library lib;
    struct td_op_table *ops;
    struct td_err err;
};

static inline void made_start(struct made *m)
{
    static const struct td_op *const families[] = {make_ops, NULL};
    *m = (struct made){.arena = td_arena_new((size_t)64 << 20)};
    m->lib.arena = m->arena;
    td_graph_init(&m->graph, m->arena, "");
    CHECK_INT(td_op_table_new(families, &m->ops, &m->err), TD_OK);
}

static inline void made_end(struct made *m)
{
    td_arena_free(m->arena);
    td_op_table_free(m->ops);
}

/* Adds a node; inputs are separated by blanks. */
static inline struct td_node *made_add(struct td_graph *g, const char *name, const char *op,
                                       const char *inputs)
{
    struct td_err err = {0};
    struct td_node *n;
    CHECK_OK(td_graph_add(g, td_arena_strdup(g->arena, name), td_arena_strdup(g->arena, op), "", &n, &err));
    n->inputs = td_arena_alloc(g->arena, strlen(inputs) + 1, sizeof *n->inputs);
    char *text = td_arena_strdup(g->arena, inputs), *rest = NULL;
    CHECK(n->inputs != NULL && text != NULL);
    for (char *one = strtok_r(text, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        n->inputs[n->n_inputs++] = one;
    }
    return n;
}

/* A function of n_args floats whose result, if any, is a `type` at `ret`. */
static inline struct td_function *made_function(struct made *m, const char *name, int n_args, const char *ret,
                                                enum td_dtype type)
{
    static const char *const names[] = {"a", "b"};
    struct td_function *f;
    struct td_err err = {0};
    CHECK_OK(td_library_add(&m->lib, td_arena_strdup(m->arena, name), &f, &err));
    f->def.in = td_arena_alloc(m->arena, 3, sizeof *f->def.in);
    f->def.out = td_arena_alloc(m->arena, 1, sizeof *f->def.out);
    f->args = td_arena_alloc(m->arena, 3, sizeof *f->args);
    f->ret_texts = td_arena_alloc(m->arena, 1, sizeof *f->ret_texts);
    CHECK(f->def.in && f->def.out && f->args && f->ret_texts);
    f->n_args = f->def.n_in = n_args;
    for (int i = 0; i < n_args; i++) {
        f->def.in[i] = (struct td_arg_def){.name = names[i], .type = TD_FLOAT};
        f->args[i] = made_add(&f->body, names[i], "_Arg", "");
    }
    f->n_rets = f->def.n_out = ret != NULL;
    f->ret_texts[0] = ret;
    f->def.out[0] = (struct td_arg_def){.name = "r", .type = type};
    return f;
}

static inline enum td_code made_resolve(struct made *m)
{
    return td_graph_resolve(&m->graph, &m->lib, m->ops, &m->err);
}

static inline struct td_value made_value(const struct made *m, const char *text)
{
    struct td_err err = {0};
    struct td_value v = {0};
    CHECK_OK(td_graph_value(&m->graph, text, &v, &err));
    return v;
}

/* The IR of one fetch with at most one feed ("" none), sorted; in the graph's own arena. */
static inline enum td_code made_ir(struct made *m, const char *feed, const char *fetch, struct td_ir *ir)
{
    struct td_value at = {0}, want = made_value(m, fetch);
    if (feed[0] != 0) {
        at = made_value(m, feed);
    }
    struct td_callable_opts opts = {
        .name = "f", .feeds = &at, .n_feeds = feed[0] != 0, .fetches = &want, .n_fetches = 1};
    TD_TRY(td_ir_build(ir, m->arena, &m->graph, &m->lib, &opts, TD_IR_INLINE, &m->err));
    TD_TRY(td_ir_check_types(ir, &m->err));
    return td_ir_sort(ir, &m->err);
}

/* The model of a resolved graph; takes the arena, so only the op table is left for made_end. */
static inline struct td_model *made_model(struct made *m)
{
    struct td_model *model = NULL;
    struct td_err err = {0};
    struct td_model_opts opts = {.ops = m->ops};
    CHECK_OK(td_model_new(&opts, m->arena, &m->graph, &m->lib, &model, &err));
    m->arena = NULL;
    return model;
}

static inline struct td_tensor made_tensor(int64_t n, float first)
{
    struct td_tensor t;
    struct td_err err = {0};
    struct td_shape shape = td_shape_vector(n);
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    for (int64_t i = 0; i < n; i++) {
        TD_DATA(&t, float)[i] = first + (float)i;
    }
    return t;
}

/* A Const of n floats: first, first + 1 ... */
static inline struct td_node *made_const(struct td_graph *g, const char *name, int64_t n, float first)
{
    struct td_node *c = made_add(g, name, "Const", "");
    struct td_tensor *t = td_arena_alloc(g->arena, 1, sizeof *t);
    enum td_dtype *type = td_arena_alloc(g->arena, 1, sizeof *type);
    c->attrs = td_arena_alloc(g->arena, 2, sizeof *c->attrs);
    CHECK(t != NULL && type != NULL && c->attrs != NULL);
    *t = made_tensor(n, first);
    struct td_err err = {0};
    CHECK_OK(td_tensor_keep(g->arena, t, &err));
    *type = TD_FLOAT;
    c->attrs[c->n_attrs++] = (struct td_attr){.name = "value", .kind = TD_ATTR_TENSOR, .n = 1, .tensor = t};
    c->attrs[c->n_attrs++] = (struct td_attr){.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = type};
    return c;
}

/* How many nodes of an IR have this op. */
static inline int made_count(const struct td_ir *ir, const char *op)
{
    int n = 0;
    for (int i = 0; i < ir->n_nodes; i++) {
        n += strcmp(ir->nodes[i]->op_name, op) == 0;
    }
    return n;
}

#endif
