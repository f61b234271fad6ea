/* kernels/state/optimizer.c - optimizer steps: (Resource)Apply* over whole variables, (Resource)SparseApply*
 * over rows.
 *
 *   inputs   1..4 variables, scalars and the gradient in the op's order
 *            sparse: indices [k], gradient [k, ...]
 *
 * The variables are locked together, in the order of their addresses, and changed in place. A sparse step is
 * the dense one on each row that an index names, in the order of the indices. Formulas are in optimizer_any.h
 * and optimizer_real.h; half and bfloat16 go through float in blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <complex.h>
#include <math.h>

#include "core/run/variable.h"
#include "kernels/state/update_nodes.h"

#define MAX_VARS 4
#define MAX_SCALARS 8
#define BLOCK 256

/* ------------------------------------------------------------------ formulas */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, SUFFIX)

#define T float
#define SUFFIX f32
#define SQRT sqrtf
#define POW powf
#define EXP expf
#define ABS fabsf
#include "kernels/state/optimizer_any.h"
#include "kernels/state/optimizer_real.h"
#undef T
#undef SUFFIX
#undef SQRT
#undef POW
#undef EXP
#undef ABS

#define T double
#define SUFFIX f64
#define SQRT sqrt
#define POW pow
#define EXP exp
#define ABS fabs
#include "kernels/state/optimizer_any.h"
#include "kernels/state/optimizer_real.h"
#undef T
#undef SUFFIX
#undef SQRT
#undef POW
#undef EXP
#undef ABS

#define T float _Complex
#define SUFFIX c64
#define SQRT csqrtf
#include "kernels/state/optimizer_any.h"
#undef T
#undef SUFFIX
#undef SQRT

#define T double _Complex
#define SUFFIX c128
#define SQRT csqrt
#include "kernels/state/optimizer_any.h"
#undef T
#undef SUFFIX
#undef SQRT

typedef void f32_fn(float *const *v, const float *g, const float *s, int64_t n, bool flag);
typedef void f64_fn(double *const *v, const double *g, const double *s, int64_t n, bool flag);
typedef void c64_fn(float _Complex *const *v, const float _Complex *g, const float _Complex *s, int64_t n,
                    bool flag);
typedef void c128_fn(double _Complex *const *v, const double _Complex *g, const double _Complex *s, int64_t n,
                     bool flag);

struct rule {
    int n_vars;
    int grad;        /* input that is the gradient */
    int sparse_grad; /* the same where indices follow it */
    int n_scalars;
    const char *flag; /* attribute handed to the formula; NULL none */
    f32_fn *f32;
    f64_fn *f64;
    c64_fn *c64;
    c128_fn *c128;
};

#define ANY(name) name##_f32, name##_f64, name##_c64, name##_c128
#define REAL(name) name##_f32, name##_f64, NULL, NULL

static const struct rule descent = {1, 2, 2, 1, NULL, ANY(descent)};
static const struct rule proximal_descent = {1, 4, 4, 3, NULL, REAL(proximal_descent)};
static const struct rule adadelta = {3, 6, 6, 3, NULL, ANY(adadelta)};
static const struct rule adagrad = {2, 3, 3, 1, "update_slots", ANY(adagrad)};
static const struct rule adagrad_v2 = {2, 4, 4, 2, "update_slots", ANY(adagrad_v2)};
static const struct rule adagrad_da = {3, 3, 3, 4, NULL, REAL(adagrad_da)};
static const struct rule proximal_adagrad = {2, 5, 5, 3, NULL, REAL(proximal_adagrad)};
static const struct rule ftrl = {3, 3, 3, 4, "multiply_linear_by_lr", REAL(ftrl)};
static const struct rule ftrl_v2 = {3, 3, 3, 5, "multiply_linear_by_lr", REAL(ftrl_v2)};
static const struct rule momentum = {2, 3, 3, 2, "use_nesterov", ANY(momentum)};
static const struct rule keras_momentum = {2, 3, 3, 2, "use_nesterov", ANY(keras_momentum)};
static const struct rule adam = {3, 9, 9, 6, "use_nesterov", ANY(adam)};
static const struct rule amsgrad = {4, 10, 10, 6, NULL, REAL(amsgrad)};
static const struct rule adamax = {3, 8, 8, 5, NULL, REAL(adamax)};
static const struct rule rmsprop = {3, 7, 7, 4, NULL, ANY(rmsprop)};
static const struct rule centered_rmsprop = {4, 8, 8, 4, NULL, ANY(centered_rmsprop)};
static const struct rule add_sign = {2, 6, 6, 4, NULL, REAL(add_sign)};
static const struct rule power_sign = {2, 6, 6, 4, NULL, REAL(power_sign)};

