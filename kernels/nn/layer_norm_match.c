/* kernels/nn/layer_norm_match.c - whether a node is the end of a row's normalisation, however that is spelt.
 *
 *   mean = Mean (x)      variance = Mean (SquaredDifference (x, mean))      r = Rsqrt (variance + epsilon)
 *
 *   x * (r * gamma) + (beta - mean * (r * gamma))       tf.nn.batch_normalization, and so most
 *   x * (r * gamma) + (-mean * (r * gamma) + beta)      Keras 3
 *   (x - mean) * r * gamma + beta                       by hand
 *   x * r * gamma                                       r of the mean of squares: RMS
 *
 * No spelling is looked for. What stands before a node is multiplied out, down to x, mean, r and what does
 * not depend on them: it is a normalisation when it comes to + x r [gamma] - mean r [gamma] [+ beta]. From
 * there on it goes forward as long as one reader scales, shifts or casts. gamma and beta are vectors along
 * their last axis, which their own shapes tell: those of variables are known. That of x seldom is.
 *
 * Casts between float, half and bfloat16 are looked through where the row is read and where statistics and
 * the result are rounded: all is float in between, and is rounded once.
 *
 * Does not: take several axes, double, a variance that is spelt as a difference of
 * squares, x or beta that was computed of r.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/emit.h"
#include "kernels/cpu/upcast.h"
#include "kernels/nn/layer_norm.h"
#include "kernels/nn/layer_norm_match.h"

enum { MOST_INNER = 40, MOST_TRIES = 48, MOST_DEPTH = 6, MOST_TERMS = 4, MOST_FACTORS = 4 };

enum kind { IS_X, IS_MEAN, IS_R, IS_OTHER };

struct factor {
    enum kind kind;
    struct td_value v;
};
struct term {
    bool minus;
    int n;
    struct factor by[MOST_FACTORS];
};
struct sum {
    int n;
    struct term term[MOST_TERMS];
};

struct match {
    struct td_emitter *e;
    const struct td_readers *r;
    int tries;
    const struct td_node *root, *mean; /* Rsqrt or Sqrt; NULL: not centred */
    struct td_value x;                 /* before Casts */
    int64_t axis;
    float epsilon;
    struct td_value param[2]; /* gamma, beta; no node: none */
    enum td_dtype param_type;
    int64_t length;                                 /* their; 0: there are none */
    int rank;                                       /* that they had, and so the result has at least */
    const struct td_node *inner[MOST_INNER], *last; /* what will be gone; the last one is read in its place */
    int n_inner;
};

/* ------------------------------------------------------------------ nodes and values */

static bool is_of_floats(enum td_dtype t)
{
    return t == TD_FLOAT || t == TD_HALF || t == TD_BFLOAT16;
}

static bool is_plain(const struct td_node *n)
{
    bool ok = n->op != NULL && n->n_out == 1 && n->n_control == 0 && n->fused == NULL && n->loop == NULL &&
              !n->out_ref[0] && is_of_floats(n->out_type[0]);
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = !n->in_ref[i] && !n->in[i].node->out_ref[n->in[i].port];
    }
    return ok;
}

static bool same(struct td_value a, struct td_value b)
{
    return a.node == b.node && a.port == b.port;
}

static bool is_cast(struct td_value v)
{
    return v.node->op != NULL && v.node->op->role == TD_ROLE_CAST && is_plain(v.node) &&
           is_of_floats(td_dtype_of(v.node->in[0]));
}

/* v before Casts that lose nothing. */
static struct td_value exact(struct td_value v)
{
    while (is_cast(v) && (td_dtype_of(v) == TD_FLOAT || td_dtype_of(v) == td_dtype_of(v.node->in[0]))) {
        v = v.node->in[0];
    }
    return v;
}

static bool is_sum(const struct td_node *n)
{
    return n->n_in == 2 && (td_is_op(n, "AddV2") || td_is_op(n, "Add"));
}

static bool is_quotient(const struct td_node *n)
{
    return n->n_in == 2 && (td_is_op(n, "RealDiv") || td_is_op(n, "Div"));
}

static bool push_inner(struct match *m, const struct td_node *n)
{
    for (int i = 0; i < m->n_inner; i++) {
        if (m->inner[i] == n) {
            return true;
        }
    }
    const bool ok = m->n_inner < MOST_INNER;
    if (ok) {
        m->inner[m->n_inner++] = n;
    }
    return ok;
}

/* v before Casts, which will be gone, with what is before them. */
static const struct td_node *inside(struct match *m, struct td_value v)
{
    while (is_cast(v) && push_inner(m, v.node)) {
        v = v.node->in[0];
    }
    return v.port == 0 && is_plain(v.node) && push_inner(m, v.node) ? v.node : NULL;
}

