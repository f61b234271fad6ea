/* kernels/fft.c - discrete Fourier transforms over the last one, two or three axes.
 *
 *     FFT, IFFT      complex [.., n]              ->  complex [.., n]           (inverse divides by n)
 *     RFFT           real [.., >= n]              ->  complex [.., n / 2 + 1]   the first n are used
 *     IRFFT          complex [.., >= n / 2 + 1]   ->  real [.., n]              the rest by conjugate
 * symmetry
 *
 * Everything is computed in double. A length that is a power of two takes the iterative radix-2 algorithm;
 * any other length is a convolution with a chirp (Bluestein), done by transforms of the next power of two
 * above 2n - 1:
 *
 *     X[k] = w[k] * sum over j of (x[j] w[j]) * conj(w[k - j]),     w[j] = exp(-i pi j^2 / n)
 *
 * The inverse is the forward transform of conjugates. The ops with explicit axes (FFTND) are not here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/ops.h"

#ifndef CMPLX /* where the C library has it for gcc alone */
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

typedef double _Complex zc;

/* What transforms of one length need: made once a call. */
struct plan {
    int64_t n, size; /* size: the power of two that is computed with; n itself when it is one */
    zc *twiddle;     /* size / 2: exp(-2 pi i k / size) */
    zc *chirp;       /* n: w, when size != n */
    zc *filter;      /* size: transform of the conjugate chirp, divided by size */
    zc *line;        /* size: work */
};

static zc unit(double turns)
{
    return cos(2 * M_PI * turns) - I * sin(2 * M_PI * turns);
}

/* a * b without the checks for infinities that C's operator makes. */
static inline zc mul(zc a, zc b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
    return __builtin_complex(ar * br - ai * bi, ar * bi + ai * br); /* CMPLX, which clang's headers lack */
}

/* In-place transform of x, a power of two long. */
static void radix2(const struct plan *p, zc *x)
{
    int64_t n = p->size;
    for (int64_t i = 1, j = 0; i < n; i++) { /* bit-reversed order */
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j ^= bit;
        if (i < j) {
            zc t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t half = 1; half < n; half *= 2) {
        int64_t step = n / (2 * half);
        for (int64_t from = 0; from < n; from += 2 * half) {
            for (int64_t k = 0; k < half; k++) {
                zc a = x[from + k], b = mul(x[from + k + half], p->twiddle[k * step]);
                x[from + k] = a + b;
                x[from + k + half] = a - b;
            }
        }
    }
}

static enum td_code room(struct td_call *c, int64_t cells, zc **out, struct td_err *err)
{
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)cells, sizeof(zc), &bytes), err, RESOURCE_EXHAUSTED,
               "%s: transform of %lld cells does not fit memory", TD_NODE_STR(c->node), (long long)cells);
    return td_scratch(c, bytes, (void **)out, err);
}

static void make_chirp(struct plan *p)
{
    int64_t n = p->n;
    zc *f = p->filter;
    memset(f, 0, (size_t)p->size * sizeof *f);
    for (int64_t j = 0; j < n; j++) {
        /* j^2 modulo 2n keeps the angle small and exact */
        double turns =
            (double)((uint64_t)((unsigned __int128)j * (uint64_t)j % (uint64_t)(2 * n))) / (double)(2 * n);
        p->chirp[j] = unit(turns);
        f[j] = conj(p->chirp[j]);
        if (j > 0) {
            f[p->size - j] = f[j];
        }
    }
    radix2(p, f);
    for (int64_t k = 0; k < p->size; k++) {
        f[k] /= (double)p->size;
    }
}

static enum td_code plan_make(struct td_call *c, int64_t n, struct plan *p, struct td_err *err)
{
    *p = (struct plan){.n = n, .size = 1};
    TD_FAIL_IF(n > INT64_C(1) << 40, err, INVALID_ARGUMENT, "%s: transform of %lld points is too long",
               TD_NODE_STR(c->node), (long long)n);
    while (p->size < n) {
        p->size *= 2;
    }
    bool chirp = p->size != n;
    if (chirp) {
        while (p->size < 2 * n - 1) {
            p->size *= 2;
        }
    }
    TD_TRY(room(c, p->size / 2 + 1, &p->twiddle, err));
    TD_TRY(room(c, p->size, &p->line, err));
    for (int64_t k = 0; k < p->size / 2; k++) {
        p->twiddle[k] = unit((double)k / (double)p->size);
    }
    if (chirp) {
        TD_TRY(room(c, n, &p->chirp, err));
        TD_TRY(room(c, p->size, &p->filter, err));
        make_chirp(p);
    }
    return TD_OK;
}

