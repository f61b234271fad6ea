/* kernels/control/list_grad.c - gradients of TensorList ops: a list for a list, of as many elements.
 *
 *   forward                        backward
 *   item = Get(l, i)               dl = AddItem(Reserve(length of l), i, ditem)
 *   l' = Set(l, i, item)           dl, ditem = TakeItem(dl', i)
 *   l' = PushBack(l, item)         dl, ditem = PopBack(dl')
 *   l', item = PopBack(l)          dl = PushBack(dl', ditem)
 *   t = Stack(l)                   dl = FromTensor(dt)               and the other way round
 *   t = Gather(l, at)              dl = AddItems(Reserve(length of l), dt, at)
 *   l' = Scatter(t, at)            .., dt = TakeItems(dl', at)
 *   l' = ScatterInto(l, t, at)     dl, dt = TakeItems(dl', at)
 *   t, lengths = Concat(l)         dl = Split(dt, lengths)           and the other way round
 *
 * An element of such a list that was never set is zeros: whoever reads one says its shape, so that lists of
 * gradients are made without knowing the shape of their elements. Of the forward pass only shapes, indices
 * and the lengths of lists are used, never a list: one that is still referenced could not be changed in
 * place, and a loop that fills a list would copy it at each step.
 *
 * An element that Gather reads twice gets the last of both gradients alone, and rows that Scatter writes to
 * one place get all of its: as in TensorFlow.
 *
 * Lists in lists: an element never set has no zeros to be read as, so what is read is added to a list of
 * zeros like the forward one (whole).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/list_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

/* ------------------------------------------------------------------ what they share */

static struct td_value emit(struct td_grad *g, const char *op, const struct td_value *in, int n_in,
                            enum td_dtype dtype)
{
    return td_emit(g->e, op, in, n_in, TD_ATTRS(TD_ATTR_OF_TYPE("element_dtype", dtype)));
}

static struct td_value length_of(struct td_grad *g, struct td_value list)
{
    return td_f_1(g->e, "TensorListLength", list);
}

/* A list as long as `like`, of zeros. */
static struct td_value zeros(struct td_grad *g, struct td_value like, enum td_dtype dtype)
{
    return emit(g, "TensorListReserve", TD_IN(td_f_int(g->e, -1), length_of(g, like)), dtype);
}

/* What arrived at output 0, a list. */
static struct td_value list_at(struct td_grad *g, enum td_dtype dtype)
{
    return td_grad_arrived(g, 0) ? td_grad_at(g, 0) : zeros(g, td_grad_out(g, 0), dtype);
}

/* The shape of v's rows. */
static struct td_value row_shape(struct td_grad *g, struct td_value v)
{
    return td_f_part(g->e, td_f_shape(g->e, v), 1, -1);
}

/* v, read from a list of gradients where the forward pass has `like`. */
static struct td_value whole(struct td_grad *g, struct td_value v, struct td_value like)
{
    return td_dtype_of(like) != TD_VARIANT ? v
                                           : td_emit(g->e, "AddN", TD_IN(v, td_f_zeros_like(g->e, like)),
                                                     TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
}

static enum td_dtype element_dtype(const struct td_grad *g)
{
    return td_attr_type(g->node, "element_dtype");
}

/* ------------------------------------------------------------------ one element */

void td_list_push_grad(struct td_grad *g)
{
    const struct td_value item = td_grad_in(g, 1);
    const struct td_value popped =
        emit(g, "TensorListPopBack", TD_IN(td_grad_at(g, 0), td_f_shape(g->e, item)), element_dtype(g));
    td_grad_give(g, 0, popped);
    td_grad_give(g, 1, whole(g, td_f_port(popped, 1), item));
}

void td_list_pop_grad(struct td_grad *g)
{
    const enum td_dtype dtype = element_dtype(g);
    td_grad_give(g, 0, emit(g, "TensorListPushBack", TD_IN(list_at(g, dtype), td_grad_at(g, 1)), dtype));
}

void td_list_get_grad(struct td_grad *g)
{
    const enum td_dtype dtype = element_dtype(g);
    const struct td_value none = zeros(g, td_grad_in(g, 0), dtype);
    td_grad_give(g, 0, emit(g, "_TensorListAddItem", TD_IN(none, td_grad_in(g, 1), td_grad_at(g, 0)), dtype));
}

void td_list_set_grad(struct td_grad *g)
{
    const struct td_value list = td_grad_in(g, 0), item = td_grad_in(g, 2);
    const struct td_value taken =
        emit(g, "_TensorListTakeItem", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1), td_f_shape(g->e, item)),
             element_dtype(g));
    const bool grows = td_attr_bool(g->node, "resize_if_index_out_of_bounds");
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, grows ? td_f_2(g->e, "TensorListResize", taken, length_of(g, list)) : taken);
    }
    td_grad_give(g, 2, whole(g, td_f_port(taken, 1), item));
}

