/* kernels/linalg/attention_match.c - whether a Softmax stands in the midst of attention.
 *
 *   scores   a product of two tensors that are computed: BatchMatMul of any version, MatMul, Einsum
 *            .. Transposes, x * c, x / c, x + mask, x - mask, where(mask, x, c), in any order and number
 *   Softmax  along the last axis, S
 *            .. Transposes, x * c, where(mask, x, 0)
 *   sum      a product that sums along S: on any side of it
 *            .. Transposes that leave the last axis last
 *
 * Axes go by labels. Each product says what it calls the axes of its operands and of its result; labels
 * follow values through Transposes, in either direction, so that what reaches the kernel is where each
 * tensor keeps each axis. The rank need not be known: a BatchMatMul speaks of the last two axes, and of
 * those before them by their distance from the end. The scores' axis T is the last one that the query
 * alone has; all others are batch.
 *
 * Half and bfloat16 are computed in float up to the softmax: Casts to float and back between the products
 * are looked through, and masks that were cast with them are taken as they were.
 *
 * bfloat16 stays as it is on a processor that has instructions for its products, which are faster than all
 * else here.
 *
 * Products with weights are left alone: a layer with a softmax for its activation looks the same, and is
 * faster with its weights packed.
 *
 * Does not: look through Reshapes, treat several S, or a softmax that is spelt out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/permute.h"
#include "core/graph/emit.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/upcast.h"
#include "kernels/linalg/attention.h"
#include "kernels/linalg/labels.h"

enum { MOST_TRIES = 64, MOST_VALUES = 32, MOST_FILLS = 4 };
enum { WIDTH = 5000 }; /* label of what the sum alone has: value's last axis */

struct pending { /* a stage, and what the axes were called where it stands */
    struct td_attention_stage s;
    struct td_labels at;
    struct td_value operand; /* no node: a number */
};

/* A value that will not be: scores or p, from the product on. */
struct gone {
    const struct td_node *n;
    struct td_labels at;
    bool broadcast; /* its shape may be larger than the product's */
};

struct match {
    struct td_emitter *e;
    const struct td_readers *r;
    struct td_product scores, sum;
    int side; /* of the sum that p is on */
    int n_stages, tries;
    struct pending stage[TD_ATTENTION_STAGES];
    struct gone gone[MOST_VALUES];
    int n_gone;
    const struct td_node *fill[MOST_FILLS]; /* masks that are true everywhere, and left out */
    int n_fills;
    /* that Transposes and the sum want the scores to have, behind the first `from` of the stages at first and
     * `to` at last; that Transposes want the output to have; 0: any */
    int rank, from, to, output_rank;
    struct td_labels p, out;
    const struct td_node *last;
};

/* v and its layout become what is behind Transposes. */
static bool before_transposes(const struct match *m, struct td_value *v, struct td_labels *l)
{
    struct td_perm p;
    while (v->port == 0 && td_permute_is_transpose(m->e, v->node, &p)) {
        const struct td_perm back = td_perm_inverse(&p);
        if (!td_labels_permute(l, &back)) {
            return false;
        }
        *v = v->node->in[0];
    }
    return true;
}

/* v is a variable or a constant, under any shape. */
static bool is_weight(struct td_value v)
{
    while (v.port == 0 && v.node->n_in > 0 &&
           ((td_node_flags(v.node) & (TD_OP_IDENTITY | TD_OP_VIEW)) ||
            (v.node->op != NULL && v.node->op->role == TD_ROLE_TRANSPOSE))) {
        v = v.node->in[0];
    }
    return (td_node_flags(v.node) & (TD_OP_CONST | TD_OP_READS)) || v.node->out_ref[v.port];
}

/* ------------------------------------------------------------------ stages */

/* The types that there are kernels of. */
static bool is_of_floats(enum td_dtype t)
{
    return t == TD_FLOAT || t == TD_HALF || t == TD_BFLOAT16;
}

static bool is_number(struct td_value v, float *number)
{
    const struct td_tensor *t = td_known_value(v);
    const bool ok = t != NULL && is_of_floats(t->dtype) && td_tensor_count(t) == 1 && t->shape.rank <= 2;
    *number = ok ? (float)td_upcast_at(t, 0) : 0;
    return ok;
}

static bool is_plain(const struct td_node *n)
{
    bool ok = n->op != NULL && n->n_out == 1 && n->n_control == 0 && n->fused == NULL && n->loop == NULL &&
              !n->out_ref[0];
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = !n->in_ref[i] && !n->in[i].node->out_ref[n->in[i].port];
    }
    return ok;
}

