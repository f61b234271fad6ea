/* kernels/cpu/elementwise.c - how element-wise loops meet shapes.
 *
 * Broadcasting: dims of size 1 in the result are dropped and neighbours that broadcast alike are merged, so
 * that x[N,H,W,C] + b[C] has two dims (one scalar step for b, one run of C) and equal shapes have one. The
 * innermost dim is handed to the loop as two arrays or array and scalar; an odometer steps through the
 * others.
 *
 *   z dims   d[0] .. d[r-1]     strides sa[], sb[] in elements, 0 where that operand is broadcast
 *
 * A short innermost run ([.., 3] + [3]) would spend its time in calls: the broadcast operand is then repeated
 * in scratch memory until the run is TILE elements long.
 *
 * Long loops are cut for threads that idle: a unary one anywhere, a binary one at steps of its outermost dim.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/elementwise.h"

#include "kernels/cpu/spread.h"
#include "kernels/cpu/upcast.h"

#define CHUNK (1 << 18) /* elements between two looks at the stop word */
#define TILE 512        /* elements a call should at least have */
#define GRAIN 4096      /* elements that a thread gets at least */
#define BLOCK 512       /* 16-bit floats widened at once */

enum td_code td_infer_equal_shapes(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[0], &c->in[1]), err, INVALID_ARGUMENT,
               "%s: inputs must have equal shapes, have %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    return td_shape_merge(&c->in[0], &c->in[1], &c->out[0], err);
}

static enum td_code no_loop(const struct td_call *c, enum td_dtype t, struct td_err *err)
{
    TD_FAIL(err, UNIMPLEMENTED, "%s: no CPU kernel for %s", TD_NODE_STR(c->node), td_dtype_name(t));
}

struct unary {
    const struct td_call *c;
    td_unary_fn *fn;
    const char *x;
    char *y;
    size_t in_size, out_size;
};

static void unary_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct unary *u = arg;
    (void)who;
    for (int64_t i = from; i < to && !td_stopped(u->c); i += CHUNK) {
        u->fn(u->x + (size_t)i * u->in_size, u->y + (size_t)i * u->out_size, to - i < CHUNK ? to - i : CHUNK);
    }
}

