/* kernels/state/optimizer_any.h - optimizer steps that need no order, over one real or complex type.
 *
 * Included by optimizer.c once for each type, with T, FN(name) and SQRT defined; so without a guard. v[k] is
 * the k-th variable, g the gradient, s the scalars in the op's order without the gradient. Squares of complex
 * gradients are complex squares, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* var; alpha */
static void FN(descent)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[0][i] -= g[i] * s[0];
    }
}

/* var, accum, accum_update; lr, rho, epsilon */
static void FN(adadelta)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] = v[1][i] * s[1] + g[i] * g[i] * (1 - s[1]);
        T update = SQRT(v[2][i] + s[2]) / SQRT(v[1][i] + s[2]) * g[i];
        v[0][i] -= update * s[0];
        v[2][i] = v[2][i] * s[1] + update * update * (1 - s[1]);
    }
}

/* var, accum; lr */
static void FN(adagrad)(T *const *v, const T *g, const T *s, int64_t n, bool update_slots)
{
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += update_slots ? g[i] * g[i] : 0;
        v[0][i] -= g[i] * s[0] / SQRT(v[1][i]);
    }
}

/* var, accum; lr, epsilon */
static void FN(adagrad_v2)(T *const *v, const T *g, const T *s, int64_t n, bool update_slots)
{
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += update_slots ? g[i] * g[i] : 0;
        v[0][i] -= g[i] * s[0] / (SQRT(v[1][i]) + s[1]);
    }
}

/* var, accum; lr, momentum */
static void FN(momentum)(T *const *v, const T *g, const T *s, int64_t n, bool nesterov)
{
    for (int64_t i = 0; i < n; i++) {
        v[1][i] = v[1][i] * s[1] + g[i];
        v[0][i] -= nesterov ? g[i] * s[0] + v[1][i] * s[1] * s[0] : v[1][i] * s[0];
    }
}

/* var, accum; lr, momentum */
static void FN(keras_momentum)(T *const *v, const T *g, const T *s, int64_t n, bool nesterov)
{
    for (int64_t i = 0; i < n; i++) {
        v[1][i] = v[1][i] * s[1] - g[i] * s[0];
        v[0][i] += nesterov ? v[1][i] * s[1] - g[i] * s[0] : v[1][i];
    }
}

/* var, m, v; beta1_power, beta2_power, lr, beta1, beta2, epsilon */
static void FN(adam)(T *const *v, const T *g, const T *s, int64_t n, bool nesterov)
{
    T alpha = s[2] * SQRT(1 - s[1]) / (1 - s[0]);
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += (g[i] - v[1][i]) * (1 - s[3]);
        v[2][i] += (g[i] * g[i] - v[2][i]) * (1 - s[4]);
        T direction = nesterov ? g[i] * (1 - s[3]) + s[3] * v[1][i] : v[1][i];
        v[0][i] -= direction * alpha / (SQRT(v[2][i]) + s[5]);
    }
}

/* var, ms, mom; lr, rho, momentum, epsilon */
static void FN(rmsprop)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[1][i] += (g[i] * g[i] - v[1][i]) * (1 - s[1]);
        v[2][i] = v[2][i] * s[2] + g[i] * s[0] / SQRT(v[1][i] + s[3]);
        v[0][i] -= v[2][i];
    }
}

/* var, mg, ms, mom; lr, rho, momentum, epsilon */
static void FN(centered_rmsprop)(T *const *v, const T *g, const T *s, int64_t n, bool flag)
{
    (void)flag;
    for (int64_t i = 0; i < n; i++) {
        v[2][i] += (g[i] * g[i] - v[2][i]) * (1 - s[1]);
        v[1][i] += (g[i] - v[1][i]) * (1 - s[1]);
        v[3][i] = v[3][i] * s[2] + g[i] * s[0] / SQRT(v[2][i] - v[1][i] * v[1][i] + s[3]);
        v[0][i] -= v[3][i];
    }
}
