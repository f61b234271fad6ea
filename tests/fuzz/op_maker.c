/* tests/fuzz/op_maker.c - one case of one op: of a recipe, or drawn from its signature.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_maker.h"

#include <string.h>

#include "tests/fuzz/op_draw.h"

static void add_input(struct op_maker *m, const struct td_arg_def *a, enum td_dtype dtype)
{
    const struct td_shape shape = op_draw_input_shape(m, a);
    const char *text = a->is_ref              ? op_make_variable(m, true)
                       : dtype == TD_RESOURCE ? op_make_resource(m)
                       : dtype == TD_VARIANT  ? op_make_variant(m)
                                              : op_make_value(m, dtype, &shape);
    op_graph_input(m->g, m->node, text);
}

static void add_argument(struct op_maker *m, const struct td_arg_def *a)
{
    const struct td_attr *number = a->number_attr != NULL ? op_maker_attr(m, a->number_attr) : NULL;
    const struct td_attr *list = a->list_attr != NULL ? op_maker_attr(m, a->list_attr) : NULL;
    int64_t n = number != NULL && number->n == 1 && number->kind == TD_ATTR_INT ? number->i[0] : 1;
    n = list != NULL ? list->n : n;
    for (int64_t i = 0; i < n && i < 8; i++) {
        const enum td_dtype t = a->list_attr != NULL   ? op_maker_type(m, a->list_attr, (int)i)
                                : a->type_attr != NULL ? op_maker_type(m, a->type_attr, 0)
                                                       : a->type;
        add_input(m, a, t);
    }
}

static const struct td_kernel *draw_row(struct op_maker *m, const struct td_op *op)
{
    int n = 0;
    while (op != NULL && op->kernels != NULL && op->kernels[n].name != NULL) {
        n++;
    }
    return n == 0 ? NULL : &op->kernels[op_draw(m, (uint64_t)n)];
}

/* Control inputs come after the data inputs, whatever order they were added in. */
static void controls_last(struct td_node *n)
{
    const char *sorted[OP_GRAPH_INPUTS];
    int k = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n->n_inputs; i++) {
            if ((n->inputs[i][0] == '^') == (pass == 1)) {
                sorted[k++] = n->inputs[i];
            }
        }
    }
    memcpy(n->inputs, sorted, (size_t)k * sizeof sorted[0]);
}

static void draw_case(struct op_maker *m)
{
    m->node = op_graph_node(m->g, "test", m->def->name);
    if (m->node == NULL) {
        return;
    }
    for (int i = 0; i < m->def->n_attrs; i++) {
        op_draw_attr(m, &m->def->attrs[i]);
    }
    for (int i = 0; i < m->def->n_in; i++) {
        add_argument(m, &m->def->in[i]);
    }
    if (op_one_in(m, 60)) {
        op_graph_input(m->g, m->node, op_make_value(m, TD_FLOAT, &m->base));
    } else if (m->node->n_inputs > 0 && op_one_in(m, 60)) {
        m->node->n_inputs--;
    }
    controls_last(m->node);
    op_graph_put_last(&m->g->graph, m->node);
}

bool op_maker_fill(struct op_graph *g, const struct td_op_def *def, struct op_script *s)
{
    struct op_maker m = {.g = g, .s = s, .def = def};
    static const int hostility[] = {4, 12, 60, 200};
    m.hostility = hostility[op_draw(&m, 4)];
    m.constants = op_one_in(&m, 2);
    m.row = draw_row(&m, def->op);
    m.base.rank = op_draw_rank(&m);
    const int64_t side = op_one_in(&m, 8) ? 17 : 4; /* one case in eight is wide enough for vector loops */
    for (int i = 0; i < m.base.rank; i++) {
        m.base.dim[i] = op_one_in(&m, 2) && i > 0 ? m.base.dim[i - 1]
                                                  : (int64_t)op_draw(&m, (uint64_t)side) + !op_one_in(&m, 12);
    }
    m.list_type = op_draw_dtype(&m, "");
    m.numbers = 1 + (int64_t)op_draw(&m, 3);
    static const char *const off[] = {NULL, NULL, NULL, "all"};
    g->passes_off = off[op_draw(&m, 4)];
    g->eager = op_one_in(&m, 8);
    g->kernels = op_one_in(&m, 2) ? TD_KERNELS_REFERENCE : TD_KERNELS_FAST;
    const bool invented = op_one_in(&m, 3);
    if (invented || !op_recipe_fill(&m)) {
        draw_case(&m);
    }
    return m.node != NULL;
}
