/* kernels/math/fft.c - discrete Fourier transforms over the last one, two or three axes.
 *
 *     FFT, IFFT      complex [.., n]              ->  complex [.., n]           (inverse divides by n)
 *     RFFT           real [.., >= n]              ->  complex [.., n / 2 + 1]   the first n are used
 *     IRFFT          complex [.., >= n / 2 + 1]   ->  real [.., n]              the rest by conjugate
 *
 * Lines along one axis are transformed many at a time (fft_lines.c), the last axis first, the others then in
 * the output's place; an inverse real transform starts with the others, on a copy of the stored half. float
 * data are computed in float but for lengths with a large prime. The ops with explicit axes (FFTND) are not
 * here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/math/fft_lines.h"
#include "kernels/ops.h"
#include "kernels/math/fft_grad.h"

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
    const enum td_dtype real = td_attr_type(c->node, "Treal"), complex = td_attr_type(c->node, "Tcomplex");
    TD_FAIL_IF((real == TD_DOUBLE) != (complex == TD_COMPLEX128), err, INVALID_ARGUMENT,
               "%s: Wrong types for %s real FFT: in=%s out=%s", TD_NODE_STR(c->node),
               k.inverse ? "backward" : "forward", td_dtype_name(k.inverse ? complex : real),
               td_dtype_name(k.inverse ? real : complex));
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

/* What a run computes with. */
struct run {
    struct td_call *c;
    struct kind kind;
    bool doubles;
    int64_t number; /* bytes of a real number */
    struct box in, out;
    int64_t full[3]; /* points of the transform */
    double scale;
    const struct td_fft *plan[3];
    void *room;
};

static char *at(const struct run *r, const void *data, int64_t numbers)
{
    return (char *)data + numbers * r->number;
}

/* Along axis 0 or 1, in place, of `outer` blocks of complex [full[axis], inner]. */
static enum td_code along(const struct run *r, int axis, void *data, int64_t outer, int64_t inner,
                          struct td_err *err)
{
    struct td_fft_job job = {.plan = r->plan[axis],
                             .kind = TD_FFT_COMPLEX,
                             .inverse = r->kind.inverse,
                             .doubles = r->doubles,
                             .scale = 1,
                             .lines = inner,
                             .in_step = 2 * inner,
                             .in_jump = 2,
                             .out_step = 2 * inner,
                             .out_jump = 2};
    for (int64_t o = 0; o < outer && r->full[axis] > 1; o++) {
        job.in = job.out = at(r, data, o * r->full[axis] * 2 * inner);
        TD_TRY(td_fft_lines(r->c, &job, r->room, err));
    }
    return TD_OK;
}

/* Along the last axis, from x (boxes `in`) to y, whose first two axes may be shorter. */
static enum td_code along_last(const struct run *r, const void *x, const struct box *in, void *y,
                               int64_t batch, struct td_err *err)
{
    bool real_in = r->kind.real && !r->kind.inverse, real_out = r->kind.real && r->kind.inverse;
    struct td_fft_job job = {.plan = r->plan[2],
                             .kind = real_in    ? TD_FFT_FROM_REAL
                                     : real_out ? TD_FFT_TO_REAL
                                                : TD_FFT_COMPLEX,
                             .inverse = r->kind.inverse,
                             .doubles = r->doubles,
                             .scale = r->scale,
                             .in_step = real_in ? 1 : 2,
                             .out_step = real_out ? 1 : 2};
    const struct box *out = &r->out;
    job.in_jump = in->dim[2] * job.in_step;
    job.out_jump = out->dim[2] * job.out_step;
    if (in->dim[0] == out->dim[0] && in->dim[1] == out->dim[1]) {
        job.lines = batch * out->dim[0] * out->dim[1];
        job.in = x;
        job.out = y;
        return td_fft_lines(r->c, &job, r->room, err);
    }
    for (int64_t i = 0; i < batch * out->dim[0]; i++) {
        int64_t from = i / out->dim[0] * in->dim[0] + i % out->dim[0];
        job.lines = out->dim[1];
        job.in = at(r, x, from * in->dim[1] * job.in_jump);
        job.out = at(r, y, i * out->dim[1] * job.out_jump);
        TD_TRY(td_fft_lines(r->c, &job, r->room, err));
    }
    return TD_OK;
}

