/* kernels/linalg/einsum_grad.c - the gradient of an Einsum is an Einsum: of what arrived and the other
 * operand, with the labels of the input as its result.
 *
 *   abc,cd->abd            dx: abd,cd->abc    dy: abc,abd->cd
 *   aab->b                 dx: b,a->aab       with ones [size of a]: a repeated label is a diagonal
 *   abc,cd->ad             dx: ad,cd->ac, then ac,b->abc with ones [size of b]
 *
 * A label of the input that is nowhere else was summed over: it comes back with a vector of ones. Ellipses
 * broadcast, so what arrives is summed to the input's own axes again (_SumTo), which aligns from the right:
 * the ellipsis is put in front for that, and back in its place by one more Einsum where the equation has it
 * elsewhere. At complex values the other operand is conjugated.
 *
 * Does not: check the equation, which has passed the op's shape function by the time any of this runs; one
 * that cannot be read gives nodes that are refused as the forward one is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/einsum_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

enum { MOST_LABELS = 64 };

/* Labels in order, "..." apart. */
struct term {
    char label[MOST_LABELS + 1];
    int n;
    int dots; /* labels before "..."; -1: there is none */
};

static const char *read_term(const char *p, struct term *t)
{
    *t = (struct term){.dots = -1};
    for (; *p != 0 && *p != ',' && *p != '-'; p++) {
        if (*p == '.') {
            t->dots = t->n;
        } else if (t->n < MOST_LABELS) {
            t->label[t->n++] = *p;
        }
    }
    return *p == ',' ? p + 1 : *p == '-' && p[1] == '>' ? p + 2 : p;
}

static bool has(const struct term *t, char label)
{
    return t != NULL && memchr(t->label, label, (size_t)t->n) != NULL;
}

/* Those of t's labels that are in a or in b (NULL: none), or, not `in`, those that are in neither, each
 * once; the ellipsis stays. */
static struct term labels_of(const struct term *t, const struct term *a, const struct term *b, bool in)
{
    struct term some = {.dots = -1};
    for (int i = 0; i <= t->n; i++) {
        if (in && t->dots == i) {
            some.dots = some.n;
        }
        if (i < t->n && (has(a, t->label[i]) || has(b, t->label[i])) == in &&
            (in || !has(&some, t->label[i]))) {
            some.label[some.n++] = t->label[i];
        }
    }
    return some;
}

enum { ROOM = 3 * (MOST_LABELS + 4) };

/* Writes the text and returns its end. */
static char *put(char *to, const char *text, int n)
{
    memcpy(to, text, (size_t)n);
    to[n] = 0;
    return to + n;
}

static char *put_term(char *to, const struct term *t)
{
    const int before = t->dots < 0 ? 0 : t->dots;
    to = put(to, t->label, before);
    to = put(to, "...", t->dots < 0 ? 0 : 3);
    return put(to, t->label + before, t->n - before);
}

static struct td_value einsum_of_one(struct td_emitter *e, struct td_value x, const struct term *tx,
                                     const struct term *tz)
{
    char equation[ROOM];
    put_term(put(put_term(equation, tx), "->", 2), tz);
    return td_emit(e, "Einsum", TD_IN(x),
                   TD_ATTRS(TD_ATTR_OF_TEXT("equation", equation), TD_ATTR_OF_INT("N", 1)));
}

static struct td_value einsum_of_two(struct td_emitter *e, struct td_value x, const struct term *tx,
                                     struct td_value y, const struct term *ty, const struct term *tz)
{
    char equation[ROOM];
    put_term(put(put_term(put(put_term(equation, tx), ",", 1), ty), "->", 2), tz);
    return td_emit(e, "Einsum", TD_IN(x, y),
                   TD_ATTRS(TD_ATTR_OF_TEXT("equation", equation), TD_ATTR_OF_INT("N", 2)));
}

/* ------------------------------------------------------------------ labels that were summed over */

