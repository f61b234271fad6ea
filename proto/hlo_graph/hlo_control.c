/* proto/hlo_graph/hlo_control.c - while, if, case, call, tuples and what hands values on.
 *
 *   while      StatelessWhile over the loop's values and, behind them, those that its regions read from
 *              outside, which the body hands on as they are
 *   if, case   StatelessIf, StatelessCase of what the branches read from outside
 *   call       PartitionedCall; of a short function: what it does
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_control.h"

#include "proto/hlo_graph/hlo_function.h"
#include "proto/hlo_graph/hlo_rules.h"

enum { MOST_INLINED = 24 };

static bool has_regions(struct td_hlo_frame *f, const struct td_hlo_op *op, int n, int operands)
{
    if (op->n_regions < n || op->n_in < operands) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d regions and %d operands, wants %d and %d",
                    op->n_regions, op->n_in, n, operands);
    }
    return f->e.rc == TD_OK;
}

/* The op's operands from `from` on as wholes, then the captured values; room for them all. */
static struct td_value *inputs_of(struct td_hlo_frame *f, const struct td_hlo_op *op, int from,
                                  const struct td_hlo_captures *c, int *n)
{
    *n = op->n_in - from + c->n_values;
    struct td_value *in = td_hlo_room(f, (size_t)*n, sizeof *in);
    for (int i = 0; in != NULL && i < *n; i++) {
        const int operand = from + i;
        in[i] = td_hlo_whole(f, operand < op->n_in ? op->in[operand] : c->values[operand - op->n_in]);
    }
    return f->e.rc ? NULL : in;
}

static struct td_attr types_of(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    enum td_dtype *types = td_hlo_room(f, (size_t)op->n_out, sizeof *types);
    for (int i = 0; types != NULL && i < op->n_out; i++) {
        types[i] = op->out[i]->type.dtype;
    }
    return (struct td_attr){.name = "Tout",
                            .kind = TD_ATTR_TYPE,
                            .is_list = true,
                            .n = types == NULL ? 0 : op->n_out,
                            .type = types};
}

static void put_ports(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value first)
{
    for (int i = 0; f->e.rc == TD_OK && i < op->n_out; i++) {
        if (i >= first.node->n_out) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d results, what it runs %d", op->n_out,
                        first.node->n_out);
            return;
        }
        td_hlo_put(f, op, i, (struct td_value){first.node, i});
    }
}

static struct td_attr function_attr(const char *name, struct td_func_ref *f)
{
    return (struct td_attr){.name = name, .kind = TD_ATTR_FUNC, .n = 1, .func = f};
}

void td_hlo_while(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_hlo_captures c;
    int n;
    if (!has_regions(f, op, 2, 0)) {
        return;
    }
    if (op->regions[0].n_args != op->n_in || op->regions[1].n_args != op->n_in || op->n_out != op->n_in) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its regions take %d and %d arguments, wants %d",
                    op->regions[0].n_args, op->regions[1].n_args, op->n_in);
    }
    td_hlo_captured(f, op, &c);
    const struct td_value *in = inputs_of(f, op, 0, &c, &n);
    struct td_func_ref cond = {.name = in == NULL ? NULL : td_hlo_region(f, op, 0, &c, false)};
    struct td_func_ref body = {.name = cond.name == NULL ? NULL : td_hlo_region(f, op, 1, &c, true)};
    if (body.name == NULL) {
        return;
    }
    put_ports(f, op,
              td_emit(&f->e, "StatelessWhile", in, n,
                      TD_ATTRS(function_attr("cond", &cond), function_attr("body", &body))));
}

void td_hlo_if(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_hlo_captures c;
    int n;
    if (!has_regions(f, op, 2, 1)) {
        return;
    }
    td_hlo_captured(f, op, &c);
    const struct td_value *in = inputs_of(f, op, 0, &c, &n);
    struct td_func_ref yes = {.name = in == NULL ? NULL : td_hlo_region(f, op, 0, &c, false)};
    struct td_func_ref no = {.name = yes.name == NULL ? NULL : td_hlo_region(f, op, 1, &c, false)};
    if (no.name == NULL) {
        return;
    }
    put_ports(f, op,
              td_emit(&f->e, "StatelessIf", in, n,
                      TD_ATTRS(types_of(f, op), function_attr("then_branch", &yes),
                               function_attr("else_branch", &no))));
}

void td_hlo_case(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_hlo_captures c;
    int n;
    if (!has_regions(f, op, 1, 1)) {
        return;
    }
    td_hlo_captured(f, op, &c);
    const struct td_value *in = inputs_of(f, op, 0, &c, &n);
    struct td_func_ref *branches =
        in == NULL ? NULL : td_hlo_room(f, (size_t)op->n_regions, sizeof *branches);
    for (int i = 0; branches != NULL && f->e.rc == TD_OK && i < op->n_regions; i++) {
        branches[i].name = td_hlo_region(f, op, i, &c, false);
    }
    if (f->e.rc) {
        return;
    }
    put_ports(f, op,
              td_emit(&f->e, "StatelessCase", in, n,
                      TD_ATTRS(types_of(f, op), {.name = "branches",
                                                 .kind = TD_ATTR_FUNC,
                                                 .is_list = true,
                                                 .n = op->n_regions,
                                                 .func = branches})));
}