/* Transforms p->n points of x, `step` apart, in place; the inverse is not scaled. */
static void transform(const struct plan *p, zc *x, int64_t step, bool inverse)
{
    zc *line = p->line;
    for (int64_t i = 0; i < p->n; i++) {
        zc v = inverse ? conj(x[i * step]) : x[i * step];
        line[i] = p->chirp != NULL ? mul(v, p->chirp[i]) : v;
    }
    memset(line + p->n, 0, (size_t)(p->size - p->n) * sizeof *line);
    radix2(p, line);
    if (p->chirp != NULL) { /* multiply with the filter and go back: the inverse as a forward of conjugates */
        for (int64_t k = 0; k < p->size; k++) {
            line[k] = conj(mul(line[k], p->filter[k]));
        }
        radix2(p, line);
    }
    for (int64_t i = 0; i < p->n; i++) {
        zc v = p->chirp != NULL ? mul(conj(line[i]), p->chirp[i]) : line[i];
        x[i * step] = inverse ? conj(v) : v;
    }
}

/* ------------------------------------------------------------------ what the op asks for */

struct kind {
    int axes;
    bool real, inverse;
};

static struct kind kind_of(const struct td_node *n)
{
    const char *name = n->op_name;
    struct kind k = {.axes = strstr(name, "3D") != NULL ? 3 : strstr(name, "2D") != NULL ? 2 : 1};
    k.real = strstr(name, "RFFT") != NULL;
    k.inverse = strstr(name, "IFFT") != NULL || strstr(name, "IRFFT") != NULL;
    return k;
}

static enum td_code check_rank(const struct td_infer *c, const struct kind *k, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank < k->axes, err, INVALID_ARGUMENT,
               "%s: Input must have rank of at least %d but got: %s", TD_NODE_STR(c->node), k->axes,
               TD_SHAPE_STR(&c->in[0]));
    return TD_OK;
}

static enum td_code complex_infer(struct td_infer *c, struct td_err *err)
{
    struct kind k = kind_of(c->node);
    TD_TRY(check_rank(c, &k, err));
    c->out[0] = c->in[0];
    return TD_OK;
}

/* Points of the last axis as the complex side stores them. */
static int64_t half_of(int64_t n)
{
    return n == 0 ? 0 : n / 2 + 1;
}

static enum td_code real_infer(struct td_infer *c, struct td_err *err)
{
    struct kind k = kind_of(c->node);
    const struct td_shape *s = &c->in[1];
    TD_TRY(check_rank(c, &k, err));
    TD_FAIL_IF((s->rank >= 0 && s->rank != 1) || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != k.axes), err,
               INVALID_ARGUMENT, "%s: fft_length must have shape [%d], got %s", TD_NODE_STR(c->node), k.axes,
               TD_SHAPE_STR(s));
    c->out[0] = c->in[0];
    for (int i = 0; i < k.axes && c->in[0].rank > 0; i++) {
        int axis = c->in[0].rank - k.axes + i;
        c->out[0].dim[axis] = -1;
        if (c->value[1] == NULL) {
            continue;
        }
        int64_t n = td_tensor_int(c->value[1], i), have = c->in[0].dim[axis];
        TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "%s: fft_length[%d] must >= 0, but got: %lld",
                   TD_NODE_STR(c->node), i, (long long)n);
        bool halved = i == k.axes - 1;
        int64_t need = k.inverse && halved ? half_of(n) : n;
        TD_FAIL_IF(have > 0 && have < need, err, INVALID_ARGUMENT,
                   "%s: Input dimension %d must have length of at least %lld but got: %lld",
                   TD_NODE_STR(c->node), axis, (long long)need, (long long)have);
        c->out[0].dim[axis] = !k.inverse && halved ? half_of(n) : n;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

