/* kernels/linalg/labels.c - labels of axes: through Transposes, of products, and the shapes of products.
 *
 * A label stands where its axis does, from the last one on; letters are numbers beyond all places. Nothing is
 * kept or allocated, but for the nodes that tell a shape: Shapes of the operands, cut and joined.
 *
 * Does not: know what is done with a product.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/labels.h"

#include <string.h>

#include "core/graph/emit.h"
#include "kernels/linalg/einsum_equation.h"

enum { LETTERS = 1000 };

/* ------------------------------------------------------------------ layouts */

int td_label_at(const struct td_labels *l, int i)
{
    return i < l->n ? l->at[i] : l->open ? i : TD_NO_LABEL;
}

bool td_labels_have(const struct td_labels *l, int label)
{
    for (int i = 0; i < l->n; i++) {
        if (l->at[i] == label) {
            return true;
        }
    }
    return l->open && label >= l->n && label < TD_LABEL_SUMMED;
}

bool td_labels_equal(const struct td_labels *a, const struct td_labels *b)
{
    bool equal = a->n == b->n && a->open == b->open;
    for (int i = 0; equal && i < a->n; i++) {
        equal = a->at[i] == b->at[i];
    }
    return equal;
}

bool td_labels_spell_out(struct td_labels *l, int n)
{
    if (n > TD_MAX_RANK || (l->n < n && !l->open)) {
        return false;
    }
    for (; l->n < n; l->n++) {
        l->at[l->n] = l->n;
    }
    return true;
}

bool td_labels_permute(struct td_labels *l, const struct td_perm *p)
{
    if (!td_labels_spell_out(l, p->rank) || l->n != p->rank) {
        return false;
    }
    const struct td_labels x = *l;
    for (int i = 0; i < p->rank; i++) {
        l->at[p->rank - 1 - i] = x.at[p->rank - 1 - p->at[i]];
    }
    l->open = false;
    return true;
}

/* ------------------------------------------------------------------ products */

static struct td_labels two(int last, int before, bool open)
{
    return (struct td_labels){.n = 2, .at = {last, before}, .open = open};
}

static void matmul_layouts(struct td_product *p)
{
    const bool plain = td_is_op(p->n, "MatMul"), tx = td_attr_bool(p->n, plain ? "transpose_a" : "adj_x"),
               ty = td_attr_bool(p->n, plain ? "transpose_b" : "adj_y");
    p->summed = TD_LABEL_SUMMED;
    p->same = plain || td_is_op(p->n, "BatchMatMul");
    p->in[0] = tx ? two(1, TD_LABEL_SUMMED, !plain) : two(TD_LABEL_SUMMED, 1, !plain);
    p->in[1] = ty ? two(TD_LABEL_SUMMED, 0, !plain) : two(0, TD_LABEL_SUMMED, !plain);
    p->out = two(0, 1, !plain);
}

/* A term without "...", or with one in front of `named` letters. */
static bool term_layout(const struct td_einsum_term *t, int named, struct td_labels *l)
{
    if ((t->ellipsis && t->ellipsis_at != 0) || t->ellipsis != (named >= 0) ||
        (named >= 0 && t->n != named)) {
        return false;
    }
    *l = (struct td_labels){.n = t->n, .open = t->ellipsis};
    for (int i = 0; i < t->n; i++) {
        l->at[i] = LETTERS + t->label[t->n - 1 - i];
        for (int k = 0; k < i; k++) {
            if (l->at[k] == l->at[i]) {
                return false;
            }
        }
    }
    return true;
}

/* The one letter that both operands have, and the result has not; each other one is in the result. */
static bool find_summed(struct td_product *p)
{
    int found = 0;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < p->in[i].n; k++) {
            const int label = p->in[i].at[k];
            if (!td_labels_have(&p->out, label)) {
                found += i;
                p->summed = label;
                if (!td_labels_have(&p->in[1 - i], label)) {
                    return false;
                }
            }
        }
    }
    return found == 1;
}

static bool einsum_layouts(struct td_product *p)
{
    const struct td_shape unknown = td_shape_unknown(), *const in[2] = {&unknown, &unknown};
    int64_t size[TD_EINSUM_LABELS];
    struct td_einsum e;
    struct td_err none = {0};
    bool ready;
    if (td_einsum_analyse(p->n, in, &e, size, &ready, &none) != TD_OK || e.n_in != 2) {
        return false;
    }
    const int named = e.out.ellipsis ? e.out.n : -1;
    p->same = named < 0;
    return term_layout(&e.out, named, &p->out) && term_layout(&e.in[0], named, &p->in[0]) &&
           term_layout(&e.in[1], named, &p->in[1]) && find_summed(p);
}

