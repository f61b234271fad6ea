/* kernels/cuda/array/unique.cu - groups of equal slices, in the order of their first ones: a thread a slice.
 *
 * enter   each slice looks for its group in an open-addressed table, from where its hash says on. A slot
 * that
 *           is free becomes the group's; then it holds the least of the group's slices that came by
 *   mark    slices that are what their slot holds are the first of a group: their ranks number the groups
 *   name    groups' first slices, and each slice's group
 *   tally   how many each has, in the table's room
 *
 * Which slot a group has depends on who was first there; what is told of it does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/unique.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

/* All bits of h depend on all of v and of what h was. */
__device__ uint64_t mixed(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 29;
}

template <class T> __device__ uint64_t bits_at(const td_cuda_unique &s, int64_t i)
{
    const uint64_t u = static_cast<const T *>(s.x)[i];
    return s.truth ? u != 0 : s.exponent != 0 && (u & s.exponent) == 0 ? 0 : u;
}

/* Of a number's bits: it is none. */
template <class T> __device__ bool is_nan(const td_cuda_unique &s, uint64_t u)
{
    constexpr uint64_t sign = uint64_t(1) << (8 * sizeof(T) - 1);
    return s.infinity != 0 && (u & ~sign) > s.infinity;
}

/* False: it equals nothing. */
template <class T> __device__ bool hash_of(const td_cuda_unique &s, int64_t slice, uint64_t *hash)
{
    uint64_t h = 0;
    bool equals = true;
    for (int64_t o = 0; o < s.outer; o++) {
        const int64_t at = (o * s.n + slice) * s.inner;
        for (int64_t k = 0; k < s.inner; k++) {
            const uint64_t u = bits_at<T>(s, at + k);
            equals = equals && !is_nan<T>(s, u);
            h = mixed(h, u);
        }
    }
    *hash = h;
    return equals;
}

template <class T> __device__ bool are_equal(const td_cuda_unique &s, int64_t a, int64_t b)
{
    bool equal = true;
    for (int64_t o = 0; equal && o < s.outer; o++) {
        for (int64_t k = 0; equal && k < s.inner; k++) {
            equal = bits_at<T>(s, (o * s.n + a) * s.inner + k) == bits_at<T>(s, (o * s.n + b) * s.inner + k);
        }
    }
    return equal;
}

__global__ void clear(int32_t *at, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        at[i] = 0;
    }
}

template <class T> __global__ void enter(td_cuda_unique s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int32_t mine = static_cast<int32_t>(i) + 1;
        uint64_t hash;
        const bool equals = hash_of<T>(s, i, &hash);
        uint32_t at = static_cast<uint32_t>(hash) & s.mask;
        bool found = !equals;
        while (!found) {
            const int32_t there = atomicCAS(s.table + at, 0, mine);
            found = there == 0 || are_equal<T>(s, there - 1, i);
            if (found && there > mine) {
                (void)atomicMin(s.table + at, mine);
            }
            at = found ? at : (at + 1) & s.mask;
        }
        s.slot[i] = equals ? static_cast<int32_t>(at) : -1;
    }
}

__global__ void mark(td_cuda_unique s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int32_t slot = s.slot[i], first = slot < 0 ? static_cast<int32_t>(i) : s.table[slot] - 1;
        s.first[i] = first;
        s.ranks.at[i] = first == i ? 1 : 0;
    }
}

__global__ void name(td_cuda_unique s, void *which, bool wide)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int32_t first = s.first[i], group = s.ranks.at[first];
        if (first == i) {
            s.slot[group] = first;
        }
        if (wide) {
            static_cast<int64_t *>(which)[i] = group;
        } else {
            static_cast<int32_t *>(which)[i] = group;
        }
    }
}

__global__ void tally(td_cuda_unique s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        (void)atomicAdd(s.table + s.ranks.at[s.first[i]], 1);
    }
}

template <class I> __global__ void tell(const int32_t *counts, int64_t n, I *to)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        to[i] = counts[i];
    }
}

int enter_all(const td_cuda_unique &s, td_cuda_stream *stream)
{
    return s.bytes == 1   ? td_cuda_over(enter<uint8_t>, s.n, stream, s)
           : s.bytes == 2 ? td_cuda_over(enter<uint16_t>, s.n, stream, s)
           : s.bytes == 4 ? td_cuda_over(enter<uint32_t>, s.n, stream, s)
                          : td_cuda_over(enter<uint64_t>, s.n, stream, s);
}

int64_t slots_of(int64_t n)
{
    int64_t slots = 16;
    while (slots < 2 * n) {
        slots *= 2;
    }
    return slots;
}

} // namespace

size_t td_cuda_unique_bytes(int64_t n)
{
    return static_cast<size_t>(slots_of(n) + 2 * n) * sizeof(int32_t) + td_cuda_ranks_bytes(n);
}

void td_cuda_unique_in(struct td_cuda_unique *s, void *workspace)
{
    const int64_t slots = slots_of(s->n);
    s->mask = static_cast<uint32_t>(slots - 1);
    s->table = static_cast<int32_t *>(workspace);
    s->slot = s->table + slots;
    s->first = s->slot + s->n;
    s->ranks = td_cuda_ranks_in(s->first + s->n, s->n);
}

int td_cuda_unique_find(const struct td_cuda_unique *s, int64_t *groups, struct td_cuda_stream *stream)
{
    const int64_t slots = int64_t(s->mask) + 1;
    int error = td_cuda_over(clear, slots, stream, s->table, slots);
    error = error != 0 ? error : enter_all(*s, stream);
    error = error != 0 ? error : td_cuda_over(mark, s->n, stream, *s);
    return error != 0 ? error : td_cuda_ranks_run(&s->ranks, groups, stream);
}

int td_cuda_unique_tell(const struct td_cuda_unique *s, int64_t groups, void *which, void *counts, bool wide,
                        struct td_cuda_stream *stream)
{
    int error = td_cuda_over(name, s->n, stream, *s, which, wide);
    if (counts == nullptr || error != 0) {
        return error;
    }
    error = td_cuda_over(clear, groups, stream, s->table, groups);
    error = error != 0 ? error : td_cuda_over(tally, s->n, stream, *s);
    return error != 0 ? error
           : wide
               ? td_cuda_over(tell<int64_t>, groups, stream, s->table, groups, static_cast<int64_t *>(counts))
               : td_cuda_over(tell<int32_t>, groups, stream, s->table, groups,
                              static_cast<int32_t *>(counts));
}