/* The last three axes of a tensor, leading ones of size 1 where the op has fewer. */
struct box {
    int64_t batch, dim[3];
};

static struct box box_of(const struct td_shape *s, int axes)
{
    struct box b = {.batch = td_shape_range(s, 0, s->rank - axes), .dim = {1, 1, 1}};
    for (int i = 0; i < axes; i++) {
        b.dim[3 - axes + i] = s->dim[s->rank - axes + i];
    }
    return b;
}

static int64_t box_cells(const struct box *b)
{
    return b->dim[0] * b->dim[1] * b->dim[2];
}

static zc element(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return TD_DATA(t, float)[i];
    case TD_DOUBLE:
        return TD_DATA(t, double)[i];
    case TD_COMPLEX64:
        return TD_DATA(t, float _Complex)[i];
    default:
        return TD_DATA(t, zc)[i];
    }
}

static void set_element(struct td_tensor *t, int64_t i, zc v)
{
    switch (t->dtype) {
    case TD_FLOAT:
        TD_DATA(t, float)[i] = (float)creal(v);
        break;
    case TD_DOUBLE:
        TD_DATA(t, double)[i] = creal(v);
        break;
    case TD_COMPLEX64:
        TD_DATA(t, float _Complex)[i] = (float _Complex)v;
        break;
    default:
        TD_DATA(t, zc)[i] = v;
    }
}

/* Image `at` of t, cropped to `want`, into work (rows of work are `row` long). */
static void load(const struct td_tensor *t, const struct box *have, int64_t at, const int64_t want[3],
                 zc *work, int64_t row)
{
    for (int64_t i = 0; i < want[0]; i++) {
        for (int64_t j = 0; j < want[1]; j++) {
            int64_t from = ((at * have->dim[0] + i) * have->dim[1] + j) * have->dim[2];
            for (int64_t k = 0; k < want[2]; k++) {
                work[(i * want[1] + j) * row + k] = element(t, from + k);
            }
        }
    }
}

/* All lines of `work` [d0,d1,d2] along one axis. */
static void along(const struct plan *p, zc *work, const int64_t d[3], int axis, bool inverse)
{
    int64_t inner = 1, outer = 1;
    for (int i = axis + 1; i < 3; i++) {
        inner *= d[i];
    }
    for (int i = 0; i < axis; i++) {
        outer *= d[i];
    }
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            transform(p, work + o * d[axis] * inner + i, inner, inverse);
        }
    }
}

/* Fills in the second half of every row by conjugate symmetry; the first and middle points count as real. */
static void mirror(zc *work, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        zc *x = work + r * n;
        x[0] = creal(x[0]);
        for (int64_t k = 1; k < n - k; k++) {
            x[n - k] = conj(x[k]);
        }
        if (n % 2 == 0) {
            x[n / 2] = creal(x[n / 2]);
        }
    }
}

/* The outer axes of an inverse real transform act on the stored half only; so the half is turned first. */
static void outer_axes_of_half(const struct plan plan[3], zc *work, const int64_t full[3], int64_t half)
{
    for (int axis = 0; axis < 2; axis++) {
        int64_t inner = axis == 0 ? full[1] * full[2] : full[2], outer = axis == 0 ? 1 : full[0];
        for (int64_t o = 0; o < outer && full[axis] > 1; o++) {
            for (int64_t i = 0; i < inner; i++) {
                if (i % full[2] < half) {
                    transform(&plan[axis], work + o * full[axis] * inner + i, inner, true);
                }
            }
        }
    }
}

