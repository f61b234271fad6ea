/* kernels/cuda/nn/rnn_grad.cu - what goes back through an LSTM's cell, a thread an element of the state.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/rnn_grad.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

__device__ float at(const void *p, int64_t i)
{
    return static_cast<const float *>(p)[i];
}

__global__ void step_back(td_cuda_lstm_back s, int64_t n)
{
    for (int64_t e = td_cuda_first(); e < n; e += td_cuda_stride()) {
        const int64_t row = e / s.cell, k = e - row * s.cell;
        float *const gates = static_cast<float *>(s.gates) + row * 4 * s.cell + k;
        float *const dcs = static_cast<float *>(s.dcs) + e;
        const bool peephole = s.wci != nullptr;
        const float i = at(s.i, e), f = at(s.f, e), o = at(s.o, e), ci = at(s.ci, e), co = at(s.co, e);
        const float d = at(s.dh, e) + at(s.h_above, e), d_o = d * co * o * (1 - o);
        float v = *dcs + at(s.cs_above, e) + d * o * (1 - co * co);
        v += peephole ? at(s.wco, k) * d_o : 0;
        const float d_i = v * ci * i * (1 - i), d_f = v * at(s.cs_before, e) * f * (1 - f);
        gates[s.place[0] * s.cell] = d_i;
        gates[s.place[1] * s.cell] = v * i * (1 - ci * ci);
        gates[s.place[2] * s.cell] = d_f;
        gates[s.place[3] * s.cell] = d_o;
        *dcs = v * f + (peephole ? at(s.wci, k) * d_i + at(s.wcf, k) * d_f : 0);
    }
}

__global__ void peepholes(td_cuda_peepholes s)
{
    for (int64_t k = td_cuda_first(); k < s.cell; k += td_cuda_stride()) {
        float i = 0, f = 0, o = 0;
        for (int64_t r = 0; r < s.rows; r++) {
            const int64_t gates = r * 4 * s.cell + k;
            const float before =
                r < s.batch ? at(s.cs_prev, r * s.cell + k) : at(s.cs, (r - s.batch) * s.cell + k);
            i += at(s.gates, gates + s.place[0] * s.cell) * before;
            f += at(s.gates, gates + s.place[2] * s.cell) * before;
            o += at(s.gates, gates + s.place[3] * s.cell) * at(s.cs, r * s.cell + k);
        }
        static_cast<float *>(s.dwci)[k] = i;
        static_cast<float *>(s.dwcf)[k] = f;
        static_cast<float *>(s.dwco)[k] = o;
    }
}

} // namespace

int td_cuda_lstm_step_back(const struct td_cuda_lstm_back *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(step_back, s->batch * s->cell, stream, *s, s->batch * s->cell);
}

int td_cuda_lstm_peepholes(const struct td_cuda_peepholes *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(peepholes, s->cell, stream, *s);
}
