/* kernels/control/recurrence_tensors_match.c - whether the lists of a _Recurrence can be done without, and
 * the node that does.
 *
 *   TensorListFromTensor(x) ---> _Recurrence ---> TensorListStack       _RecurrenceTensors(x, n, ..) [n, ..]
 *   TensorListReserve(.., n) -->
 *
 * A list that is read as such, that was made otherwise, or whose elements' shape is not written in the graph
 * leaves everything as it is; as does a counter that somebody reads behind the loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/graph/emit.h"
#include "kernels/control/recurrence_tensors.h"
#include "kernels/control/recurrence_terms.h"

struct match {
    struct td_emitter *e;
    const struct td_node *n; /* the _Recurrence */
    const struct td_output_use *use;
    const int64_t *cell, *limits, *becomes;
    int n_limits;
    struct td_value *number, *value; /* inputs of the node to be made */
    int n_numbers, n_values;
    int64_t *number_of, *value_of; /* by the _Recurrence's inputs: which of these; -1: none */
    int64_t *outputs, *shapes;
    int n_outputs;
};

/* ------------------------------------------------------------------ inputs */

static void put_number(struct match *m, int64_t i, struct td_value v)
{
    if (m->number_of[i] < 0) {
        m->number_of[i] = m->n_numbers;
        m->number[m->n_numbers++] = v;
    }
}

static bool put_value(struct match *m, int64_t i, struct td_value v)
{
    if (i >= 0 && m->value_of[i] < 0) {
        m->value_of[i] = m->n_values;
        m->value[m->n_values++] = v;
    }
    return i < 0 || v.node != NULL;
}

/* The tensor that list i was made of; no node: something else made it. */
static struct td_value tensor_of(const struct match *m, int64_t i)
{
    const struct td_node *from = td_cell_behind(m->n->in[i]).node;
    return from->op != NULL && from->op->role == TD_ROLE_LIST_SLICES ? from->in[0] : td_no_value;
}

static bool put_list(struct match *m, int what)
{
    const int64_t i = m->cell[what];
    return i < 0 || put_value(m, i, tensor_of(m, i));
}

/* Of a vector, whatever its length, a column. */
static bool put_lengths(struct match *m)
{
    const int64_t i = m->cell[TD_RECURRENCE_LENGTHS], column[] = {-1, 1};
    if (i < 0) {
        return true;
    }
    const struct td_value v = m->n->in[i];
    const bool is_vector = m->cell[TD_RECURRENCE_LENGTHS_RANK] == 1;
    return put_value(
        m, i,
        is_vector ? td_emit(m->e, "Reshape", TD_IN(v, td_emit_ints(m->e, TD_INT32, column, 2)), TD_NO_ATTRS)
                  : v);
}

static bool put_inputs(struct match *m)
{
    static const int plain[] = {TD_RECURRENCE_H,  TD_RECURRENCE_C,  TD_RECURRENCE_O,
                                TD_RECURRENCE_Z,  TD_RECURRENCE_U,  TD_RECURRENCE_BX,
                                TD_RECURRENCE_BH, TD_RECURRENCE_U2, TD_RECURRENCE_B2};
    put_number(m, m->cell[TD_RECURRENCE_INDEX], m->n->in[m->cell[TD_RECURRENCE_INDEX]]);
    for (int k = 0; k < m->n_limits; k++) {
        const int64_t *limit = m->limits + (ptrdiff_t)3 * k;
        put_number(m, limit[0], m->n->in[limit[0]]);
        if (limit[1] == 0) {
            put_number(m, limit[2], m->n->in[limit[2]]);
        }
    }
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
        const int64_t i = m->cell[plain[k]];
        if (i >= 0) {
            (void)put_value(m, i, m->n->in[i]);
        }
    }
    return put_list(m, TD_RECURRENCE_ITEMS) && put_list(m, TD_RECURRENCE_ITEMS2) &&
           put_list(m, TD_RECURRENCE_MASK) && put_lengths(m);
}

