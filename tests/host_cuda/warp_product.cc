/* tests/host_cuda/warp_product.cc - what Tensor cores do, by PTX's table of who holds what: mma.m16n8k16 of
 * half and bfloat16, mma.m16n8k8 of TF32 (kernels/cuda/base/mma.cuh draws it).
 *
 * Each thread puts down its words and waits for its warp; when all have, it works out its own four sums, and
 * waits once more before the words may be put down anew. TF32 numbers have their last 13 bits left out, as
 * the device reads them. Products are exact, sums are made in double and rounded once: a device rounds
 * oftener.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace host_cuda
{
namespace
{

constexpr unsigned ALL = 0xFFFFFFFFu;

struct words {
    uint32_t a[4], b[2];
};
/* Of this OS thread's block. */
thread_local words brought[MAX_THREADS];

float number_of(numbers kind, uint32_t word, int which)
{
    const uint16_t bits = static_cast<uint16_t>(word >> (16 * which));
    return kind == numbers::HALF       ? of_half(bits)
           : kind == numbers::BFLOAT16 ? of_bfloat16(bits)
                                       : same_bits<float>(word & ~0x1FFFu);
}

/* Row `row` of a times column `column` of b. */
double sum_of(numbers kind, const words *w, int row, int column)
{
    double sum = 0;
    for (int k = 0; k < 8; k++) {
        const uint32_t left = w[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2],
                       right = w[column * 4 + k % 4].b[k / 4];
        for (int i = 0; i < (kind == numbers::TF32 ? 1 : 2); i++) {
            sum += static_cast<double>(number_of(kind, left, i)) *
                   static_cast<double>(number_of(kind, right, i));
        }
    }
    return sum;
}

} // namespace

void warp_product(numbers kind, float *d, const uint32_t *a, const uint32_t *b, site at)
{
    const int place = warp_place();
    words *const mine = &brought[running_thread("a product of a warp") - runner_of_thread()->threads.data()];
    const words *const all = mine - place;
    *mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    warp_meet(meet::WARP_SYNC, {ALL, 0, 0}, at);
    for (int i = 0; i < 4; i++) {
        d[i] = static_cast<float>(static_cast<double>(d[i]) +
                                  sum_of(kind, all, place / 4 + i / 2 * 8, place % 4 * 2 + i % 2));
    }
    warp_meet(meet::WARP_SYNC, {ALL, 0, 0}, at);
}

} // namespace host_cuda
