/* kernels/cuda/math/random.cu - random numbers, a thread a step of the generator: the same as on the host,
 * where one generator gives them all (kernels/math/random_group.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/random.h"

#include "kernels/cuda/base/launch.cuh"
#include "kernels/math/random_gamma.h"

namespace
{

template <class T> constexpr int bits_of = 23;
template <> constexpr int bits_of<__half> = 10;
template <> constexpr int bits_of<__nv_bfloat16> = 7;

__device__ struct td_philox made(const td_cuda_generator &from)
{
    if (from.seeds == nullptr) {
        return from.drawn != nullptr ? *from.drawn : from.g;
    }
    const int64_t *w = static_cast<const int64_t *>(from.seeds);
    const int32_t *s = static_cast<const int32_t *>(from.seeds);
    return from.wide ? td_philox_from_seeds(static_cast<uint64_t>(w[0]), static_cast<uint64_t>(w[1]))
                     : td_philox_from_seeds(static_cast<uint64_t>(static_cast<int64_t>(s[0])),
                                            static_cast<uint64_t>(static_cast<int64_t>(s[1])));
}

template <class T> __global__ void numbers(enum td_random_kind kind, td_cuda_generator from, T *y, int64_t n)
{
    const struct td_philox first = made(from);
    constexpr bool wide = sizeof(T) == 8;
    constexpr int size = wide ? 2 : 4;
    for (int64_t at = td_cuda_first(); at * size < n; at += td_cuda_stride()) {
        typename td_cuda_wide<T>::type group[size];
        struct td_philox g = first;
        td_random_skip(kind, wide, static_cast<uint64_t>(at), &g);
        if constexpr (wide) {
            (void)td_random_group_f64(kind, &g, group);
        } else {
            (void)td_random_group_f32(kind, bits_of<T>, &g, group);
        }
        for (int k = 0; k < size && at * size + k < n; k++) {
            y[at * size + k] = td_cuda_store<T>::of(group[k]);
        }
    }
}

template <class T> __global__ void integers(td_cuda_random_range s, td_cuda_generator from, T *y, int64_t n)
{
    const struct td_philox first = made(from);
    constexpr bool wide = sizeof(T) == 8;
    constexpr int size = wide ? 2 : 4;
    for (int64_t at = td_cuda_first(); at * size < n; at += td_cuda_stride()) {
        struct td_philox g = first;
        uint32_t words[4];
        td_philox_skip(&g, static_cast<uint64_t>(at));
        td_philox_next(&g, words);
        for (int k = 0; k < size && at * size + k < n; k++) {
            y[at * size + k] = static_cast<T>(td_random_int(words, k, wide, s.lo, s.range));
        }
    }
}

template <class T>
__global__ void gammas(struct td_philox first, const T *alpha, int64_t n_alpha, int64_t samples, T *y)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t k = td_cuda_first(); k < n_alpha * samples; k += td_cuda_stride()) {
        const int64_t p = k / samples;
        struct td_philox g = first;
        td_philox_skip(&g, static_cast<uint64_t>(k) * TD_RANDOM_STEPS);
        y[(k - p * samples) * n_alpha + p] = td_cuda_store<T>::of(
            static_cast<W>(td_random_gamma(static_cast<double>(td_cuda_load(alpha[p])), g)));
    }
}

struct run_gammas {
    struct td_philox g;
    const void *alpha;
    int64_t n_alpha, samples;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(gammas<T>, n_alpha * samples, stream, g, static_cast<const T *>(alpha), n_alpha,
                            samples, static_cast<T *>(y));
    }
};

struct run_numbers {
    enum td_random_kind kind;
    td_cuda_generator from;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        constexpr int64_t size = sizeof(T) == 8 ? 2 : 4;
        return td_cuda_over(numbers<T>, (n + size - 1) / size, stream, kind, from, static_cast<T *>(y), n);
    }
};

} // namespace

int td_cuda_random(enum td_cuda_type type, enum td_random_kind kind, const struct td_cuda_generator *from,
                   void *y, int64_t n, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_numbers{kind, *from, y, n, stream});
}

int td_cuda_random_ints(const struct td_cuda_random_range *s, const struct td_cuda_generator *from, void *y,
                        int64_t n, struct td_cuda_stream *stream)
{
    return s->wide ? td_cuda_over(integers<uint64_t>, (n + 1) / 2, stream, *s, *from,
                                  static_cast<uint64_t *>(y), n)
                   : td_cuda_over(integers<uint32_t>, (n + 3) / 4, stream, *s, *from,
                                  static_cast<uint32_t *>(y), n);
}

int td_cuda_random_gamma(enum td_cuda_type type, struct td_philox g, const void *alpha, int64_t n_alpha,
                         int64_t samples, void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_gammas{g, alpha, n_alpha, samples, y, stream});
}
