/* tests/unit/core/test_instantiate.c - copies of polymorphic bodies: one for each set of values, lists of
 * arguments, limits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/instantiate.h"

#include "tests/unit/core/graph_make.h"

static struct td_attr *attrs_of(struct made *m, int n)
{
    struct td_attr *a = td_arena_alloc(m->arena, (size_t)n, sizeof *a);
    CHECK(a != NULL);
    return a;
}

static struct td_attr type_attr(struct made *m, const char *name, enum td_dtype t)
{
    enum td_dtype *type = td_arena_alloc(m->arena, 1, sizeof *type);
    *type = t;
    return (struct td_attr){.name = name, .kind = TD_ATTR_TYPE, .n = 1, .type = type};
}

static struct td_attr int_attr(struct made *m, const char *name, int64_t v)
{
    int64_t *i = td_arena_alloc(m->arena, 1, sizeof *i);
    *i = v;
    return (struct td_attr){.name = name, .kind = TD_ATTR_INT, .n = 1, .i = i};
}

static struct td_attr text_attr(struct made *m, const char *name, enum td_attr_kind kind, const char *text,
                                size_t len)
{
    struct td_bytes *s = td_arena_alloc(m->arena, 1, sizeof *s);
    *s = (struct td_bytes){text, len};
    return (struct td_attr){.name = name, .kind = kind, .n = 1, .str = s};
}

static struct td_attr func_attr(struct made *m, const char *name, const char *function, struct td_attr *attrs,
                                int n)
{
    struct td_func_ref *f = td_arena_alloc(m->arena, 1, sizeof *f);
    *f = (struct td_func_ref){function, attrs, n};
    return (struct td_attr){.name = name, .kind = TD_ATTR_FUNC, .n = 1, .func = f};
}

/* A template of one argument x and one result, with these attributes; its body is the caller's to fill in. */
static struct td_function *made_template(struct made *m, const char *name, const char *ret,
                                         struct td_attr_def *attrs, int n)
{
    struct td_function *f;
    struct td_err err = {0};
    CHECK_OK(td_library_add(&m->lib, name, &f, &err));
    f->def.in = td_arena_alloc(m->arena, 1, sizeof *f->def.in);
    f->def.out = td_arena_alloc(m->arena, 1, sizeof *f->def.out);
    f->ret_texts = td_arena_alloc(m->arena, 1, sizeof *f->ret_texts);
    f->def.in[0] = (struct td_arg_def){.name = "x", .type_attr = "T"};
    f->def.out[0] = (struct td_arg_def){.name = "r", .type_attr = "T"};
    f->def.n_in = f->def.n_out = 1;
    f->def.attrs = attrs;
    f->def.n_attrs = n;
    f->ret_texts[0] = ret;
    f->is_template = true;
    return f;
}

static struct td_attr_def T_def[] = {{.name = "T", .kind = TD_ATTR_TYPE}};

static struct td_node *add_call(struct made *m, struct td_graph *g, const char *name, const char *op,
                                const char *inputs, struct td_attr a)
{
    struct td_node *n = made_add(g, name, op, inputs);
    n->attrs = attrs_of(m, 1);
    n->attrs[0] = a;
    n->n_attrs = 1;
    return n;
}

TEST(one_instance_for_each_set_of_values)
{
    struct made m;
    made_start(&m);
    struct td_function *f = made_template(&m, "f", "n:y:0", T_def, 1);
    add_call(&m, &f->body, "n", "Same", "x", text_attr(&m, "T", TD_ATTR_PLACEHOLDER, "T", 1));
    made_add(&m.graph, "x", "X", "");
    struct td_node *a = add_call(&m, &m.graph, "a", "f", "x", type_attr(&m, "T", TD_FLOAT));
    struct td_node *b = add_call(&m, &m.graph, "b", "f", "a", type_attr(&m, "T", TD_FLOAT));
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_STR(a->op_name, "f[T=float]");
    CHECK(a->op_name == b->op_name && a->def == b->def && a->out_type[0] == TD_FLOAT);
    CHECK_INT(m.lib.n_functions, 2);
    CHECK(!f->resolved && f->n_args == 0);
    struct td_function *inst = td_library_find(&m.lib, "f[T=float]");
    CHECK(inst != NULL && inst->resolved && inst->n_args == 1 && inst->n_rets == 1);
    const struct td_attr *t = td_attr_find(inst->rets[0].node->attrs, inst->rets[0].node->n_attrs, "T");
    CHECK(t != NULL && t->kind == TD_ATTR_TYPE && t->type[0] == TD_FLOAT && strcmp(t->name, "T") == 0);
    struct td_ir ir;
    CHECK_INT(made_ir(&m, "x", "b", &ir), TD_OK);
    CHECK_INT(made_count(&ir, "Same"), 2);
    made_end(&m);
}