/* ------------------------------------------------------------------ lists that are filled */

/* What v, known, says of the shape of elements, beside what is said already. */
static bool put_shape(struct td_value v, int64_t shape[2])
{
    const struct td_tensor *t = td_known_value(td_cell_behind(v));
    if (t == NULL || (t->shape.rank == 0 && td_tensor_int(t, 0) != -1) ||
        (t->shape.rank != 0 && td_tensor_count(t) != 2)) {
        return false;
    }
    for (int d = 0; t->shape.rank == 1 && d < 2; d++) {
        const int64_t dim = td_tensor_int(t, d);
        if (dim >= 0 && shape[d] >= 0 && dim != shape[d]) {
            return false;
        }
        shape[d] = dim >= 0 ? dim : shape[d];
    }
    return t->shape.rank < 2;
}

static bool is_stack_of(const struct td_node *stack, struct td_value reserved)
{
    const int64_t want = td_attr_int(stack, "num_elements");
    int64_t n;
    return want < 0 || (td_cell_number(reserved, &n) && n == want);
}

/* Variable o is a list for h. */
static bool put_reserved(struct match *m, int o)
{
    const struct td_node *made = td_cell_made_by(m->n->in[o], "TensorListReserve");
    const struct td_output_use *use = &m->use[o];
    int64_t shape[2] = {-1, -1};
    bool ok = made != NULL && !use->read && put_shape(made->in[0], shape);
    for (int k = 0; ok && k < use->n_stacks; k++) {
        ok = put_shape(use->stack[k]->in[1], shape) && is_stack_of(use->stack[k], made->in[1]);
    }
    if (ok) {
        put_number(m, o, made->in[1]);
        memcpy(m->shapes + (ptrdiff_t)2 * m->n_outputs, shape, sizeof shape);
    }
    return ok;
}

/* ------------------------------------------------------------------ outputs */

static bool put_outputs(struct match *m, struct td_value *to)
{
    bool ok = true;
    for (int o = 0; ok && o < m->n->n_out; o++) {
        const struct td_output_use *use = &m->use[o];
        const int64_t becomes = m->becomes[2 * o];
        int64_t *shape = m->shapes + (ptrdiff_t)2 * m->n_outputs;
        shape[0] = shape[1] = -1;
        if (becomes == TD_STAYS) {
            to[o] = m->n->in[o];
            continue;
        }
        ok = becomes == TD_SETS_AT ? put_reserved(m, o) : becomes != TD_COUNTS || !use->read;
        if (ok && (use->read || use->n_stacks > 0)) {
            to[o].port = m->n_outputs;
            m->outputs[m->n_outputs++] = o;
        }
    }
    return ok && m->n_outputs > 0;
}

/* ------------------------------------------------------------------ the node */

static void put_ints(struct match *m, struct td_node *n, const char *name, const int64_t *v, int count)
{
    const struct td_attr a = TD_ATTR_OF_INTS(name, (int64_t *)v, count);
    td_emit_attr(m->e, n, &a);
}

static void put_types(struct match *m, struct td_node *n)
{
    enum td_dtype *type = td_arena_alloc(m->e->arena, (size_t)m->n->n_in + 1, sizeof *type);
    for (int i = 0; type != NULL && i < m->n->n_in; i++) {
        type[i] = td_dtype_of(m->n->in[i]);
    }
    const struct td_attr a = {
        .name = "_types", .kind = TD_ATTR_TYPE, .is_list = true, .n = m->n->n_in, .type = type};
    if (type != NULL) {
        td_emit_attr(m->e, n, &a);
    }
}

/* The numbers of inputs, values being behind numbers. */
static const int64_t *all_inputs(struct match *m)
{
    for (int i = 0; i < m->n->n_in; i++) {
        m->number_of[i] = m->value_of[i] < 0 ? m->number_of[i] : m->n_numbers + m->value_of[i];
    }
    return m->number_of;
}

