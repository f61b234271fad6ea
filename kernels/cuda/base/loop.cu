/* kernels/cuda/base/loop.cu - what conditional nodes go by: a loop's condition, and what it carries from
 * round to round; which branch is taken; what a launch leaves out that goes on in the middle of a round.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/loop.h"

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/launch.cuh"

namespace
{

__device__ bool any(const int32_t *words, int n)
{
    bool found = false;
    for (int i = 0; i < n; i++) {
        found |= words[i] != 0;
    }
    return found;
}

/* left [2]: rounds that may yet begin; 1: there were none left for one that was to. A round in which a loop
 * has ended for want of them is not over: this one goes on with it in the next launch. */
__global__ void test(uint64_t condition, td_device_loop l)
{
    const bool stopped = l.left[1] != 0;
    if (l.runs != nullptr && *l.runs == 0) {
        cudaGraphSetConditional(condition, 0);
        return;
    }
    const bool wanted = !stopped && *static_cast<const bool *>(l.go) && !any(l.fault, l.n_faults),
               may = l.left[0] > 0;
    l.left[0] -= wanted && may;
    l.left[1] = stopped || (wanted && !may);
    if (l.paused != nullptr) {
        *l.paused = stopped || (wanted && !may);
    }
    cudaGraphSetConditional(condition, wanted && may);
}

/* What says whether bytes are carried. */
struct gate {
    const int32_t *fault;
    int n_faults;
    const uint32_t *stopped, *fresh; /* NULL: it does not count */
};

/* to [n] = from [n] */
template <class T> __global__ void carry(T *to, const T *from, int64_t n, gate g)
{
    if (any(g.fault, g.n_faults) || (g.stopped != nullptr && *g.stopped != 0) ||
        (g.fresh != nullptr && *g.fresh == 0)) {
        return;
    }
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        to[i] = from[i];
    }
}

struct carrier {
    gate g;
    void *to;
    const void *from;
    size_t bytes;
    struct td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(carry<T>, static_cast<int64_t>(bytes / sizeof(T)), stream, static_cast<T *>(to),
                            static_cast<const T *>(from), static_cast<int64_t>(bytes / sizeof(T)), g);
    }
};

int copy(const gate &g, void *to, const void *from, size_t bytes, struct td_cuda_stream *stream)
{
    const size_t odd = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes | 16;
    return td_cuda_with_bytes(odd & (~odd + 1), carrier{g, to, from, bytes, stream});
}

/* Whether a number is not zero: -0 is. */
__device__ bool is_true(const void *value, size_t bytes, bool is_float)
{
    const uint8_t *const b = static_cast<const uint8_t *>(value);
    bool found = false;
    for (size_t i = 0; i < bytes; i++) {
        found |= (is_float && i + 1 == bytes ? b[i] & 0x7f : b[i]) != 0;
    }
    return found;
}

struct conditions {
    uint64_t at[TD_DEVICE_BODIES];
};

__global__ void choose(conditions c, bool is_switch, td_device_branch b)
{
    int body = is_true(b.value, b.bytes, b.is_float) ? 0 : 1;
    if (b.by_number) {
        body = *static_cast<const int32_t *>(b.value);
        body = body < 0 || body >= b.n ? b.n - 1 : body;
    }
    if (is_switch) {
        cudaGraphSetConditional(c.at[0], static_cast<unsigned>(body));
        return;
    }
    for (int i = 0; i < b.n; i++) {
        cudaGraphSetConditional(c.at[i], i == body);
    }
}

__global__ void enter(uint64_t condition, td_device_pass p)
{
    bool runs = p.left[1] == 0;
    for (int i = 0; i < p.n_later; i++) {
        runs = runs && p.later[i] == 0;
    }
    if (p.runs != nullptr) {
        *p.runs = runs;
        *p.fresh = runs && *p.paused == 0;
    }
    cudaGraphSetConditional(condition, runs);
}

} // namespace

int td_cuda_loop_test(uint64_t condition, const struct td_device_loop *l, struct td_cuda_stream *stream)
{
    return td_cuda_blocks_of<1>(test, 1, 0, stream, condition, *l);
}

int td_cuda_loop_carry(const struct td_device_loop *l, void *to, const void *from, size_t bytes,
                       struct td_cuda_stream *stream)
{
    return copy(gate{l->fault, l->n_faults, l->left + 1, nullptr}, to, from, bytes, stream);
}

int td_cuda_branch_choose(const uint64_t *given, bool is_switch, const struct td_device_branch *b,
                          struct td_cuda_stream *stream)
{
    conditions c = {};
    for (int i = 0; i < (is_switch ? 1 : b->n); i++) {
        c.at[i] = given[i];
    }
    return td_cuda_blocks_of<1>(choose, 1, 0, stream, c, is_switch, *b);
}

int td_cuda_pass_test(uint64_t condition, const struct td_device_pass *p, struct td_cuda_stream *stream)
{
    return td_cuda_blocks_of<1>(enter, 1, 0, stream, condition, *p);
}

int td_cuda_pass_copy(const uint32_t *fresh, void *to, const void *from, size_t bytes,
                      struct td_cuda_stream *stream)
{
    return copy(gate{nullptr, 0, nullptr, fresh}, to, from, bytes, stream);
}
