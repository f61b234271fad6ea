/* kernels/cuda/math/fft.c - rows of Fourier transforms: one job of lines an axis (fft.h), one behind the
 * other.
 *
 *   forward        the last axis from x to y, which is as long or shorter; the others in y's place
 *   back to real   the first axes on a copy of what is wanted of x, in the workspace; the last from it to y
 *
 *   workspace      [that copy]   [roots | chirp | filter]   [buffer] [buffer]
 *
 * of which all but the copy serves one axis after the other. Float data of lengths with a large prime are
 * computed in double, as on the host (kernels/math/fft.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/fft.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* LONGEST: of a prime length, of which the convolution is four times as long. */
enum { LONGEST = 1 << 24, AT_ONCE = 1 << 22 /* points in a buffer */ };

/* ------------------------------------------------------------------ what an axis needs */

static void factors(struct td_cuda_fft_plan *p, uint32_t n)
{
    static const uint8_t small[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, TD_CUDA_FFT_LARGEST};
    p->points = n;
    p->n_factors = 0;
    for (size_t i = 0; i < sizeof small; i++) {
        for (; n > 1 && n % small[i] == 0; n /= small[i]) {
            p->factor[p->n_factors++] = small[i];
        }
    }
    p->chirp = n > 1;
}

static struct td_cuda_fft_plan plan_of(uint32_t n)
{
    struct td_cuda_fft_plan p = {.n = n};
    factors(&p, n);
    if (p.chirp) {
        uint32_t size = 1;
        while (size < 2 * n - 1) {
            size *= 2;
        }
        factors(&p, size);
        p.chirp = true;
    }
    return p;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Lays the tables and buffers of a job out from `at` on (NULL: nowhere yet); returns how many bytes they
 * are. */
static size_t lay_out(struct td_cuda_fft *s, char *at)
{
    const size_t point = s->wide ? 2 * sizeof(double) : 2 * sizeof(float), all = s->plan.points * point;
    const size_t chirp = s->plan.chirp ? rounded(s->plan.n * point) : 0, roots = rounded(all);
    const int64_t lines = s->lines[0] * s->lines[1] * s->lines[2];
    size_t bytes = roots + chirp + (s->plan.chirp ? roots : 0);
    s->tables = (struct td_cuda_fft_tables){.roots = at, .chirp = at + roots, .filter = at + roots + chirp};
    s->chunk = AT_ONCE / s->plan.points;
    s->chunk = s->chunk < 1 ? 1 : s->chunk > lines ? lines : s->chunk;
    for (int i = 0; i < 2 && 2 * all > TD_CUDA_FFT_SHARED; i++) {
        s->buffer[i] = at + bytes;
        bytes += rounded((size_t)s->chunk * all);
    }
    return bytes;
}

/* ------------------------------------------------------------------ what the op asks for */

/* The last three axes of a tensor, leading ones of size 1 where the op has fewer. */
struct box {
    int64_t batch, dim[3];
};

struct transform {
    int axes;
    bool real, inverse, doubles;
    struct box in, out;
    int64_t full[3]; /* points */
};

static struct box box_of(const struct td_shape *s, int axes)
{
    struct box b = {.batch = td_shape_range(s, 0, s->rank - axes), .dim = {1, 1, 1}};
    for (int i = 0; i < axes; i++) {
        b.dim[3 - axes + i] = s->dim[s->rank - axes + i];
    }
    return b;
}

static struct transform transform_of(const struct td_node *n, const struct td_shape *in,
                                     const struct td_shape *out, const struct td_tensor *length)
{
    const char *name = n->op_name;
    struct transform t = {.axes = strstr(name, "3D") != NULL   ? 3
                                  : strstr(name, "2D") != NULL ? 2
                                                               : 1,
                          .real = strstr(name, "RFFT") != NULL,
                          .inverse = strstr(name, "IFFT") != NULL || strstr(name, "IRFFT") != NULL,
                          .doubles = n->out_type[0] == TD_DOUBLE || n->out_type[0] == TD_COMPLEX128};
    t.in = box_of(in, t.axes);
    t.out = box_of(out, t.axes);
    memcpy(t.full, t.out.dim, sizeof t.full);
    for (int i = 0; i < t.axes && length != NULL; i++) {
        t.full[3 - t.axes + i] = td_tensor_int(length, i);
    }
    return t;
}

static struct td_cuda_fft job_of(const struct transform *t, int axis)
{
    struct td_cuda_fft s = {
        .plan = plan_of((uint32_t)t->full[axis]), .lines = {1, 1, 1}, .inverse = t->inverse, .scale = 1};
    s.wide = t->doubles || s.plan.chirp;
    return s;
}

/* One side of a job along `axis` of boxes of such dims. */
static struct td_cuda_fft_side side_of(void *at, enum td_cuda_fft_kind kind, const int64_t *dim, int axis)
{
    const int64_t apart[3] = {dim[1] * dim[2], dim[2], 1};
    struct td_cuda_fft_side side = {.at = at, .kind = kind, .step = apart[axis]};
    side.jump[0] = dim[0] * dim[1] * dim[2];
    side.jump[1] = apart[axis == 0 ? 1 : 0];
    side.jump[2] = apart[axis == 2 ? 1 : 2];
    return side;
}

/* The lines along `axis` of boxes of such dims. */
static void set_lines(struct td_cuda_fft *s, int64_t batch, const int64_t *dim, int axis)
{
    s->lines[0] = batch;
    s->lines[1] = dim[axis == 0 ? 1 : 0];
    s->lines[2] = dim[axis == 2 ? 1 : 2];
}

/* What an inverse real transform has of a box before its last axis. */
static void halved(const struct transform *t, int64_t *dim)
{
    memcpy(dim, t->full, 3 * sizeof *dim);
    dim[2] = t->full[2] / 2 + 1;
}

static bool back_to_real(const struct transform *t)
{
    return t->real && t->inverse;
}

static size_t copy_bytes(const struct transform *t)
{
    int64_t dim[3];
    halved(t, dim);
    return back_to_real(t) && t->axes > 1 ? rounded((size_t)(t->out.batch * dim[0] * dim[1] * dim[2]) *
                                                    (t->doubles ? 2 * sizeof(double) : 2 * sizeof(float)))
                                          : 0;
}

/* The job along an axis, but for where it reads and writes. */
static struct td_cuda_fft lines_along(const struct transform *t, int axis)
{
    struct td_cuda_fft s = job_of(t, axis);
    int64_t dim[3];
    halved(t, dim);
    set_lines(&s, t->out.batch, back_to_real(t) ? dim : t->out.dim, axis);
    return s;
}

static bool has_nothing(const struct td_shape *in, const struct td_shape *out)
{
    return td_shape_count(in) == 0 || td_shape_count(out) == 0;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_tensor *length = q->n_in > 1 ? q->value[1] : NULL;
    size_t most = 0;
    (void)err;
    if (q->n_in > 1 && length == NULL) {
        o->refusal = "lengths that are not known before";
        return TD_OK;
    }
    if (has_nothing(&q->in[0], &q->out[0])) {
        return TD_OK;
    }
    const struct transform t = transform_of(q->node, &q->in[0], &q->out[0], length);
    for (int axis = 3 - t.axes; axis < 3; axis++) {
        if (t.full[axis] > LONGEST) {
            o->refusal = "more than 2^24 points";
            return TD_OK;
        }
        struct td_cuda_fft s = lines_along(&t, axis);
        const size_t bytes = lay_out(&s, NULL);
        most = bytes > most ? bytes : most;
    }
    o->workspace_bytes = copy_bytes(&t) + most;
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

struct run {
    struct td_call *c;
    struct transform t;
    char *room; /* tables and buffers */
};

/* The filter of a chirp is the transform of what it is filled with, in its place. */
static int make_tables(const struct td_cuda_fft *s, struct td_cuda_stream *stream)
{
    int error = td_cuda_fft_fill(s, stream);
    if (error == 0 && s->plan.chirp) {
        struct td_cuda_fft f = *s;
        const int64_t one[3] = {1, 1, s->plan.points};
        f.plan.n = f.plan.points;
        f.plan.chirp = false;
        f.in = f.out = side_of(s->tables.filter, TD_CUDA_FFT_COMPLEX, one, 2);
        f.inverse = false;
        f.scale = 1;
        f.lines[0] = f.lines[1] = f.lines[2] = 1;
        error = td_cuda_fft_lines(TD_CUDA_DOUBLE, &f, stream);
    }
    return error;
}

static enum td_code along(const struct run *r, int axis, struct td_cuda_fft_side in,
                          struct td_cuda_fft_side out, double scale, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(r->c);
    struct td_cuda_fft s = lines_along(&r->t, axis);
    s.in = in;
    s.out = out;
    s.scale = scale;
    (void)lay_out(&s, r->room);
    int error = make_tables(&s, stream);
    error = error != 0 ? error : td_cuda_fft_lines(r->t.doubles ? TD_CUDA_DOUBLE : TD_CUDA_FLOAT, &s, stream);
    return td_cuda_launched(r->c, error, err);
}

static enum td_code forward(const struct run *r, void *x, void *y, double scale, struct td_err *err)
{
    const struct transform *t = &r->t;
    const struct td_cuda_fft_side last =
        side_of(y, t->real ? TD_CUDA_FFT_HALF : TD_CUDA_FFT_COMPLEX, t->out.dim, 2);
    TD_TRY(along(r, 2, side_of(x, t->real ? TD_CUDA_FFT_REAL : TD_CUDA_FFT_COMPLEX, t->in.dim, 2), last,
                 scale, err));
    for (int axis = 1; axis >= 3 - t->axes; axis--) {
        const struct td_cuda_fft_side side = side_of(y, TD_CUDA_FFT_COMPLEX, t->out.dim, axis);
        TD_TRY(along(r, axis, side, side, 1, err));
    }
    return TD_OK;
}

static enum td_code to_real(const struct run *r, void *x, void *y, double scale, struct td_err *err)
{
    const struct transform *t = &r->t;
    const void *from = x;
    int64_t dim[3];
    halved(t, dim);
    for (int axis = 3 - t->axes; axis < 2; axis++) {
        void *copy = r->c->workspace;
        TD_TRY(along(r, axis, side_of((void *)from, TD_CUDA_FFT_COMPLEX, from == x ? t->in.dim : dim, axis),
                     side_of(copy, TD_CUDA_FFT_COMPLEX, dim, axis), 1, err));
        from = copy;
    }
    return along(r, 2, side_of((void *)from, TD_CUDA_FFT_HALF, from == x ? t->in.dim : dim, 2),
                 side_of(y, TD_CUDA_FFT_REAL, t->out.dim, 2), scale, err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (has_nothing(&x->shape, &y->shape)) {
        return td_tensor_count(y) > 0 ? td_cuda_zero(c, y, err) : TD_OK;
    }
    struct run r = {.c = c, .t = transform_of(c->node, &x->shape, &y->shape, c->n_in > 1 ? c->in[1] : NULL)};
    const int64_t *n = r.t.full;
    const double scale = r.t.inverse ? 1 / ((double)n[0] * (double)n[1] * (double)n[2]) : 1;
    r.room = (char *)c->workspace + copy_bytes(&r.t);
    return back_to_real(&r.t) ? to_real(&r, x->data, y->data, scale, err)
                              : forward(&r, x->data, y->data, scale, err);
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_ROWS(rows_complex, "fft.cuda", .types = {{"Tcomplex", TD_SET_COMPLEX}}, .prepare = prepare,
             .run = run);
TD_CUDA_ROWS(rows_real, "fft.cuda", .types = {{"Tcomplex", TD_SET_COMPLEX}, {"Treal", TD_CUDA_WIDE}},
             .prepare = prepare, .run = run);
TD_CUDA_ROWS(rows_single, "fft.cuda", .prepare = prepare, .run = run);

const struct td_op_rows td_cuda_rows_fft[] = {{"FFT", rows_complex},
                                              {"FFT2D", rows_complex},
                                              {"FFT3D", rows_complex},
                                              {"IFFT", rows_complex},
                                              {"IFFT2D", rows_complex},
                                              {"IFFT3D", rows_complex},
                                              {"RFFT", rows_real},
                                              {"RFFT2D", rows_real},
                                              {"RFFT3D", rows_real},
                                              {"IRFFT", rows_real},
                                              {"IRFFT2D", rows_real},
                                              {"IRFFT3D", rows_real},
                                              {"BatchFFT", rows_single},
                                              {"BatchFFT2D", rows_single},
                                              {"BatchFFT3D", rows_single},
                                              {"BatchIFFT", rows_single},
                                              {"BatchIFFT2D", rows_single},
                                              {"BatchIFFT3D", rows_single},
                                              {NULL, NULL}};
