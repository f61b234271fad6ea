/* kernels/sparse/sets.c - DenseToDenseSetOperation, DenseToSparseSetOperation, SparseToSparseSetOperation,
 * SetSize.
 *
 * The last axis of each operand holds sets, the axes before it name them. Each operand becomes one list of
 * (round, element), sorted by both and without repeats; the operation is then a merge of two such lists:
 *   result_indices [n, rank], result_values [n], result_shape = set axes and the largest result.
 *
 * A round is a set, as long as the indices of sparse operands are in order. Where nobody checks that they
 * are, it is what TensorFlow makes of them: each run of elements of one set is a set for itself, and those of
 * two operands meet when they are next at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"

#include <stdlib.h>
#include <string.h>

enum set_op { A_MINUS_B, B_MINUS_A, INTERSECTION, UNION };

struct item {
    int64_t round, set, at; /* numbers of the round and of the set; position in the values */
};

struct list {
    const struct td_tensor *values;
    struct item *item;
    int64_t n;
};

/* ------------------------------------------------------------------ order of elements */

static int compare_values(const struct td_tensor *a, int64_t i, const struct td_tensor *b, int64_t j)
{
    if (a->dtype == TD_STRING) {
        size_t n, m;
        const char *x = td_tensor_str(a, i, &n), *y = td_tensor_str(b, j, &m);
        int o = memcmp(x, y, n < m ? n : m);
        return o ? o : (n > m) - (n < m);
    }
    int64_t x = td_tensor_int(a, i), y = td_tensor_int(b, j);
    return (x > y) - (x < y);
}

static int compare_items(const struct list *a, int64_t i, const struct list *b, int64_t j)
{
    const struct item *x = &a->item[i], *y = &b->item[j];
    return x->round != y->round ? (x->round < y->round ? -1 : 1)
                                : compare_values(a->values, x->at, b->values, y->at);
}

static int order_items(const void *a, const void *b, void *ctx)
{
    const struct item *x = a, *y = b;
    return x->round != y->round ? (x->round < y->round ? -1 : 1) : compare_values(ctx, x->at, ctx, y->at);
}

static void sort_list(struct list *l)
{
    struct td_tensor values = *l->values;
    int64_t kept = 0;
    if (l->n == 0) {
        return;
    }
    qsort_r(l->item, (size_t)l->n, sizeof(*l->item), order_items, &values);
    for (int64_t i = 1; i < l->n; i++) {
        if (order_items(&l->item[kept], &l->item[i], &values) != 0) {
            l->item[++kept] = l->item[i];
        }
    }
    l->n = kept + 1;
}

/* ------------------------------------------------------------------ operands */

static enum td_code new_list(struct td_call *c, const struct td_tensor *values, struct list *l,
                             struct td_err *err)
{
    void *p;
    *l = (struct list){.values = values, .n = td_tensor_count(values)};
    TD_TRY(td_scratch(c, (size_t)l->n * sizeof(struct item) + 1, &p, err));
    l->item = p;
    return TD_OK;
}

/* groups: the set axes. */
static enum td_code dense_list(struct td_call *c, int i, struct list *l, struct td_shape *groups,
                               struct td_err *err)
{
    const struct td_tensor *x = c->in[i];
    TD_TRY(new_list(c, x, l, err));
    *groups = x->shape;
    groups->rank--;
    int64_t width = x->shape.dim[groups->rank];
    for (int64_t k = 0; k < l->n; k++) {
        l->item[k] = (struct item){k / width, k / width, k};
    }
    return TD_OK;
}

