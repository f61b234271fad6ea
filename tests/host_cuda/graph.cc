/* tests/host_cuda/graph.cc - capture: instead of being queued, a stream's work becomes a node that comes
 * after the stream's frontier; an event carries a frontier to another stream, which is then part of the
 * capture.
 *
 * A replay is one piece of work of the stream that it is launched to: the nodes one after the other, in the
 * order of capture, or in the debugging mode in any order that the dependencies permit. There two nodes that
 * use one memory without order are also reported, when the graph is instantiated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/graph.h"

#include "tests/host_cuda/settings.h"

#include <algorithm>

struct CUgraph_st {
    std::vector<host_cuda::node> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<host_cuda::node>> nodes;
    uint64_t n_launches = 0;
    int device = 0;
    bool gone = false; /* with the context that it was of */
};

namespace host_cuda
{
namespace
{

/* Under mu. */
auto &under_way = *new std::vector<std::shared_ptr<capture>>;
auto &made = *new std::vector<CUgraphExec_st *>;

/* Which nodes come before one, as flags; after[i] are those of node i. */
typedef std::vector<std::vector<bool>> ancestors;

ancestors find_ancestors(const std::vector<node> &nodes)
{
    ancestors all(nodes.size(), std::vector<bool>(nodes.size()));
    for (size_t i = 0; i < nodes.size(); i++) {
        for (const int a : nodes[i].after) {
            all[i][static_cast<size_t>(a)] = true;
            for (size_t k = 0; k < i; k++) {
                all[i][k] = all[i][k] || all[static_cast<size_t>(a)][k];
            }
        }
    }
    return all;
}

bool conflict(const op &a, const op &b)
{
    for (const use &u : a.uses) {
        for (const use &v : b.uses) {
            if ((u.writes || v.writes) && overlap(u, v)) {
                return true;
            }
        }
    }
    return false;
}

void check_order(const std::vector<node> &nodes)
{
    const ancestors before = find_ancestors(nodes);
    for (size_t i = 0; config().debug && i < nodes.size(); i++) {
        for (size_t k = 0; k < i; k++) {
            if (!before[i][k] && conflict(*nodes[i].todo, *nodes[k].todo)) {
                report(
                    current_device(), cudaErrorIllegalAddress,
                    text("a graph's node %zu (%s) and node %zu (%s) use one memory, and nothing orders them",
                         k, nodes[k].todo->what.c_str(), i, nodes[i].todo->what.c_str()));
                return;
            }
        }
    }
}

/* Whether every node of a frontier is in the origin's or before it. */
bool is_joined(const capture &c, const ancestors &before, const std::vector<int> &frontier)
{
    return std::all_of(frontier.begin(), frontier.end(), [&](int n) {
        return std::any_of(c.origin->frontier.begin(), c.origin->frontier.end(), [&](int end) {
            return end == n || before[static_cast<size_t>(end)][static_cast<size_t>(n)];
        });
    });
}

bool all_joined(const capture &c)
{
    const ancestors before = find_ancestors(c.nodes);
    return std::all_of(c.joined.begin(), c.joined.end(),
                       [&](const CUstream_st *s) { return is_joined(c, before, s->frontier); });
}

/* Nodes one after the other; when the seed says so, not in the order of capture. */
void replay(const std::vector<node> &nodes, uint64_t launch)
{
    std::vector<bool> done(nodes.size());
    draws d(1, launch);
    for (size_t n = 0; n < nodes.size(); n++) {
        std::vector<size_t> may;
        for (size_t i = 0; i < nodes.size() && (may.empty() || config().debug); i++) {
            if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(),
                                        [&](int a) { return done[static_cast<size_t>(a)]; })) {
                may.push_back(i);
            }
        }
        const size_t chosen = may[d.below(may.size())];
        nodes[chosen].todo->run();
        done[chosen] = true;
    }
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
    c->nodes.push_back({todo, s->frontier});
    s->frontier = {static_cast<int>(c->nodes.size()) - 1};
    return cudaSuccess;
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

void end_graphs(int device)
{
    for (CUgraphExec_st *const g : made) {
        if (g->device == device) {
            g->gone = true;
            g->nodes = nullptr;
        }
    }
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

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr) {
            return cudaErrorInvalidResourceHandle;
        }
        if (s->legacy || s->capturing != nullptr) {
            return s->legacy ? cudaErrorStreamCaptureUnsupported : cudaErrorIllegalState;
        }
        s->capturing = std::make_shared<capture>();
        s->capturing->origin = s;
        s->capturing->mode = mode;
        s->capturing->thread = std::this_thread::get_id();
        under_way.push_back(s->capturing);
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
        if (c->spoilt || !joined) {
            return c->spoilt ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
        }
        *graph = new CUgraph_st{std::move(c->nodes)};
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

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    return call([&](locked &) {
        if (exec == nullptr || graph == nullptr) {
            return cudaErrorInvalidValue;
        }
        check_order(graph->nodes);
        *exec = new CUgraphExec_st;
        (*exec)->device = current_device();
        made.push_back(*exec);
        (*exec)->nodes = std::make_shared<const std::vector<node>>(graph->nodes);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || exec == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        if (exec->gone) {
            return used_when_gone("a graph");
        }
        if (s->capturing != nullptr) {
            return spoil_capture(s);
        }
        auto o = std::make_shared<op>();
        o->what = "a graph";
        o->run = [nodes = exec->nodes, launch = exec->n_launches++] { replay(*nodes, launch); };
        for (const node &n : *exec->nodes) {
            o->uses.insert(o->uses.end(), n.todo->uses.begin(), n.todo->uses.end());
        }
        return submit(s, o);
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const quiet q;
    const locked l(mu);
    if (exec == nullptr || exec->gone) {
        return note(exec == nullptr ? cudaErrorInvalidValue : used_when_gone("a graph"));
    }
    made.erase(std::find(made.begin(), made.end(), exec));
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const quiet q;
    const locked l(mu);
    delete graph;
    return cudaSuccess;
}
}
