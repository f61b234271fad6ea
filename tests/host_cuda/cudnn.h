/* tests/host_cuda/cudnn.h - what the stand-in of cuDNN has of objects: cudnn.cc makes them, cudnn_conv.cc
 * convolves with them; what the graph interface has is cudnn_graph.cc's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_CUDNN_H
#define TD_TESTS_HOST_CUDA_CUDNN_H

#include "kernels/cuda/base/cudnn_api.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/stand_in.h"

#include <thread>

extern "C" {
#define CALL(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
#include "kernels/cuda/base/cudnn_api.def"
}

namespace fake_cudnn
{

using host_cuda::text;
using stand_in::number;
using stand_in::wrong;

struct handle {
    int device = 0;
    unsigned context = 0; /* of that device */
    cudaStream_t stream = nullptr;
    std::thread::id set_by;
};
struct tensor { /* [n,h,w,c]; a filter: n is out, c in / groups */
    int format = -1, type = -1, n = 0, c = 0, h = 0, w = 0;
    size_t count() const { return static_cast<size_t>(n) * c * h * w; }
};
struct image : tensor {
};
struct filter : tensor {
};
struct convolution {
    int pad[2] = {-1, -1}, stride[2] = {}, dilation[2] = {}, mode = -1, compute = -1, groups = 1;
    int math = TD_CUDNN_DEFAULT_MATH;
};
struct activation {
    int mode = -1, nan = -1;
};

extern stand_in::registry<handle> handles;
extern stand_in::registry<image> images;
extern stand_in::registry<filter> filters;
extern stand_in::registry<convolution> convolutions;
extern stand_in::registry<activation> activations;
size_t graph_descriptors(); /* how many there are: cudnn_graph.cc */

/* Of the current device, and of a context that is there; else NULL, and it is told. */
handle *find_handle(const char *call, void *at);

inline number number_of(int type)
{
    return type == TD_CUDNN_FLOAT      ? number::FLOAT
           : type == TD_CUDNN_HALF     ? number::HALF
           : type == TD_CUDNN_BFLOAT16 ? number::BFLOAT16
                                       : number::NONE;
}

inline int status_of(bool fine)
{
    return fine ? TD_CUDNN_SUCCESS : TD_CUDNN_BAD_PARAM;
}

} // namespace fake_cudnn

#endif