static enum td_code sparse_list(struct td_call *c, int i, struct list *l, struct td_shape *groups,
                                struct td_err *err)
{
    struct td_coo x;
    TD_TRY(td_coo_view(c, i, i + 2, &x, err));
    TD_TRY(td_shape_make(groups, x.dim, x.rank - 1, err));
    TD_TRY(td_coo_check_bounds(c, &x, err));
    TD_FAIL_IF(td_attr_bool(c->node, "validate_indices") && !td_coo_sorted(&x), err, INVALID_ARGUMENT,
               "%s: indices of set %d are out of order", TD_NODE_STR(c->node), i ? 2 : 1);
    TD_TRY(new_list(c, c->in[i + 1], l, err));
    for (int64_t k = 0; k < l->n; k++) {
        int64_t set = 0;
        for (int d = 0; d < groups->rank; d++) {
            set = set * groups->dim[d] + x.ix[k * x.rank + d];
        }
        l->item[k] = (struct item){set, set, k};
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ rounds */

static int64_t run_end(const struct list *l, int64_t from)
{
    int64_t k = from;
    while (k < l->n && l->item[k].set == l->item[from].set) {
        k++;
    }
    return k;
}

/* The next run is the next round. */
static int64_t take_run(struct list *l, int64_t from, int64_t round)
{
    const int64_t end = run_end(l, from);
    for (int64_t k = from; k < end; k++) {
        l->item[k].round = round;
    }
    return end;
}

/* Of two sparse operands: whose next set is named first, or both when it is the same. b empty: of one. */
static void take_rounds(struct list *a, struct list *b)
{
    int64_t i = 0, j = 0;
    for (int64_t round = 0; i < a->n || j < b->n; round++) {
        const bool first = j == b->n || (i < a->n && a->item[i].set <= b->item[j].set);
        const bool second = i == a->n || (j < b->n && b->item[j].set <= a->item[i].set);
        i = first ? take_run(a, i, round) : i;
        j = second ? take_run(b, j, round) : j;
    }
}

/* Of a sparse operand beside a dense one, whose sets come in order: what is out of order, and all behind it,
 * is never reached. */
static void cut_to_order(struct list *l)
{
    int64_t n = l->n > 0;
    while (n < l->n && l->item[n].set >= l->item[n - 1].set) {
        n++;
    }
    l->n = n;
}

/* ------------------------------------------------------------------ the operations */

static enum td_code read_op(const struct td_node *n, enum set_op *op, struct td_err *err)
{
    static const char *const names[] = {"a-b", "b-a", "intersection", "union"};
    const char *s = td_attr_str(n, "set_operation");
    for (int i = 0; i < 4; i++) {
        if (strcmp(s, names[i]) == 0) {
            *op = (enum set_op)i;
            return TD_OK;
        }
    }
    TD_FAIL(err, INVALID_ARGUMENT, "%s: Invalid set_operation %.50s, want a-b, b-a, intersection or union",
            TD_NODE_STR(n), s);
}

static bool keeps(enum set_op op, int side)
{
    return op == UNION || (op == INTERSECTION && side == 0) || (op == A_MINUS_B && side < 0) ||
           (op == B_MINUS_A && side > 0);
}

/* Walks both lists; writes where y is given. Returns the number of results, *longest of one set. */
static int64_t merge(const struct list *a, const struct list *b, enum set_op op,
                     const struct td_shape *groups, struct td_tensor *ix, struct td_tensor *y,
                     int64_t *longest)
{
    int64_t i = 0, j = 0, n = 0, last = -1, run = 0;
    *longest = 0;
    while (i < a->n || j < b->n) {
        int side = i == a->n ? 1 : j == b->n ? -1 : compare_items(a, i, b, j);
        const struct list *from = side <= 0 ? a : b;
        struct item item = side <= 0 ? a->item[i] : b->item[j];
        i += side <= 0;
        j += side >= 0;
        if (!keeps(op, side)) {
            continue;
        }
        run = item.round == last ? run + 1 : 1;
        last = item.round;
        *longest = run > *longest ? run : *longest;
        if (y) {
            int64_t *row = TD_DATA(ix, int64_t) + n * (groups->rank + 1), set = item.set;
            size_t size = td_dtype_size(y->dtype);
            row[groups->rank] = run - 1;
            for (int d = groups->rank - 1; d >= 0; d--) {
                row[d] = set % groups->dim[d];
                set /= groups->dim[d];
            }
            td_elems_copy(y->dtype, (char *)y->data + (size_t)n * size,
                          (const char *)from->values->data + (size_t)item.at * size, 1);
        }
        n++;
    }
    return n;
}

static enum td_code operate(struct td_call *c, const struct list *a, const struct td_shape *ga,
                            const struct list *b, const struct td_shape *gb, struct td_err *err)
{
    enum set_op op;
    struct td_tensor *ix, *values, *shape;
    int64_t longest;
    TD_TRY(read_op(c->node, &op, err));
    TD_FAIL_IF(!td_shape_equal(ga, gb), err, INVALID_ARGUMENT, "%s: Mismatched group shapes %s vs %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ga), TD_SHAPE_STR(gb));
    int64_t n = merge(a, b, op, ga, NULL, NULL, &longest);
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {n, ga->rank + 1}}, &ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {n}}, &values, err));
    TD_TRY(td_out(c, 2, &(struct td_shape){1, {ga->rank + 1}}, &shape, err));
    for (int d = 0; d < ga->rank; d++) {
        TD_DATA(shape, int64_t)[d] = ga->dim[d];
    }
    TD_DATA(shape, int64_t)[ga->rank] = longest;
    merge(a, b, op, ga, ix, values, &longest);
    return TD_OK;
}

/* ------------------------------------------------------------------ the ops */

static enum td_code check_rank(const struct td_infer *c, int64_t rank, struct td_err *err)
{
    TD_FAIL_IF(rank >= 0 && rank < 2, err, INVALID_ARGUMENT,
               "%s: Shape of rank %lld has too few dims, must be at least 2", TD_NODE_STR(c->node),
               (long long)rank);
    return TD_OK;
}