/* n rounds scores to another of these types, or makes floats of them. */
static bool is_cast(const struct td_node *n)
{
    return n->op != NULL && n->op->role == TD_ROLE_CAST && n->n_in == 1 && is_of_floats(n->out_type[0]) &&
           is_of_floats(td_dtype_of(n->in[0]));
}

/* Whether one more node may be looked at: chains may be as long as a graph. */
static bool goes_on(struct match *m)
{
    m->tries += m->tries < MOST_TRIES;
    return m->tries < MOST_TRIES;
}

/* The kind of n, whose input x is what goes on; -1: it is no stage. */
static int kind_of(const struct td_node *n, int x)
{
    if (n->n_in == 3 && td_is_op(n, "SelectV2")) {
        return x == 1 ? TD_ATTENTION_KEEP : x == 2 ? TD_ATTENTION_DROP : -1;
    }
    if (n->n_in != 2) {
        return -1;
    }
    return td_is_op(n, "AddV2") || td_is_op(n, "Add")                 ? TD_ATTENTION_ADD
           : td_is_op(n, "Mul")                                       ? TD_ATTENTION_MUL
           : td_is_op(n, "Sub") && x == 0                             ? TD_ATTENTION_SUB
           : (td_is_op(n, "RealDiv") || td_is_op(n, "Div")) && x == 0 ? TD_ATTENTION_DIV
                                                                      : -1;
}

static bool push_stage(struct match *m, const struct pending *s)
{
    const bool ok = m->n_stages < TD_ATTENTION_STAGES;
    if (ok) {
        m->stage[m->n_stages++] = *s;
    }
    return ok;
}

/* n, which only `reader` reads, is true wherever some scores are, whose layout is that of what it masks. */
static bool is_true_everywhere(const struct match *m, const struct td_node *n, const struct td_node *reader,
                               const struct td_labels *at)
{
    const struct td_tensor *t = td_is_op(n, "Fill") ? td_known_value(n->in[1]) : NULL;
    if (t == NULL || t->dtype != TD_BOOL || td_tensor_count(t) != 1 || !TD_DATA(t, bool)[0] ||
        !td_is_op(n->in[0].node, "Shape") || m->r->only(m->r, n) != reader) {
        return false;
    }
    for (int i = 0; i < m->n_gone; i++) {
        if (m->gone[i].n == n->in[0].node->in[0].node) {
            return td_labels_equal(&m->gone[i].at, at);
        }
    }
    return false;
}

/* where(a and b, x, c) is where(a, where(b, x, c), c). */
static bool add_masks(struct match *m, struct pending s, struct td_value mask, const struct td_node *reader)
{
    const struct td_node *n = mask.node;
    const bool keeps = s.s.kind == TD_ATTENTION_KEEP;
    if (td_is_op(n, keeps ? "LogicalAnd" : "LogicalOr") && is_plain(n) && m->r->only(m->r, n) == reader &&
        goes_on(m)) {
        return add_masks(m, s, n->in[0], n) && add_masks(m, s, n->in[1], n);
    }
    if (keeps && m->n_fills < MOST_FILLS && is_true_everywhere(m, n, reader, &s.at)) {
        m->fill[m->n_fills++] = n;
        return true;
    }
    s.operand = mask;
    return push_stage(m, &s);
}

/* n as a stage of what has this layout. */
static bool add_stage(struct match *m, const struct td_node *n, int x, const struct td_labels *at, bool after)
{
    const int kind = kind_of(n, x);
    struct pending s = {.s = {.kind = (enum td_attention_kind)kind, .after = after, .operand = -1},
                        .at = *at};
    if (kind == TD_ATTENTION_KEEP || kind == TD_ATTENTION_DROP) {
        return is_number(n->in[3 - x], &s.s.number) && td_dtype_of(n->in[0]) == TD_BOOL &&
               (!after || s.s.number == 0) && add_masks(m, s, n->in[0], n);
    }
    if (kind < 0 || td_dtype_of(n->in[1 - x]) != n->out_type[0] || (after && kind != TD_ATTENTION_MUL)) {
        return false;
    }
    if (!is_number(n->in[1 - x], &s.s.number)) {
        s.operand = n->in[1 - x];
        if (td_dtype_of(s.operand) == TD_FLOAT && is_cast(s.operand.node)) {
            s.operand = s.operand.node->in[0];
        }
    }
    return (s.operand.node == NULL || td_dtype_of(s.operand) == m->scores.n->out_type[0]) &&
           push_stage(m, &s);
}

