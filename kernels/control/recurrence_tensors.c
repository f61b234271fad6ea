/* kernels/control/recurrence_tensors.c - _RecurrenceTensors: the op's row, its shapes, where the rows of a
 * batch go, and its kernel on the host.
 *
 * Nodes of it are made for models that have a device (core/compile/pass_unlist.c), which has a kernel for
 * those that fit. The host's, for the rest, makes the lists and runs the node with lists that this one stands
 * for: whatever is to be said of a loop that is no cell after all, is said there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/recurrence_tensors.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/batchable/batchable_rule.h"
#include "core/graph/emit.h"
#include "kernels/control/list_args.h"
#include "kernels/ops.h"

static const char not_made[] = "only the compiler makes nodes of this op";

/* ------------------------------------------------------------------ shapes */

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct td_recurrence_tensors t;
    TD_FAIL_IF(c->node->loop == NULL, err, INVALID_ARGUMENT, "%s: %s", TD_NODE_STR(c->node), not_made);
    if (!td_recurrence_tensors_read(c->node, c->in, &t)) {
        return TD_OK; /* as the loop will leave them */
    }
    for (int k = 0; k < t.n_outputs; k++) {
        int count;
        if (td_recurrence_tensors_is_list(&t, k, &count)) {
            c->out[k] = td_shape_of_rank(3);
            c->out[k].dim[0] = c->value[count] != NULL ? td_tensor_int(c->value[count], 0) : -1;
            c->out[k].dim[1] = t.rows;
            c->out[k].dim[2] = t.units;
            c->out[k] = c->out[k].dim[0] < -1 ? td_shape_unknown() : c->out[k];
        } else {
            c->out[k] = td_shape_matrix(t.rows, t.units);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ rows of a batch */

/* Input `what` has a row of the batch at each place of `axis`, or there is none. */
static bool has_rows(struct td_batchable_step *s, const struct td_recurrence_tensors *t, int what, int axis)
{
    const int at = td_recurrence_tensors_at(t, what);
    return at < 0 || (s->in[at].kind == TD_VALUE_ROW && s->in[at].axis == axis &&
                      td_batchable_per_row(s, at, axis) == 1);
}

static bool is_row_input(const struct td_recurrence_tensors *t, int i)
{
    static const int with_rows[] = {TD_RECURRENCE_ITEMS,   TD_RECURRENCE_ITEMS2, TD_RECURRENCE_MASK,
                                    TD_RECURRENCE_LENGTHS, TD_RECURRENCE_H,      TD_RECURRENCE_C,
                                    TD_RECURRENCE_O,       TD_RECURRENCE_Z};
    bool yes = false;
    for (size_t k = 0; k < sizeof with_rows / sizeof *with_rows; k++) {
        yes = yes || td_recurrence_tensors_at(t, with_rows[k]) == i;
    }
    return yes;
}

static bool rows(struct td_batchable_step *s)
{
    struct td_recurrence_tensors t;
    if (s->node->loop == NULL) {
        return td_batchable_no(s, "%s", not_made);
    }
    td_recurrence_tensors_attrs(s->node, &t);
    bool ok = has_rows(s, &t, TD_RECURRENCE_ITEMS, 1) && has_rows(s, &t, TD_RECURRENCE_ITEMS2, 1) &&
              has_rows(s, &t, TD_RECURRENCE_MASK, 1) && has_rows(s, &t, TD_RECURRENCE_LENGTHS, 0) &&
              has_rows(s, &t, TD_RECURRENCE_H, 0) && has_rows(s, &t, TD_RECURRENCE_C, 0) &&
              has_rows(s, &t, TD_RECURRENCE_O, 0) && has_rows(s, &t, TD_RECURRENCE_Z, 0);
    if (!ok) {
        return td_batchable_no(s, "the rows of its inputs are not aligned");
    }
    for (int i = 0; i < s->n_in; i++) {
        if (!is_row_input(&t, i) && s->in[i].kind != TD_VALUE_CONST) {
            return td_batchable_no(s, "its input %d differs by row, or follows from their number", i);
        }
    }
    for (int k = 0; ok && k < s->n_out; k++) {
        int count;
        ok = td_batchable_put(s, k, td_recurrence_tensors_is_list(&t, k, &count) ? 1 : 0, 1, 1);
    }
    return ok;
}

/* ------------------------------------------------------------------ the node with lists */

struct listed {
    struct td_call *c;
    struct td_recurrence_tensors t;
    const enum td_dtype *types;
    struct td_tensor *in, *out; /* n_inputs of the node with lists, which has as many outputs at most */
    const struct td_tensor **at;
};

static enum td_code in_variant(struct td_tensor_list *takes, struct td_tensor *out, struct td_err *err)
{
    const struct td_shape scalar = td_shape_scalar();
    const enum td_code rc = td_tensor_new(out, TD_VARIANT, &scalar, err);
    if (rc) {
        td_obj_unref(&takes->nest.obj);
        return rc;
    }
    td_tensor_set_obj(out, 0, &takes->nest.obj);
    return TD_OK;
}

/* The slices of input `from`. */
static enum td_code make_list(struct listed *l, int from, struct td_tensor *out, struct td_err *err)
{
    const struct td_shape any = td_shape_unknown();
    struct td_tensor_list *list;
    struct td_tensor src;
    const struct td_shape *s = &l->c->in[from]->shape;
    TD_FAIL_IF(s->rank < 1, err, INVALID_ARGUMENT, "%s: Tensor must be at least a vector, but saw shape: []",
               TD_NODE_STR(l->c->node));
    TD_TRY(td_keep(l->c, from, &src, err));
    enum td_code rc = td_tensor_list_new(src.dtype, &any, src.shape.dim[0], &list, err);
    for (int64_t i = 0; rc == TD_OK && i < list->n; i++) {
        td_list_args_row(&list->items[i], &src, i);
    }
    td_tensor_clear(&src);
    return rc ? rc : in_variant(list, out, err);
}

/* What was said of the shape of elements of variable i's list. */
static struct td_shape said_of(const struct listed *l, int64_t i)
{
    struct td_shape s = td_shape_unknown();
    for (int k = 0; k < l->t.n_outputs; k++) {
        if (l->t.outputs[k] == i) {
            s = td_shape_matrix(l->t.shapes[2 * k], l->t.shapes[2 * k + 1]);
        }
    }
    return s;
}

static enum td_code reserve(struct listed *l, int i, int count, struct td_tensor *out, struct td_err *err)
{
    const struct td_shape shape = said_of(l, i);
    struct td_tensor_list *list;
    const int64_t n = td_tensor_int(l->c->in[count], 0);
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT,
               "%s: The num_elements to reserve must be a non negative number, but got %lld",
               TD_NODE_STR(l->c->node), (long long)n);
    TD_TRY(td_tensor_list_new(TD_FLOAT, &shape, n, &list, err));
    return in_variant(list, out, err);
}

/* Nobody reads what was left out: a scalar of its type. */
static enum td_code make_nothing(enum td_dtype type, struct td_tensor *out, struct td_err *err)
{
    const struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_tensor_new(out, type, &scalar, err));
    if (!td_dtype_is_object(type)) {
        memset(out->data, 0, td_tensor_bytes(out));
    }
    return TD_OK;
}

