/* kernels/control/jacobian.c - calls a backward pass for each element of a target.
 *
 *   target [T..], shapes of the sources, args  ->  one [T.., S..] a source
 *   f: row [T..], args -> one [S..] a source
 *
 * Element r of the target gets the results of f for a row that is 1 at r and 0 elsewhere. With `many` f takes
 * and gives [k, ..] for any k: as many at once as a part of limit_bytes has room for, guessed by what f reads
 * and gives, for its gradients are of those shapes. Before anything is computed, the results' bytes are
 * compared with limit_bytes, where the shapes tell.
 *
 * Arrays of gradients that a pass makes of TensorArrays among the arguments are forgotten behind it: the next
 * one starts with none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "kernels/control/tensor_array.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/strided.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ shapes, and how much it will be */

static enum td_code check_bytes(const struct td_node *n, const struct td_shape *target,
                                const struct td_shape *out, int n_out, struct td_err *err)
{
    const int64_t limit = td_attr_int(n, "limit_bytes");
    double bytes = 0;
    for (int i = 0; i < n_out; i++) {
        double count = td_shape_known(&out[i]) ? 1 : 0;
        for (int d = 0; d < out[i].rank; d++) {
            count *= (double)out[i].dim[d];
        }
        bytes += count * (double)td_dtype_size(n->out_type[i]);
    }
    TD_FAIL_IF(bytes > (double)limit, err, RESOURCE_EXHAUSTED,
               "the %s of '%s' %s, %s for the first source, is %.0f bytes, want at most %lld",
               td_attr_str(n, "what"), td_attr_str(n, "of"), TD_SHAPE_STR(target), TD_SHAPE_STR(&out[0]),
               bytes, (long long)limit);
    return TD_OK;
}

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        struct td_shape source;
        TD_TRY(td_infer_shape_value(c, 1 + i, true, &source, err));
        TD_TRY(td_shape_concat(&c->in[0], &source, &c->out[i], err));
    }
    return check_bytes(c->node, &c->in[0], c->out, c->n_out, err);
}

/* ------------------------------------------------------------------ rows */

struct rows {
    struct td_call *c;
    bool many; /* f takes many */
    int n_args;
    const struct td_tensor **in; /* of f: the row, the arguments */
    struct td_tensor *made;      /* by f */
    struct td_tensor **out;      /* NULL: not made yet */
    int *n_grads;                /* by argument: arrays of gradients before */
};

static void forget(const struct rows *r)
{
    for (int i = 0; i < r->n_args; i++) {
        const struct td_tensor *t = r->in[1 + i];
        if (t->dtype == TD_RESOURCE && td_tensor_count(t) == 1) {
            td_array_forget_grads(td_tensor_obj(t, 0), r->n_grads[i]);
        }
    }
}

static void remember(const struct rows *r)
{
    for (int i = 0; i < r->n_args; i++) {
        const struct td_tensor *t = r->in[1 + i];
        const bool one = t->dtype == TD_RESOURCE && td_tensor_count(t) == 1;
        r->n_grads[i] = one ? td_array_n_grads(td_tensor_obj(t, 0)) : 0;
    }
}

/* Result i of the k rows from `row` on goes to its place. */
static enum td_code put(const struct rows *r, int i, int64_t row, int64_t k, struct td_err *err)
{
    const struct td_node *n = r->c->node;
    const struct td_shape *target = &r->c->in[0]->shape;
    const struct td_tensor *t = &r->made[i];
    struct td_shape one = t->shape, shape;
    if (r->many) {
        one.rank--;
        memmove(one.dim, one.dim + 1, (size_t)one.rank * sizeof *one.dim);
    }
    TD_TRY(td_shape_concat(target, &one, &shape, err));
    if (r->out[i] == NULL) {
        TD_TRY(check_bytes(n, target, &shape, 1, err));
        TD_TRY(td_out(r->c, i, &shape, &r->out[i], err));
    }
    const int64_t count = td_shape_count(&one);
    TD_FAIL_IF(!td_shape_equal(&shape, &r->out[i]->shape) || td_tensor_count(t) != k * count, err, INTERNAL,
               "%s: row %lld of result %d has shape %s, which is no row of %s", TD_NODE_STR(n),
               (long long)row, i, TD_SHAPE_STR(&t->shape), TD_SHAPE_STR(&r->out[i]->shape));
    if (count > 0) {
        const size_t bytes = (size_t)count * td_dtype_size(t->dtype);
        memcpy((char *)r->out[i]->data + (size_t)row * bytes, t->data, (size_t)k * bytes);
    }
    return TD_OK;
}