static bool leave(struct match *m, const struct td_node *n, const struct td_labels *at)
{
    bool broadcast = false;
    for (int i = 0; i < m->n_stages; i++) {
        broadcast = broadcast || m->stage[i].operand.node != NULL;
    }
    if (m->n_gone == MOST_VALUES) {
        return false;
    }
    m->gone[m->n_gone++] = (struct gone){n, *at, broadcast};
    return true;
}

/* Here the scores, or p, must have so many axes. */
static void want_rank(struct match *m, int rank)
{
    m->from = m->rank == 0 ? m->n_stages : m->from;
    m->to = m->n_stages;
    m->rank = rank;
}

/* The same of the scores, or of p. */
static bool reorder(struct match *m, struct td_labels *l, const struct td_perm *p)
{
    want_rank(m, p->rank);
    return td_labels_permute(l, p);
}

/* v, which only the node `reader` reads, is scores behind stages: *l is its layout. */
static bool scores_of(struct match *m, struct td_value v, const struct td_node *reader, struct td_labels *l)
{
    const struct td_node *n = v.node;
    struct td_perm p;
    if (v.port != 0 || !is_plain(n) || m->r->only(m->r, n) != reader || !goes_on(m)) {
        return false;
    }
    if (td_product_of(n, &m->scores)) {
        *l = m->scores.out;
        return leave(m, n, l);
    }
    if (td_permute_is_transpose(m->e, n, &p)) {
        return scores_of(m, n->in[0], n, l) && reorder(m, l, &p) && leave(m, n, l);
    }
    if (is_cast(n)) {
        return scores_of(m, n->in[0], n, l) && leave(m, n, l);
    }
    for (int i = 0; i < n->n_in; i++) {
        m->n_stages = m->n_gone = m->n_fills = m->rank = 0;
        if (kind_of(n, i) >= 0 && scores_of(m, n->in[i], n, l)) {
            return add_stage(m, n, i, l, false) && leave(m, n, l);
        }
    }
    return false;
}

/* From the Softmax on to the product that sums with it. */
static bool find_sum(struct match *m, const struct td_node *softmax)
{
    const struct td_node *n = softmax, *to;
    struct td_perm p;
    while (leave(m, n, &m->p) && (to = m->r->only(m->r, n)) != NULL && is_plain(to)) {
        const int x = to->in[0].node == n ? 0 : to->n_in > 1 && to->in[1].node == n ? 1 : 2;
        if (td_product_of(to, &m->sum)) {
            m->side = x;
            m->last = to;
            return x < 2 && to->out_type[0] == m->scores.n->out_type[0];
        }
        if (td_permute_is_transpose(m->e, to, &p)) {
            if (x != 0 || !reorder(m, &m->p, &p)) {
                return false;
            }
        } else if (!is_cast(to) && !add_stage(m, to, x, &m->p, true)) {
            return false;
        }
        n = to;
    }
    return false;
}

/* ------------------------------------------------------------------ the sum's labels as the scores' */

/* A label of the sum, as the scores have it. */
static int translated(const struct match *m, int label)
{
    const struct td_labels *in = &m->sum.in[m->side];
    for (int i = 0; i < in->n; i++) {
        if (in->at[i] == label) {
            return td_label_at(&m->p, i);
        }
    }
    const bool beyond = in->open && label >= in->n && label < TD_LABEL_SUMMED;
    return beyond                                           ? td_label_at(&m->p, label)
           : td_labels_have(&m->sum.in[1 - m->side], label) ? WIDTH
                                                            : TD_NO_LABEL;
}

static bool translate(const struct match *m, struct td_labels *l)
{
    for (int i = 0; i < l->n; i++) {
        l->at[i] = translated(m, l->at[i]);
        if (l->at[i] == TD_NO_LABEL) {
            return false;
        }
    }
    return true;
}

/* Takes in Transposes behind the sum, up to one that leaves the width last. False: it is last nowhere. */
static bool go_on(struct match *m)
{
    struct td_labels now = m->out;
    const struct td_node *n = m->last, *to;
    struct td_perm p;
    bool found = now.at[0] == WIDTH;
    while (m->r->asker(m->r, n, 0) == NULL && (to = m->r->only(m->r, n)) != NULL &&
           td_permute_is_transpose(m->e, to, &p) && to->in[0].node == n && td_labels_permute(&now, &p)) {
        n = to;
        if (now.at[0] == WIDTH) {
            found = true;
            m->output_rank = p.rank;
            m->out = now;
            m->last = to;
        }
    }
    return found;
}

