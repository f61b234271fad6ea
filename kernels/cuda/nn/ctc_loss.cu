/* kernels/cuda/nn/ctc_loss.cu - the loss of labels of unknown alignment, and its gradient, as the host has it
 * (kernels/nn/ctc.c), in double logarithms.
 *
 *   softmax   a warp a step of a sequence: y, the logarithms of its softmax
 *   expand    a thread a sequence: its labels with blanks between, l'
 *   ways      two blocks a sequence, one for alpha and one for beta: a thread has every so many places of
 * l', and
 *             steps come one behind the other
 *   total     a thread a sequence: log p and the loss
 *   gradient  a thread a step of a sequence
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/ctc_loss.h"

#include "kernels/cuda/base/fold.cuh"

namespace
{

constexpr int WARP = 32, WARPS = THREADS / WARP;
constexpr double NEVER = td_cuda_least<double>;

__device__ double log_add(double a, double b)
{
    const double top = fmax(a, b), low = fmin(a, b);
    return low == NEVER ? top : top + log1p(exp(low - top));
}

__global__ void softmax(td_cuda_ctc s)
{
    __shared__ double shared[THREADS];
    const int mine = threadIdx.x % WARP;
    const int64_t rows = s.steps * s.batch;
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * WARPS; from < rows;
         from += static_cast<int64_t>(gridDim.x) * WARPS) {
        const int64_t row = from + threadIdx.x / WARP, n = row < rows ? s.classes : 0;
        const float *const x = s.x + row * s.classes;
        double top = NEVER, sum = 0;
        for (int64_t k = mine; k < n; k += WARP) {
            top = fmax(top, static_cast<double>(x[k]));
        }
        top = td_cuda_fold<WARP>(top, shared, [](double a, double b) { return fmax(a, b); });
        for (int64_t k = mine; k < n; k += WARP) {
            sum += exp(x[k] - top);
        }
        sum = log(td_cuda_fold<WARP>(sum, shared, [](double a, double b) { return a + b; }));
        for (int64_t k = mine; k < n; k += WARP) {
            s.y[row * s.classes + k] = x[k] - top - sum;
        }
    }
}

/* ------------------------------------------------------------------ labels */