/* ------------------------------------------------------------------ one span of elements */

struct step {
    const struct rule *rule;
    bool flag;
    enum td_dtype dtype;
    void *var[MAX_VARS];
    const void *grad;
    double scalar[2 * MAX_SCALARS]; /* real and imaginary parts */
};

static void load(enum td_dtype dtype, const void *src, float *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dst[i] = dtype == TD_HALF ? td_half_to_float(((const td_half *)src)[i])
                                  : td_bf16_to_float(((const td_bf16 *)src)[i]);
    }
}

static void store(enum td_dtype dtype, void *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype == TD_HALF) {
            ((td_half *)dst)[i] = td_float_to_half(src[i]);
        } else {
            ((td_bf16 *)dst)[i] = td_float_to_bf16(src[i]);
        }
    }
}

/* 16-bit elements [at, at + n), in blocks that fit the stack. */
static void run_small(const struct step *st, int64_t at, int64_t grad_at, int64_t n, const float *s)
{
    float block[MAX_VARS][BLOCK], grad[BLOCK], *v[MAX_VARS];
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t m = n - done < BLOCK ? n - done : BLOCK;
        for (int k = 0; k < st->rule->n_vars; k++) {
            v[k] = block[k];
            load(st->dtype, (uint16_t *)st->var[k] + at + done, v[k], m);
        }
        load(st->dtype, (const uint16_t *)st->grad + grad_at + done, grad, m);
        st->rule->f32(v, grad, s, m, st->flag);
        for (int k = 0; k < st->rule->n_vars; k++) {
            store(st->dtype, (uint16_t *)st->var[k] + at + done, v[k], m);
        }
    }
}

/* Casts scalars and offsets pointers for one real or complex type. */
#define RUN(ctype, fn, i0)                                                                                   \
    do {                                                                                                     \
        ctype s[MAX_SCALARS], *v[MAX_VARS];                                                                  \
        for (int k = 0; k < MAX_SCALARS; k++) {                                                              \
            s[k] = (ctype)(st->scalar[2 * k] + (i0)*st->scalar[2 * k + 1]);                                  \
        }                                                                                                    \
        for (int k = 0; k < st->rule->n_vars; k++) {                                                         \
            v[k] = (ctype *)st->var[k] + at;                                                                 \
        }                                                                                                    \
        st->rule->fn(v, (const ctype *)st->grad + grad_at, s, n, st->flag);                                  \
    } while (0)

/* Elements [at, at + n) of the variables with [grad_at, ...) of the gradient. */
static void run_span(const struct step *st, int64_t at, int64_t grad_at, int64_t n)
{
    float s16[MAX_SCALARS];
    switch (st->dtype) {
    case TD_FLOAT:
        RUN(float, f32, 0);
        break;
    case TD_DOUBLE:
        RUN(double, f64, 0);
        break;
    case TD_COMPLEX64:
        RUN(float _Complex, c64, _Complex_I);
        break;
    case TD_COMPLEX128:
        RUN(double _Complex, c128, _Complex_I);
        break;
    default:
        for (int k = 0; k < MAX_SCALARS; k++) {
            s16[k] = (float)st->scalar[2 * k];
        }
        run_small(st, at, grad_at, n, s16);
        break;
    }
}

/* ------------------------------------------------------------------ inputs */

static const char *input_name(const struct td_call *c, int i)
{
    return c->node->def && i < c->node->def->n_in ? c->node->def->in[i].name : "input";
}

