/* tests/fuzz/op_attrs.c - draws the attributes that a signature declares.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_draw.h"

#include <string.h>

enum td_dtype op_draw_dtype(struct op_maker *m, const char *attr)
{
    if (op_one_in(m, 40)) {
        return op_draw_any_dtype(m);
    }
    for (int i = 0; m->row != NULL && i < TD_TYPE_RULES && m->row->types[i].attr != NULL; i++) {
        if (strcmp(m->row->types[i].attr, attr) == 0) {
            return op_draw_dtype_of(m, m->row->types[i].set);
        }
    }
    return op_one_in(m, 3) ? op_draw_any_dtype(m) : op_draw_dtype_of(m, TD_SET_REALS | TD_BIT(TD_STRING));
}

static bool is_number_attr(const struct td_op_def *def, const char *name)
{
    for (int i = 0; i < def->n_in + def->n_out; i++) {
        const struct td_arg_def *a = i < def->n_in ? &def->in[i] : &def->out[i - def->n_in];
        if (a->number_attr != NULL && strcmp(a->number_attr, name) == 0) {
            return true;
        }
    }
    return false;
}

static int list_length(struct op_maker *m, const struct td_attr_def *d)
{
    if (d->kind == TD_ATTR_TYPE || d->kind == TD_ATTR_SHAPE) {
        return op_one_in(m, 4) ? (int)op_draw(m, 5) : (int)m->numbers;
    }
    if (d->has_default && d->value.n > 0 && !op_hostile(m)) {
        return d->value.n;
    }
    static const int usual[] = {0, 1, 2, 4, 5, 3};
    return op_one_in(m, 4) ? usual[op_draw(m, 6)] : m->base.rank;
}

static int64_t draw_attr_int(struct op_maker *m, const struct td_attr_def *d, int i, int n)
{
    if (!d->is_list && is_number_attr(m->def, d->name)) {
        return op_hostile(m) ? op_draw_hostile_int(m) : m->numbers;
    }
    if (d->is_list && n >= 4 && (i == 0 || i == n - 1) && !op_one_in(m, 6)) {
        return 1; /* strides and windows of batch and depth */
    }
    return op_hostile(m) ? op_draw_hostile_int(m)
           : d->is_list  ? 1 + (int64_t)op_draw(m, 3)
                         : (int64_t)op_draw(m, 5);
}

struct td_shape op_draw_attr_shape(struct op_maker *m)
{
    struct td_shape s = op_draw_shape(m);
    if (op_one_in(m, 3)) {
        return td_shape_unknown();
    }
    if (s.rank > 0 && op_one_in(m, 3)) {
        s.dim[op_draw(m, (uint64_t)s.rank)] = op_one_in(m, 4) ? (int64_t)1 << 40 : -1;
    }
    return s;
}

static struct td_bytes attr_string(struct op_maker *m, const struct td_attr_def *d)
{
    if (d->n_allowed > 0 && !op_one_in(m, 24)) {
        return d->allowed[op_draw(m, (uint64_t)d->n_allowed)];
    }
    struct td_bytes b;
    b.p = op_draw_string(m, &b.len);
    return b;
}

void op_draw_attr_value(struct op_maker *m, const struct td_attr_def *d, struct td_attr *a, int i)
{
    struct td_shape shape = op_draw_shape(m);
    switch (a->kind) {
    case TD_ATTR_STRING:
        a->str[i] = attr_string(m, d);
        break;
    case TD_ATTR_INT:
        a->i[i] = draw_attr_int(m, d, i, a->n);
        break;
    case TD_ATTR_FLOAT:
        a->f[i] = (float)op_draw_float(m);
        break;
    case TD_ATTR_BOOL:
        a->b[i] = op_one_in(m, 2);
        break;
    case TD_ATTR_TYPE:
        a->type[i] = d->is_list && !op_one_in(m, 4) ? m->list_type : op_draw_dtype(m, d->name);
        break;
    case TD_ATTR_SHAPE:
        a->shape[i] = op_draw_attr_shape(m);
        break;
    case TD_ATTR_FUNC:
        a->func[i] = (struct td_func_ref){.name = "f"};
        break;
    case TD_ATTR_TENSOR:
        if (!op_draw_tensor(m, op_draw_dtype(m, "dtype"), &shape, &a->tensor[i])) {
            a->n = 0;
        }
        break;
    default:
        break;
    }
}

void op_draw_attr(struct op_maker *m, const struct td_attr_def *d)
{
    if (d->has_default && op_draw(m, 5) < 3) {
        return;
    }
    const int n = d->is_list ? list_length(m, d) : 1;
    struct td_attr *a = op_graph_attr(m->g, m->node, d->name, d->kind, d->is_list, n);
    for (int i = 0; i < n; i++) {
        op_draw_attr_value(m, d, a, i);
    }
    if (d->kind == TD_ATTR_TENSOR && a->n == 1) {
        op_graph_own(m->g, &a->tensor[0]);
    }
}

const struct td_attr *op_maker_attr(const struct op_maker *m, const char *name)
{
    const struct td_attr *a = td_attr_find(m->node->attrs, m->node->n_attrs, name);
    for (int i = 0; a == NULL && i < m->def->n_attrs; i++) {
        if (strcmp(m->def->attrs[i].name, name) == 0 && m->def->attrs[i].has_default) {
            a = &m->def->attrs[i].value;
        }
    }
    return a;
}

enum td_dtype op_maker_type(const struct op_maker *m, const char *name, int i)
{
    const struct td_attr *a = name == NULL ? NULL : op_maker_attr(m, name);
    return a != NULL && a->kind == TD_ATTR_TYPE && i < a->n ? a->type[i] : TD_FLOAT;
}
