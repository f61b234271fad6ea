/* kernels/cuda/nn/rnn.cu - what recurrent cells do to the products of their inputs, a thread an element of
 * the state.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/rnn.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

__device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

__device__ const float *floats(const void *p)
{
    return static_cast<const float *>(p);
}
__device__ float *floats(void *p)
{
    return static_cast<float *>(p);
}

/* Gate number `gate` of element k of row. */
__device__ float gate_of(const td_cuda_lstm &s, int gate, int64_t row, int64_t k)
{
    const int64_t column = gate * s.cell + k, at = row * 4 * s.cell + column;
    return floats(s.by_x)[at] + floats(s.by_h)[at] + floats(s.b)[column];
}

__device__ float peep(const void *w, int64_t k, float state)
{
    return w != nullptr ? floats(w)[k] * state : 0;
}

__global__ void lstm(td_cuda_lstm s, int64_t n)
{
    for (int64_t at = td_cuda_first(); at < n; at += td_cuda_stride()) {
        const int64_t row = at / s.cell, k = at - row * s.cell;
        const float before = floats(s.cs_prev)[at];
        const float i = sigmoid(gate_of(s, s.place[0], row, k) + peep(s.wci, k, before));
        const float f = sigmoid(gate_of(s, s.place[2], row, k) + s.forget_bias + peep(s.wcf, k, before));
        const float ci = tanhf(gate_of(s, s.place[1], row, k)), v = ci * i + before * f;
        const float cs = s.clip > 0 ? fminf(fmaxf(v, -s.clip), s.clip) : v;
        const float o = sigmoid(gate_of(s, s.place[3], row, k) + peep(s.wco, k, cs)), co = tanhf(cs);
        floats(s.out[0])[at] = i;
        floats(s.out[1])[at] = cs;
        floats(s.out[2])[at] = f;
        floats(s.out[3])[at] = o;
        floats(s.out[4])[at] = ci;
        floats(s.out[5])[at] = co;
        floats(s.out[6])[at] = o * co;
    }
}

__global__ void gru_gates(td_cuda_gru s, int64_t n)
{
    for (int64_t at = td_cuda_first(); at < n; at += td_cuda_stride()) {
        const int64_t row = at / s.cell, k = at - row * s.cell, first = row * 2 * s.cell + k;
        const float *const x = floats(s.by_x), *const h = floats(s.by_h), *const b = floats(s.b);
        const float r = sigmoid(x[first] + h[first] + b[k]);
        const float u = sigmoid(x[first + s.cell] + h[first + s.cell] + b[s.cell + k]);
        floats(s.r)[at] = r;
        floats(s.u)[at] = u;
        floats(s.reset)[at] = r * floats(s.h_prev)[at];
    }
}

__global__ void gru_state(td_cuda_gru s, int64_t n)
{
    for (int64_t at = td_cuda_first(); at < n; at += td_cuda_stride()) {
        const float c = tanhf(floats(s.by_x)[at] + floats(s.by_h)[at] + floats(s.b)[at % s.cell]);
        const float u = floats(s.u)[at];
        floats(s.c)[at] = c;
        floats(s.h)[at] = u * floats(s.h_prev)[at] + (1 - u) * c;
    }
}

} // namespace

int td_cuda_lstm_step(const struct td_cuda_lstm *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(lstm, s->batch * s->cell, stream, *s, s->batch * s->cell);
}

int td_cuda_gru_gates(const struct td_cuda_gru *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(gru_gates, s->batch * s->cell, stream, *s, s->batch * s->cell);
}

int td_cuda_gru_state(const struct td_cuda_gru *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(gru_state, s->batch * s->cell, stream, *s, s->batch * s->cell);
}