static struct td_attr types_of(struct match *m, const char *name, const struct td_value *v, int n)
{
    enum td_dtype *type = td_arena_alloc(m->e->arena, (size_t)n + 1, sizeof *type);
    for (int i = 0; type != NULL && i < n; i++) {
        type[i] = v == NULL ? TD_FLOAT : td_dtype_of(v[i]);
    }
    return (struct td_attr){
        .name = name, .kind = TD_ATTR_TYPE, .is_list = true, .n = type == NULL ? 0 : n, .type = type};
}

static struct td_node *make(struct match *m)
{
    int count;
    const int n = m->n_numbers + m->n_values;
    const float *numbers = td_attr_floats(m->n, "_numbers", &count);
    const struct td_attr types[] = {types_of(m, "S", m->number, m->n_numbers),
                                    types_of(m, "T", m->value, m->n_values),
                                    types_of(m, "R", NULL, m->n_outputs)};
    memcpy(m->number + m->n_numbers, m->value, (size_t)m->n_values * sizeof *m->value);
    struct td_node *made =
        td_emit_def(m->e, td_op_of_role(m->e->ops, TD_ROLE_RECURRENCE_TENSORS), m->number, n, types, 3).node;
    if (made == NULL) {
        return NULL;
    }
    put_ints(m, made, "_cell", m->cell, TD_RECURRENCE_INTS);
    put_ints(m, made, "_limits", m->limits, 3 * m->n_limits);
    put_ints(m, made, "_becomes", m->becomes, 2 * m->n->n_out);
    put_ints(m, made, "_inputs", all_inputs(m), m->n->n_in);
    put_ints(m, made, "_outputs", m->outputs, m->n_outputs);
    put_ints(m, made, "_shapes", m->shapes, 2 * m->n_outputs);
    const struct td_attr floats = {
        .name = "_numbers", .kind = TD_ATTR_FLOAT, .is_list = true, .n = count, .f = (float *)numbers};
    td_emit_attr(m->e, made, &floats);
    put_types(m, made);
    return m->e->rc ? NULL : made;
}

static bool open(struct match *m)
{
    struct td_arena *a = m->e->arena;
    const size_t n = (size_t)m->n->n_in + 1, out = (size_t)m->n->n_out + 1;
    int count;
    m->cell = td_attr_ints(m->n, "_cell", &count);
    m->limits = td_attr_ints(m->n, "_limits", &m->n_limits);
    m->n_limits /= 3;
    m->becomes = td_attr_ints(m->n, "_becomes", &count);
    m->number = td_arena_alloc(a, 2 * n, sizeof *m->number);
    m->value = td_arena_alloc(a, n, sizeof *m->value);
    m->number_of = td_arena_alloc(a, n, sizeof *m->number_of);
    m->value_of = td_arena_alloc(a, n, sizeof *m->value_of);
    m->outputs = td_arena_alloc(a, out, sizeof *m->outputs);
    m->shapes = td_arena_alloc(a, 2 * out, sizeof *m->shapes);
    if (m->number == NULL || m->value == NULL || m->number_of == NULL || m->value_of == NULL ||
        m->outputs == NULL || m->shapes == NULL) {
        return false;
    }
    for (int i = 0; i < m->n->n_in; i++) {
        m->number_of[i] = m->value_of[i] = -1;
    }
    return true;
}

struct td_node *td_recurrence_unlist(struct td_emitter *e, const struct td_node *n,
                                     const struct td_output_use *use, struct td_value *to)
{
    struct match m = {.e = e, .n = n, .use = use};
    if (!open(&m) || !put_outputs(&m, to) || !put_inputs(&m)) {
        return NULL;
    }
    struct td_node *made = make(&m);
    for (int o = 0; o < n->n_out; o++) {
        to[o].node = m.becomes[2 * o] == TD_STAYS ? to[o].node : made;
    }
    return made;
}