static enum td_code forward(const struct run *r, const struct td_tensor *x, struct td_tensor *y,
                            struct td_err *err)
{
    const int64_t *d = r->out.dim;
    TD_TRY(along_last(r, x->data, &r->in, y->data, r->out.batch, err));
    TD_TRY(along(r, 1, y->data, r->out.batch * d[0], d[2], err));
    return along(r, 0, y->data, r->out.batch, d[1] * d[2], err);
}

/* The first axes of an inverse real transform, on a copy of the half that is stored; then the last. */
static enum td_code back_to_real(const struct run *r, const struct td_tensor *x, struct td_tensor *y,
                                 struct td_err *err)
{
    if (r->kind.axes == 1) {
        return along_last(r, x->data, &r->in, y->data, r->out.batch, err);
    }
    const int64_t *d = r->out.dim;
    int64_t half = half_of(d[2]), point = 2 * r->number;
    struct box box = {1, {d[0], d[1], half}};
    void *work;
    /* no larger than the input */
    TD_TRY(td_scratch(r->c, (size_t)(d[0] * d[1] * half * point), &work, err));
    for (int64_t b = 0; b < r->out.batch; b++) {
        for (int64_t i = 0; i < d[0] * d[1]; i++) {
            int64_t row = (b * r->in.dim[0] + i / d[1]) * r->in.dim[1] + i % d[1];
            memcpy((char *)work + i * half * point, (const char *)x->data + row * r->in.dim[2] * point,
                   (size_t)(half * point));
        }
        TD_TRY(along(r, 0, work, 1, d[1] * half, err));
        TD_TRY(along(r, 1, work, d[0], half, err));
        TD_TRY(along_last(r, work, &box, at(r, y->data, b * d[0] * d[1] * d[2]), 1, err));
    }
    return TD_OK;
}

/* Plans of all axes, and room for the largest. */
static enum td_code make_plans(struct run *r, struct td_err *err)
{
    size_t most = 0;
    for (int i = 0; i < 3; i++) {
        size_t bytes;
        if (td_fft_get(r->full[i], i == 2 && r->kind.real, r->doubles, &r->plan[i], err) != TD_OK) {
            return td_err_wrap(err, "%s", TD_NODE_STR(r->c->node));
        }
        TD_FAIL_IF(!td_fft_room(r->plan[i], INT64_MAX, &bytes), err, RESOURCE_EXHAUSTED,
                   "%s: transform of %lld points does not fit memory", TD_NODE_STR(r->c->node),
                   (long long)r->full[i]);
        most = bytes > most ? bytes : most;
    }
    return td_scratch(r->c, most, &r->room, err);
}

static enum td_code fft_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0 || td_tensor_count(x) == 0) {
        if (td_tensor_count(y) > 0) {
            memset(y->data, 0, td_tensor_bytes(y));
        }
        return TD_OK;
    }
    struct run r = {.c = c, .kind = kind_of(c->node), .scale = 1};
    bool inverse_real = r.kind.real && r.kind.inverse;
    r.doubles = x->dtype == TD_DOUBLE || x->dtype == TD_COMPLEX128;
    r.number = r.doubles ? sizeof(double) : sizeof(float);
    r.in = box_of(&x->shape, r.kind.axes);
    r.out = box_of(&y->shape, r.kind.axes);
    memcpy(r.full, r.out.dim, sizeof r.full);
    for (int i = 0; i < r.kind.axes && r.kind.real; i++) {
        r.full[3 - r.kind.axes + i] = td_tensor_int(c->in[1], i);
    }
    if (r.kind.inverse) {
        r.scale = 1 / ((double)r.full[0] * (double)r.full[1] * (double)r.full[2]);
    }
    enum td_code code = make_plans(&r, err);
    if (code == TD_OK) {
        code = inverse_real ? back_to_real(&r, x, y, err) : forward(&r, x, y, err);
    }
    for (int i = 0; i < 3; i++) {
        td_fft_put(r.plan[i]);
    }
    return code;
}

