/* kernels/control/list_batchable.c - rows in TensorLists, as loops over time keep them: an element a step,
 * the rows inside each element.
 *
 * A list whose elements were set at different places of a graph is judged as a whole: all elements CONST, or
 * all ROW at the same axis with the same shape. A list with an element a row is MIX.
 *
 * Does not: follow TensorListConcat, TensorListSplit, TensorListScatter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/list_batchable.h"

/* Inputs that leave nothing to judge: the first MIX, else the first UNSET, is what comes out. */
static bool settled(struct td_batchable_step *s)
{
    const struct td_batchable_value *found = NULL;
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_MIX || (s->in[i].kind == TD_VALUE_UNSET && found == NULL)) {
            found = &s->in[i];
        }
    }
    for (int o = 0; found != NULL && o < s->n_out; o++) {
        s->out[o] = *found;
    }
    return found != NULL;
}

static bool parameter(struct td_batchable_step *s, int i)
{
    return s->in[i].kind <= TD_VALUE_SIZE || td_batchable_no(s, "its input %d differs by row", i);
}

static bool steady_parameter(struct td_batchable_step *s, int i)
{
    return s->in[i].kind == TD_VALUE_CONST ||
           td_batchable_no(s, "its input %d is not the same for all rows", i);
}

/* Shapes of an element: of input i without its first `drop` dimensions. NULL without memory. */
static const struct td_shape *element_shape(struct td_batchable_step *s, int i, int drop)
{
    struct td_shape *shape = td_batchable_shapes(s);
    for (int p = 0; p < TD_BATCHABLE_PROBES && shape != NULL; p++) {
        const struct td_shape *x = &s->in_shape[p][i];
        shape[p] = td_shape_unknown();
        if (x->rank >= drop) {
            shape[p].rank = x->rank - drop;
            for (int d = drop; d < x->rank; d++) {
                shape[p].dim[d - drop] = x->dim[d];
            }
        }
    }
    return shape;
}

bool td_batchable_list_new(struct td_batchable_step *s)
{
    if (settled(s)) {
        return true;
    }
    s->out[0] = (struct td_batchable_value){.kind = TD_VALUE_LIST, .length = -1};
    if (!parameter(s, 0) || !steady_parameter(s, 1)) {
        return false;
    }
    (void)td_batchable_int(s, 1, 0, &s->out[0].length);
    return true;
}

bool td_batchable_list_empty(struct td_batchable_step *s)
{
    return settled(s) || (td_batchable_list_new(s) && (s->out[0].length = 0, true));
}

/* Output 0 is a list of the slices of input i along axis 0. */
static bool slices(struct td_batchable_step *s, int i)
{
    const struct td_batchable_value *x = &s->in[i];
    if ((x->kind != TD_VALUE_CONST && x->kind != TD_VALUE_ROW) || s->in_shape[0][i].rank < 1) {
        return td_batchable_no(s, "its elements follow from the number of rows, or have no known shape");
    }
    if (x->kind == TD_VALUE_ROW && x->axis == 0) {
        return td_batchable_no(s, "it makes an element of each row");
    }
    s->out[0] = (struct td_batchable_value){.kind = TD_VALUE_LIST,
                                            .item = x->kind,
                                            .axis = x->axis - 1,
                                            .pre = x->pre,
                                            .length = s->in_shape[0][i].dim[0],
                                            .item_shape = element_shape(s, i, 1)};
    return s->out[0].item_shape != NULL || td_batchable_no(s, "no memory");
}

bool td_batchable_list_from(struct td_batchable_step *s)
{
    return settled(s) || (parameter(s, 1) && slices(s, 0));
}

/* Output o is an element of list l, below `length` as a leading dimension unless that is -2. */
static bool put_element(struct td_batchable_step *s, int o, const struct td_batchable_value *l,
                        int64_t length)
{
    int lead = length != -2;
    if (l->kind != TD_VALUE_LIST || l->item == TD_VALUE_UNSET) {
        s->out[o].kind = l->kind == TD_VALUE_LIST ? TD_VALUE_UNSET : TD_VALUE_CONST;
        return l->kind == TD_VALUE_LIST || l->kind == TD_VALUE_CONST ||
               td_batchable_no(s, "its input is not a list");
    }
    for (int p = 0; p < TD_BATCHABLE_PROBES && l->item_shape != NULL; p++) {
        struct td_shape *y = td_batchable_out_shape(s, o, p);
        const struct td_shape *x = &l->item_shape[p];
        *y = td_shape_unknown();
        if (x->rank >= 0 && x->rank + lead <= TD_MAX_RANK) {
            y->rank = x->rank + lead;
            y->dim[0] = length;
            for (int d = 0; d < x->rank; d++) {
                y->dim[d + lead] = x->dim[d];
            }
        }
    }
    s->out[o].kind = TD_VALUE_CONST;
    return l->item == TD_VALUE_CONST || td_batchable_put(s, o, l->axis + lead, l->pre, 0);
}

bool td_batchable_list_get(struct td_batchable_step *s)
{
    return settled(s) || (steady_parameter(s, 1) && parameter(s, 2) && put_element(s, 0, &s->in[0], -2));
}

bool td_batchable_list_pop(struct td_batchable_step *s)
{
    if (settled(s)) {
        return true;
    }
    s->out[0] = s->in[0];
    s->out[0].length = s->in[0].length > 0 ? s->in[0].length - 1 : -1;
    return parameter(s, 1) && put_element(s, 1, &s->in[0], -2);
}