/* Ones of the sizes that the labels of `some` have in x. */
static struct td_value ones_of(struct td_emitter *e, struct td_value x, const struct term *t,
                               const struct term *some)
{
    struct td_value size[MOST_LABELS];
    const struct td_value shape = td_f_shape(e, x);
    for (int i = 0; i < some->n; i++) {
        const int at = (int)((const char *)memchr(t->label, some->label[i], (size_t)t->n) - t->label);
        const bool behind = t->dots >= 0 && at >= t->dots;
        size[i] = td_f_expand(e, td_f_element(e, shape, behind ? at - t->n : at), 0);
    }
    return td_f_fill(e, td_f_concat(e, size, some->n, 0), td_f_number(e, x, 1));
}

/* v, whose labels are `from`, with those of x that it lacks, in the order of `to`. t: x's own order. */
static struct td_value spread(struct td_emitter *e, struct td_value v, const struct term *from,
                              struct td_value x, const struct term *t, const struct term *to)
{
    const struct term lost = labels_of(t, from, NULL, false);
    if (lost.n == 0) {
        return v;
    }
    return einsum_of_two(e, v, from, ones_of(e, x, t, &lost), &lost, to);
}

/* ------------------------------------------------------------------ one operand, two */

static void grad_of_one(struct td_grad *g, const struct term *x, const struct term *z)
{
    const struct td_value in = td_grad_in(g, 0), dz = td_grad_at(g, 0);
    const struct term lost = labels_of(x, z, NULL, false);
    td_grad_give(g, 0, lost.n > 0 ? spread(g->e, dz, z, in, x, x) : einsum_of_one(g->e, dz, z, x));
}

/* Whether `...` may stand for more axes in the result than in operand i. */
static bool may_broadcast(const struct td_grad *g, const struct term *t, int i)
{
    const struct td_shape *own = td_emit_shape(g->e, td_grad_in(g, i));
    const struct td_shape *other = td_emit_shape(g->e, td_grad_in(g, 1 - i));
    return own->rank < 0 || other->rank < 0 || own->rank - t[i].n < other->rank - t[1 - i].n;
}

/* v, an ellipsis before the labels `front`, summed to x's axes and put in its order. */
static struct td_value sum_ellipsis(struct td_emitter *e, struct td_value v, const struct term *front,
                                    struct td_value x, const struct term *t)
{
    const struct td_value shape = td_f_shape(e, x);
    const int behind = t->n - t->dots;
    const struct td_value before = td_f_part(e, shape, 0, t->dots);
    const struct td_value rest = td_f_slice(e, shape, td_f_ints(e, t->dots), td_f_ints(e, -1));
    struct td_value order = td_f_concat(e, TD_IN(rest, before), 0);
    if (behind > 0) {
        order = td_f_concat(e, TD_IN(td_f_but_last(e, rest, behind), before, td_f_last(e, shape, behind)), 0);
    }
    return einsum_of_one(e, td_f_sum_to_shape(e, v, order), front, t);
}

static struct td_value grad_of_two(struct td_grad *g, const struct term *t, const struct term *z, int i)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), x = td_grad_in(g, i);
    const struct td_value other = td_f_conj(e, td_grad_in(g, 1 - i));
    struct term own = t[i];
    const bool dots = z->dots >= 0, moved = dots && own.dots > 0 && may_broadcast(g, t, i);
    if (dots && (own.dots < 0 || moved)) {
        own.dots = 0;
    }
    const struct term kept = labels_of(&own, z, &t[1 - i], true);
    struct td_value v =
        i == 0 ? einsum_of_two(e, dz, z, other, &t[1], &kept) : einsum_of_two(e, other, &t[0], dz, z, &kept);
    v = spread(e, v, &kept, x, &t[i], &own);
    if (moved) {
        return sum_ellipsis(e, v, &own, x, &t[i]);
    }
    return dots ? td_f_sum_to(e, v, x) : v;
}

void td_einsum_grad(struct td_grad *g)
{
    struct term t[2] = {{.dots = -1}, {.dots = -1}}, z;
    const char *p = read_term(td_attr_str(g->node, "equation"), &t[0]);
    if (g->node->n_in == 2) {
        p = read_term(p, &t[1]);
    }
    read_term(p, &z);
    if (z.dots < 0) { /* an ellipsis of the inputs alone stands for nothing */
        t[0].dots = t[1].dots = -1;
    }
    if (g->node->n_in == 1) {
        grad_of_one(g, &t[0], &z);
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (td_grad_wants(g, i)) {
            td_grad_give(g, i, grad_of_two(g, t, &z, i));
        }
    }
}