static enum td_code read_scalar(const struct td_call *c, int i, double out[2], struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    TD_FAIL_IF(t->shape.rank != 0, err, INVALID_ARGUMENT, "%s: %s is not a scalar: %s", TD_NODE_STR(c->node),
               input_name(c, i), TD_SHAPE_STR(&t->shape));
    out[1] = 0;
    switch (t->dtype) {
    case TD_FLOAT:
        out[0] = (double)TD_DATA(t, float)[0];
        break;
    case TD_DOUBLE:
        out[0] = TD_DATA(t, double)[0];
        break;
    case TD_HALF:
        out[0] = (double)td_half_to_float(TD_DATA(t, td_half)[0]);
        break;
    case TD_BFLOAT16:
        out[0] = (double)td_bf16_to_float(TD_DATA(t, td_bf16)[0]);
        break;
    case TD_COMPLEX64:
        out[0] = (double)TD_DATA(t, td_c64)[0].re;
        out[1] = (double)TD_DATA(t, td_c64)[0].im;
        break;
    case TD_COMPLEX128:
        out[0] = TD_DATA(t, td_c128)[0].re;
        out[1] = TD_DATA(t, td_c128)[0].im;
        break;
    default:
        out[0] = (double)td_tensor_int(t, 0);
        break;
    }
    return TD_OK;
}

/* All inputs behind the variables that are neither gradient nor indices. */
static enum td_code read_scalars(const struct td_call *c, struct step *st, int grad, int indices,
                                 struct td_err *err)
{
    int k = 0;
    for (int i = st->rule->n_vars; i < c->n_in; i++) {
        if (i != grad && i != indices) {
            TD_TRY(read_scalar(c, i, &st->scalar[2 * k++], err));
        }
    }
    TD_CHECK(k == st->rule->n_scalars);
    return TD_OK;
}

/* ------------------------------------------------------------------ locking */

static void unlock(struct td_variable *const *vars, int n)
{
    while (n-- > 0) {
        td_variable_done(vars[n]);
    }
}