static enum td_code fft_run(struct td_call *c, struct td_err *err)
{
    struct kind k = kind_of(c->node);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct box in = box_of(&c->in[0]->shape, k.axes), out = box_of(&y->shape, k.axes),
               full = k.inverse ? out : in;
    for (int i = 0; i < k.axes && k.real; i++) {
        full.dim[3 - k.axes + i] = td_tensor_int(c->in[1], i);
    }
    int64_t cells = box_cells(&full), taken[3] = {full.dim[0], full.dim[1], full.dim[2]};
    bool inverse_real = k.real && k.inverse;
    taken[2] = inverse_real ? half_of(full.dim[2]) : taken[2];
    if (td_tensor_count(y) == 0 || td_tensor_count(c->in[0]) == 0) {
        if (td_tensor_count(y) > 0) {
            memset(y->data, 0, td_tensor_bytes(y));
        }
        return TD_OK;
    }
    zc *work;
    struct plan plan[3];
    TD_TRY(room(c, cells, &work, err));
    for (int i = 0; i < 3; i++) {
        TD_TRY(plan_make(c, full.dim[i], &plan[i], err));
    }
    double scale = k.inverse ? 1 / (double)cells : 1;
    for (int64_t b = 0; b < out.batch; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        load(c->in[0], &in, b, taken, work, full.dim[2]);
        if (inverse_real) {
            outer_axes_of_half(plan, work, full.dim, taken[2]);
            mirror(work, full.dim[0] * full.dim[1], full.dim[2]);
        }
        for (int axis = inverse_real ? 2 : 0; axis < 3; axis++) {
            if (full.dim[axis] > 1) {
                along(&plan[axis], work, full.dim, axis, k.inverse);
            }
        }
        for (int64_t i = 0; i < box_cells(&out); i++) {
            int64_t row = i / out.dim[2];
            set_element(y, b * box_cells(&out) + i, work[row * full.dim[2] + i % out.dim[2]] * scale);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define COMPLEX_OP(op, axes)                                                                                 \
    {                                                                                                        \
        .name = op, .sig = "(input:Tcomplex) -> (output:Tcomplex) {Tcomplex:type=complex64}", .rows = axes,  \
        .infer = complex_infer, .kernels = TD_KERNEL("fft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX})       \
    }
#define FORWARD_REAL(op, axes)                                                                               \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(input:Treal, fft_length:int32) -> (output:Tcomplex) {Treal:type=float; "                    \
               "Tcomplex:type=complex64}",                                                                   \
        .rows = axes, .host_in = 2, .infer = real_infer,                                                     \
        .kernels = TD_KERNEL("rfft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX},                              \
                             {"Treal", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})                                \
    }
#define INVERSE_REAL(op, axes)                                                                               \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(input:Tcomplex, fft_length:int32) -> (output:Treal) {Treal:type=float; "                    \
               "Tcomplex:type=complex64}",                                                                   \
        .rows = axes, .host_in = 2, .infer = real_infer,                                                     \
        .kernels = TD_KERNEL("irfft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX},                             \
                             {"Treal", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})                                \
    }
#define BATCH_OP(op, axes)                                                                                   \
    {                                                                                                        \
        .name = op, .sig = "(input:complex64) -> (output:complex64) {}", .rows = axes,                       \
        .infer = complex_infer, .kernels = TD_KERNEL("fft.cpu", fft_run)                                     \
    }

const struct td_op td_ops_fft[] = {
    COMPLEX_OP("FFT", TD_ROWS_MAP1),
    COMPLEX_OP("FFT2D", TD_ROWS_MAP2),
    COMPLEX_OP("FFT3D", TD_ROWS_MAP3),
    COMPLEX_OP("IFFT", TD_ROWS_MAP1),
    COMPLEX_OP("IFFT2D", TD_ROWS_MAP2),
    COMPLEX_OP("IFFT3D", TD_ROWS_MAP3),
    FORWARD_REAL("RFFT", TD_ROWS_MAP1),
    FORWARD_REAL("RFFT2D", TD_ROWS_MAP2),
    FORWARD_REAL("RFFT3D", TD_ROWS_MAP3),
    INVERSE_REAL("IRFFT", TD_ROWS_MAP1),
    INVERSE_REAL("IRFFT2D", TD_ROWS_MAP2),
    INVERSE_REAL("IRFFT3D", TD_ROWS_MAP3),
    BATCH_OP("BatchFFT", TD_ROWS_MAP1),
    BATCH_OP("BatchFFT2D", TD_ROWS_MAP2),
    BATCH_OP("BatchFFT3D", TD_ROWS_MAP3),
    BATCH_OP("BatchIFFT", TD_ROWS_MAP1),
    BATCH_OP("BatchIFFT2D", TD_ROWS_MAP2),
    BATCH_OP("BatchIFFT3D", TD_ROWS_MAP3),
    {.name = NULL},
};
