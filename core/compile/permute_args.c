/* core/compile/permute_args.c - what permuting changes in a node's own arguments: constants that list axes or
 * hold a number an axis, and attributes that do. Each becomes the node's own, since others may share it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/permute.h"

/* ------------------------------------------------------------------ constant inputs */

bool td_permute_is_index(const struct td_tensor *t)
{
    return t != NULL && (t->dtype == TD_INT32 || t->dtype == TD_INT64);
}

bool td_permute_has_numbers(const struct td_node *n, int i, int64_t count)
{
    const struct td_tensor *c = td_known_value(n->in[i]);
    return td_permute_is_index(c) && td_tensor_count(c) == count;
}

bool td_permute_known_axes(const struct td_node *n, int i, int rank, uint32_t *axes)
{
    const struct td_tensor *c = td_known_value(n->in[i]);
    bool ok = td_permute_is_index(c) && c->shape.rank <= 1 && td_tensor_count(c) <= TD_MAX_RANK;
    *axes = 0;
    for (int64_t k = 0; ok && k < td_tensor_count(c); k++) {
        int axis;
        ok = td_shape_axis(rank, td_tensor_int(c, k), &axis) && !(*axes >> axis & 1u);
        *axes |= ok ? 1u << axis : 0;
    }
    return ok;
}

/* Input i, a constant of `count` numbers, becomes one of these, of the same dtype and shape. */
static void set_numbers(struct td_emitter *e, struct td_node *n, int i, const int64_t *v)
{
    const struct td_tensor *old = td_known_value(n->in[i]);
    struct td_tensor fresh;
    if (e->rc || (e->rc = td_tensor_new(&fresh, old->dtype, &old->shape, e->err)) != TD_OK) {
        return;
    }
    for (int64_t k = 0; k < td_tensor_count(old); k++) {
        td_tensor_set_int(&fresh, k, v[k]);
    }
    const struct td_node *at = e->at;
    e->at = n->in[i].node;
    const struct td_value made = td_emit_const(e, &fresh);
    e->at = at;
    n->in[i] = made.node != NULL ? made : n->in[i];
    td_tensor_clear(&fresh);
}

void td_permute_axes(struct td_emitter *e, struct td_node *n, int i, const struct td_perm *p)
{
    const struct td_tensor *old = td_known_value(n->in[i]);
    int64_t axes[TD_MAX_RANK];
    for (int64_t k = 0; k < td_tensor_count(old); k++) {
        int axis = 0;
        (void)td_shape_axis(p->rank, td_tensor_int(old, k), &axis); /* checked by td_permute_known_axes */
        axes[k] = td_perm_axis(p, axis);
    }
    set_numbers(e, n, i, axes);
}

void td_permute_numbers(struct td_emitter *e, struct td_node *n, int i, const struct td_perm *p, int each)
{
    const struct td_tensor *old = td_known_value(n->in[i]);
    int64_t v[2 * TD_MAX_RANK];
    for (int k = 0; k < each * p->rank; k++) {
        v[k] = td_tensor_int(old, p->at[k / each] * each + k % each);
    }
    set_numbers(e, n, i, v);
}

/* ------------------------------------------------------------------ attributes */

void td_permute_ints(struct td_emitter *e, struct td_node *n, const char *name, const struct td_perm *p,
                     int each)
{
    int count;
    const int64_t *old = td_attr_ints(n, name, &count);
    int64_t v[2 * TD_MAX_RANK];
    if (count != each * p->rank) {
        return;
    }
    for (int i = 0; i < count; i++) {
        v[i] = old[p->at[i / each] * each + i % each];
    }
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_INTS(name, v, count));
}

void td_permute_mask(struct td_emitter *e, struct td_node *n, const char *name, const struct td_perm *p)
{
    const int64_t mask = td_attr_int(n, name);
    int64_t permuted = 0;
    for (int i = 0; i < p->rank; i++) {
        permuted |= (mask >> p->at[i] & 1) << i;
    }
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_INT(name, permuted));
}
