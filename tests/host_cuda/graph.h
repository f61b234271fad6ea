/* tests/host_cuda/graph.h - graphs: work with its dependencies, captured from streams and replayed; and
 * conditional nodes, whose bodies are graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_GRAPH_H
#define TD_TESTS_HOST_CUDA_GRAPH_H

#include "tests/host_cuda/device.h"

#include <deque>

namespace host_cuda
{

struct condition;

struct node {
    std::shared_ptr<const op> todo; /* of a conditional node: what all of its bodies use */
    std::vector<int> after;         /* earlier nodes */
    std::shared_ptr<condition> on;  /* it is a conditional one; NULL: it is not */
    std::vector<CUgraph_st *> bodies;
    std::vector<std::shared_ptr<const std::vector<node>>> made; /* once instantiated: the bodies' nodes */
};
typedef std::vector<node> nodes;

/* Under way; shared by the streams that are in it and the events recorded there. */
struct capture {
    CUgraph_st *graph; /* what it goes to */
    CUstream_st *origin;
    std::vector<CUstream_st *> joined; /* the others */
    enum cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool spoilt;
    bool into_body;                    /* the graph is a conditional node's, which outlives the capture */
    std::vector<cudaGraphNode_t> told; /* by cudaStreamGetCaptureInfo */
};

cudaError_t capture_wait(CUstream_st *s, CUevent_st *event); /* the caller holds mu, also below */
CUgraphNode_st *node_of(CUgraph_st *g, int number);          /* as the API has it */

/* ---- conditional nodes (condition.cc) */
/* Whether each handle of a graph has its node; and the list of them all. */
bool conditions_are_used(const CUgraph_st *g);
std::vector<std::shared_ptr<condition>> conditions_of(const CUgraph_st *g);
void forget_conditions(const CUgraph_st *g); /* that goes */
/* Around the replay of a graph, on the stream's thread, without mu. */
void enter_graph(const void *exec, const std::vector<std::shared_ptr<condition>> &all);
void leave_graph(const std::vector<std::shared_ptr<condition>> &all);
/* The graph that the calling thread replays; NULL: none. */
const void *graph_of_thread();
/* Runs the node's bodies as its condition says, by run(body, round). */
void run_conditional(const node &n, int device, const std::function<void(const nodes &, uint64_t)> &run);

} // namespace host_cuda

struct CUgraphNode_st {
    CUgraph_st *graph;
    int number;
};

struct CUgraph_st {
    host_cuda::nodes nodes;
    std::deque<CUgraphNode_st> names;            /* of nodes that somebody asked for */
    CUgraph_st *above = nullptr;                 /* whose conditional node it is a body of */
    std::deque<CUgraph_st> bodies;               /* of its own conditional nodes */
    std::deque<std::vector<CUgraph_st *>> lists; /* as cudaGraphAddNode gives them */
};

#endif