/* ------------------------------------------------------------------ statistics */

/* n is the mean of its input along an axis, which stays. */
static bool is_mean(const struct match *m, const struct td_node *n, int64_t *axis)
{
    const struct td_tensor *axes = n != NULL && td_is_op(n, "Mean") ? td_known_value(n->in[1]) : NULL;
    if (axes == NULL || td_tensor_count(axes) != 1 || !td_attr_bool(n, "keep_dims")) {
        return false;
    }
    const int rank = td_emit_shape(m->e, n->in[0])->rank;
    *axis = td_tensor_int(axes, 0);
    *axis -= rank > 0 && *axis >= 0 ? rank : 0;
    return true;
}

/* a - b is x - mean. */
static bool is_deviation(struct match *m, struct td_value a, struct td_value b)
{
    const int before = m->n_inner;
    const struct td_node *mean = inside(m, b);
    int64_t axis;
    if (is_mean(m, mean, &axis) && axis == m->axis && same(exact(mean->in[0]), exact(a))) {
        m->mean = mean;
        m->x = exact(a);
        return true;
    }
    m->n_inner = before;
    return false;
}

/* n, of which the variance is the mean, is the squares of x - mean, or of x. */
static bool find_row(struct match *m, const struct td_node *n)
{
    if (td_is_op(n, "SquaredDifference")) {
        return is_deviation(m, n->in[0], n->in[1]) || is_deviation(m, n->in[1], n->in[0]);
    }
    if (!td_is_op(n, "Square") && !(td_is_op(n, "Mul") && same(n->in[0], n->in[1]))) {
        return false;
    }
    const struct td_value v = n->in[0];
    if (v.port == 0 && td_is_op(v.node, "Sub") && is_plain(v.node) &&
        is_deviation(m, v.node->in[0], v.node->in[1])) {
        return push_inner(m, v.node);
    }
    m->x = exact(v);
    return true;
}

static bool is_number(struct td_value v, float *number)
{
    const struct td_tensor *t = td_known_value(v);
    const bool ok = t != NULL && is_of_floats(t->dtype) && td_tensor_count(t) == 1;
    *number = ok ? (float)td_upcast_at(t, 0) : 0;
    return ok;
}

/* From Rsqrt or Sqrt, n, to the row. */
static bool find_statistics(struct match *m, const struct td_node *n)
{
    m->root = n;
    const struct td_node *sum = push_inner(m, n) ? inside(m, n->in[0]) : NULL;
    if (sum == NULL || !is_sum(sum)) {
        return false;
    }
    const int k = is_number(sum->in[1], &m->epsilon) ? 0 : 1;
    if (k == 1 && !is_number(sum->in[0], &m->epsilon)) {
        return false;
    }
    const struct td_node *variance = inside(m, sum->in[k]);
    const struct td_node *squares = is_mean(m, variance, &m->axis) ? inside(m, variance->in[0]) : NULL;
    return squares != NULL && find_row(m, squares) && is_of_floats(td_dtype_of(m->x));
}

static bool is_arithmetic(const struct td_node *n)
{
    return is_plain(n) &&
           ((n->n_in == 2 && (is_sum(n) || is_quotient(n) || td_is_op(n, "Mul") || td_is_op(n, "Sub"))) ||
            td_is_op(n, "Neg"));
}

/* The first Rsqrt or Sqrt before v. */
static const struct td_node *find_root(struct match *m, struct td_value v, int depth)
{
    const struct td_node *n = v.node, *found = NULL;
    if (v.port != 0 || depth == MOST_DEPTH || m->tries == MOST_TRIES) {
        return NULL;
    }
    m->tries++;
    if ((td_is_op(n, "Rsqrt") || td_is_op(n, "Sqrt")) && is_plain(n)) {
        return n;
    }
    for (int i = 0; i < n->n_in && found == NULL && (is_arithmetic(n) || is_cast(v)); i++) {
        found = find_root(m, n->in[i], depth + 1);
    }
    return found;
}

/* ------------------------------------------------------------------ multiplying out */

static void one(struct sum *s, enum kind kind, struct td_value v)
{
    *s = (struct sum){.n = 1, .term = {{.n = 1, .by = {{kind, v}}}}};
}

static bool add(struct sum *to, const struct sum *more, bool minus)
{
    if (to->n + more->n > MOST_TERMS) {
        return false;
    }
    for (int i = 0; i < more->n; i++) {
        to->term[to->n] = more->term[i];
        to->term[to->n++].minus ^= minus;
    }
    return true;
}

