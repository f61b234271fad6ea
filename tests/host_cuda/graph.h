/* tests/host_cuda/graph.h - graphs: work with its dependencies, captured from streams and replayed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_GRAPH_H
#define TD_TESTS_HOST_CUDA_GRAPH_H

#include "tests/host_cuda/device.h"

namespace host_cuda
{

struct node {
    std::shared_ptr<const op> todo;
    std::vector<int> after; /* earlier nodes */
};

/* Under way; shared by the streams that are in it and the events recorded there. */
struct capture {
    std::vector<node> nodes;
    CUstream_st *origin;
    std::vector<CUstream_st *> joined; /* the others */
    enum cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool spoilt;
};

cudaError_t capture_wait(CUstream_st *s, CUevent_st *event); /* the caller holds mu */

} // namespace host_cuda

#endif
