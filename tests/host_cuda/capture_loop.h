/* tests/host_cuda/capture_loop.h - how a conditional node comes into a graph that a stream's work is captured
 * to: its handle, then what sets it, then the node and a stream for each of its bodies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_CAPTURE_LOOP_H
#define TD_TESTS_HOST_CUDA_CAPTURE_LOOP_H

#include "tests/host_cuda/run_kernels.h"

static inline cudaGraph_t captured(cudaStream_t s, const cudaGraphNode_t **after, size_t *n)
{
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphEdgeData *edges;
    CHECK_CUDA(cudaStreamGetCaptureInfo(s, &status, nullptr, &graph, after, &edges, n));
    CHECK_INT(status, cudaStreamCaptureStatusActive);
    return graph;
}

static inline cudaGraphConditionalHandle capture_handle(cudaStream_t s)
{
    cudaGraphConditionalHandle h;
    const cudaGraphNode_t *after;
    size_t n;
    CHECK_CUDA(cudaGraphConditionalHandleCreate(&h, captured(s, &after, &n)));
    return h;
}

static inline void capture_bodies(cudaStream_t s, cudaGraphConditionalHandle h,
                                  enum cudaGraphConditionalNodeType type, cudaStream_t *bodies, unsigned n)
{
    struct cudaGraphNodeParams p = {};
    cudaGraphNode_t node;
    const cudaGraphNode_t *after;
    size_t n_after;
    const cudaGraph_t graph = captured(s, &after, &n_after);
    p.type = cudaGraphNodeTypeConditional;
    p.conditional = {h, type, n, nullptr};
    CHECK_CUDA(cudaGraphAddNode(&node, graph, after, nullptr, n_after, &p));
    CHECK_CUDA(cudaStreamUpdateCaptureDependencies(s, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    for (unsigned i = 0; i < n; i++) {
        CHECK_CUDA(cudaStreamCreateWithFlags(&bodies[i], cudaStreamNonBlocking));
        CHECK_CUDA(cudaStreamBeginCaptureToGraph(bodies[i], p.conditional.phGraph_out[i], nullptr, nullptr, 0,
                                                 cudaStreamCaptureModeRelaxed));
    }
}

static inline cudaStream_t capture_body(cudaStream_t s, cudaGraphConditionalHandle h,
                                        enum cudaGraphConditionalNodeType type)
{
    cudaStream_t body;
    capture_bodies(s, h, type, &body, 1);
    return body;
}

static inline void end_body(cudaStream_t body)
{
    cudaGraph_t graph;
    CHECK_CUDA(cudaStreamEndCapture(body, &graph));
    CHECK_CUDA(cudaStreamDestroy(body));
}

static inline cudaGraphExec_t end_graph(cudaStream_t s)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamEndCapture(s, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    return exec;
}

#endif