/* *seed = 1 at element row + i of row i, else 0. */
static enum td_code make_seed(const struct rows *r, int64_t row, int64_t k, struct td_tensor *seed,
                              struct td_err *err)
{
    const struct td_tensor *target = r->c->in[0];
    const struct td_shape first = td_shape_vector(k);
    const int64_t count = td_tensor_count(target);
    struct td_shape shape = target->shape;
    if (r->many) {
        TD_TRY(td_shape_concat(&first, &target->shape, &shape, err));
    }
    TD_TRY(td_tensor_new(seed, target->dtype, &shape, err));
    td_strided_zero(seed->dtype, seed->data, td_tensor_count(seed));
    for (int64_t i = 0; i < k; i++) {
        const size_t at = (size_t)(i * count + row + i) * td_dtype_size(seed->dtype);
        td_combine_identity(TD_COMBINE_MUL, seed->dtype, (char *)seed->data + at, 1);
    }
    return TD_OK;
}

static enum td_code some_rows(const struct rows *r, int64_t row, int64_t k, struct td_err *err)
{
    struct td_tensor seed;
    TD_TRY(make_seed(r, row, k, &seed, err));
    r->in[0] = &seed;
    const struct td_function_values v = {
        .in = r->in, .n_in = 1 + r->n_args, .out = r->made, .n_out = r->c->n_out};
    enum td_code rc = td_call_function(r->c, "f", 0, &v, err);
    td_tensor_clear(&seed);
    for (int i = 0; i < r->c->n_out; i++) {
        rc = rc ? rc : put(r, i, row, k, err);
        td_tensor_clear(&r->made[i]);
    }
    forget(r);
    return rc;
}

enum { PART_OF_LIMIT = 4, MOST_ROWS = 4096 };

/* How many rows at once. */
static int64_t rows_at_once(const struct rows *r)
{
    const int64_t n = td_tensor_count(r->c->in[0]);
    double bytes = (double)td_tensor_bytes(r->c->in[0]);
    for (int i = 0; i < r->n_args; i++) {
        const struct td_tensor *t = r->in[1 + i];
        bytes += td_dtype_is_object(t->dtype) ? 0 : (double)td_tensor_bytes(t);
    }
    for (int i = 0; i < r->c->n_out; i++) {
        const struct td_tensor *shape = r->c->in[1 + i];
        double count = shape->shape.rank == 1;
        for (int64_t d = 0; d < td_tensor_count(shape); d++) {
            count *= (double)td_tensor_int(shape, d);
        }
        bytes += count * (double)td_dtype_size(r->c->node->out_type[i]);
    }
    const double room = (double)td_attr_int(r->c->node, "limit_bytes") / PART_OF_LIMIT;
    const double most = room / (bytes > 1 ? bytes : 1);
    const int64_t k = most < 1 ? 1 : most > MOST_ROWS ? MOST_ROWS : (int64_t)most;
    return !r->many ? 1 : k < n ? k : n;
}

static enum td_code all_rows(const struct rows *r, struct td_err *err)
{
    const int64_t n = td_tensor_count(r->c->in[0]), k = rows_at_once(r);
    for (int64_t row = 0; row < n; row += k) {
        if (td_stopped(r->c)) {
            return td_stop_error(r->c, err);
        }
        TD_TRY(some_rows(r, row, k < n - row ? k : n - row, err));
    }
    for (int i = 0; i < r->c->n_out; i++) { /* of a target without elements */
        TD_TRY(r->out[i] == NULL ? td_out(r->c, i, NULL, &r->out[i], err) : TD_OK);
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct rows r = {.c = c, .many = td_attr_bool(c->node, "many"), .n_args = c->n_in - 1 - c->n_out};
    const size_t n_in = (size_t)c->n_in + 1, n_out = (size_t)c->n_out + 1;
    void *in, *made, *out, *grads;
    TD_TRY(td_scratch(c, n_in * sizeof *r.in, &in, err));
    TD_TRY(td_scratch(c, n_out * sizeof *r.made, &made, err));
    TD_TRY(td_scratch(c, n_out * sizeof *r.out, &out, err));
    TD_TRY(td_scratch(c, n_in * sizeof *r.n_grads, &grads, err));
    r.in = in;
    r.made = memset(made, 0, n_out * sizeof *r.made);
    r.out = memset(out, 0, n_out * sizeof *r.out);
    r.n_grads = grads;
    for (int i = 0; i < r.n_args; i++) {
        r.in[1 + i] = c->in[1 + c->n_out + i];
    }
    remember(&r);
    return all_rows(&r, err);
}

const struct td_op td_ops_jacobian[] = {
    {.name = "_Jacobian",
     .sig = "(target:T, shapes:N*int32, args:Targs) -> (rows:Tout) {f:func; T:type; N:int; "
            "Targs:list(type); Tout:list(type); limit_bytes:int; many:bool; what:string; of:string}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | TD_OP_HEAVY,
     .host_in = 2,
     .infer = infer,
     .kernels = TD_KERNEL("jacobian.cpu", run, {"T", TD_SET_FLOATS | TD_SET_COMPLEX},
                          {"Tout", TD_SET_FLOATS | TD_SET_COMPLEX}),
     .grad_missing = "a Jacobian is not differentiated again: its rows are, one by one"},
    {.name = NULL},
};