bool td_product_of(const struct td_node *n, struct td_product *p)
{
    p->n = n;
    if (n->n_in != 2 || td_dtype_of(n->in[0]) != n->out_type[0] || td_dtype_of(n->in[1]) != n->out_type[0]) {
        return false;
    }
    if (td_is_op(n, "Einsum")) {
        return einsum_layouts(p);
    }
    const bool is_matmul = td_is_op(n, "BatchMatMulV2") || td_is_op(n, "BatchMatMulV3") ||
                           td_is_op(n, "BatchMatMul") || td_is_op(n, "MatMul");
    if (is_matmul) {
        matmul_layouts(p);
    }
    return is_matmul;
}

/* ------------------------------------------------------------------ the shape of a product */

/* The axis of the product's operands, one behind the other, that is as long as the one of this label; -1. */
static int axis_of_operands(const struct td_product *p, int label)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < p->in[k].n; i++) {
            if (p->in[k].at[i] == label) {
                return (k == 0 ? 0 : p->in[0].n) + p->in[k].n - 1 - i;
            }
        }
    }
    return -1;
}

static bool is_closed(const struct td_product *p)
{
    return p->same && !p->in[0].open && !p->in[1].open;
}

/* By letters, where nothing broadcasts; or a product of matrices as they are, or under a permutation. */
bool td_product_tells_shape(const struct td_product *p, const struct td_labels *of)
{
    bool ok = true;
    for (int i = 0; ok && i < of->n; i++) {
        ok = is_closed(p) ? axis_of_operands(p, of->at[i]) >= 0 : of->at[i] < TD_LABEL_SUMMED;
    }
    return ok;
}

/* Numbers [from, to) of a vector, counted from its end; to 0: up to it; all: from its beginning. */
static struct td_value numbers_of(struct td_emitter *e, struct td_value v, int64_t from, int64_t to, bool all)
{
    const struct td_attr masks[] = {TD_ATTR_OF_INT("begin_mask", all), TD_ATTR_OF_INT("end_mask", to == 0)};
    const int64_t one = 1;
    return td_emit(e, "StridedSlice",
                   TD_IN(v, td_emit_ints(e, TD_INT32, &from, 1), td_emit_ints(e, TD_INT32, &to, 1),
                         td_emit_ints(e, TD_INT32, &one, 1)),
                   masks, 2);
}

/* The shapes x and y of a product's operands in one vector, as axis_of_operands counts; or, of matrices, the
 * shape of the product. */
static struct td_value joined(struct td_emitter *e, const struct td_product *p, struct td_value x,
                              struct td_value y)
{
    const struct td_value zero = td_emit_int(e, TD_INT32, 0);
    if (is_closed(p)) {
        return td_emit(e, "ConcatV2", TD_IN(x, y, zero), TD_NO_ATTRS);
    }
    const bool tx = p->in[0].at[0] == 1, ty = p->in[1].at[0] == TD_LABEL_SUMMED;
    const struct td_value batch_x = numbers_of(e, x, 0, -2, true), batch_y = numbers_of(e, y, 0, -2, true),
                          rows = tx ? numbers_of(e, x, -1, 0, false) : numbers_of(e, x, -2, -1, false),
                          columns = ty ? numbers_of(e, y, -2, -1, false) : numbers_of(e, y, -1, 0, false);
    const struct td_value batch =
        p->same ? batch_x : td_emit(e, "BroadcastArgs", TD_IN(batch_x, batch_y), TD_NO_ATTRS);
    return td_emit(e, "ConcatV2", TD_IN(batch, rows, columns, zero), TD_NO_ATTRS);
}

/* Where the axes have another order, the numbers are gathered in it. */
void td_product_tell_shape(struct td_emitter *e, const struct td_product *p, const struct td_labels *of,
                           struct td_node *shape)
{
    const struct td_attr out = TD_ATTR_OF_TYPE("out_type", shape->out_type[0]);
    int64_t axes[TD_MAX_RANK];
    for (int i = 0; i < of->n; i++) {
        axes[of->n - 1 - i] = is_closed(p) ? axis_of_operands(p, of->at[i]) : of->n - 1 - of->at[i];
    }
    e->at = shape;
    const struct td_value x = td_emit(e, "Shape", TD_IN(p->n->in[0]), &out, 1),
                          y = td_emit(e, "Shape", TD_IN(p->n->in[1]), &out, 1), all = joined(e, p, x, y);
    if (of->open) { /* as is */
        td_emit_again(e, shape, td_op_find(e->ops, "Identity"), TD_IN(all), TD_NO_ATTRS);
    } else {
        td_emit_again(e, shape, td_op_find(e->ops, "GatherV2"),
                      TD_IN(all, td_emit_ints(e, TD_INT32, axes, of->n), td_emit_int(e, TD_INT32, 0)),
                      TD_NO_ATTRS);
    }
}