void td_hlo_call_function(struct td_hlo_frame *f, const struct td_hlo_op *op,
                          const struct td_function *called)
{
    const struct td_hlo_captures none = {0};
    int n;
    const struct td_value *in = inputs_of(f, op, 0, &none, &n);
    struct td_func_ref ref = {.name = called->name};
    if (in != NULL && called->n_args != n) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "'%s' takes %d arguments, got %d", called->name, called->n_args,
                    n);
    }
    put_ports(f, op,
              td_emit(&f->e, "PartitionedCall", in, n, TD_ATTRS(types_of(f, op), function_attr("f", &ref))));
}

/* Short, without regions, and it calls nothing: what it does stands in place of the call, so that parts of
 * values stay parts. (jnp.where and clip are such functions.) */
static bool is_short(const struct td_hlo_block *b)
{
    for (int i = 0; i < b->n_ops && b->n_ops <= MOST_INLINED; i++) {
        const struct td_hlo_op *op = b->ops[i];
        if (op->n_regions > 0 || strcmp(op->name, "call") == 0 || strcmp(op->name, "composite") == 0 ||
            strcmp(op->name, "custom_call") == 0) {
            return false;
        }
    }
    return b->n_ops > 0 && b->n_ops <= MOST_INLINED;
}

static void run_inline(struct td_hlo_frame *f, const struct td_hlo_op *op,
                       const struct td_hlo_function *called)
{
    const struct td_hlo_block *b = &called->body;
    const struct td_hlo_op *last = b->ops[b->n_ops - 1];
    struct td_hlo_frame in = *f;
    in.fn = called;
    in.made = td_hlo_room(f, (size_t)called->n_values, sizeof *in.made);
    if (b->n_args != op->n_in || last->n_in != op->n_out) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "'%s' takes %d arguments, got %d", called->name, b->n_args,
                    op->n_in);
    }
    for (int i = 0; f->e.rc == TD_OK && i < op->n_in; i++) {
        in.made[b->args[i]->id] = *td_hlo_part(f, op->in[i]);
    }
    in.e = f->e;
    td_hlo_block(&in, b);
    f->e = in.e;
    for (int i = 0; f->e.rc == TD_OK && i < op->n_out; i++) {
        const struct td_hlo_made *made = &in.made[last->in[i]->id];
        if (made->part.node == NULL || td_hlo_shape(last->in[i])->rank != td_hlo_shape(op->out[i])->rank) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "result %d of '%s' is another one", i, called->name);
            return;
        }
        td_hlo_put_made(f, op, i, made);
    }
}

/* The function of that name, where it is short and takes what it is given; NULL. */
static const struct td_hlo_function *find_short(const struct td_hlo_frame *f, const struct td_hlo_op *op,
                                                const struct td_bytes *name)
{
    const int index = td_hlo_function_index(f->w, name->p, name->len);
    const struct td_hlo_function *fn = index < 0 ? NULL : &f->w->m->functions[index];
    if (fn == NULL || !is_short(&fn->body) || fn->body.n_args != op->n_in) {
        return NULL;
    }
    for (int k = 0; k < op->n_in; k++) {
        const struct td_hlo_type *t = &fn->body.args[k]->type;
        if (t->kind != TD_HLO_TENSOR || t->dtype != op->in[k]->type.dtype ||
            !td_shape_equal(&t->shape, td_hlo_shape(op->in[k]))) {
            return NULL;
        }
    }
    return fn;
}

void td_hlo_call_named(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *attr)
{
    const struct td_hlo_attr *callee = td_hlo_attr(op, attr);
    if (callee == NULL || callee->kind != TD_HLO_STRING) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "attribute %s is missing", attr);
        return;
    }
    const struct td_hlo_function *inlined = find_short(f, op, &callee->str);
    if (inlined != NULL) {
        run_inline(f, op, inlined);
        return;
    }
    if (f->wide) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "of a long function in a body, which may only compute with scalars");
        return;
    }
    const struct td_function *called = td_hlo_called(f, callee->str.p, callee->str.len);
    if (called != NULL) {
        td_hlo_call_function(f, op, called);
    }
}

void td_hlo_call(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    td_hlo_call_named(f, op, "callee");
}

/* optimization_barrier and its like: result i is operand i. */
void td_hlo_same(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    for (int i = 0; f->e.rc == TD_OK && i < op->n_out && i < op->n_in; i++) {
        if (op->in[i]->type.kind == TD_HLO_TENSOR && op->out[i]->type.kind == TD_HLO_TENSOR) {
            td_hlo_put_made(f, op, i, td_hlo_part(f, op->in[i]));
        }
    }
}

/* A tuple is its parts: whoever takes one out looks through it. */
void td_hlo_tuple(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    (void)f;
    (void)op;
}

void td_hlo_get_tuple_element(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_hlo_op *made = op->n_in == 1 ? op->in[0]->op : NULL;
    const int64_t i = td_hlo_int(op, "index", -1);
    if (made == NULL || strcmp(made->name, "tuple") != 0 || i < 0 || i >= made->n_in) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "only of tuples that the function itself makes");
        return;
    }
    td_hlo_put_made(f, op, 0, td_hlo_part(f, made->in[i]));
}