TEST(texts_of_values_are_never_mistaken_for_one_another)
{
    struct made m;
    struct td_attr_def two[] = {{.name = "P", .kind = TD_ATTR_STRING}, {.name = "Q", .kind = TD_ATTR_STRING}};
    made_start(&m);
    struct td_function *f = made_template(&m, "f", "x", two, 2);
    f->def.in[0] = (struct td_arg_def){.name = "x", .type = TD_FLOAT};
    f->def.out[0] = (struct td_arg_def){.name = "r", .type = TD_FLOAT};
    made_add(&m.graph, "x", "X", "");
    struct td_node *a = made_add(&m.graph, "a", "f", "x"), *b = made_add(&m.graph, "b", "f", "x");
    a->attrs = attrs_of(&m, 2);
    b->attrs = attrs_of(&m, 2);
    a->attrs[0] = text_attr(&m, "P", TD_ATTR_STRING, "1', Q='2", 8);
    a->attrs[1] = text_attr(&m, "Q", TD_ATTR_STRING, "3", 1);
    b->attrs[0] = text_attr(&m, "P", TD_ATTR_STRING, "1", 1);
    b->attrs[1] = text_attr(&m, "Q", TD_ATTR_STRING, "2', Q='3", 8);
    a->n_attrs = b->n_attrs = 2;
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK(strcmp(a->op_name, b->op_name) != 0);
    made_end(&m);
}

/* f(x: N*float) -> r: N*float, whose body names all of x, or one element. */
static enum td_code resolve_list(struct made *m, int64_t n, const char *ret, const char *inputs)
{
    static struct td_attr_def N_def[] = {{.name = "N", .kind = TD_ATTR_INT}};
    made_start(m);
    struct td_function *f = made_template(m, "f", ret, N_def, 1);
    f->def.in[0] = (struct td_arg_def){.name = "x", .type = TD_FLOAT, .number_attr = "N"};
    f->def.out[0] = (struct td_arg_def){.name = "r", .type = TD_FLOAT, .number_attr = "N"};
    made_add(&f->body, "sum", "Add", "x");
    made_add(&f->body, "first", "Neg", "x:1");
    add_call(m, &f->body, "wide", "Wide", "", text_attr(m, "N", TD_ATTR_PLACEHOLDER, "N", 1));
    made_add(&m->graph, "x", "X", "");
    add_call(m, &m->graph, "call", "f", inputs, int_attr(m, "N", n));
    return made_resolve(m);
}

TEST(an_argument_may_stand_for_several)
{
    struct made m;
    CHECK_INT(resolve_list(&m, 2, "x", "x x"), TD_OK);
    const struct td_function *f = td_library_find(&m.lib, "f[N=2]");
    CHECK(f != NULL && f->n_args == 2 && f->n_rets == 2 && f->rets[1].node == f->args[1]);
    CHECK_STR(f->args[1]->name, "x[1]");
    CHECK(td_graph_find(&f->body, "first", 5)->in[0].node == f->args[1]);
    const struct td_node *sum = td_graph_find(&f->body, "sum", 3);
    CHECK(sum->n_in == 2 && sum->in[0].node == f->args[0] && sum->in[1].node == f->args[1]);
    made_end(&m);
    CHECK_INT(resolve_list(&m, 2, "wide:y", "x x"), TD_OK); /* all tensors of an output */
    f = td_library_find(&m.lib, "f[N=2]");
    CHECK(f->rets[0].port == 0 && f->rets[1].port == 1 && strcmp(f->rets[1].node->name, "wide") == 0);
    made_end(&m);
}

static void check_refused(struct made *m, enum td_code rc, enum td_code want, const char *words)
{
    CHECK_INT(rc, want);
    if (strstr(m->err.msg, words) == NULL) {
        CHECK_STR(m->err.msg, words);
    }
    made_end(m);
}