/* value and output, in labels of the scores. S must be what is summed. */
static bool find_output(struct match *m, int s, struct td_value *value, struct td_labels *v)
{
    struct td_labels *in = &m->sum.in[m->side], *other = &m->sum.in[1 - m->side];
    m->out = m->sum.out;
    *value = m->sum.n->in[1 - m->side];
    if (!in->open) {
        want_rank(m, in->n);
    }
    if ((m->p.open && !td_labels_spell_out(&m->p, in->n)) || !td_labels_spell_out(in, m->p.n) ||
        in->n != m->p.n || translated(m, m->sum.summed) != s) {
        return false;
    }
    if ((other->open && !td_labels_spell_out(other, m->p.n)) ||
        (m->out.open && !td_labels_spell_out(&m->out, m->p.n))) {
        return false;
    }
    *v = *other;
    return translate(m, v) && translate(m, &m->out) && before_transposes(m, value, v) && go_on(m);
}

/* ------------------------------------------------------------------ canonical axes */

/* The labels of the canonical axes: S, T, batch. */
static bool canonical(const struct td_labels *s, const struct td_labels *key, const struct td_labels *value,
                      struct td_labels *c)
{
    int t = 1;
    while (t < s->n && (td_labels_have(key, s->at[t]) || td_labels_have(value, s->at[t]))) {
        t++;
    }
    if (t >= s->n || (s->open && t != 1)) {
        return false;
    }
    *c = (struct td_labels){.n = 2, .at = {s->at[0], s->at[t]}, .open = s->open};
    for (int i = 1; i < s->n; i++) {
        if (i != t) {
            c->at[c->n++] = s->at[i];
        }
    }
    return true;
}

/* Where `l` keeps the canonical axes, whose first two are called last and before in it. False: it has others,
 * too. */
static bool axes_of(struct td_labels c, const struct td_labels *l, int last, int before,
                    struct td_attention_axes *a)
{
    int found = 0;
    c.at[0] = last;
    c.at[1] = before;
    if (c.open && c.n < l->n && !td_labels_spell_out(&c, l->n)) {
        return false;
    }
    *a = (struct td_attention_axes){.rank = l->open ? 0 : l->n, .n = c.n};
    for (int k = 0; k < c.n; k++) {
        for (int i = 0; i < l->n; i++) {
            a->at[k] = l->at[i] == c.at[k] ? -(i + 1) : a->at[k];
        }
        found += a->at[k] != 0;
        if (a->at[k] == 0 && l->open && c.at[k] >= l->n && c.at[k] < TD_LABEL_SUMMED) {
            a->at[k] = -(c.at[k] + 1);
        }
    }
    return found == l->n && a->at[0] != 0 && a->at[1] != 0;
}

static bool all_there(const struct td_attention_axes *a)
{
    bool ok = true;
    for (int k = 0; k < a->n; k++) {
        ok = ok && a->at[k] != 0;
    }
    return ok;
}

/* ------------------------------------------------------------------ shapes that are asked for */

/* Nobody but what is left out reads the shape. */
static bool is_left_out(const struct match *m, const struct td_node *shape)
{
    const struct td_node *to = m->r->only(m->r, shape);
    for (int i = 0; i < m->n_fills; i++) {
        if (m->fill[i] == to) {
            return true;
        }
    }
    return false;
}

static bool may_tell(const struct match *m, const struct gone *g, const struct td_node *shape)
{
    return td_is_op(shape, "Shape") && !g->broadcast && td_product_tells_shape(&m->scores, &g->at);
}

/* Whether who asks for the shape of something that will be gone can be told without it; tells them. */
static bool answer(const struct match *m, bool tell)
{
    for (int k = 0; k < m->n_gone; k++) {
        const struct gone *g = &m->gone[k];
        struct td_node *shape;
        for (int i = 0; (shape = m->r->asker(m->r, g->n, i)) != NULL;) {
            if (is_left_out(m, shape)) {
                i++;
            } else if (!may_tell(m, g, shape)) {
                return false;
            } else if (tell) {
                td_product_tell_shape(m->e, &m->scores, &g->at, shape); /* it asks no more */
            } else {
                i++;
            }
        }
    }
    return true;
}

/* ------------------------------------------------------------------ the node */

struct tensors {
    struct td_value in[TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES];
    int n;
};