static bool is_listed(const struct listed *l, int64_t i)
{
    return i == l->t.cell[TD_RECURRENCE_ITEMS] || i == l->t.cell[TD_RECURRENCE_ITEMS2] ||
           i == l->t.cell[TD_RECURRENCE_MASK];
}

static enum td_code make_input(struct listed *l, int n_vars, int i, struct td_err *err)
{
    const int from = (int)l->t.inputs[i];
    struct td_tensor *to = &l->in[i];
    if (from < 0) {
        return make_nothing(l->types[i], to, err);
    }
    if (i < n_vars && l->t.becomes[2 * i] == TD_SETS_AT) {
        return reserve(l, i, from, to, err);
    }
    if (is_listed(l, i)) {
        return make_list(l, from, to, err);
    }
    TD_TRY(td_keep(l->c, from, to, err));
    if (i == l->t.cell[TD_RECURRENCE_LENGTHS] && l->t.cell[TD_RECURRENCE_LENGTHS_RANK] == 1) {
        to->shape = td_shape_vector(td_tensor_count(to));
    }
    return TD_OK;
}

static enum td_code put_stacked(struct listed *l, int k, const struct td_tensor *of, struct td_err *err)
{
    const struct td_tensor_list *list = td_tensor_list_at(of, 0);
    const struct td_shape given = said_of(l, l->t.outputs[k]);
    struct td_shape element, first, all;
    struct td_tensor *out;
    TD_FAIL_IF(list == NULL, err, INTERNAL, "%s: a loop left no list", TD_NODE_STR(l->c->node));
    TD_TRY(td_list_args_element(l->c, list, &given, NULL, "stack", &element, err));
    first = td_shape_vector(list->n);
    TD_TRY(td_shape_concat(&first, &element, &all, err));
    TD_TRY(td_out(l->c, k, &all, &out, err));
    const int64_t count = td_shape_count(&element);
    for (int64_t i = 0; i < list->n; i++) {
        td_list_args_put(out, i * count, &list->items[i], count);
    }
    return TD_OK;
}