/* ------------------------------------------------------------------ table */

#define MAP1 .batchable = TD_BATCHABLE(td_batchable_map1), .permute = &td_permute_map1
#define MAP2 .batchable = TD_BATCHABLE(td_batchable_map2), .permute = &td_permute_map2
#define MAP3 .batchable = TD_BATCHABLE(td_batchable_map3), .permute = &td_permute_map3
#define COMPLEX_OP(op, axes, gradient)                                                                       \
    {                                                                                                        \
        .name = op, .sig = "(input:Tcomplex) -> (output:Tcomplex) {Tcomplex:type=complex64}", axes,          \
        .infer = complex_infer, .grad = gradient,                                                            \
        .kernels = TD_KERNEL("fft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX})                               \
    }
#define FORWARD_REAL(op, axes, gradient)                                                                     \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(input:Treal, fft_length:int32) -> (output:Tcomplex) {Treal:type=float; "                    \
               "Tcomplex:type=complex64}",                                                                   \
        axes, .host_in = 2, .infer = real_infer, .grad = gradient,                                           \
        .kernels = TD_KERNEL("rfft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX},                              \
                             {"Treal", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})                                \
    }
#define INVERSE_REAL(op, axes, gradient)                                                                     \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(input:Tcomplex, fft_length:int32) -> (output:Treal) {Treal:type=float; "                    \
               "Tcomplex:type=complex64}",                                                                   \
        axes, .host_in = 2, .infer = real_infer, .grad = gradient,                                           \
        .kernels = TD_KERNEL("irfft.cpu", fft_run, {"Tcomplex", TD_SET_COMPLEX},                             \
                             {"Treal", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})                                \
    }
#define BATCH_OP(op, axes)                                                                                   \
    {                                                                                                        \
        .name = op, .sig = "(input:complex64) -> (output:complex64) {}", axes, .infer = complex_infer,       \
        .kernels = TD_KERNEL("fft.cpu", fft_run)                                                             \
    }

const struct td_op td_ops_fft[] = {
    COMPLEX_OP("FFT", MAP1, td_fft_grad),
    COMPLEX_OP("FFT2D", MAP2, td_fft2d_grad),
    COMPLEX_OP("FFT3D", MAP3, td_fft3d_grad),
    COMPLEX_OP("IFFT", MAP1, td_ifft_grad),
    COMPLEX_OP("IFFT2D", MAP2, td_ifft2d_grad),
    COMPLEX_OP("IFFT3D", MAP3, td_ifft3d_grad),
    FORWARD_REAL("RFFT", MAP1, td_rfft_grad),
    FORWARD_REAL("RFFT2D", MAP2, td_rfft2d_grad),
    FORWARD_REAL("RFFT3D", MAP3, td_rfft3d_grad),
    INVERSE_REAL("IRFFT", MAP1, td_irfft_grad),
    INVERSE_REAL("IRFFT2D", MAP2, td_irfft2d_grad),
    INVERSE_REAL("IRFFT3D", MAP3, td_irfft3d_grad),
    BATCH_OP("BatchFFT", MAP1),
    BATCH_OP("BatchFFT2D", MAP2),
    BATCH_OP("BatchFFT3D", MAP3),
    BATCH_OP("BatchIFFT", MAP1),
    BATCH_OP("BatchIFFT2D", MAP2),
    BATCH_OP("BatchIFFT3D", MAP3),
    {.name = NULL},
};
