/* tests/host_cuda/graph.cc - capture: instead of being queued, a stream's work becomes a node that comes
 * after the stream's frontier; an event carries a frontier to another stream, which is then part of the
 * capture. What becomes of the graph: replay.cc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/graph.h"

#include "tests/host_cuda/settings.h"

#include <algorithm>

namespace host_cuda
{
namespace
{

/* Under mu. */
auto &under_way = *new std::vector<std::shared_ptr<capture>>;
/* Whether node n comes before another one, or is that. */
bool is_before(const nodes &list, int n, int other)
{
    return n == other || std::any_of(list[static_cast<size_t>(other)].after.begin(),
                                     list[static_cast<size_t>(other)].after.end(),
                                     [&](int a) { return a >= n && is_before(list, n, a); });
}

/* Whether every node of a frontier is in the origin's or before it. */
bool is_joined(const capture &c, const std::vector<int> &frontier)
{
    return std::all_of(frontier.begin(), frontier.end(), [&](int n) {
        return std::any_of(c.origin->frontier.begin(), c.origin->frontier.end(),
                           [&](int end) { return is_before(c.graph->nodes, n, end); });
    });
}

bool all_joined(const capture &c)
{
    return std::all_of(c.joined.begin(), c.joined.end(),
                       [&](const CUstream_st *s) { return is_joined(c, s->frontier); });
}

void leave_capture(CUstream_st *s)
{
    s->capturing = nullptr;
    s->frontier.clear();
}

} // namespace

cudaError_t capture_op(CUstream_st *s, const std::shared_ptr<const op> &todo)
{
    capture *const c = s->capturing.get();
    if (c->spoilt) {
        return cudaErrorStreamCaptureInvalidated;
    }
    if (c->into_body && todo->hosts) { /* a body has work of the device's alone */
        return spoil_capture(s);
    }
    c->graph->nodes.push_back({todo, s->frontier, nullptr, {}, {}});
    s->frontier = {static_cast<int>(c->graph->nodes.size()) - 1};
    return cudaSuccess;
}

CUgraphNode_st *node_of(CUgraph_st *g, int number)
{
    const auto at = std::find_if(g->names.begin(), g->names.end(),
                                 [&](const CUgraphNode_st &n) { return n.number == number; });
    if (at != g->names.end()) {
        return &*at;
    }
    g->names.push_back({g, number});
    return &g->names.back();
}

cudaError_t spoil_capture(CUstream_st *s)
{
    s->capturing->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
}

bool device_is_capturing(int device)
{
    return std::any_of(under_way.begin(), under_way.end(), [&](const std::shared_ptr<capture> &c) {
        return c->origin->device == device && c->origin->blocking;
    });
}

void end_capture_of(const CUstream_st *s)
{
    const auto ends = std::remove_if(under_way.begin(), under_way.end(),
                                     [&](const std::shared_ptr<capture> &c) { return c->origin == s; });
    under_way.erase(ends, under_way.end());
}

cudaError_t unsafe_in_capture()
{
    cudaError_t e = cudaSuccess;
    for (const auto &c : under_way) {
        if (c->mode == cudaStreamCaptureModeGlobal ||
            (c->mode == cudaStreamCaptureModeThreadLocal && c->thread == std::this_thread::get_id())) {
            c->spoilt = true;
            e = cudaErrorStreamCaptureUnsupported;
        }
    }
    return e;
}

cudaError_t capture_wait(CUstream_st *s, CUevent_st *event)
{
    const auto c = event->captured;
    if (c == nullptr) {
        s->capturing->spoilt = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (std::find(under_way.begin(), under_way.end(), c) == under_way.end()) {
        return cudaErrorCapturedEvent; /* of a capture that has ended */
    }
    if (s->capturing != nullptr && s->capturing != c) {
        s->capturing->spoilt = c->spoilt = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (s->capturing == nullptr) {
        s->capturing = c;
        c->joined.push_back(s);
    }
    for (const int n : event->frontier) {
        if (std::find(s->frontier.begin(), s->frontier.end(), n) == s->frontier.end()) {
            s->frontier.push_back(n);
        }
    }
    return cudaSuccess;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

static cudaError_t begin(cudaStream_t stream, enum cudaStreamCaptureMode mode, CUgraph_st *body)
{
    CUstream_st *const s = find_stream(stream);
    if (s == nullptr) {
        return cudaErrorInvalidResourceHandle;
    }
    if (s->legacy || s->capturing != nullptr) {
        return s->legacy ? cudaErrorStreamCaptureUnsupported : cudaErrorIllegalState;
    }
    s->capturing = std::make_shared<capture>();
    s->capturing->graph = body != nullptr ? body : new CUgraph_st;
    s->capturing->into_body = body != nullptr;
    s->capturing->origin = s;
    s->capturing->mode = mode;
    s->capturing->thread = std::this_thread::get_id();
    under_way.push_back(s->capturing);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return call([&](locked &) { return begin(stream, mode, nullptr); });
}

/* Here into the empty body of a conditional node alone. */
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *,
                                          const cudaGraphEdgeData *, size_t n,
                                          enum cudaStreamCaptureMode mode)
{
    return call([&](locked &) {
        return graph == nullptr || graph->above == nullptr || n > 0 || !graph->nodes.empty()
                   ? cudaErrorInvalidValue
                   : begin(stream, mode, graph);
    });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || status == nullptr || id != nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        capture *const c = s->capturing.get();
        *status = c == nullptr ? cudaStreamCaptureStatusNone
                  : c->spoilt  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
        if (*status != cudaStreamCaptureStatusActive) {
            return cudaSuccess;
        }
        c->told.clear();
        for (const int i : s->frontier) {
            c->told.push_back(node_of(c->graph, i));
        }
        *graph = c->graph;
        *nodes = c->told.data();
        *edges = nullptr;
        *n = c->told.size();
        return cudaSuccess;
    });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                const cudaGraphEdgeData *edges, size_t n, unsigned flags)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || edges != nullptr || flags > cudaStreamSetCaptureDependencies) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        if (s->capturing == nullptr) {
            return cudaErrorIllegalState;
        }
        if (flags == cudaStreamSetCaptureDependencies) {
            s->frontier.clear();
        }
        for (size_t i = 0; i < n; i++) {
            if (nodes[i]->graph != s->capturing->graph) {
                return cudaErrorInvalidValue;
            }
            s->frontier.push_back(nodes[i]->number);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || graph == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        const auto c = s->capturing;
        if (c == nullptr || c->origin != s) {
            return c == nullptr ? cudaErrorIllegalState : cudaErrorStreamCaptureUnmatched;
        }
        const bool joined = all_joined(*c);
        *graph = nullptr;
        std::for_each(c->joined.begin(), c->joined.end(), leave_capture);
        leave_capture(s);
        under_way.erase(std::find(under_way.begin(), under_way.end(), c));
        if (!c->spoilt && joined) {
            *graph = c->graph;
            return cudaSuccess;
        }
        if (!c->into_body) {
            forget_conditions(c->graph);
            delete c->graph;
        }
        return c->spoilt ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
    });
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    return call([&](locked &) {
        if (graph == nullptr || flags != 0) {
            return cudaErrorInvalidValue;
        }
        *graph = new CUgraph_st;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr) {
            return cudaErrorInvalidResourceHandle;
        }
        *status = s->capturing == nullptr ? cudaStreamCaptureStatusNone
                  : s->capturing->spoilt  ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
        return cudaSuccess;
    });
}
}