/* Locks the variables in the order of their addresses; vars keeps the op's order. */
static enum td_code lock(const struct td_call *c, struct td_variable **vars, int n,
                         struct td_variable **sorted, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && (uintptr_t)sorted[k - 1] > (uintptr_t)vars[i]; k--) {
            sorted[k] = sorted[k - 1];
        }
        sorted[k] = vars[i];
    }
    for (int i = 1; i < n; i++) {
        TD_FAIL_IF(sorted[i] == sorted[i - 1], err, INVALID_ARGUMENT,
                   "%s: variable '%s' is given twice, want distinct variables", TD_NODE_STR(c->node),
                   sorted[i]->name);
    }
    for (int i = 0; i < n; i++) {
        enum td_code rc = td_variable_edit(sorted[i], err);
        if (rc) {
            unlock(sorted, i);
            return rc;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ checks, with the variables locked */

static enum td_code check_vars(const struct td_call *c, struct td_variable *const *vars,
                               const struct step *st, struct td_err *err)
{
    const struct td_shape *shape = &vars[0]->value.shape;
    for (int k = 0; k < st->rule->n_vars; k++) {
        const struct td_tensor *t = &vars[k]->value;
        TD_FAIL_IF(t->dtype != st->dtype, err, INVALID_ARGUMENT, "%s: %s has dtype %s, want %s",
                   TD_NODE_STR(c->node), input_name(c, k), td_dtype_name(t->dtype), td_dtype_name(st->dtype));
        TD_FAIL_IF(!td_shape_equal(&t->shape, shape), err, INVALID_ARGUMENT,
                   "%s: var and %s do not have the same shape: %s %s", TD_NODE_STR(c->node), input_name(c, k),
                   TD_SHAPE_STR(shape), TD_SHAPE_STR(&t->shape));
    }
    return TD_OK;
}

static enum td_code check_rows(const struct td_call *c, const struct td_shape *var, int grad,
                               struct td_err *err)
{
    const struct td_shape *g = &c->in[grad]->shape, *indices = &c->in[grad + 1]->shape;
    TD_FAIL_IF(var->rank < 1, err, INVALID_ARGUMENT, "%s: var must be at least 1 dimensional",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(indices->rank != 1, err, INVALID_ARGUMENT, "%s: indices must be one-dimensional, not %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(indices));
    bool same = g->rank == var->rank;
    for (int d = 1; same && d < var->rank; d++) {
        same = g->dim[d] == var->dim[d];
    }
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT,
               "%s: var and grad must match in all but the first dimension: %s, %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(var), TD_SHAPE_STR(g));
    const char *op = c->node->op_name;
    bool wants_width = strstr(op, "Adagrad") || strstr(op, "Ftrl") || strstr(op, "Proximal");
    TD_FAIL_IF(wants_width && td_shape_range(var, 1, var->rank) == 0, err, INVALID_ARGUMENT,
               "%s: Inner dimension should be greater than zero: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(var));
    TD_FAIL_IF(g->dim[0] != indices->dim[0], err, INVALID_ARGUMENT,
               "%s: grad must be the same size as indices in the first dimension: %lld rows, %lld indices",
               TD_NODE_STR(c->node), (long long)g->dim[0], (long long)indices->dim[0]);
    for (int64_t i = 0; i < indices->dim[0]; i++) {
        int64_t row = td_tensor_int(c->in[grad + 1], i);
        TD_FAIL_IF(row < 0 || row >= var->dim[0], err, INVALID_ARGUMENT,
                   "%s: Index %lld at offset %lld in indices is out of range [0, %lld)", TD_NODE_STR(c->node),
                   (long long)row, (long long)i, (long long)var->dim[0]);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ applying */

static enum td_code step_dense(const struct td_call *c, struct td_variable *const *vars,
                               const struct step *st, int grad, struct td_err *err)
{
    const struct td_shape *shape = &vars[0]->value.shape;
    TD_FAIL_IF(!td_shape_equal(shape, &c->in[grad]->shape), err, INVALID_ARGUMENT,
               "%s: var and %s do not have the same shape %s %s", TD_NODE_STR(c->node), input_name(c, grad),
               TD_SHAPE_STR(shape), TD_SHAPE_STR(&c->in[grad]->shape));
    run_span(st, 0, 0, td_shape_count(shape));
    return TD_OK;
}

static enum td_code step_rows(const struct td_call *c, struct td_variable *const *vars, const struct step *st,
                              int grad, struct td_err *err)
{
    const struct td_shape *shape = &vars[0]->value.shape;
    TD_TRY(check_rows(c, shape, grad, err));
    int64_t row = td_shape_range(shape, 1, shape->rank), n = td_tensor_count(c->in[grad + 1]);
    for (int64_t i = 0; i < n && row > 0; i++) {
        run_span(st, td_tensor_int(c->in[grad + 1], i) * row, i * row, row);
    }
    return TD_OK;
}

static enum td_code out_var(struct td_call *c, struct td_variable *v, struct td_err *err)
{
    struct td_tensor t;
    struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_tensor_new(&t, TD_RESOURCE, &scalar, err));
    td_tensor_set_obj(&t, 0, td_obj_ref(&v->obj));
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code apply(struct td_call *c, const struct rule *rule, bool sparse, struct td_err *err)
{
    struct td_variable *vars[MAX_VARS], *sorted[MAX_VARS];
    int grad = sparse ? rule->sparse_grad : rule->grad;
    struct step st = {.rule = rule, .dtype = c->in[grad]->dtype, .grad = c->in[grad]->data};
    st.flag = rule->flag && td_attr_bool(c->node, rule->flag);
    for (int k = 0; k < rule->n_vars; k++) {
        TD_TRY(td_in_variable(c, k, &vars[k], err));
    }
    TD_TRY(read_scalars(c, &st, grad, sparse ? grad + 1 : -1, err));
    TD_TRY(lock(c, vars, rule->n_vars, sorted, err));
    enum td_code rc = check_vars(c, vars, &st, err);
    for (int k = 0; k < rule->n_vars; k++) {
        st.var[k] = vars[k]->value.data;
    }
    if (!rc) {
        rc = sparse ? step_rows(c, vars, &st, grad, err) : step_dense(c, vars, &st, grad, err);
    }
    unlock(sorted, rule->n_vars);
    return rc || c->n_out == 0 ? rc : out_var(c, vars[0], err);
}

#define RUNS(rule)                                                                                           \
    static enum td_code rule##_run(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return apply(c, &rule, false, err);                                                                  \
    }
#define ROW_RUNS(rule)                                                                                       \
    static enum td_code rule##_rows(struct td_call *c, struct td_err *err)                                   \
    {                                                                                                        \
        return apply(c, &rule, true, err);                                                                   \
    }
RUNS(descent)
RUNS(proximal_descent)
RUNS(adadelta)
RUNS(adagrad)
RUNS(adagrad_v2)
RUNS(adagrad_da)
RUNS(proximal_adagrad)
RUNS(ftrl)
RUNS(ftrl_v2)
RUNS(momentum)
RUNS(keras_momentum)
RUNS(adam)
RUNS(amsgrad)
RUNS(adamax)
RUNS(rmsprop)
RUNS(centered_rmsprop)
RUNS(add_sign)
RUNS(power_sign)
ROW_RUNS(proximal_descent)
ROW_RUNS(adadelta)
ROW_RUNS(adagrad)
ROW_RUNS(adagrad_v2)
ROW_RUNS(adagrad_da)
ROW_RUNS(proximal_adagrad)
ROW_RUNS(ftrl)
ROW_RUNS(ftrl_v2)
ROW_RUNS(momentum)
ROW_RUNS(keras_momentum)
ROW_RUNS(rmsprop)
ROW_RUNS(centered_rmsprop)

/* ------------------------------------------------------------------ the table
 *
 * Each signature is written once, over V (how a variable comes in), G (the gradient, with indices when
 * sparse), A (the type attributes) and O (what comes out); the rows below fill those in for the four kinds of
 * op. */

#define SIG_DESCENT(V, G, A, O) "(var:" V ", alpha:T, delta:T) -> " O " {" A "use_locking:bool=false}"
#define SIG_PROX_DESCENT(V, G, A, O)                                                                         \
    "(var:" V ", alpha:T, l1:T, l2:T, delta:T) -> " O " {" A "use_locking:bool=false}"
#define SIG_PROX_DESCENT_ROWS(V, G, A, O)                                                                    \
    "(var:" V ", alpha:T, l1:T, l2:T, " G ") -> " O " {" A "use_locking:bool=false}"
#define SIG_ADADELTA(V, G, A, O)                                                                             \
    "(var:" V ", accum:" V ", accum_update:" V ", lr:T, rho:T, epsilon:T, " G ") -> " O " {" A               \
    "use_locking:bool=false}"
#define SIG_ADAGRAD(V, G, A, O)                                                                              \
    "(var:" V ", accum:" V ", lr:T, " G ") -> " O " {" A "use_locking:bool=false; update_slots:bool=true}"
#define SIG_ADAGRAD_V2(V, G, A, O)                                                                           \
    "(var:" V ", accum:" V ", lr:T, epsilon:T, " G ") -> " O " {" A                                          \
    "use_locking:bool=false; update_slots:bool=true}"
#define SIG_ADAGRAD_DA(V, G, A, O)                                                                           \
    "(var:" V ", gradient_accumulator:" V ", gradient_squared_accumulator:" V ", " G                         \
    ", lr:T, l1:T, l2:T, global_step:int64) -> " O " {" A "use_locking:bool=false}"
#define SIG_PROX_ADAGRAD(V, G, A, O)                                                                         \
    "(var:" V ", accum:" V ", lr:T, l1:T, l2:T, " G ") -> " O " {" A "use_locking:bool=false}"
#define SIG_FTRL(V, G, A, O)                                                                                 \
    "(var:" V ", accum:" V ", linear:" V ", " G ", lr:T, l1:T, l2:T, lr_power:T) -> " O " {" A               \
    "use_locking:bool=false; multiply_linear_by_lr:bool=false}"
#define SIG_FTRL_V2(V, G, A, O)                                                                              \
    "(var:" V ", accum:" V ", linear:" V ", " G ", lr:T, l1:T, l2:T, l2_shrinkage:T, lr_power:T) -> " O      \
    " {" A "use_locking:bool=false; multiply_linear_by_lr:bool=false}"
#define SIG_MOMENTUM(V, G, A, O)                                                                             \
    "(var:" V ", accum:" V ", lr:T, " G ", momentum:T) -> " O " {" A                                         \
    "use_locking:bool=false; use_nesterov:bool=false}"
#define SIG_ADAM(V, G, A, O)                                                                                 \
    "(var:" V ", m:" V ", v:" V ", beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, " G      \
    ") -> " O " {" A "use_locking:bool=false; use_nesterov:bool=false}"
#define SIG_AMSGRAD(V, G, A, O)                                                                              \
    "(var:" V ", m:" V ", v:" V ", vhat:" V                                                                  \
    ", beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, " G ") -> " O " {" A                 \
    "use_locking:bool=false}"
#define SIG_ADAMAX(V, G, A, O)                                                                               \
    "(var:" V ", m:" V ", v:" V ", beta1_power:T, lr:T, beta1:T, beta2:T, epsilon:T, " G ") -> " O " {" A    \
    "use_locking:bool=false}"
#define SIG_RMSPROP(V, G, A, O)                                                                              \
    "(var:" V ", ms:" V ", mom:" V ", lr:T, rho:T, momentum:T, epsilon:T, " G ") -> " O " {" A               \
    "use_locking:bool=false}"
#define SIG_CENTERED(V, G, A, O)                                                                             \
    "(var:" V ", mg:" V ", ms:" V ", mom:" V ", lr:T, rho:T, momentum:T, epsilon:T, " G ") -> " O " {" A     \
    "use_locking:bool=false}"
#define SIG_ADD_SIGN(V, G, A, O)                                                                             \
    "(var:" V ", m:" V ", lr:T, alpha:T, sign_decay:T, beta:T, " G ") -> " O " {" A "use_locking:bool="      \
    "false}"
#define SIG_POWER_SIGN(V, G, A, O)                                                                           \
    "(var:" V ", m:" V ", lr:T, logbase:T, sign_decay:T, beta:T, " G ") -> " O " {" A                        \
    "use_locking:bool=false}"

#define REALS (TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define ALL (REALS | TD_SET_COMPLEX)
#define WIDE (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define NO_BF16(set) ((set) & ~TD_BIT(TD_BFLOAT16))

#define BY_HANDLE(opname, S, fn, set, ...)                                                                   \
    {                                                                                                        \
        .name = "ResourceApply" opname, .sig = S("resource", "grad:T", "T:type; ", "()"),                    \
        .flags = TD_OP_STATEFUL, .kernels = TD_KERNEL("optimizer.cpu", fn, {"T", set}), __VA_ARGS__          \
    }
#define BY_REF(opname, S, fn, set)                                                                           \
    {                                                                                                        \
        .name = "Apply" opname, .sig = S("Ref(T)", "grad:T", "T:type; ", "(out:Ref(T))"),                    \
        .flags = TD_OP_NO_FOLD, .kernels = TD_KERNEL("optimizer.cpu", fn, {"T", set})                        \
    }
#define ROWS_BY_HANDLE(opname, S, fn, set)                                                                   \
    {                                                                                                        \
        .name = "ResourceSparseApply" opname,                                                                \
        .sig = S("resource", "grad:T, indices:Tindices", "T:type; Tindices:type; ", "()"),                   \
        .flags = TD_OP_STATEFUL, .kernels = TD_KERNEL("optimizer.cpu", fn, {"T", set})                       \
    }
#define ROWS_BY_REF(opname, S, fn, set)                                                                      \
    {                                                                                                        \
        .name = "SparseApply" opname,                                                                        \
        .sig = S("Ref(T)", "grad:T, indices:Tindices", "T:type; Tindices:type; ", "(out:Ref(T))"),           \
        .flags = TD_OP_NO_FOLD, .kernels = TD_KERNEL("optimizer.cpu", fn, {"T", set})                        \
    }
#define DENSE(opname, S, fn, set, ...) BY_HANDLE(opname, S, fn, set, __VA_ARGS__), BY_REF(opname, S, fn, set)
#define ROWS(opname, S, fn, set) ROWS_BY_HANDLE(opname, S, fn, set), ROWS_BY_REF(opname, S, fn, set)

const struct td_op td_ops_optimizer[] = {
    DENSE("GradientDescent", SIG_DESCENT, descent_run, ALL, .update = td_update_descent),
    DENSE("ProximalGradientDescent", SIG_PROX_DESCENT, proximal_descent_run, WIDE),
    ROWS("ProximalGradientDescent", SIG_PROX_DESCENT_ROWS, proximal_descent_rows, WIDE),
    DENSE("Adadelta", SIG_ADADELTA, adadelta_run, ALL, .update = td_update_adadelta),
    ROWS("Adadelta", SIG_ADADELTA, adadelta_rows, ALL),
    DENSE("Adagrad", SIG_ADAGRAD, adagrad_run, ALL, .update = td_update_adagrad),
    ROWS("Adagrad", SIG_ADAGRAD, adagrad_rows, ALL),
    DENSE("AdagradV2", SIG_ADAGRAD_V2, adagrad_v2_run, ALL, .update = td_update_adagrad_v2),
    ROWS("AdagradV2", SIG_ADAGRAD_V2, adagrad_v2_rows, ALL),
    DENSE("AdagradDA", SIG_ADAGRAD_DA, adagrad_da_run, WIDE),
    ROWS("AdagradDA", SIG_ADAGRAD_DA, adagrad_da_rows, WIDE),
    DENSE("ProximalAdagrad", SIG_PROX_ADAGRAD, proximal_adagrad_run, WIDE),
    ROWS("ProximalAdagrad", SIG_PROX_ADAGRAD, proximal_adagrad_rows, WIDE),
    DENSE("Ftrl", SIG_FTRL, ftrl_run, REALS),
    ROWS("Ftrl", SIG_FTRL, ftrl_rows, REALS),
    DENSE("FtrlV2", SIG_FTRL_V2, ftrl_v2_run, REALS),
    ROWS("FtrlV2", SIG_FTRL_V2, ftrl_v2_rows, REALS),
    DENSE("Momentum", SIG_MOMENTUM, momentum_run, ALL, .update = td_update_momentum),
    ROWS("Momentum", SIG_MOMENTUM, momentum_rows, ALL),
    BY_HANDLE("KerasMomentum", SIG_MOMENTUM, keras_momentum_run, ALL, .update = td_update_keras_momentum),
    ROWS_BY_HANDLE("KerasMomentum", SIG_MOMENTUM, keras_momentum_rows, ALL),
    DENSE("Adam", SIG_ADAM, adam_run, ALL, .update = td_update_adam),
    BY_HANDLE("AdamWithAmsgrad", SIG_AMSGRAD, amsgrad_run, REALS),
    DENSE("AdaMax", SIG_ADAMAX, adamax_run, NO_BF16(REALS)),
    DENSE("RMSProp", SIG_RMSPROP, rmsprop_run, ALL, .update = td_update_rmsprop),
    ROWS("RMSProp", SIG_RMSPROP, rmsprop_rows, NO_BF16(ALL)),
    DENSE("CenteredRMSProp", SIG_CENTERED, centered_rmsprop_run, ALL, .update = td_update_centered_rmsprop),
    ROWS("CenteredRMSProp", SIG_CENTERED, centered_rmsprop_rows, NO_BF16(ALL)),
    DENSE("AddSign", SIG_ADD_SIGN, add_sign_run, REALS),
    DENSE("PowerSign", SIG_POWER_SIGN, power_sign_run, REALS),
    {.name = NULL},
};