void td_list_resize_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "TensorListResize", td_grad_at(g, 0), length_of(g, td_grad_in(g, 0))));
}

/* ------------------------------------------------------------------ whole tensors */

void td_list_from_tensor_grad(struct td_grad *g)
{
    const struct td_value t = td_grad_in(g, 0);
    td_grad_give(g, 0,
                 emit(g, "TensorListStack", TD_IN(td_grad_at(g, 0), row_shape(g, t)), element_dtype(g)));
}

void td_list_stack_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 emit(g, "TensorListFromTensor", TD_IN(td_grad_at(g, 0), row_shape(g, td_grad_out(g, 0))),
                      element_dtype(g)));
}

void td_list_gather_grad(struct td_grad *g)
{
    const enum td_dtype dtype = element_dtype(g);
    const struct td_value none = zeros(g, td_grad_in(g, 0), dtype);
    td_grad_give(g, 0,
                 emit(g, "_TensorListAddItems", TD_IN(none, td_grad_at(g, 0), td_grad_in(g, 1)), dtype));
}

void td_list_scatter_grad(struct td_grad *g)
{
    const struct td_value shape = row_shape(g, td_grad_in(g, 0));
    const struct td_value taken =
        emit(g, "_TensorListTakeItems", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1), shape), element_dtype(g));
    td_grad_give(g, 0, td_f_port(taken, 1));
}

void td_list_scatter_into_grad(struct td_grad *g)
{
    const struct td_value t = td_grad_in(g, 1);
    const struct td_value taken =
        emit(g, "_TensorListTakeItems", TD_IN(td_grad_at(g, 0), td_grad_in(g, 2), row_shape(g, t)),
             element_dtype(g));
    if (td_grad_wants(g, 0)) { /* scattering may have made it longer */
        td_grad_give(g, 0, td_f_2(g->e, "TensorListResize", taken, length_of(g, td_grad_in(g, 0))));
    }
    td_grad_give(g, 1, td_f_port(taken, 1));
}

void td_list_concat_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 emit(g, "TensorListSplit", TD_IN(td_grad_at(g, 0), td_f_int(g->e, -1), td_grad_out(g, 1)),
                      element_dtype(g)));
}

void td_list_split_grad(struct td_grad *g)
{
    const struct td_value rest = row_shape(g, td_grad_in(g, 0));
    const struct td_value element = td_f_concat(g->e, TD_IN(td_f_ints(g->e, -1), rest), 0);
    td_grad_give(
        g, 0,
        emit(g, "TensorListConcatV2", TD_IN(td_grad_at(g, 0), element, td_grad_in(g, 2)), element_dtype(g)));
}

/* ------------------------------------------------------------------ the second order */

/* l' = l with item added to element i. */
void td_list_add_item_grad(struct td_grad *g)
{
    const struct td_value item = td_grad_in(g, 2);
    td_grad_pass_on(g, 0, 0);
    if (td_grad_wants(g, 2)) {
        const struct td_value got =
            emit(g, "TensorListGetItem", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1), td_f_shape(g->e, item)),
                 element_dtype(g));
        td_grad_give(g, 2, whole(g, got, item));
    }
}

void td_list_add_items_grad(struct td_grad *g)
{
    td_grad_pass_on(g, 0, 0);
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1,
                     emit(g, "TensorListGather",
                          TD_IN(td_grad_at(g, 0), td_grad_in(g, 2), row_shape(g, td_grad_in(g, 1))),
                          element_dtype(g)));
    }
}

/* l', item = l without element i, which becomes zero. Nothing of l' at i leads anywhere. */
void td_list_take_item_grad(struct td_grad *g)
{
    const enum td_dtype dtype = element_dtype(g);
    td_grad_give(
        g, 0,
        emit(g, "TensorListSetItem", TD_IN(list_at(g, dtype), td_grad_in(g, 1), td_grad_at(g, 1)), dtype));
}

void td_list_take_items_grad(struct td_grad *g)
{
    const enum td_dtype dtype = element_dtype(g);
    td_grad_give(g, 0,
                 emit(g, "TensorListScatterIntoExistingList",
                      TD_IN(list_at(g, dtype), td_grad_at(g, 1), td_grad_in(g, 1)), dtype));
}
