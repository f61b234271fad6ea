/* kernels/math/fft_lines.c - Fourier transforms of lines: passes in float and in double, the convolution with
 * a chirp, and the moves between tensors and planes.
 *
 * The inverse is the forward transform with real and imaginary parts exchanged.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/fft_lines.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/cpu/vecmath.h"

enum { LINES = 16, BLOCK = 32, LARGEST_RADIX = 31, ROOM = 1 << 20 };

#define R float
#define NAME(x) x##_f32
#define T(table) ((table).f)
#include "kernels/math/fft_passes.inc"
#undef R
#undef NAME
#undef T
#define R double
#define NAME(x) x##_f64
#define T(table) ((table).d)
#include "kernels/math/fft_passes.inc"
#undef R
#undef NAME
#undef T

/* ------------------------------------------------------------------ any length */

/* x[i] *= w[i], or conj(x[i]) * w[i], for n points of s lines. */
TD_CLONES static void multiply(struct planes_f64 x, const double *wr, const double *wi, int64_t n, int64_t s,
                               double sign)
{
    for (int64_t i = 0; i < n; i++) {
        double cr = wr[i], ci = wi[i];
        for (int64_t q = i * s; q < (i + 1) * s; q++) {
            double a = x.re[q], b = x.im[q] * sign;
            x.re[q] = a * cr - b * ci;
            x.im[q] = a * ci + b * cr;
        }
    }
}

static void transform_f64(const struct td_fft *f, int64_t s, struct planes_f64 *x, struct planes_f64 *y)
{
    if (f->inner == NULL) {
        passes_f64(f, s, x, y);
        return;
    }
    int64_t n = f->points, size = f->inner->points;
    multiply(*x, f->chirp_re, f->chirp_im, n, s, 1);
    memset(x->re + n * s, 0, (size_t)((size - n) * s) * sizeof(double));
    memset(x->im + n * s, 0, (size_t)((size - n) * s) * sizeof(double));
    passes_f64(f->inner, s, x, y);
    multiply(*x, f->filter_re, f->filter_im, size, s, 1);
    for (int64_t i = 0; i < size * s; i++) { /* back: the inverse as a forward of conjugates */
        x->im[i] = -x->im[i];
    }
    passes_f64(f->inner, s, x, y);
    multiply(*x, f->chirp_re, f->chirp_im, n, s, -1);
}

static void transform_f32(const struct td_fft *f, int64_t s, struct planes_f32 *x, struct planes_f32 *y)
{
    passes_f32(f, s, x, y);
}

/* An inverse transform is a forward one with real and imaginary parts swapped, before and behind. */
static void swap_f64(struct planes_f64 *x, bool inverse)
{
    if (inverse) {
        *x = (struct planes_f64){x->im, x->re};
    }
}

static void swap_f32(struct planes_f32 *x, bool inverse)
{
    if (inverse) {
        *x = (struct planes_f32){x->im, x->re};
    }
}

bool td_fft_planes(const struct td_fft *f, double *re, double *im)
{
    size_t bytes = (size_t)f->points * sizeof(double);
    double *room = td_calloc((size_t)f->points, 2 * sizeof(double));
    if (room == NULL) {
        return false;
    }
    struct planes_f64 x = {re, im}, y = {room, room + f->points};
    passes_f64(f, 1, &x, &y);
    if (x.re != re) {
        memcpy(re, x.re, bytes);
        memcpy(im, x.im, bytes);
    }
    td_free(room);
    return true;
}

/* ------------------------------------------------------------------ lines */

#define D float
#define R float
#define NAME(x) x##_f32
#define MOVE(x) x##_float_f32
#include "kernels/math/fft_move.inc"
#undef R
#undef NAME
#undef MOVE
#define R double
#define NAME(x) x##_f64
#define MOVE(x) x##_float_f64
#include "kernels/math/fft_move.inc"
#undef D
#undef MOVE
#define D double
#define MOVE(x) x##_double_f64
#include "kernels/math/fft_move.inc"
#undef D
#undef R
#undef NAME
#undef MOVE

/* Points of one line in a plane. */
static int64_t line_points(const struct td_fft *f)
{
    return f->inner != NULL && f->inner->points > f->points ? f->inner->points : f->points + 1;
}

/* Lines done at once: what fits the cache near the core, and one at least. */
static int64_t lines_at_once(const struct td_fft *f, int64_t lines)
{
    int64_t fit = ROOM / (int64_t)(4 * sizeof(double)) / line_points(f);
    fit = fit > LINES ? LINES : fit < 1 ? 1 : fit;
    return lines < fit ? lines : fit;
}

bool td_fft_room(const struct td_fft *plan, int64_t lines, size_t *bytes)
{
    return td_size_mul((size_t)line_points(plan), 4 * sizeof(double) * LINES, bytes) &&
           td_size_mul((size_t)line_points(plan), 4 * sizeof(double) * (size_t)lines_at_once(plan, lines),
                       bytes);
}

enum td_code td_fft_lines(struct td_call *c, const struct td_fft_job *job, void *room, struct td_err *err)
{
    int64_t most = lines_at_once(job->plan, job->lines);
    for (int64_t i = 0; i < job->lines; i += most) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        int64_t s = job->lines - i < most ? job->lines - i : most, plane = line_points(job->plan) * s;
        if (!job->plan->wide) {
            group_float_f32(job, i, s, room, plane);
        } else if (!job->doubles) {
            group_float_f64(job, i, s, room, plane);
        } else {
            group_double_f64(job, i, s, room, plane);
        }
    }
    return TD_OK;
}
