/* kernels/control/tensor_array_lists.c - which uses of a TensorArray a TensorList serves as well.
 *
 *   size fixed                               an array that grows is none
 *   filled once                              in a loop, an element a round, or with all rows of a tensor
 *   read in a loop, an element a round       or gathered as a whole
 *
 * So nothing is written or read twice, which an array refuses and a list does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/tensor_array_lists.h"

#include <string.h>

#include "core/graph/emit.h"
#include "core/graph/graph.h"

enum { MOST_COMPARED = 16 };

/* ------------------------------------------------------------------ what the graph says */

static struct td_value behind(struct td_value v)
{
    while ((td_node_flags(v.node) & TD_OP_IDENTITY) && v.port < v.node->n_in) {
        v = v.node->in[v.port];
    }
    return v;
}

static const struct td_node *made_by(struct td_value v, const char *op)
{
    const struct td_node *n = behind(v).node;
    return behind(v).port == 0 && n->op != NULL && strcmp(n->op_name, op) == 0 ? n : NULL;
}

/* Also of what enters a loop as a number. */
static bool is_number(struct td_value v, int64_t *number)
{
    const struct td_value from = behind(v);
    const bool enters = (td_node_flags(from.node) & TD_OP_ENTER) && from.node->n_in == 1;
    const struct td_tensor *t = td_known_value(enters ? behind(from.node->in[0]) : from);
    const bool ok = t != NULL && td_tensor_count(t) == 1 && td_dtype_in(t->dtype, TD_SET_INTS);
    *number = ok ? td_tensor_int(t, 0) : 0;
    return ok;
}

/* The size of which axis of what v is, as far back as Transposes lead; false: it is none. */
static bool is_dim(struct td_value v, struct td_value *of, int64_t *axis)
{
    const struct td_node *pick = made_by(v, "StridedSlice");
    const struct td_node *shape = pick != NULL && td_attr_int(pick, "shrink_axis_mask") == 1 &&
                                          td_attr_int(pick, "begin_mask") == 0 && is_number(pick->in[1], axis)
                                      ? made_by(pick->in[0], "Shape")
                                      : NULL;
    if (shape == NULL || *axis < 0) {
        return false;
    }
    *of = behind(shape->in[0]);
    for (const struct td_node *n = made_by(*of, "Transpose"); n != NULL; n = made_by(*of, "Transpose")) {
        const struct td_tensor *perm = td_known_value(behind(n->in[1]));
        if (perm == NULL || *axis >= td_tensor_count(perm)) {
            break;
        }
        *axis = td_tensor_int(perm, *axis);
        *of = behind(n->in[0]);
    }
    return true;
}

static bool same_attrs(const struct td_node *a, const struct td_node *b)
{
    bool ok = a->n_attrs == b->n_attrs;
    for (int i = 0; ok && i < a->n_attrs; i++) {
        const struct td_attr *p = &a->attrs[i], *q = &b->attrs[i];
        const bool alike = strcmp(p->name, q->name) == 0 && p->kind == q->kind && p->n == 1 && q->n == 1;
        ok = p->name[0] == '_'         ? strcmp(p->name, q->name) == 0 /* a note that computes nothing */
             : !alike                  ? false
             : p->kind == TD_ATTR_INT  ? p->i[0] == q->i[0]
             : p->kind == TD_ATTR_TYPE ? p->type[0] == q->type[0]
                                       : p->kind == TD_ATTR_BOOL && p->b[0] == q->b[0];
    }
    return ok;
}

/* Both are the same number: one value, equal constants, or one op of such inputs without effects. *left: how
 * many may be compared. */
static bool same_within(struct td_value a, struct td_value b, int *left)
{
    int64_t x, y;
    a = behind(a);
    b = behind(b);
    if (a.node == b.node && a.port == b.port) {
        return true;
    }
    if (is_number(a, &x) || is_number(b, &y)) {
        return is_number(a, &x) && is_number(b, &y) && x == y;
    }
    struct td_value of, other;
    if (is_dim(a, &of, &x) && is_dim(b, &other, &y) && of.node == other.node && of.port == other.port) {
        return x == y;
    }
    const struct td_node *n = a.node, *m = b.node;
    bool ok = (*left)-- > 0 && a.port == b.port && n->op != NULL && n->op == m->op && n->n_in == m->n_in &&
              n->n_in > 0 && !(n->op->flags & (TD_OP_STATEFUL | TD_OP_CONST)) && same_attrs(n, m);
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = same_within(n->in[i], m->in[i], left);
    }
    return ok;
}

static bool same(struct td_value a, struct td_value b)
{
    int left = MOST_COMPARED;
    return same_within(a, b, &left);
}

