/* tests/fuzz/op_recipe.c - graphs that run, changed here and there.
 *
 * What only a caller who knows the op gets right (formats of strings, shapes that belong together, tables
 * that are filled) is written down in op_recipes.inc. A case takes one of the op's recipes and may rename one
 * dtype throughout, stretch one size throughout, and change single elements, shapes, attributes and inputs:
 * as often as the case is hostile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/fuzz/op_draw.h"

struct recipe {
    const char *op, *graph;
};

static const struct recipe recipes[] = {
#include "tests/fuzz/op_recipes.inc"
};

enum { RECIPES = sizeof recipes / sizeof recipes[0], TENSORS = 64 };

const char *op_recipe(int i, const char **op)
{
    *op = i < RECIPES ? recipes[i].op : NULL;
    return i < RECIPES ? recipes[i].graph : NULL;
}

static const char *choose(struct op_maker *m)
{
    int of_op[RECIPES], n = 0;
    for (int i = 0; i < RECIPES; i++) {
        if (strcmp(recipes[i].op, m->def->name) == 0) {
            of_op[n++] = i;
        }
    }
    return n == 0 ? NULL : recipes[of_op[op_draw(m, (uint64_t)n)]].graph;
}

/* ------------------------------------------------------------------ values */

/* The tensors of the graph, fed and constant. */
static int list_tensors(struct op_graph *g, struct td_tensor **list)
{
    int n = 0;
    for (int i = 0; i < g->n_feeds && n < TENSORS; i++) {
        list[n++] = &g->feed[i];
    }
    for (int i = 0; i < g->graph.n_nodes; i++) {
        const struct td_node *node = g->graph.nodes[i];
        for (int k = 0; k < node->n_attrs && n < TENSORS; k++) {
            if (node->attrs[k].kind == TD_ATTR_TENSOR) {
                list[n++] = &node->attrs[k].tensor[0];
            }
        }
    }
    return n;
}

/* Gives *t another shape; its elements repeat, or the first remain. */
static void reshape(struct td_tensor *t, const struct td_shape *shape)
{
    struct td_tensor to;
    struct td_err err = {0};
    if (td_tensor_new(&to, t->dtype, shape, &err)) {
        return;
    }
    const int64_t have = td_tensor_count(t), want = td_tensor_count(&to);
    const size_t size = td_dtype_size(t->dtype);
    if (have == 0 && want > 0 && !td_dtype_is_object(t->dtype)) {
        memset(to.data, 0, td_tensor_bytes(&to));
    }
    for (int64_t i = 0; i < want && have > 0; i += have) {
        td_elems_copy(t->dtype, (char *)to.data + (size_t)i * size, t->data,
                      want - i < have ? want - i : have);
    }
    td_tensor_clear(t);
    *t = to;
}

static void stretch(struct op_maker *m, struct td_tensor **list, int n)
{
    static const int64_t sizes[] = {0, 1, 3, 5, 8, 17, 33};
    const int64_t from = 1 + (int64_t)op_draw(m, 4), to = sizes[op_draw(m, 7)];
    for (int i = 0; i < n; i++) {
        struct td_shape s = list[i]->shape;
        int64_t count = 1;
        for (int k = 0; k < s.rank; k++) {
            s.dim[k] = s.dim[k] == from ? to : s.dim[k];
            count *= s.dim[k];
        }
        if (count <= 1 << 16) {
            reshape(list[i], &s);
        }
    }
}

static void change_shape(struct op_maker *m, struct td_tensor *t)
{
    struct td_shape s = t->shape;
    switch (op_draw(m, 4)) {
    case 0:
        s = op_draw_shape(m);
        break;
    case 1:
        s.rank -= s.rank > 0;
        break;
    case 2:
        if (s.rank < TD_MAX_RANK) {
            s.dim[s.rank++] = (int64_t)op_draw(m, 3);
        }
        break;
    default:
        if (s.rank > 0) {
            s.dim[op_draw(m, (uint64_t)s.rank)] = (int64_t)op_draw(m, 5);
        }
    }
    reshape(t, &s);
}

static void change_value(struct op_maker *m, struct td_tensor *t)
{
    if (op_one_in(m, 3)) {
        change_shape(m, t);
    }
    const int64_t n = td_tensor_count(t);
    for (int64_t times = n > 0 ? 1 + (int64_t)op_draw(m, 3) : 0; times > 0; times--) {
        op_draw_element(m, t, (int64_t)op_draw(m, (uint64_t)n));
    }
}

/* ------------------------------------------------------------------ attributes */