/* The first label of sequence b or a later one. */
__device__ int64_t first_of(const td_cuda_ctc &s, int64_t b)
{
    int64_t from = 0, to = s.n;
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if (s.indices[2 * mid] < b) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

__global__ void expand(td_cuda_ctc s)
{
    for (int64_t b = td_cuda_first(); b < s.batch; b += td_cuda_stride()) {
        const int64_t from = first_of(s, b), to = first_of(s, b + 1), steps = s.lengths[b];
        int32_t *const label = s.label + 2 * from + b;
        int32_t n = 0;
        for (int64_t i = from; i < to; i++) {
            const int32_t l = s.values[i];
            if ((s.collapse && i > from && l == s.values[i - 1]) || l == 0 || l >= s.classes) {
                continue;
            }
            label[n] = 0;
            label[n + 1] = l;
            n += 2;
        }
        label[n] = 0;
        const bool longer = s.ignore_longer && to - from > steps; /* before repetitions collapse */
        s.begin[b] = static_cast<int32_t>(from);
        s.size[b] = !longer && n / 2 <= steps && steps > 0 ? n + 1 : 0;
    }
}

/* A sequence that has a loss. */
struct sequence {
    const double *y; /* of step 0; the next step's is `stride` behind */
    int64_t stride, steps;
    double *alpha, *beta; /* [steps, n] */
    const int32_t *label;
    int32_t n;
};

__device__ sequence sequence_of(const td_cuda_ctc &s, int64_t b)
{
    const int64_t at = 2 * static_cast<int64_t>(s.begin[b]) + b;
    return {s.y + b * s.classes,   s.batch * s.classes, s.lengths[b], s.alpha + at * s.steps,
            s.beta + at * s.steps, s.label + at,        s.size[b]};
}

/* ------------------------------------------------------------------ ways */

/* Over the blank between different labels; also equal ones when not merging. */
__device__ bool may_skip(const sequence &q, int u, bool merge)
{
    return q.label[u + 2] != 0 && !(merge && q.label[u] == q.label[u + 2]);
}

__device__ void forward(const sequence &q, bool merge)
{
    for (int64_t t = 0; t < q.steps; t++) {
        const double *const before = q.alpha + (t - 1) * q.n;
        for (int u = threadIdx.x; u < q.n; u += THREADS) {
            double sum = t == 0 && u < 2 ? 0 : NEVER;
            if (t > 0 && (merge || q.label[u] == 0)) {
                sum = before[u];
            }
            if (t > 0 && u > 0) {
                sum = log_add(sum, before[u - 1]);
            }
            if (t > 0 && u > 1 && may_skip(q, u - 2, merge)) {
                sum = log_add(sum, before[u - 2]);
            }
            q.alpha[t * q.n + u] = sum + q.y[t * q.stride + q.label[u]];
        }
        __syncthreads();
    }
}

__device__ void backward(const sequence &q, bool merge)
{
    for (int64_t t = q.steps - 1; t >= 0; t--) {
        const double *const after = q.beta + (t + 1) * q.n, *const y = q.y + (t + 1) * q.stride;
        for (int u = threadIdx.x; u < q.n; u += THREADS) {
            double sum = t == q.steps - 1 && u >= q.n - 2 ? 0 : NEVER;
            for (int v = u; t < q.steps - 1 && v < q.n && v <= u + 2; v++) {
                const bool stays = v == u && (merge || q.label[u] == 0);
                if (stays || v == u + 1 || (v == u + 2 && may_skip(q, u, merge))) {
                    sum = log_add(sum, after[v] + y[q.label[v]]);
                }
            }
            q.beta[t * q.n + u] = sum;
        }
        __syncthreads();
    }
}

__global__ void ways(td_cuda_ctc s)
{
    for (int64_t i = blockIdx.x; i < 2 * s.batch; i += gridDim.x) {
        if (s.size[i / 2] == 0) {
            continue;
        }
        const sequence q = sequence_of(s, i / 2);
        if (i % 2 == 0) {
            forward(q, s.merge);
        } else {
            backward(q, s.merge);
        }
    }
}

/* ------------------------------------------------------------------ loss and gradient */

__global__ void total(td_cuda_ctc s)
{
    for (int64_t b = td_cuda_first(); b < s.batch; b += td_cuda_stride()) {
        if (s.size[b] == 0) {
            s.loss[b] = 0;
            continue;
        }
        const sequence q = sequence_of(s, b);
        double log_p = NEVER;
        for (int u = 0; u < q.n; u++) {
            log_p = log_add(log_p, q.alpha[u] + q.beta[u]);
        }
        s.log_p[b] = log_p;
        s.loss[b] = static_cast<float>(-log_p);
    }
}

/* y of the step becomes its gradient, which is rounded once. */
__device__ void gradient_of(const sequence &q, int64_t t, double log_p, int64_t classes, double *y)
{
    for (int64_t k = 0; k < classes; k++) {
        y[k] = exp(y[k]);
    }
    for (int u = 0; u < q.n && log_p != NEVER; u++) {
        y[q.label[u]] -= exp(q.alpha[t * q.n + u] + q.beta[t * q.n + u] - log_p);
    }
}

__global__ void gradient(td_cuda_ctc s)
{
    for (int64_t row = td_cuda_first(); row < s.steps * s.batch; row += td_cuda_stride()) {
        const int64_t t = row / s.batch, b = row - t * s.batch;
        const bool has = s.size[b] > 0 && t < s.lengths[b];
        double *const y = s.y + row * s.classes;
        if (has) {
            gradient_of(sequence_of(s, b), t, s.log_p[b], s.classes, y);
        }
        for (int64_t k = 0; k < s.classes; k++) {
            s.gradient[row * s.classes + k] = has ? static_cast<float>(y[k]) : 0;
        }
    }
}

} // namespace

int td_cuda_ctc_loss(const struct td_cuda_ctc *s, struct td_cuda_stream *stream)
{
    const int64_t rows = s->steps * s->batch;
    int error = td_cuda_blocks(softmax, (rows + WARPS - 1) / WARPS, stream, *s);
    error = error != 0 ? error : td_cuda_over(expand, s->batch, stream, *s);
    error = error != 0 ? error : td_cuda_blocks(ways, 2 * s->batch, stream, *s);
    error = error != 0 ? error : td_cuda_over(total, s->batch, stream, *s);
    return error != 0 ? error : td_cuda_over(gradient, rows, stream, *s);
}