enum td_code td_unary_run(struct td_call *c, td_unary_fn *const fns[TD_DTYPE_END], struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_unary_fn *fn = fns[x->dtype];
    if (fn == NULL) {
        return no_loop(c, x->dtype, err);
    }
    struct unary u = {.c = c,
                      .fn = fn,
                      .x = x->data,
                      .y = y->data,
                      .in_size = td_dtype_size(x->dtype),
                      .out_size = td_dtype_size(y->dtype)};
    const int64_t n = td_tensor_count(y);
    if (n <= GRAIN) {
        fn(u.x, u.y, n);
        return TD_OK;
    }
    td_spread(c, n, GRAIN, 2 * TD_SPREAD_PASS_NS + 2 * TD_SPREAD_OP_NS, unary_range, &u);
    return n > CHUNK && td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

void td_unary_by_float(enum td_dtype dtype, td_unary_fn *loop, const void *x, void *y, int64_t n)
{
    float t[BLOCK];
    const char *from = x;
    char *to = y;
    for (int64_t i = 0; i < n; i += BLOCK, from += 2 * BLOCK, to += 2 * BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        td_upcast_elems(t, from, dtype, m);
        loop(t, t, m);
        td_downcast_elems(to, t, dtype, m);
    }
}

void td_binary_by_float(const struct td_by_float *f, const void *a, const void *b, void *z, int64_t n,
                        enum td_operands how)
{
    const enum td_dtype dtype = f->dtype;
    float ta[BLOCK], tb[BLOCK];
    const char *pa = a, *pb = b;
    char *pz = z;
    if (how == TD_LEFT_SCALAR) {
        td_upcast_elems(ta, a, dtype, 1);
    } else if (how == TD_RIGHT_SCALAR) {
        td_upcast_elems(tb, b, dtype, 1);
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        if (how != TD_LEFT_SCALAR) {
            td_upcast_elems(ta, pa + 2 * i, dtype, m);
        }
        if (how != TD_RIGHT_SCALAR) {
            td_upcast_elems(tb, pb + 2 * i, dtype, m);
        }
        if (f->out == TD_BOOL) {
            f->loop(ta, tb, pz + i, m, how);
        } else {
            float y[BLOCK];
            f->loop(ta, tb, y, m, how);
            td_downcast_elems(pz + 2 * i, y, f->out, m);
        }
    }
}

struct loop {
    int rank;
    int64_t dim[TD_MAX_RANK], sa[TD_MAX_RANK], sb[TD_MAX_RANK];
    size_t in_size, out_size;
};

/* Dims of s from the right: dim i of a shape padded on the left to `rank`. */
static int64_t padded_dim(const struct td_shape *s, int rank, int i)
{
    int at = i - (rank - s->rank);
    return at < 0 ? 1 : s->dim[at];
}

static void loop_make(struct loop *l, const struct td_shape *a, const struct td_shape *b,
                      const struct td_shape *z)
{
    int64_t na = 1, nb = 1; /* elements of each operand right of the current dim */
    int n = 0;              /* dims so far, innermost first */
    for (int i = z->rank - 1; i >= 0; i--) {
        int64_t d = z->dim[i];
        bool has_a = padded_dim(a, z->rank, i) == d, has_b = padded_dim(b, z->rank, i) == d;
        if (d == 1) {
            continue;
        }
        if (n > 0 && has_a == (l->sa[n - 1] != 0) && has_b == (l->sb[n - 1] != 0)) {
            l->dim[n - 1] *= d;
        } else {
            l->dim[n] = d;
            l->sa[n] = has_a ? na : 0;
            l->sb[n] = has_b ? nb : 0;
            n++;
        }
        na *= has_a ? d : 1;
        nb *= has_b ? d : 1;
    }
    if (n == 0) {
        l->dim[0] = l->sa[0] = l->sb[0] = 1;
        n = 1;
    }
    l->rank = n;
}

static int64_t loop_count(const struct loop *l)
{
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++) {
        n *= l->dim[d];
    }
    return n;
}

static enum td_operands loop_how(const struct loop *l)
{
    return l->sa[0] == 0 ? TD_LEFT_SCALAR : l->sb[0] == 0 ? TD_RIGHT_SCALAR : TD_BOTH_ARRAYS;
}

/* Advances the odometer over dims 1..rank-1 (innermost first); false at the end. */
static bool loop_step(const struct loop *l, int64_t *at, int64_t *ia, int64_t *ib)
{
    for (int d = 1; d < l->rank; d++) {
        *ia += l->sa[d];
        *ib += l->sb[d];
        if (++at[d] < l->dim[d]) {
            return true;
        }
        at[d] = 0;
        *ia -= l->sa[d] * l->dim[d];
        *ib -= l->sb[d] * l->dim[d];
    }
    return false;
}

struct binary {
    const struct td_call *c;
    const struct loop *l;
    td_binary_fn *fn;
    const char *a, *b;
    char *z;
};

/* All of l, from elements ia and ib on. Ends early when the run is to stop. */
static void loop_steps(const struct binary *r, const struct loop *l, int64_t ia, int64_t ib, char *z)
{
    const enum td_operands how = loop_how(l);
    const int64_t step_a = l->sa[0] != 0, step_b = l->sb[0] != 0;
    int64_t at[TD_MAX_RANK] = {0}, since = 0;
    do {
        for (int64_t i = 0; i < l->dim[0]; i += CHUNK) {
            int64_t n = l->dim[0] - i < CHUNK ? l->dim[0] - i : CHUNK;
            r->fn(r->a + (size_t)(ia + i * step_a) * l->in_size,
                  r->b + (size_t)(ib + i * step_b) * l->in_size, z, n, how);
            z += (size_t)n * l->out_size;
            since += n;
            if (since >= CHUNK) {
                since = 0;
                if (td_stopped(r->c)) {
                    return;
                }
            }
        }
    } while (loop_step(l, at, &ia, &ib));
}

