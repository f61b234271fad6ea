/* kernels/math/fft_lines.h - discrete Fourier transforms of many lines of a tensor, sixteen at a time.
 *
 * Lines are turned into planes [point][line], real and imaginary parts apart, so that every step of the
 * transform is the same arithmetic on neighbours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_FFT_LINES_H
#define TD_KERNELS_MATH_FFT_LINES_H

#include "core/graph/graph.h"
#include "kernels/math/fft_plan.h"

enum td_fft_kind {
    TD_FFT_COMPLEX,   /* n complex points -> n complex points */
    TD_FFT_FROM_REAL, /* n real points -> n / 2 + 1 complex ones */
    TD_FFT_TO_REAL,   /* n / 2 + 1 complex points -> n real ones; inverse */
};

/* Line i begins at in + i * in_jump; its points are in_step apart; likewise the output, which may be the
 * input's place. Jumps and steps count numbers, of which a complex point has two; either the step or the jump
 * is one point. Real lines have a step of one. */
struct td_fft_job {
    const struct td_fft *plan;
    enum td_fft_kind kind;
    bool inverse; /* of COMPLEX */
    bool doubles; /* data, else floats */
    double scale;
    int64_t lines, in_step, in_jump, out_step, out_jump;
    const void *in;
    void *out;
};

/* Work of a job, in bytes: room for td_fft_lines, of any job with that plan. False: does not fit the address
 * space. */
TD_MUST bool td_fft_room(const struct td_fft *plan, int64_t lines, size_t *bytes);
TD_MUST enum td_code td_fft_lines(struct td_call *c, const struct td_fft_job *job, void *room,
                                  struct td_err *err);

#endif
