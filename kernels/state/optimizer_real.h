/* kernels/state/optimizer_real.h - optimizer steps that compare or take signs, over one real type.
 *
 * Included by optimizer.c once for each type, with T, FN(name), SQRT, POW, EXP and ABS defined; so without a
 * guard. v[k] is the k-th variable, g the gradient, s the scalars in the op's order without the gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */

static T FN(sign)(T x)
{
    return (T)((x > 0) - (x < 0));
}

static T FN(shrink)(T x, T by) /* toward zero, not past it */
{
    T left = ABS(x) - by;
    return left > 0 ? FN(sign)(x) * left : 0;
}

/* var; alpha, l1, l2 */
static void FN(proximal_descent)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        T w = v[0][i] - g[i] * s[0];
        v[0][i] = (s[1] > 0 ? FN(shrink)(w, s[0] * s[1]) : w) / (1 + s[0] * s[2]);
    }
}

/* var, accum; lr, l1, l2 */
static void FN(proximal_adagrad)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += g[i] * g[i];
        T lr = s[0] / SQRT(v[1][i]), w = v[0][i] - g[i] * lr;
        v[0][i] = (s[1] > 0 ? FN(shrink)(w, lr * s[1]) : w) / (1 + lr * s[2]);
    }
}

/* var, gradient sum, sum of squares; lr, l1, l2, global_step */
static void FN(adagrad_da)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += g[i];
        v[2][i] += g[i] * g[i];
        T sum = s[1] > 0 ? FN(shrink)(v[1][i], s[1] * s[3]) : v[1][i];
        v[0][i] = -s[0] * sum / (s[2] * s[3] * s[0] + SQRT(v[2][i]));
    }
}

/* One element: w, n, z are variable, accumulator and linear term; lr, l1, l2, shrinkage, power. */
static void FN(ftrl_one)(T *w, T *n, T *z, T g, const T s[5], bool linear_by_lr)
{
    T sum = *n + g * g, lr = s[0], p = -s[4];
    T now = s[4] == (T)-0.5 ? SQRT(sum) : POW(sum, p), before = s[4] == (T)-0.5 ? SQRT(*n) : POW(*n, p);
    T slope = g + 2 * s[3] * *w, limit = linear_by_lr ? s[1] * lr : s[1], scale;
    if (linear_by_lr) {
        *z += slope * lr - (now - before) * *w;
        scale = now + 2 * s[2] * lr;
    } else {
        *z += slope - (now - before) / lr * *w;
        scale = now / lr + 2 * s[2];
    }
    T clipped = *z > limit ? limit : *z < -limit ? -limit : *z;
    *w = (clipped - *z) / scale;
    *n = sum;
}

/* var, accum, linear; lr, l1, l2, lr_power */
static void FN(ftrl)(T *const *v, const T *g, const T *s, int64_t n, bool linear_by_lr)
{
    const T all[5] = {s[0], s[1], s[2], 0, s[3]};
    for (int64_t i = 0; i < n; i++) {
        FN(ftrl_one)(&v[0][i], &v[1][i], &v[2][i], g[i], all, linear_by_lr);
    }
}

/* var, accum, linear; lr, l1, l2, l2_shrinkage, lr_power */
static void FN(ftrl_v2)(T *const *v, const T *g, const T *s, int64_t n, bool linear_by_lr)
{
    for (int64_t i = 0; i < n; i++) {
        FN(ftrl_one)(&v[0][i], &v[1][i], &v[2][i], g[i], s, linear_by_lr);
    }
}

/* var, m, v, vhat; beta1_power, beta2_power, lr, beta1, beta2, epsilon */
static void FN(amsgrad)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    T alpha = s[2] * SQRT(1 - s[1]) / (1 - s[0]);
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += (g[i] - v[1][i]) * (1 - s[3]);
        v[2][i] += (g[i] * g[i] - v[2][i]) * (1 - s[4]);
        v[3][i] = v[2][i] > v[3][i] ? v[2][i] : v[3][i];
        v[0][i] -= v[1][i] * alpha / (SQRT(v[3][i]) + s[5]);
    }
}

/* var, m, v; beta1_power, lr, beta1, beta2, epsilon */
static void FN(adamax)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    T alpha = s[1] / (1 - s[0]);
    for (int64_t i = 0; i < n; i++) {
        T faded = v[2][i] * s[3], size = ABS(g[i]);
        v[1][i] += (g[i] - v[1][i]) * (1 - s[2]);
        v[2][i] = faded > size ? faded : size;
        v[0][i] -= alpha * (v[1][i] / (v[2][i] + s[4]));
    }
}

/* var, m; lr, alpha, sign_decay, beta */
static void FN(add_sign)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] = v[1][i] * s[3] + g[i] * (1 - s[3]);
        T same = FN(sign)(g[i]) * FN(sign)(v[1][i]);
        v[0][i] -= s[0] * (s[1] + s[2] * same) * g[i];
    }
}

/* var, m; lr, logbase, sign_decay, beta */
static void FN(power_sign)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] = v[1][i] * s[3] + g[i] * (1 - s[3]);
        T same = FN(sign)(g[i]) * FN(sign)(v[1][i]);
        v[0][i] -= s[0] * EXP(s[1] * s[2] * same) * g[i];
    }
}
