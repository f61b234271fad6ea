/* kernels/math/random_fill.c - random numbers of each distribution from a Philox generator.
 *
 *   uniform, normal, truncated   kernels/math/random_group.h
 *   gamma     random_gamma.h; each element starts 256 steps after the last
 *   poisson   Knuth's product below rate 10, Hoermann's transformed rejection above
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/random_fill.h"

#include <stdlib.h>

#include "core/graph/graph.h"
#include "kernels/cpu/upcast.h"
#include "kernels/math/random_gamma.h"

#define STOP_EVERY 0x3fff /* groups between two looks at the stop word */

/* ------------------------------------------------------------------ uniform, normal, truncated */

static void store_float(struct td_tensor *out, int64_t i, float f)
{
    switch (out->dtype) {
    case TD_FLOAT:
        TD_DATA(out, float)[i] = f;
        break;
    case TD_HALF:
        TD_DATA(out, td_half)[i] = td_float_to_half(f);
        break;
    default:
        TD_DATA(out, td_bf16)[i] = td_float_to_bf16(f);
        break;
    }
}

/* A uniform number has as many random bits as the mantissa of its type. */
static int mantissa_of(enum td_dtype t)
{
    return t == TD_HALF ? 10 : t == TD_BFLOAT16 ? 7 : 23;
}

static int group(enum td_random_kind kind, struct td_philox *g, struct td_tensor *out, int64_t at, int64_t n)
{
    bool wide = out->dtype == TD_DOUBLE;
    double d[2];
    float f[4];
    int size;
    if (wide) {
        size = td_random_group_f64(kind, g, d);
    } else {
        size = td_random_group_f32(kind, mantissa_of(out->dtype), g, f);
    }
    for (int k = 0; k < size && at + k < n; k++) {
        if (wide) {
            TD_DATA(out, double)[at + k] = d[k];
        } else {
            store_float(out, at + k, f[k]);
        }
    }
    return size;
}