/* Steps [from, to) of the outermost dim. */
static void loop_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct binary *r = arg;
    struct loop part = *r->l;
    const int outer = part.rank - 1;
    const int64_t each = loop_count(&part) / part.dim[outer];
    (void)who;
    part.dim[outer] = to - from;
    loop_steps(r, &part, from * part.sa[outer], from * part.sb[outer],
               r->z + (size_t)(from * each) * part.out_size);
}

static enum td_code loop_run(struct td_call *c, const struct loop *l, td_binary_fn *fn, const char *a,
                             const char *b, char *z, struct td_err *err)
{
    const int64_t count = loop_count(l);
    struct binary r = {.c = c, .l = l, .fn = fn, .a = a, .b = b, .z = z};
    if (count <= GRAIN) { /* small ones are most */
        loop_steps(&r, l, 0, 0, z);
        return TD_OK;
    }
    const int64_t n = l->dim[l->rank - 1], each = count / n;
    td_spread(c, n, each < GRAIN ? (GRAIN + each - 1) / each : 1,
              (double)each * (3 * TD_SPREAD_PASS_NS + TD_SPREAD_OP_NS), loop_range, &r);
    return count > CHUNK && td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

/* Two dims, the inner run short and one operand the same in every row: repeats that row and lengthens the
 * run. */
static enum td_code loop_tile(struct td_call *c, struct loop *l, const char **a, const char **b,
                              struct td_err *err)
{
    bool left = l->rank == 2 && l->sa[1] == 0, right = l->rank == 2 && l->sb[1] == 0;
    int64_t n = l->dim[0];
    if (n > TILE / 8 || l->sa[0] == 0 || l->sb[0] == 0 || left == right || l->dim[1] < 8) {
        return TD_OK;
    }
    int64_t rows = TILE / n;
    while (rows > 1 && l->dim[1] % rows) {
        rows--;
    }
    void *tile;
    size_t row_bytes = (size_t)n * l->in_size;
    TD_TRY(td_scratch(c, row_bytes * (size_t)rows, &tile, err));
    const char **operand = left ? a : b;
    for (int64_t r = 0; r < rows; r++) {
        memcpy((char *)tile + (size_t)r * row_bytes, *operand, row_bytes);
    }
    *operand = tile;
    l->dim[0] = n * rows;
    l->dim[1] /= rows;
    *(left ? &l->sb[1] : &l->sa[1]) = n * rows;
    return TD_OK;
}

enum td_code td_binary_apply(struct td_call *c, td_binary_fn *fn, const struct td_tensor *a,
                             const struct td_tensor *b, struct td_tensor *z, struct td_err *err)
{
    if (td_tensor_count(z) == 0) {
        return TD_OK;
    }
    struct loop l; /* 300 bytes that a scalar need not clear */
    l.in_size = td_dtype_size(a->dtype);
    l.out_size = td_dtype_size(z->dtype);
    loop_make(&l, &a->shape, &b->shape, &z->shape);
    const char *pa = a->data, *pb = b->data;
    TD_TRY(loop_tile(c, &l, &pa, &pb, err));
    return loop_run(c, &l, fn, pa, pb, z->data, err);
}

enum td_code td_binary_run(struct td_call *c, td_binary_fn *const fns[TD_DTYPE_END], struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    td_binary_fn *fn = fns[c->in[0]->dtype];
    if (fn == NULL) {
        return no_loop(c, c->in[0]->dtype, err);
    }
    return td_binary_apply(c, fn, c->in[0], c->in[1], z, err);
}
