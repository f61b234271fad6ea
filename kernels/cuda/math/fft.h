/* kernels/cuda/math/fft.h - launchers of fft.cu; they return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_FFT_H
#define TD_KERNELS_CUDA_MATH_FFT_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TD_CUDA_FFT_FACTORS = 32, TD_CUDA_FFT_LARGEST = 31, TD_CUDA_FFT_SHARED = 40 << 10 };

/* The transform of n points: by passes, one a factor of `points`, which is n; or, where a prime of n is
 * larger than TD_CUDA_FFT_LARGEST, by a convolution with a chirp, points being a power of two. */
struct td_cuda_fft_plan {
    uint32_t n, points;
    int n_factors;
    uint8_t factor[TD_CUDA_FFT_FACTORS];
    bool chirp;
};

/* What lines lie in: complex points, real ones, or the first n / 2 + 1 of the complex points of a real line,
 * of which the others are the conjugates. */
enum td_cuda_fft_kind { TD_CUDA_FFT_COMPLEX, TD_CUDA_FFT_REAL, TD_CUDA_FFT_HALF };
struct td_cuda_fft_side {
    void *at;
    enum td_cuda_fft_kind kind;
    int64_t step;    /* from a point of a line to the next */
    int64_t jump[3]; /* from a line to the next along each dim of lines */
};

/* Tables of a plan, complex numbers of the precision that is computed in: roots [points]; chirp [n] and
 * filter [points] where it has a chirp. */
struct td_cuda_fft_tables {
    void *roots, *chirp, *filter;
};

/* out may be in's place. Lines are computed in shared memory where two of them fit it, else `chunk` at once
 * between two buffers [chunk, points]. */
struct td_cuda_fft {
    struct td_cuda_fft_plan plan;
    struct td_cuda_fft_tables tables;
    struct td_cuda_fft_side in, out;
    int64_t lines[3];
    bool inverse, wide; /* wide: computed in double */
    double scale;
    int64_t chunk;
    void *buffer[2];
};

/* type: of the numbers that the data consist of, float or double. */
int td_cuda_fft_lines(enum td_cuda_type type, const struct td_cuda_fft *s, struct td_cuda_stream *stream);
/* Fills s's tables: roots and chirp; of the filter what is then to be transformed. */
int td_cuda_fft_fill(const struct td_cuda_fft *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