static bool multiply(const struct sum *a, const struct sum *b, struct sum *to)
{
    *to = (struct sum){0};
    for (int i = 0; i < a->n; i++) {
        for (int k = 0; k < b->n; k++) {
            struct term t = a->term[i];
            if (to->n == MOST_TERMS || t.n + b->term[k].n > MOST_FACTORS) {
                return false;
            }
            for (int f = 0; f < b->term[k].n; f++) {
                t.by[t.n++] = b->term[k].by[f];
            }
            t.minus ^= b->term[k].minus;
            to->term[to->n++] = t;
        }
    }
    return true;
}

static bool depends(const struct sum *s)
{
    for (int i = 0; i < s->n; i++) {
        for (int f = 0; f < s->term[i].n; f++) {
            if (s->term[i].by[f].kind != IS_OTHER) {
                return true;
            }
        }
    }
    return false;
}

/* v is x, the mean or r. r of a Sqrt is what something is divided by. */
static bool is_known(struct match *m, struct td_value v, bool divided, struct sum *s)
{
    const int before = m->n_inner;
    if (same(exact(v), m->x)) {
        one(s, IS_X, v);
        return !divided;
    }
    const struct td_node *n = inside(m, v);
    if (n != NULL && (n == m->mean || n == m->root)) {
        one(s, n == m->mean ? IS_MEAN : IS_R, v);
        return n == m->mean ? !divided : divided == td_is_op(n, "Sqrt");
    }
    m->n_inner = before;
    return false;
}

static bool expand(struct match *m, struct td_value v, int depth, struct sum *s);

static bool expand_two(struct match *m, const struct td_node *n, int depth, struct sum *s)
{
    struct sum a, b;
    if (!expand(m, n->in[0], depth + 1, &a)) {
        return false;
    }
    if (td_is_op(n, "Neg")) {
        *s = (struct sum){0};
        return add(s, &a, true);
    }
    if (is_quotient(n)) {
        return is_known(m, n->in[1], true, &b) && multiply(&a, &b, s);
    }
    if (!expand(m, n->in[1], depth + 1, &b)) {
        return false;
    }
    *s = a;
    return td_is_op(n, "Mul") ? multiply(&a, &b, s) : add(s, &b, td_is_op(n, "Sub"));
}

/* v as a sum of products. What does not depend on the row is a factor as it is, and stays. */
static bool expand(struct match *m, struct td_value v, int depth, struct sum *s)
{
    const int before = m->n_inner;
    if (is_known(m, v, false, s)) {
        return true;
    }
    m->n_inner = before;
    if (v.port != 0 || !is_arithmetic(v.node) || depth == MOST_DEPTH || m->tries == MOST_TRIES) {
        one(s, IS_OTHER, v);
        return true;
    }
    m->tries++;
    if (!push_inner(m, v.node)) {
        return false;
    }
    if (!expand_two(m, v.node, depth, s) || !depends(s)) {
        m->n_inner = before; /* the caller finds a factor that is no vector, where it was the row's */
        one(s, IS_OTHER, v);
    }
    return true;
}

/* ------------------------------------------------------------------ what it comes to */

/* How long v is, a vector along its last axis; 0: it is none, or nobody knows. */
static int64_t vector_of(const struct match *m, struct td_value v)
{
    const struct td_shape *s = td_emit_shape(m->e, v);
    bool ok = s->rank > 0 && s->dim[s->rank - 1] > 1 && is_of_floats(td_dtype_of(v));
    for (int i = 0; ok && i < s->rank - 1; i++) {
        ok = s->dim[i] == 1;
    }
    return ok ? s->dim[s->rank - 1] : 0;
}

/* The vector v before it was cast, and given more axes. */
static struct td_value bare_vector(const struct match *m, struct td_value v)
{
    const int64_t length = vector_of(m, v);
    for (;;) {
        const struct td_node *n = v.node;
        const bool view = n->op != NULL && (n->op->flags & TD_OP_VIEW) && is_plain(n) && n->n_in == 2;
        if (view && v.port == 0 && vector_of(m, n->in[0]) == length) {
            v = n->in[0];
        } else if (!same(exact(v), v)) {
            v = exact(v);
        } else {
            return v;
        }
    }
}

/* v becomes scale (0) or offset (1), beside which the other is as long. */
static bool take_param(struct match *m, int which, struct td_value v)
{
    const int64_t length = vector_of(m, v);
    if (length == 0 || m->param[which].node != NULL || (m->length != 0 && length != m->length)) {
        return false;
    }
    const struct td_value bare = bare_vector(m, v);
    const bool fits_bare = m->length == 0 || td_dtype_of(bare) == m->param_type;
    if (!fits_bare && td_dtype_of(v) != m->param_type) {
        return false;
    }
    const int rank = td_emit_shape(m->e, v)->rank;
    m->param[which] = fits_bare ? bare : v;
    m->param_type = td_dtype_of(m->param[which]);
    m->length = length;
    m->rank = rank > m->rank ? rank : m->rank;
    return true;
}