TEST(lengths_are_checked)
{
    struct made m;
    check_refused(&m, resolve_list(&m, -1, "x", "x x"), TD_INVALID_ARGUMENT,
                  "stands for -1 tensors, must be in [0, 65536]");
    check_refused(&m, resolve_list(&m, (int64_t)1 << 40, "x", "x x"), TD_INVALID_ARGUMENT,
                  "must be in [0, 65536]");
    check_refused(&m, resolve_list(&m, 3, "x", "x x x"), TD_INVALID_ARGUMENT,
                  "has 3 inputs, its definition wants 2");
    check_refused(&m, resolve_list(&m, 2, "first:y:0", "x x"), TD_INVALID_ARGUMENT,
                  "result 'r' stands for 2 tensors, 'first:y:0' for 1");
    check_refused(&m, resolve_list(&m, 2, "x", "x"), TD_INVALID_ARGUMENT,
                  "has 1 inputs, its definition wants 2");
    check_refused(&m, resolve_list(&m, 1, "x", "x"), TD_INVALID_ARGUMENT, "sum");
}

TEST(a_placeholder_of_nothing_is_refused)
{
    struct made m;
    made_start(&m);
    struct td_function *f = made_template(&m, "f", "n:y:0", T_def, 1);
    add_call(&m, &f->body, "n", "Same", "x", text_attr(&m, "T", TD_ATTR_PLACEHOLDER, "U", 1));
    made_add(&m.graph, "x", "X", "");
    add_call(&m, &m.graph, "a", "f", "x", type_attr(&m, "T", TD_FLOAT));
    check_refused(&m, made_resolve(&m), TD_INVALID_ARGUMENT,
                  "attribute 'T' stands for 'U', which is no attribute of function 'f'");
}

TEST(a_value_of_another_kind_is_refused)
{
    struct made m;
    made_start(&m);
    made_template(&m, "f", "x", T_def, 1);
    made_add(&m.graph, "x", "X", "");
    add_call(&m, &m.graph, "a", "f", "x", int_attr(&m, "T", 1));
    check_refused(&m, made_resolve(&m), TD_INVALID_ARGUMENT,
                  "the value of its attribute 'T' is of another type");
}

/* f[N] calls f[N'] where N' is a new function value each time: instances without end. */
TEST(instances_without_end_are_refused)
{
    struct made m;
    static struct td_attr_def F_def[] = {{.name = "F", .kind = TD_ATTR_FUNC}};
    made_start(&m);
    struct td_function *f = made_template(&m, "f", "n:y:0", F_def, 1);
    f->def.in[0] = f->def.out[0] = (struct td_arg_def){.name = "x", .type = TD_FLOAT};
    struct td_attr *inner = attrs_of(&m, 1);
    inner[0] = text_attr(&m, "F", TD_ATTR_PLACEHOLDER, "F", 1);
    add_call(&m, &f->body, "n", "f", "x", func_attr(&m, "F", "g", inner, 1));
    made_add(&m.graph, "x", "X", "");
    add_call(&m, &m.graph, "a", "f", "x", func_attr(&m, "F", "g", NULL, 0));
    check_refused(&m, made_resolve(&m), TD_INVALID_ARGUMENT, "attributes of more than 1000 characters");
}

TEST(very_many_instances_are_refused)
{
    struct made m;
    char name[20];
    static struct td_attr_def N_def[] = {{.name = "N", .kind = TD_ATTR_INT}};
    made_start(&m);
    struct td_function *f = made_template(&m, "f", "x", N_def, 1);
    f->def.in[0] = f->def.out[0] = (struct td_arg_def){.name = "x", .type = TD_FLOAT};
    made_add(&m.graph, "x", "X", "");
    for (int i = 0; i < 4097; i++) {
        snprintf(name, sizeof name, "a%d", i);
        add_call(&m, &m.graph, name, "f", "x", int_attr(&m, "N", i));
    }
    check_refused(&m, made_resolve(&m), TD_RESOURCE_EXHAUSTED,
                  "more than 4096 sets of attributes; the last was f[N=4096]");
}

TEST(a_call_without_values_says_so_where_it_is_reached)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_template(&m, "f", "x", T_def, 1);
    made_add(&m.graph, "x", "X", "");
    made_add(&m.graph, "a", "f", "x");
    made_add(&m.graph, "b", "Neg", "x");
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "b", &ir), TD_OK);
    check_refused(&m, made_ir(&m, "x", "a", &ir), TD_INVALID_ARGUMENT,
                  "node 'a' (f) calls function 'f' without values for all of its 1 attributes");
}

TEST_MAIN(RUN(one_instance_for_each_set_of_values) RUN(texts_of_values_are_never_mistaken_for_one_another)
              RUN(an_argument_may_stand_for_several) RUN(lengths_are_checked)
                  RUN(a_placeholder_of_nothing_is_refused) RUN(a_value_of_another_kind_is_refused)
                      RUN(instances_without_end_are_refused) RUN(very_many_instances_are_refused)
                          RUN(a_call_without_values_says_so_where_it_is_reached))
