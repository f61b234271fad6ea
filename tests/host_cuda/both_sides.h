/* tests/host_cuda/both_sides.h - a graph computed on the host and on the host-run device, and compared.
 *
 * A case is a graph (tests/fuzz/op_graph.h) whose value r, of inputs x and y, is computed on both sides.
 * In its text %s stands for the type of the case.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_BOTH_SIDES_H
#define TD_TESTS_HOST_CUDA_BOTH_SIDES_H

#include <complex.h>

#include "kernels/cuda/base/device.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/unit/core/pass_make.h"

enum { TEXT = 2000 };

static struct td_device *device;

static inline void setup(void)
{
    struct td_err err = {0};
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){0}, &device, &err));
}

/* ------------------------------------------------------------------ both sides */

struct outcome {
    enum td_code rc;
    struct td_tensor r;
    char msg[1024];
};

static inline void compute(const char *text, const struct td_device *d, const struct td_tensor *in,
                           struct outcome *out)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    *out = (struct outcome){0};
    passed_open_with(&t, d != NULL ? device_ops() : passed_ops(), text, "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = d};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    out->rc = td_callable_run(f, in, &out->r, NULL, &t.err);
    memcpy(out->msg, t.err.msg, sizeof out->msg);
    td_model_unref(m);
    passed_close(&t);
}

static inline uint64_t launches(void)
{
    struct td_device_counts c;
    td_cuda_device_count(device, &c);
    return c.launches;
}

static inline bool is_complex(enum td_dtype t)
{
    return t == TD_COMPLEX64 || t == TD_COMPLEX128;
}
static inline bool is_single(enum td_dtype t)
{
    return t == TD_FLOAT || t == TD_COMPLEX64;
}

static inline double part(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_INT32      ? TD_DATA(t, int32_t)[i]
           : t->dtype == TD_INT64    ? (double)TD_DATA(t, int64_t)[i]
           : t->dtype == TD_HALF     ? (double)td_half_to_float(TD_DATA(t, td_half)[i])
           : t->dtype == TD_BFLOAT16 ? (double)td_bf16_to_float(TD_DATA(t, td_bf16)[i])
           : td_dtype_size(t->dtype) == (is_complex(t->dtype) ? 8 : 4) ? (double)TD_DATA(t, float)[i]
                                                                       : TD_DATA(t, double)[i];
}

/* got within so much of the largest wanted; what is not finite is the same. */
static inline void check_close(const char *text, const struct td_tensor *want, const struct td_tensor *got,
                               double off)
{
    const int64_t n = td_tensor_count(want) * (is_complex(want->dtype) ? 2 : 1);
    double most = 0;
    CHECK(td_shape_equal(&want->shape, &got->shape) && want->dtype == got->dtype);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, isfinite(part(want, i)) ? fabs(part(want, i)) : 0);
    }
    for (int64_t i = 0; i < n; i++) {
        const double a = part(want, i), b = part(got, i);
        if (!(fabs(a - b) <= off * most || a == b || (isnan(a) && isnan(b)))) {
            fprintf(stderr, "%s\nof %s, element %lld: %.17g, %.17g on the host\n", text,
                    TD_SHAPE_STR(&want->shape), (long long)i, b, a);
            exit(1);
        }
    }
}

/* r is the same on both sides, within `off`, and a kernel was launched for it, if it has elements. */
static inline void compare(const char *text, const struct td_tensor *in, double off)
{
    struct outcome want, got;
    compute(text, NULL, in, &want);
    const uint64_t before = launches();
    compute(text, device, in, &got);
    if (want.rc != TD_OK || got.rc != TD_OK) {
        fprintf(stderr, "%s\n%s\n%s\n", text, want.msg, got.msg);
        exit(1);
    }
    if (td_tensor_count(&want.r) > 0 && launches() == before) {
        fprintf(stderr, "%s\nran on the host, of %s\n", text, TD_SHAPE_STR(&in[0].shape));
        exit(1);
    }
    check_close(text, &want.r, &got.r, off);
    td_tensor_clear(&want.r);
    td_tensor_clear(&got.r);
}

static inline void compare_refusals(const char *text, const struct td_tensor *in)
{
    struct outcome want, got;
    compute(text, NULL, in, &want);
    compute(text, device, in, &got);
    CHECK(want.rc != TD_OK);
    CHECK_INT(got.rc, want.rc);
    CHECK_STR(got.msg, want.msg);
}

/* ------------------------------------------------------------------ inputs */

static inline double number(void)
{
    static uint64_t drawn = 7;
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(drawn >> 40) / (double)(1 << 23) - 1;
}

static inline void set(struct td_tensor *t, int64_t i, double _Complex v)
{
    if (t->dtype == TD_FLOAT) {
        TD_DATA(t, float)[i] = (float)creal(v);
    } else if (t->dtype == TD_DOUBLE) {
        TD_DATA(t, double)[i] = creal(v);
    } else if (t->dtype == TD_HALF) {
        TD_DATA(t, td_half)[i] = td_float_to_half((float)creal(v));
    } else if (t->dtype == TD_BFLOAT16) {
        TD_DATA(t, td_bf16)[i] = td_float_to_bf16((float)creal(v));
    } else if (t->dtype == TD_COMPLEX64) {
        TD_DATA(t, float _Complex)[i] = (float _Complex)v;
    } else {
        TD_DATA(t, double _Complex)[i] = v;
    }
}

static inline struct td_shape matrices(int64_t batch, int64_t m, int64_t n)
{
    return (struct td_shape){.rank = 3, .dim = {batch, m, n}};
}

static inline struct td_tensor random_of(enum td_dtype t, struct td_shape s)
{
    struct td_err err = {0};
    struct td_tensor x;
    CHECK_OK(td_tensor_new(&x, t, &s, &err));
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        const double re = number();
        set(&x, i, re + I * number());
    }
    return x;
}

static const enum td_dtype types[] = {TD_FLOAT, TD_DOUBLE, TD_COMPLEX64, TD_COMPLEX128};
enum { TYPES = 4 };

static inline double exactness(enum td_dtype t)
{
    return is_single(t) ? 1e-5 : 1e-11;
}

/* The graph of format, in which every %s is the type. */
static const char *graph(const char *format, enum td_dtype t)
{
    static char text[TEXT];
    const char *const name = td_dtype_name(t), *from = format;
    size_t at = 0;
    for (; *from != '\0'; from++) {
        if (from[0] == '%') {
            at += (size_t)snprintf(text + at, TEXT - at, "%s", name);
            from++;
        } else {
            text[at++] = *from;
        }
        CHECK(at + 32 < TEXT);
    }
    text[at] = '\0';
    return text;
}

#define IN_X "x = Placeholder {dtype:type=%s} ()\n"
#define IN_XY IN_X "y = Placeholder {dtype:type=%s} ()\n"
#define T "T:type=%s"

/* Matrices of so many rows and columns, and right-hand sides. */
static inline void with_two(const char *format, enum td_dtype t, struct td_tensor a, struct td_tensor b)
{
    const struct td_tensor in[2] = {a, b};
    compare(graph(format, t), in, exactness(t));
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}
static inline void with_one(const char *format, enum td_dtype t, struct td_tensor a)
{
    compare(graph(format, t), &a, exactness(t));
    td_tensor_clear(&a);
}

#endif