/* One element is taken out: the others are as they were, and it reads as zeros. */
bool td_batchable_list_take(struct td_batchable_step *s)
{
    if (settled(s)) {
        return true;
    }
    s->out[0] = s->in[0];
    return steady_parameter(s, 1) && parameter(s, 2) && put_element(s, 1, &s->in[0], -2);
}

/* Output 0 is list `list`, now `length` long, with input i among its elements. */
static bool add_item(struct td_batchable_step *s, int list, int i, int64_t length)
{
    const struct td_batchable_value *l = &s->in[list], *x = &s->in[i];
    if (l->kind != TD_VALUE_LIST || (x->kind != TD_VALUE_CONST && x->kind != TD_VALUE_ROW)) {
        return td_batchable_no(s, "its input %d is neither the same for all rows nor has their axis", i);
    }
    s->out[0] = (struct td_batchable_value){.kind = TD_VALUE_LIST,
                                            .item = x->kind,
                                            .axis = x->axis,
                                            .pre = x->pre,
                                            .length = length,
                                            .item_shape = element_shape(s, i, 0)};
    if (s->out[0].item_shape == NULL) {
        return td_batchable_no(s, "no memory");
    }
    return td_batchable_join_items(&s->out[0], l) ||
           td_batchable_no(s, "not all of its elements have the rows at the same axis");
}

bool td_batchable_list_set(struct td_batchable_step *s)
{
    if (s->in[2].kind == TD_VALUE_UNSET) {
        s->out[0] = s->in[0];
        return true;
    }
    bool grows = td_attr_bool(s->node, "resize_if_index_out_of_bounds");
    return settled(s) || (steady_parameter(s, 1) && add_item(s, 0, 2, grows ? -1 : s->in[0].length));
}

bool td_batchable_list_push(struct td_batchable_step *s)
{
    if (s->in[1].kind == TD_VALUE_UNSET) {
        s->out[0] = s->in[0];
        return true;
    }
    return settled(s) || add_item(s, 0, 1, s->in[0].length < 0 ? -1 : s->in[0].length + 1);
}

bool td_batchable_list_stack(struct td_batchable_step *s)
{
    int64_t given = td_attr_int(s->node, "num_elements");
    return settled(s) ||
           (parameter(s, 1) && put_element(s, 0, &s->in[0], given >= 0 ? given : s->in[0].length));
}

bool td_batchable_list_gather(struct td_batchable_step *s)
{
    const struct td_shape *picked = &s->in_shape[0][1];
    return settled(s) || (steady_parameter(s, 1) && parameter(s, 2) &&
                          put_element(s, 0, &s->in[0], picked->rank == 1 ? picked->dim[0] : -1));
}

bool td_batchable_list_length(struct td_batchable_step *s)
{
    s->out[0].kind = TD_VALUE_CONST;
    return settled(s) || s->in[0].kind == TD_VALUE_LIST || s->in[0].kind == TD_VALUE_CONST;
}

/* ------------------------------------------------------------------ TensorArrays: handle, .., flow */

bool td_batchable_array_new(struct td_batchable_step *s)
{
    if (settled(s)) {
        return true;
    }
    s->out[0].kind = TD_VALUE_CONST;
    s->out[1] = (struct td_batchable_value){.kind = TD_VALUE_LIST, .length = -1};
    if (!steady_parameter(s, 0)) {
        return false;
    }
    if (!td_attr_bool(s->node, "dynamic_size")) {
        (void)td_batchable_int(s, 0, 0, &s->out[1].length);
    }
    return true;
}

bool td_batchable_array_write(struct td_batchable_step *s)
{
    if (s->in[2].kind == TD_VALUE_UNSET) {
        s->out[0] = s->in[3];
        return true;
    }
    return settled(s) ||
           (steady_parameter(s, 0) && steady_parameter(s, 1) && add_item(s, 3, 2, s->in[3].length));
}

bool td_batchable_array_scatter(struct td_batchable_step *s)
{
    if (settled(s)) {
        return true;
    }
    if (!steady_parameter(s, 0) || !steady_parameter(s, 1) || !slices(s, 2) ||
        s->in[3].kind != TD_VALUE_LIST) {
        return false;
    }
    s->out[0].length = s->in[3].length;
    return td_batchable_join_items(&s->out[0], &s->in[3]) ||
           td_batchable_no(s, "not all of its elements have the rows at the same axis");
}

bool td_batchable_array_read(struct td_batchable_step *s)
{
    return settled(s) ||
           (steady_parameter(s, 0) && steady_parameter(s, 1) && put_element(s, 0, &s->in[2], -2));
}

bool td_batchable_array_gather(struct td_batchable_step *s)
{
    const struct td_shape *picked = &s->in_shape[0][1];
    return settled(s) || (steady_parameter(s, 0) && steady_parameter(s, 1) &&
                          put_element(s, 0, &s->in[2], picked->rank == 1 ? picked->dim[0] : -1));
}

bool td_batchable_array_size(struct td_batchable_step *s)
{
    s->out[0].kind = TD_VALUE_CONST;
    return settled(s) || (steady_parameter(s, 0) && s->in[1].kind == TD_VALUE_LIST);
}