/* Inputs are a dense operand (one input) or a sparse one (three), as the op's name says. */
static enum td_code operation_infer(struct td_infer *c, struct td_err *err)
{
    enum set_op op;
    bool sparse1 = c->n_in == 6, sparse2 = c->n_in != 2;
    int second = sparse1 ? 3 : 1;
    TD_TRY(read_op(c->node, &op, err));
    TD_TRY(sparse1 ? td_coo_infer(c, 0, 1, 2, err) : TD_OK);
    TD_TRY(sparse2 ? td_coo_infer(c, second, second + 1, second + 2, err) : TD_OK);
    int64_t r1 = sparse1 ? (c->in[2].rank == 1 ? c->in[2].dim[0] : -1) : c->in[0].rank;
    int64_t r2 = sparse2 ? (c->in[second + 2].rank == 1 ? c->in[second + 2].dim[0] : -1) : c->in[1].rank;
    TD_TRY(check_rank(c, r1, err));
    TD_TRY(check_rank(c, r2, err));
    TD_FAIL_IF(r1 >= 0 && r2 >= 0 && r1 != r2, err, INVALID_ARGUMENT, "%s: Mismatched ranks %lld and %lld",
               TD_NODE_STR(c->node), (long long)r1, (long long)r2);
    int64_t rank = r1 >= 0 ? r1 : r2;
    c->out[0] = td_shape_matrix(-1, rank);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(rank);
    return TD_OK;
}

static enum td_code operation_run(struct td_call *c, struct td_err *err)
{
    struct list a, b;
    struct td_shape ga, gb;
    bool sparse1 = c->n_in == 6, sparse2 = c->n_in != 2;
    int second = sparse1 ? 3 : 1;
    TD_TRY(sparse1 ? sparse_list(c, 0, &a, &ga, err) : dense_list(c, 0, &a, &ga, err));
    TD_TRY(sparse2 ? sparse_list(c, second, &b, &gb, err) : dense_list(c, second, &b, &gb, err));
    if (sparse1) {
        take_rounds(&a, &b);
    } else if (sparse2) {
        cut_to_order(&b);
    }
    sort_list(&a);
    sort_list(&b);
    return operate(c, &a, &ga, &b, &gb, err);
}

static enum td_code size_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_TRY(check_rank(c, c->in[2].rank == 1 ? c->in[2].dim[0] : -1, err));
    TD_TRY(td_infer_shape_value(c, 2, false, &c->out[0], err));
    c->out[0].rank -= c->out[0].rank > 0;
    return TD_OK;
}

static enum td_code size_run(struct td_call *c, struct td_err *err)
{
    struct list l;
    struct td_shape groups;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(sparse_list(c, 0, &l, &groups, err));
    take_rounds(&l, &(struct list){0});
    sort_list(&l);
    if (td_tensor_bytes(y)) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    for (int64_t i = 0; i < l.n; i++) { /* the last round of a set counts */
        int32_t *size = &TD_DATA(y, int32_t)[l.item[i].set];
        *size = i > 0 && l.item[i - 1].round == l.item[i].round ? *size + 1 : 1;
    }
    return TD_OK;
}

#define ELEMENTS                                                                                             \
    (TD_BIT(TD_INT8) | TD_BIT(TD_INT16) | TD_SET_INDEX | TD_BIT(TD_UINT8) | TD_BIT(TD_UINT16) |              \
     TD_BIT(TD_STRING))
#define RESULT                                                                                               \
    ") -> (result_indices:int64, result_values:T, result_shape:int64) {set_operation:string; "               \
    "validate_indices:bool=true; T:type}"
#define OPERATION(op, args)                                                                                  \
    {                                                                                                        \
        .name = op, .sig = args RESULT, .infer = operation_infer,                                            \
        .kernels = TD_KERNEL("sets.cpu", operation_run, {"T", ELEMENTS}), .grad = td_not_differentiable      \
    }

const struct td_op td_ops_sets[] = {
    OPERATION("DenseToDenseSetOperation", "(set1:T, set2:T"),
    OPERATION("DenseToSparseSetOperation", "(set1:T, set2_indices:int64, set2_values:T, set2_shape:int64"),
    OPERATION("SparseToSparseSetOperation",
              "(set1_indices:int64, set1_values:T, set1_shape:int64, set2_indices:int64, set2_values:T, "
              "set2_shape:int64"),
    {.name = "SetSize",
     .sig = "(set_indices:int64, set_values:T, set_shape:int64) -> (size:int32) {validate_indices:bool=true; "
            "T:type}",
     .host_in = 4,
     .infer = size_infer,
     .kernels = TD_KERNEL("sets.cpu", size_run, {"T", ELEMENTS}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
