/* kernels/cuda/linalg/rotate.cuh - Jacobi's rotations: which columns meet when, and by what angle.
 *
 * In a sweep every two columns meet once, in rounds in each of which a column is in one pair at most: so all
 * pairs of a round rotate at once, in an order that does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_ROTATE_CUH
#define TD_KERNELS_CUDA_LINALG_ROTATE_CUH

#include "kernels/cuda/linalg/matrix.cuh"

constexpr int MOST_SWEEPS = 50; /* ten are many: it converges quadratically */

/* Pairs of a round; rounds of a sweep. */
__device__ inline int64_t td_cuda_pairs(int64_t n)
{
    return (n + 1) / 2;
}
__device__ inline int64_t td_cuda_rounds(int64_t n)
{
    return n < 2 ? 0 : 2 * td_cuda_pairs(n) - 1;
}

/* Pair i of a round, p < q: column 0 stays, the others go round, and opposite ones meet. False: the one of an
 * odd number that sits out. */
struct td_cuda_pair {
    int64_t p, q;
};
__device__ inline bool td_cuda_pair_of(int64_t n, int64_t round, int64_t i, td_cuda_pair *out)
{
    const int64_t others = 2 * td_cuda_pairs(n) - 1;
    const int64_t a = i == 0 ? 0 : 1 + (i - 1 + round) % others, b = 1 + (others - i - 1 + round) % others;
    *out = {a < b ? a : b, a < b ? b : a};
    return out->q < n;
}

/* Columns x and y become  c x - s phase y  and  s x + c phase y: orthogonal, where x^H y was `product`, the
 * squares of their norms differing by `more` (y's less x's). phase is that of exp(-i arg(product)). */
template <class E> struct td_cuda_rotation {
    double c, s;
    E phase;
    __device__ bool none() const { return s == 0; }
    __device__ void apply(E *x, E *y) const
    {
        const E a = *x, b = times(*y, phase);
        *x = scaled(a, c) - scaled(b, s);
        *y = scaled(a, s) + scaled(b, c);
    }
};
template <class E> __device__ td_cuda_rotation<E> td_cuda_rotation_of(double more, E product)
{
    const double size = size_of(product), ratio = more / (2 * size);
    const double t = copysign(1.0, ratio) / (fabs(ratio) + hypot(1.0, ratio)), c = 1 / sqrt(1 + t * t);
    return {c, c * t, conjugate(parts_over(product, size))};
}

#endif