/* How often a factor is in t; the one other factor is *other. False: there are several, or it is none of
 * x, mean and r alone. */
static bool count_factors(const struct term *t, int *n, struct td_value *other)
{
    *other = td_no_value;
    for (int f = 0; f < t->n; f++) {
        n[t->by[f].kind]++;
        if (t->by[f].kind == IS_OTHER) {
            *other = t->by[f].v;
        }
    }
    return n[IS_OTHER] <= 1;
}

/* + x r [scale] - mean r [scale] [+ offset] */
static bool is_norm(struct match *m, const struct sum *s)
{
    struct td_value of_x = td_no_value, of_mean = td_no_value;
    int rows = 0, means = 0;
    for (int i = 0; i < s->n; i++) {
        const struct term *t = &s->term[i];
        int n[IS_OTHER + 1] = {0};
        struct td_value other;
        if (!count_factors(t, n, &other)) {
            return false;
        }
        if (n[IS_R] == 1 && n[IS_X] == 1 && n[IS_MEAN] == 0 && !t->minus) {
            of_x = other;
            rows++;
        } else if (n[IS_R] == 1 && n[IS_X] == 0 && n[IS_MEAN] == 1 && t->minus) {
            of_mean = other;
            means++;
        } else if (n[IS_R] + n[IS_X] + n[IS_MEAN] > 0 || t->minus || !take_param(m, 1, other)) {
            return false;
        }
    }
    return rows == 1 && means == (m->mean != NULL) && (means == 0 || same(of_x, of_mean)) &&
           (of_x.node == NULL || take_param(m, 0, of_x));
}

/* Nobody outside reads what will be gone, nor asks for its shape. */
static bool is_closed(const struct match *m)
{
    for (int i = 0; i < m->n_inner; i++) {
        const struct td_node *n = m->inner[i];
        int inside = 0;
        for (int k = 0; k < m->n_inner; k++) {
            for (int j = 0; j < m->inner[k]->n_in; j++) {
                inside += m->inner[k]->in[j].node == n;
            }
        }
        if (n != m->last && (m->r->count(m->r, n) != inside || m->r->asker(m->r, n, 0) != NULL)) {
            return false;
        }
    }
    return true;
}

/* Takes in what one reader does to the result: scales, shifts or casts it. */
static bool take_next(struct match *m)
{
    const struct td_node *n = m->last, *to = m->r->only(m->r, n);
    if (to == NULL || !is_plain(to) || m->r->asker(m->r, n, 0) != NULL) {
        return false;
    }
    const int x = to->in[0].node == n ? 0 : 1;
    const bool takes = is_cast((struct td_value){(struct td_node *)to, 0})
                           ? true
                           : (td_is_op(to, "Mul") && to->n_in == 2 && m->param[1].node == NULL &&
                              take_param(m, 0, to->in[1 - x])) ||
                                 (is_sum(to) && take_param(m, 1, to->in[1 - x]));
    m->last = takes ? to : n;
    return takes;
}

static struct td_value emit(const struct match *m)
{
    struct td_value in[3] = {m->x};
    int n = 1;
    for (int i = 0; i < 2; i++) {
        if (m->param[i].node != NULL) {
            in[n++] = m->param[i];
        }
    }
    const struct td_attr attrs[] = {TD_ATTR_OF_FLOAT("_epsilon", m->epsilon),
                                    TD_ATTR_OF_INT("_axis", m->axis),
                                    TD_ATTR_OF_INT("_rank", m->rank),
                                    TD_ATTR_OF_BOOL("_centred", m->mean != NULL),
                                    TD_ATTR_OF_BOOL("_scale", m->param[0].node != NULL),
                                    TD_ATTR_OF_BOOL("_offset", m->param[1].node != NULL),
                                    TD_ATTR_OF_TYPE("Tout", m->last->out_type[0])};
    m->e->at = m->last;
    return td_emit_def(m->e, td_op_of_role(m->e->ops, TD_ROLE_NORM), in, n, attrs,
                       (int)(sizeof attrs / sizeof *attrs));
}

struct td_value td_layer_norm_rule(struct td_emitter *e, const struct td_readers *r, const struct td_node *n,
                                   const struct td_node **last)
{
    struct match m = {.e = e, .r = r, .last = n};
    struct sum s;
    const struct td_value end = {(struct td_node *)n, 0};
    const struct td_node *root = is_arithmetic(n) ? find_root(&m, end, 0) : NULL;
    m.tries = 0;
    if (root == NULL || !find_statistics(&m, root) || !expand(&m, end, 0, &s) || !is_norm(&m, &s) ||
        !is_closed(&m)) {
        return td_no_value;
    }
    while (take_next(&m)) {
    }
    *last = m.last;
    return emit(&m);
}
