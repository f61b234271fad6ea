/* kernels/cuda/base/cells.cuh - the cells of images along up to three axes, and the windows that go over
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CELLS_CUH
#define TD_KERNELS_CUDA_BASE_CELLS_CUH

#include "kernels/cuda/base/conv_sizes.h"
#include "kernels/cuda/base/launch.cuh"

struct td_cuda_cell {
    int64_t batch, at[3];
};

/* Cell `i` of a batch of images of so many cells along each axis. */
__device__ inline td_cuda_cell td_cuda_cell_of(int64_t i, int64_t n0, int64_t n1, int64_t n2)
{
    const int64_t c2 = i % n2, b2 = i / n2, c1 = b2 % n1, b1 = b2 / n1;
    return {b1 / n0, {b1 % n0, c1, c2}};
}

/* Input cell, window, or tap number i. */
__device__ inline td_cuda_cell td_cuda_in_cell(const td_cuda_axis (&a)[3], int64_t i)
{
    return td_cuda_cell_of(i, a[0].in, a[1].in, a[2].in);
}
__device__ inline td_cuda_cell td_cuda_out_cell(const td_cuda_axis (&a)[3], int64_t i)
{
    return td_cuda_cell_of(i, a[0].out, a[1].out, a[2].out);
}
__device__ inline td_cuda_cell td_cuda_tap(const td_cuda_axis (&a)[3], int64_t i)
{
    return td_cuda_cell_of(i, a[0].k, a[1].k, a[2].k);
}

__device__ inline int64_t td_cuda_cell_at(const td_cuda_cells &c, const td_cuda_cell &at)
{
    return at.batch * c.batch + at.at[0] * c.axis[0] + at.at[1] * c.axis[1] + at.at[2] * c.axis[2];
}

/* The input cell of a tap of the window at `out`: false outside. */
__device__ inline bool td_cuda_tap_in(const td_cuda_axis (&axis)[3], const td_cuda_cell &out,
                                      const td_cuda_cell &tap, td_cuda_cell *in)
{
    bool inside = true;
    in->batch = out.batch;
    for (int a = 0; a < 3; a++) {
        in->at[a] = out.at[a] * axis[a].stride - axis[a].before + tap.at[a] * axis[a].dilation;
        inside = inside && in->at[a] >= 0 && in->at[a] < axis[a].in;
    }
    return inside;
}

/* The window whose tap is at `in`: false where there is none. */
__device__ inline bool td_cuda_window_of(const td_cuda_axis (&axis)[3], const td_cuda_cell &in,
                                         const td_cuda_cell &tap, td_cuda_cell *out)
{
    bool there = true;
    out->batch = in.batch;
    for (int a = 0; a < 3; a++) {
        const int64_t begin = in.at[a] + axis[a].before - tap.at[a] * axis[a].dilation;
        out->at[a] = begin / axis[a].stride;
        there = there && begin >= 0 && begin % axis[a].stride == 0 && out->at[a] < axis[a].out;
    }
    return there;
}

__host__ __device__ inline int64_t td_cuda_taps(const td_cuda_axis (&a)[3])
{
    return a[0].k * a[1].k * a[2].k;
}
__host__ __device__ inline int64_t td_cuda_in_cells(const td_cuda_axis (&a)[3])
{
    return a[0].in * a[1].in * a[2].in;
}
__host__ __device__ inline int64_t td_cuda_out_cells(const td_cuda_axis (&a)[3])
{
    return a[0].out * a[1].out * a[2].out;
}

#endif