static bool put_stages(const struct match *m, const struct td_labels *c, struct td_attention_form *f,
                       struct tensors *t)
{
    f->n_stages = m->n_stages;
    for (int i = 0; i < m->n_stages; i++) {
        const struct pending *s = &m->stage[i];
        f->stage[i] = s->s;
        if (s->operand.node != NULL) {
            f->stage[i].operand = t->n;
            t->in[t->n++] = s->operand;
            if (!axes_of(*c, &s->at, c->at[0], c->at[1], &f->stage[i].axes)) {
                return false;
            }
            f->stage[i].axes.rank = 0; /* fewer axes broadcast */
        }
    }
    return true;
}

static struct td_value emit(const struct match *m, const struct td_attention_form *f, const struct tensors *t)
{
    int64_t form[TD_ATTENTION_MOST_FORM];
    float numbers[TD_ATTENTION_STAGES + 1] = {0};
    for (int i = 0; i < f->n_stages; i++) {
        numbers[i] = f->stage[i].number;
    }
    const struct td_attr attrs[] = {
        TD_ATTR_OF_INTS("_form", form, td_attention_write(f, form)),
        {.name = "_numbers", .kind = TD_ATTR_FLOAT, .is_list = true, .n = TD_ATTENTION_STAGES, .f = numbers}};
    m->e->at = m->last;
    return td_emit_def(m->e, td_op_of_role(m->e->ops, TD_ROLE_ATTENTION), t->in, t->n, attrs, 2);
}

/* All of it, from the Softmax on, whose operand has layout m->p. */
static struct td_value make(struct match *m, const struct td_node *softmax)
{
    const struct td_labels s = m->p;
    struct td_labels c, v;
    struct tensors t = {.n = TD_ATTENTION_TENSORS};
    struct td_attention_form f = {0};
    if (s.at[0] == m->scores.summed || !find_sum(m, softmax) ||
        !find_output(m, s.at[0], &t.in[TD_ATTENTION_VALUE], &v)) {
        return td_no_value;
    }
    const int k = td_labels_have(&m->scores.in[1], s.at[0]);
    struct td_labels key = m->scores.in[k], query = m->scores.in[1 - k];
    if (td_labels_have(&query, s.at[0]) || !canonical(&s, &key, &v, &c)) {
        return td_no_value;
    }
    t.in[TD_ATTENTION_QUERY] = m->scores.n->in[1 - k];
    t.in[TD_ATTENTION_KEY] = m->scores.n->in[k];
    if (is_weight(t.in[TD_ATTENTION_KEY]) || is_weight(t.in[TD_ATTENTION_VALUE]) ||
        !before_transposes(m, &t.in[TD_ATTENTION_QUERY], &query) ||
        !before_transposes(m, &t.in[TD_ATTENTION_KEY], &key) ||
        !axes_of(c, &query, m->scores.summed, c.at[1], &f.axes[TD_ATTENTION_QUERY]) ||
        !axes_of(c, &key, m->scores.summed, c.at[0], &f.axes[TD_ATTENTION_KEY]) ||
        !axes_of(c, &v, WIDTH, c.at[0], &f.axes[TD_ATTENTION_VALUE]) ||
        !axes_of(c, &m->out, WIDTH, c.at[1], &f.axes[TD_ATTENTION_OUTPUT]) ||
        !all_there(&f.axes[TD_ATTENTION_OUTPUT]) || !put_stages(m, &c, &f, &t) || !answer(m, false)) {
        return td_no_value;
    }
    (void)answer(m, true);
    f.rank = m->rank;
    f.from = m->from;
    f.to = m->to;
    f.output_rank = m->output_rank;
    f.same_scores = m->scores.same;
    f.same_sum = m->sum.same;
    return emit(m, &f, &t);
}

struct td_value td_attention_rule(struct td_emitter *e, const struct td_readers *r, const struct td_node *n,
                                  const struct td_node **last)
{
    struct match m = {.e = e, .r = r};
    if (!td_is_op(n, "Softmax") || !is_plain(n) || !is_of_floats(n->out_type[0]) ||
        !scores_of(&m, n->in[0], n, &m.p)) {
        return td_no_value;
    }
    if (m.scores.n->out_type[0] == TD_BFLOAT16 && !r->there && td_bfloat16_way() == TD_BFLOAT16_NATIVE) {
        return td_no_value;
    }
    const struct td_value v = make(&m, n);
    *last = m.last;
    return v;
}