static bool plain(enum td_dtype t)
{
    return !td_dtype_is_object(t);
}

static void retype_tensor(struct td_tensor *t, enum td_dtype from, enum td_dtype to)
{
    struct td_tensor made;
    struct td_err err = {0};
    if (t->dtype != from || td_tensor_new(&made, to, &t->shape, &err)) {
        return;
    }
    const int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        const bool whole = td_dtype_in(from, TD_SET_INTS);
        const double d = from == TD_FLOAT ? (double)TD_DATA(t, float)[i]
                         : whole          ? (double)td_tensor_int(t, i)
                                          : 1;
        op_graph_put(to, (char *)made.data + (size_t)i * td_dtype_size(to),
                     (int64_t)(d < 0     ? -1
                               : d < 100 ? d
                                         : 100),
                     d);
    }
    td_tensor_clear(t);
    *t = made;
}

/* One dtype becomes another that the op's kernels take, in all nodes and values. */
static void retype(struct op_maker *m, struct td_tensor **list, int n)
{
    const struct td_attr *a =
        op_maker_attr(m, m->row != NULL && m->row->types[0].attr ? m->row->types[0].attr : "T");
    if (a == NULL || a->kind != TD_ATTR_TYPE || a->is_list) {
        return;
    }
    const enum td_dtype from = a->type[0], to = op_draw_dtype(m, a->name);
    if (!plain(from) || !plain(to) || from == to) {
        return;
    }
    struct td_graph *g = &m->g->graph;
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i]->n_attrs; k++) {
            struct td_attr *b = &g->nodes[i]->attrs[k];
            for (int j = 0; b->kind == TD_ATTR_TYPE && j < b->n; j++) {
                b->type[j] = b->type[j] == from ? to : b->type[j];
            }
        }
    }
    for (int i = 0; i < n; i++) {
        retype_tensor(list[i], from, to);
    }
}

static const struct td_attr_def *declared(const struct op_maker *m, const char *name)
{
    for (int i = 0; i < m->def->n_attrs; i++) {
        if (strcmp(m->def->attrs[i].name, name) == 0) {
            return &m->def->attrs[i];
        }
    }
    return NULL;
}

static void change_attr(struct op_maker *m, struct td_attr *a, bool under_test)
{
    if (a->n == 0 || a->kind == TD_ATTR_TENSOR || a->kind == TD_ATTR_FUNC) {
        return;
    }
    if (a->is_list && op_one_in(m, 3)) {
        a->n--;
        return;
    }
    const struct td_attr_def any = {.name = a->name, .kind = a->kind, .is_list = a->is_list};
    const struct td_attr_def *d = under_test ? declared(m, a->name) : NULL;
    op_draw_attr_value(m, d != NULL && d->kind == a->kind ? d : &any, a, (int)op_draw(m, (uint64_t)a->n));
}

static void change_inputs(struct op_maker *m, struct td_node *n)
{
    if (n->n_inputs == 0) {
        return;
    }
    const uint64_t i = op_draw(m, (uint64_t)n->n_inputs), k = op_draw(m, (uint64_t)n->n_inputs);
    if (op_one_in(m, 3)) {
        n->n_inputs--;
        return;
    }
    const char *first = n->inputs[i];
    n->inputs[i] = n->inputs[k];
    n->inputs[k] = first;
}

static void change_node(struct op_maker *m, struct td_node *n)
{
    for (int k = 0; k < n->n_attrs; k++) {
        if (op_hostile(m)) {
            change_attr(m, &n->attrs[k], n == m->node);
        }
    }
    if (op_hostile(m) && op_one_in(m, 4)) {
        change_inputs(m, n);
    }
}

/* ------------------------------------------------------------------ the case */

bool op_recipe_fill(struct op_maker *m)
{
    struct td_err err = {0};
    const char *text = choose(m);
    if (text == NULL || op_graph_read(m->g, text, m->constants, &err)) {
        return false;
    }
    struct td_graph *g = &m->g->graph;
    m->node = g->nodes[g->n_nodes - 1];
    struct td_tensor *list[TENSORS];
    const int n = list_tensors(m->g, list);
    if (op_one_in(m, 3)) {
        retype(m, list, n);
    }
    if (op_one_in(m, 4)) {
        stretch(m, list, n);
    }
    for (int i = 0; i < n; i++) {
        if (op_hostile(m)) {
            change_value(m, list[i]);
        }
    }
    for (int i = 0; i < g->n_nodes; i++) {
        change_node(m, g->nodes[i]);
    }
    return true;
}