static enum td_code put_output(struct listed *l, int k, struct td_err *err)
{
    struct td_tensor *made = &l->out[l->t.outputs[k]];
    int count;
    if (td_recurrence_tensors_is_list(&l->t, k, &count)) {
        return put_stacked(l, k, made, err);
    }
    td_out_move(l->c, k, made);
    return TD_OK;
}

static enum td_code run_listed(struct listed *l, struct td_err *err)
{
    int n_vars, n;
    (void)td_attr_ints(l->c->node, "_becomes", &n_vars);
    n_vars /= 2;
    l->types = td_attr_types(l->c->node, "_types", &n);
    for (int i = 0; i < l->t.n_inputs; i++) {
        TD_TRY(make_input(l, n_vars, i, err));
        l->at[i] = &l->in[i];
    }
    TD_TRY(td_run_listed(l->c, l->at, l->out, err));
    for (int k = 0; k < l->t.n_outputs; k++) {
        TD_TRY(put_output(l, k, err));
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct listed l = {.c = c};
    td_recurrence_tensors_attrs(c->node, &l.t);
    const size_t n = (size_t)l.t.n_inputs + 1;
    l.in = td_calloc(n, sizeof *l.in);
    l.out = td_calloc(n, sizeof *l.out);
    l.at = td_calloc(n, sizeof *l.at);
    const enum td_code rc = l.in != NULL && l.out != NULL && l.at != NULL
                                ? run_listed(&l, err)
                                : td_no_memory(err, n * sizeof *l.in, "a recurrence");
    for (size_t i = 0; l.in != NULL && l.out != NULL && i < n; i++) {
        td_tensor_clear(&l.in[i]);
        td_tensor_clear(&l.out[i]);
    }
    td_free(l.in);
    td_free(l.out);
    td_free(l.at);
    return rc;
}

/* ------------------------------------------------------------------ the row */

static const char *refuse_made_up(const struct td_node *n)
{
    return n->loop == NULL ? not_made : NULL;
}

static const struct td_kernel kernels[] = {
    {.name = "recurrence.lists", .device = TD_CPU, .refuse = refuse_made_up, .run = run}, {.name = NULL}};

const struct td_op td_ops_recurrence_tensors[] = {
    {.name = "_RecurrenceTensors",
     .sig = "(numbers:S, values:T) -> (after:R) {S:list(type); T:list(type); R:list(type)}",
     .flags = TD_OP_HEAVY | TD_OP_KEEPS,
     .role = TD_ROLE_RECURRENCE_TENSORS,
     .batchable = TD_BATCHABLE(rows),
     .host_in = 1,
     .infer = infer,
     .unlist_rule = td_recurrence_unlist,
     .kernels = kernels,
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