/* A loop's variable that goes up by one or more in each round. */
static bool counts(struct td_value v)
{
    const struct td_node *n = behind(v).node;
    const struct td_node *merge =
        (td_node_flags(n) & TD_OP_SWITCH) && n->n_in == 2 ? behind(n->in[0]).node : n;
    for (int i = 0; (td_node_flags(merge) & TD_OP_DEAD_OK) && merge->n_in == 2 && i < 2; i++) {
        const struct td_node *next = merge->in[i].node;
        const struct td_node *sum = !(td_node_flags(next) & TD_OP_NEXT) ? NULL : behind(next->in[0]).node;
        if (sum == NULL || sum->op == NULL || sum->n_in != 2 ||
            (strcmp(sum->op_name, "Add") != 0 && strcmp(sum->op_name, "AddV2") != 0)) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            int64_t by;
            const struct td_node *from = behind(sum->in[k]).node;
            if (is_number(sum->in[1 - k], &by) && by > 0 &&
                (from == merge ||
                 ((td_node_flags(from) & TD_OP_SWITCH) && behind(from->in[0]).node == merge))) {
                return true;
            }
        }
    }
    return false;
}

/* 0, 1 .. below a limit. */
static bool is_range(struct td_value v, struct td_value *limit)
{
    const struct td_node *n = made_by(v, "Range");
    int64_t from, by;
    *limit = n != NULL ? n->in[1] : td_no_value;
    return n != NULL && is_number(n->in[0], &from) && from == 0 && is_number(n->in[2], &by) && by == 1;
}

static struct td_value shape_value(struct td_emitter *e, const struct td_shape *s)
{
    int64_t dims[TD_MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        dims[i] = s->dim[i];
    }
    return s->rank < 0 ? td_emit_int(e, TD_INT32, -1) : td_emit_ints(e, TD_INT32, dims, s->rank);
}

static struct td_value element_shape(struct td_emitter *e, const struct td_node *n)
{
    return shape_value(e, td_attr_shape(n, "element_shape"));
}

static enum td_dtype dtype_of(const struct td_node *array)
{
    return td_attr_type(array, "dtype");
}

/* ------------------------------------------------------------------ TensorArrayV3 */

static bool new_fits(const struct td_node *n, const struct td_node *array)
{
    (void)array;
    return !td_attr_bool(n, "dynamic_size") && dtype_of(n) != TD_RESOURCE && dtype_of(n) != TD_VARIANT;
}

static struct td_value new_list(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                                struct td_value list)
{
    (void)array;
    (void)list;
    return td_emit(e, "TensorListReserve", TD_IN(element_shape(e, n), n->in[0]),
                   TD_ATTRS(TD_ATTR_OF_TYPE("element_dtype", dtype_of(n))));
}

const struct td_array_rule td_array_new_rule = {TD_ARRAY_NEW, new_fits, new_list};

/* ------------------------------------------------------------------ one element */

static bool at_counter(const struct td_node *n, const struct td_node *array)
{
    (void)array;
    return counts(n->in[1]);
}

static struct td_value read_list(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                                 struct td_value list)
{
    return td_emit(e, "TensorListGetItem", TD_IN(list, n->in[1], element_shape(e, array)),
                   TD_ATTRS(TD_ATTR_OF_TYPE("element_dtype", dtype_of(array))));
}

const struct td_array_rule td_array_read_rule = {TD_ARRAY_READ, at_counter, read_list};

static struct td_value write_list(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                                  struct td_value list)
{
    (void)array;
    return td_emit(e, "TensorListSetItem", TD_IN(list, n->in[1], n->in[2]), TD_NO_ATTRS);
}

const struct td_array_rule td_array_write_rule = {TD_ARRAY_WRITE, at_counter, write_list};

/* ------------------------------------------------------------------ all elements */

/* A new array is filled with all rows of a tensor, as many as it is long. */
static bool scatter_fits(const struct td_node *n, const struct td_node *array)
{
    struct td_value limit;
    const struct td_value flow = behind(n->in[3]);
    return flow.node == array && flow.port == 1 && is_range(n->in[1], &limit) && same(limit, array->in[0]);
}

static struct td_value scatter_list(struct td_emitter *e, const struct td_node *n,
                                    const struct td_node *array, struct td_value list)
{
    (void)list;
    return td_emit(e, "TensorListFromTensor", TD_IN(n->in[2], element_shape(e, array)), TD_NO_ATTRS);
}

const struct td_array_rule td_array_scatter_rule = {TD_ARRAY_FILL, scatter_fits, scatter_list};

static bool always(const struct td_node *n, const struct td_node *array)
{
    (void)n;
    (void)array;
    return true;
}

static struct td_value gather_list(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                                   struct td_value list)
{
    struct td_value limit = td_no_value;
    const bool range = is_range(n->in[1], &limit);
    const struct td_node *size = range ? made_by(limit, "TensorArraySizeV3") : NULL;
    const bool all =
        (size != NULL && behind(size->in[0]).node == array) || (range && same(limit, array->in[0]));
    const struct td_attr dtype = TD_ATTR_OF_TYPE("element_dtype", dtype_of(array));
    const struct td_value shape = element_shape(e, n);
    return all ? td_emit(e, "TensorListStack", TD_IN(list, shape), &dtype, 1)
               : td_emit(e, "TensorListGather", TD_IN(list, n->in[1], shape), &dtype, 1);
}

const struct td_array_rule td_array_gather_rule = {TD_ARRAY_ASK, always, gather_list};

static struct td_value size_list(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                                 struct td_value list)
{
    (void)n;
    (void)array;
    return td_emit(e, "TensorListLength", TD_IN(list), TD_NO_ATTRS);
}

const struct td_array_rule td_array_size_rule = {TD_ARRAY_ASK, always, size_list};