enum td_code td_random_fill(struct td_call *c, enum td_random_kind kind, struct td_philox g,
                            struct td_tensor *out, struct td_err *err)
{
    int64_t n = td_tensor_count(out), groups = 0;
    for (int64_t at = 0; at < n; groups++) {
        if ((groups & STOP_EVERY) == STOP_EVERY && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        at += group(kind, &g, out, at, n);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ integers */

enum td_code td_random_fill_ints(struct td_call *c, struct td_philox g, uint64_t lo, uint64_t range,
                                 struct td_tensor *out, struct td_err *err)
{
    bool wide = td_dtype_size(out->dtype) == 8;
    int64_t n = td_tensor_count(out), groups = 0;
    uint32_t x[4];
    for (int64_t at = 0; at < n; groups++) {
        if ((groups & STOP_EVERY) == STOP_EVERY && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_philox_next(&g, x);
        for (int k = 0; k < (wide ? 2 : 4) && at < n; k++, at++) {
            const uint64_t v = td_random_int(x, k, wide, lo, range);
            if (wide) {
                TD_DATA(out, uint64_t)[at] = v;
            } else {
                TD_DATA(out, uint32_t)[at] = (uint32_t)v;
            }
        }
    }
    return TD_OK;
}

enum td_code td_random_fill_range(struct td_call *c, struct td_philox g, const struct td_tensor *minval,
                                  const struct td_tensor *maxval, struct td_tensor *out, struct td_err *err)
{
    uint64_t lo = (uint64_t)td_tensor_int(minval, 0), hi = (uint64_t)td_tensor_int(maxval, 0);
    return td_random_fill_ints(c, g, lo, hi - lo, out, err);
}

/* ------------------------------------------------------------------ gamma and Poisson */

static double poisson_product(double rate, struct td_random_uniforms *u, double most)
{
    double limit = exp(-rate), product = 1;
    for (double x = 0;; x += 1) {
        product *= td_random_next_uniform(u);
        if (product <= limit && x <= most) {
            return x;
        }
        if (!(x < 1e6)) {
            return x; /* never with a finite rate below 10 */
        }
    }
}

static double poisson_rejection(double rate, struct td_random_uniforms *us, double most)
{
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
    double log_rate = log(rate);
    for (int tries = 0; tries < 10000; tries++) {
        double u = td_random_next_uniform(us) - 0.5, v = td_random_next_uniform(us), shifted = 0.5 - fabs(u);
        double k = floor((2 * a / shifted + b) * u + rate + 0.43);
        if (k > most) {
            continue;
        }
        if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) {
            return k;
        }
        if (k < 0 || (shifted < 0.013 && v > shifted)) {
            continue;
        }
        if (log(v * inv_alpha / (a / (shifted * shifted) + b)) <= -rate + k * log_rate - lgamma(k + 1)) {
            return k;
        }
    }
    return NAN;
}

static double poisson_sample(double rate, struct td_philox g, double most)
{
    struct td_random_uniforms u = {.g = &g};
    if (isnan(rate) || rate < 0) {
        return NAN;
    }
    if (rate < 10) {
        return poisson_product(rate, &u, most);
    }
    return isinf(rate) ? (double)INFINITY : poisson_rejection(rate, &u, most);
}

void td_random_fill_store(struct td_tensor *t, int64_t i, double v)
{
    bool fits = v >= -9.2e18 && v <= 9.2e18;
    if (t->dtype == TD_DOUBLE) {
        TD_DATA(t, double)[i] = v;
    } else if (t->dtype == TD_INT32) {
        TD_DATA(t, int32_t)[i] = v >= INT32_MIN && v <= INT32_MAX ? (int32_t)v : INT32_MIN;
    } else if (t->dtype == TD_INT64) {
        TD_DATA(t, int64_t)[i] = fits ? (int64_t)v : INT64_MIN;
    } else {
        store_float(t, i, (float)v);
    }
}

/* The largest value that the output type holds. */
static double most_of(enum td_dtype t)
{
    switch (t) {
    case TD_INT32:
        return INT32_MAX;
    case TD_INT64:
        return 9.2233720368547758e18;
    default:
        return td_largest(t);
    }
}

/* TensorFlow numbers the samples parameter by parameter, and lays them out with the parameters innermost. */
static enum td_code fill_each(struct td_call *c, bool gamma, struct td_philox g,
                              const struct td_tensor *param, struct td_tensor *out, struct td_err *err)
{
    int64_t n = td_tensor_count(out), n_param = td_tensor_count(param);
    if (n == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(n_param == 0 || n % n_param != 0, err, INVALID_ARGUMENT,
               "%s: output of %lld elements for %lld parameters, want a multiple", TD_NODE_STR(c->node),
               (long long)n, (long long)n_param);
    int64_t samples = n / n_param;
    double most = most_of(out->dtype);
    for (int64_t k = 0; k < n; k++) {
        if ((k & 0xfff) == 0xfff && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        struct td_philox at = g;
        td_philox_skip(&at, (uint64_t)k * TD_RANDOM_STEPS);
        int64_t p = k / samples;
        double v = td_upcast_at(param, p);
        td_random_fill_store(out, (k % samples) * n_param + p,
                             gamma ? td_random_gamma(v, at) : poisson_sample(v, at, most));
    }
    return TD_OK;
}

enum td_code td_random_fill_gamma(struct td_call *c, struct td_philox g, const struct td_tensor *alpha,
                                  struct td_tensor *out, struct td_err *err)
{
    return fill_each(c, true, g, alpha, out, err);
}

enum td_code td_random_fill_poisson(struct td_call *c, struct td_philox g, const struct td_tensor *rate,
                                    struct td_tensor *out, struct td_err *err)
{
    return fill_each(c, false, g, rate, out, err);
}

/* ------------------------------------------------------------------ classes and permutations */

/* Cumulative sums of exp(logit - max); classes that are not finite have no weight. Returns the total. */
static double cumulate(const struct td_tensor *logits, int64_t row, int64_t n, double *sums)
{
    double max = -(double)INFINITY, total = 0;
    for (int64_t j = 0; j < n; j++) {
        double v = td_upcast_at(logits, row * n + j);
        max = isfinite(v) && v > max ? v : max;
    }
    for (int64_t j = 0; j < n; j++) {
        double v = td_upcast_at(logits, row * n + j);
        total += isfinite(v) ? exp(v - max) : 0;
        sums[j] = total;
    }
    return total;
}

/* First class whose sum is above v; n when none is. */
static int64_t above(const double *sums, int64_t n, double v)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (sums[mid] > v) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}

enum td_code td_random_fill_classes(struct td_call *c, struct td_philox g, const struct td_tensor *logits,
                                    struct td_tensor *out, struct td_err *err)
{
    struct td_philox_words w = {.g = &g};
    int64_t rows = out->shape.dim[0], draws = out->shape.dim[1], n = logits->shape.dim[1];
    void *mem;
    if (rows == 0 || draws == 0) {
        return TD_OK;
    }
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double), &mem, err));
    for (int64_t b = 0; b < rows; b++) {
        double *sums = mem, total = cumulate(logits, b, n, sums);
        for (int64_t j = 0; j < draws; j++) {
            uint32_t x0 = td_philox_word(&w), x1 = td_philox_word(&w);
            td_random_fill_store(out, b * draws + j,
                                 (double)above(sums, n, td_philox_double(x0, x1) * total));
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

enum td_code td_random_fill_shuffled(struct td_call *c, struct td_philox g, const struct td_tensor *x,
                                     struct td_tensor *out, struct td_err *err)
{
    struct td_philox_words w = {.g = &g};
    int64_t rows = x->shape.rank > 0 ? x->shape.dim[0] : 1, count = td_tensor_count(x);
    void *mem;
    if (count == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(rows > UINT32_MAX, err, INVALID_ARGUMENT, "%s: shuffling %lld rows, want fewer than 2^32",
               TD_NODE_STR(c->node), (long long)rows);
    int64_t row = count / rows;
    size_t bytes = (size_t)row * td_dtype_size(x->dtype);
    TD_TRY(td_scratch(c, (size_t)rows * sizeof(int64_t), &mem, err));
    int64_t *order = mem;
    for (int64_t i = 0; i < rows; i++) {
        order[i] = i;
    }
    for (int64_t i = 0; i + 1 < rows; i++) {
        int64_t j = i + (int64_t)(td_philox_word(&w) % (uint32_t)(rows - i)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int64_t i = 0; i < rows; i++) {
        td_elems_copy(x->dtype, (char *)out->data + (size_t)i * bytes,
                      (const char *)x->data + (size_t)order[i] * bytes, row);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ generators that are kept */

enum td_code td_random_fill_reserve(struct td_call *c, td_random_reserve_fn *reserve, struct td_tensor **out,
                                    struct td_philox *g, struct td_err *err)
{
    TD_TRY(td_out(c, 0, NULL, out, err));
    return reserve(c, (uint64_t)td_tensor_count(*out) * TD_RANDOM_STEPS, g, err);
}

enum td_code td_random_fill_drawn(struct td_call *c, td_random_reserve_fn *reserve, enum td_random_kind kind,
                                  struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_random_fill_reserve(c, reserve, &out, &g, err));
    return td_random_fill(c, kind, g, out, err);
}

enum td_code td_random_fill_drawn_range(struct td_call *c, td_random_reserve_fn *reserve, int i,
                                        struct td_err *err)
{
    struct td_tensor *out;
    struct td_philox g;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_random_fill_bounds(c, c->in[i], c->in[i + 1], out, err));
    TD_TRY(reserve(c, (uint64_t)td_tensor_count(out) * TD_RANDOM_STEPS, &g, err));
    return td_random_fill_range(c, g, c->in[i], c->in[i + 1], out, err);
}

/* ------------------------------------------------------------------ shapes */

enum td_code td_random_fill_infer(struct td_infer *c, int i, int j, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank != 1, err, INVALID_ARGUMENT,
               "%s: shape must be a vector of {int32,int64}, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[i]));
    TD_TRY(td_infer_shape_value(c, i, false, &c->out[0], err));
    return j < 0 ? TD_OK : td_shape_concat(&c->out[0], &c->in[j], &c->out[0], err);
}

enum td_code td_random_fill_infer_over(struct td_infer *c, int i, const struct td_shape *from,
                                       struct td_err *err)
{
    const struct td_shape *out = &c->out[0];
    TD_TRY(td_random_fill_infer(c, i, -1, err));
    bool ends = from->rank <= out->rank;
    for (int k = 0; ends && k < from->rank; k++) {
        const int64_t a = from->dim[k], b = out->dim[out->rank - from->rank + k];
        ends = a < 0 || b < 0 || a == b;
    }
    TD_FAIL_IF(from->rank >= 0 && out->rank >= 0 && !ends, err, INVALID_ARGUMENT,
               "%s: Shape passed in must end with broadcasted shape: %s does not with %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(out), TD_SHAPE_STR(from));
    return TD_OK;
}
