/* tests/host_cuda/replay.cc - graphs that are instantiated, and launched.
 *
 * A replay is one piece of work of the stream that it is launched to: the nodes one after the other, in the
 * order of capture, or in the debugging mode in any order that the dependencies permit. There two nodes that
 * use one memory without order are also reported, when the graph is instantiated. A conditional node stands
 * for all that its bodies use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/graph.h"

#include "tests/host_cuda/settings.h"

#include <algorithm>

struct CUgraphExec_st {
    std::shared_ptr<const host_cuda::nodes> nodes;
    std::vector<std::shared_ptr<host_cuda::condition>> conditions;
    uint64_t n_launches = 0;
    int device = 0;
    bool gone = false; /* with the context that it was of */
};

namespace host_cuda
{
namespace
{

auto &made = *new std::vector<CUgraphExec_st *>; /* under mu */

/* Which nodes come before one, as flags; after[i] are those of node i. */
typedef std::vector<std::vector<bool>> ancestors;

ancestors find_ancestors(const nodes &list)
{
    ancestors all(list.size(), std::vector<bool>(list.size()));
    for (size_t i = 0; i < list.size(); i++) {
        for (const int a : list[i].after) {
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

void check_order(const nodes &list)
{
    const ancestors before = find_ancestors(list);
    for (size_t i = 0; config().debug && i < list.size(); i++) {
        for (size_t k = 0; k < i; k++) {
            if (!before[i][k] && conflict(*list[i].todo, *list[k].todo)) {
                report(
                    current_device(), cudaErrorIllegalAddress,
                    text("a graph's node %zu (%s) and node %zu (%s) use one memory, and nothing orders them",
                         k, list[k].todo->what.c_str(), i, list[i].todo->what.c_str()));
                return;
            }
        }
    }
}

void add_uses(const nodes &list, std::vector<use> *uses)
{
    for (const node &n : list) {
        uses->insert(uses->end(), n.todo->uses.begin(), n.todo->uses.end());
    }
}

/* A graph's nodes as they are now, and those of its bodies. */
std::shared_ptr<const nodes> snapshot(const CUgraph_st *g)
{
    auto all = std::make_shared<nodes>(g->nodes);
    for (node &n : *all) {
        if (n.on == nullptr) {
            continue;
        }
        auto o = std::make_shared<op>();
        o->what = "a conditional node";
        for (const CUgraph_st *const body : n.bodies) {
            n.made.push_back(snapshot(body));
            add_uses(*n.made.back(), &o->uses);
        }
        n.todo = o;
    }
    check_order(*all);
    return all;
}

/* Nodes one after the other; when the seed says so, not in the order of capture. */
void replay(const nodes &list, int device, uint64_t launch)
{
    std::vector<bool> done(list.size());
    draws d(1, launch);
    for (size_t n = 0; n < list.size(); n++) {
        std::vector<size_t> may;
        for (size_t i = 0; i < list.size() && (may.empty() || config().debug); i++) {
            if (!done[i] && std::all_of(list[i].after.begin(), list[i].after.end(),
                                        [&](int a) { return done[static_cast<size_t>(a)]; })) {
                may.push_back(i);
            }
        }
        const size_t chosen = may[d.below(may.size())];
        if (list[chosen].on == nullptr) {
            list[chosen].todo->run();
        } else {
            run_conditional(list[chosen], device, [&](const nodes &body, uint64_t round) {
                replay(body, device, launch + (round << 32));
            });
        }
        done[chosen] = true;
    }
}

void replay_all(const CUgraphExec_st &exec, uint64_t launch)
{
    enter_graph(exec.nodes.get(), exec.conditions);
    replay(*exec.nodes, exec.device, launch);
    leave_graph(exec.conditions);
}

} // namespace

void end_graphs(int device)
{
    for (CUgraphExec_st *const g : made) {
        if (g->device == device) {
            g->gone = true;
            g->nodes = nullptr;
        }
    }
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    return call([&](locked &) {
        if (exec == nullptr || graph == nullptr || graph->above != nullptr || !conditions_are_used(graph)) {
            return cudaErrorInvalidValue;
        }
        *exec = new CUgraphExec_st;
        (*exec)->device = current_device();
        made.push_back(*exec);
        (*exec)->nodes = snapshot(graph);
        (*exec)->conditions = conditions_of(graph);
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
        o->run = [own = *exec] { replay_all(own, own.n_launches); };
        exec->n_launches++;
        add_uses(*exec->nodes, &o->uses);
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
    if (graph != nullptr && graph->above != nullptr) { /* a body is its node's */
        return note(cudaErrorInvalidValue);
    }
    forget_conditions(graph);
    delete graph;
    return cudaSuccess;
}
}
