/* tests/host_cuda/condition.cc - conditional nodes: a kernel of the graph sets a number, and whether, how
 * often or which of the node's bodies is run follows from it.
 *
 * A handle is a number that nothing else ever has. Its value belongs to the launch under way: who sets it
 * outside of its graph, or twice in one launch of a kernel, is reported, as are a condition that nobody has
 * set when its node asks for it, and a round of a loop that does not set it and so would be the first of
 * endlessly many.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"
#include "tests/host_cuda/graph.h"
#include "tests/host_cuda/settings.h"

#include <algorithm>
#include <map>

namespace host_cuda
{

struct condition {
    cudaGraphConditionalHandle number;
    const CUgraph_st *graph; /* NULL: it went; under mu */
    unsigned initial;
    bool assigns, used; /* the initial value is set by each launch; a node has it: under mu */
    enum cudaGraphConditionalNodeType type;
    /* under values_mu */
    const void *running; /* the graph's launch under way; NULL: none */
    unsigned value;
    uint64_t sets; /* in it */
};

namespace
{

std::mutex values_mu;
/* Those that there are, by number; under mu, and values_mu to change. */
auto &all = *new std::map<cudaGraphConditionalHandle, std::shared_ptr<condition>>;
cudaGraphConditionalHandle n_made = 1000;
thread_local const void *replayed;

const CUgraph_st *top_of(const CUgraph_st *g)
{
    while (g->above != nullptr) {
        g = g->above;
    }
    return g;
}

std::shared_ptr<condition> find(cudaGraphConditionalHandle number)
{
    const auto at = all.find(number);
    return at == all.end() ? nullptr : at->second;
}

struct reading {
    unsigned value;
    uint64_t sets;
};

reading read(condition *c)
{
    const std::lock_guard<std::mutex> l(values_mu);
    return {c->value, c->sets};
}

void run_loop(const node &n, int device, const std::function<void(const nodes &, uint64_t)> &run)
{
    reading now = read(n.on.get());
    for (uint64_t round = 0; now.value != 0 && sticky(device) == cudaSuccess; round++) {
        const uint64_t before = now.sets;
        run(*n.made[0], round);
        now = read(n.on.get());
        if (now.value != 0 && now.sets == before) {
            report(device, cudaErrorLaunchFailure,
                   "a round of a graph's loop does not set its condition: it would never end");
        }
    }
}

bool right_size(const struct cudaConditionalNodeParams &c)
{
    const bool later = config().switches; /* from 12.8 on */
    return c.type == cudaGraphCondTypeWhile ? c.size == 1
           : c.type == cudaGraphCondTypeIf  ? c.size == 1 || (c.size == 2 && later)
                                            : c.type == cudaGraphCondTypeSwitch && c.size > 0 && later;
}

} // namespace

bool conditions_are_used(const CUgraph_st *g)
{
    return std::all_of(all.begin(), all.end(),
                       [&](const auto &c) { return c.second->graph != g || c.second->used; });
}

std::vector<std::shared_ptr<condition>> conditions_of(const CUgraph_st *g)
{
    std::vector<std::shared_ptr<condition>> of;
    for (const auto &c : all) {
        if (c.second->graph == g) {
            of.push_back(c.second);
        }
    }
    return of;
}

/* What was instantiated of the graph goes on. */
void forget_conditions(const CUgraph_st *g)
{
    for (const auto &c : all) {
        if (g != nullptr && c.second->graph == g) {
            c.second->graph = nullptr;
        }
    }
}

void enter_graph(const void *exec, const std::vector<std::shared_ptr<condition>> &of)
{
    const std::lock_guard<std::mutex> l(values_mu);
    replayed = exec;
    for (const auto &c : of) {
        c->running = exec;
        c->sets = c->assigns;
        c->value = c->assigns ? c->initial : 0xFFFFFFFF;
    }
}

void leave_graph(const std::vector<std::shared_ptr<condition>> &of)
{
    const std::lock_guard<std::mutex> l(values_mu);
    replayed = nullptr;
    for (const auto &c : of) {
        c->running = nullptr;
    }
}

const void *graph_of_thread()
{
    return replayed;
}

void run_conditional(const node &n, int device, const std::function<void(const nodes &, uint64_t)> &run)
{
    const reading now = read(n.on.get());
    if (now.sets == 0) {
        report(device, cudaErrorLaunchFailure, "a conditional node asks for a condition that nobody has set");
    }
    if (sticky(device) != cudaSuccess) {
        return;
    }
    if (n.on->type == cudaGraphCondTypeWhile) {
        run_loop(n, device, run);
        return;
    }
    const size_t body = n.on->type == cudaGraphCondTypeSwitch ? now.value : now.value == 0;
    if (body < n.made.size()) {
        run(*n.made[body], 0);
    }
}

void set_condition(cudaGraphConditionalHandle number, unsigned value)
{
    const quiet q;
    grid *const g = runner_of_thread()->g;
    const std::lock_guard<std::mutex> l(values_mu);
    const auto c = find(number);
    const char *const wrong = c == nullptr ? "a condition that there is not"
                              : c->running == nullptr || c->running != g->replayed
                                  ? "the condition of a graph that it is not of"
                              : g->condition.exchange(number) == number ? "one condition twice"
                                                                        : nullptr;
    if (wrong != nullptr) {
        report(g->device, cudaErrorIllegalAddress, text("a kernel sets %s", wrong));
        return;
    }
    c->value = value;
    c->sets++;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                             unsigned initial, unsigned flags)
{
    return call([&](locked &) {
        if (!config().conditions) {
            return cudaErrorNotSupported;
        }
        if (handle == nullptr || graph == nullptr || flags > cudaGraphCondAssignDefault) {
            return cudaErrorInvalidValue;
        }
        const auto c = std::make_shared<condition>();
        c->number = *handle = ++n_made;
        c->graph = top_of(graph);
        c->initial = initial;
        c->assigns = flags == cudaGraphCondAssignDefault;
        const std::lock_guard<std::mutex> l(values_mu);
        all[c->number] = c;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *edges, size_t n, struct cudaGraphNodeParams *params)
{
    return call([&](locked &) {
        if (out == nullptr || graph == nullptr || params == nullptr || (n > 0 && after == nullptr) ||
            params->type != cudaGraphNodeTypeConditional || edges != nullptr) {
            return cudaErrorInvalidValue;
        }
        const auto c = find(params->conditional.handle);
        if (c == nullptr || c->graph != top_of(graph) || c->used || !right_size(params->conditional)) {
            return cudaErrorInvalidValue;
        }
        node made = {std::make_shared<op>(), {}, c, {}, {}};
        for (size_t i = 0; i < n; i++) {
            if (after[i]->graph != graph) {
                return cudaErrorInvalidValue;
            }
            made.after.push_back(after[i]->number);
        }
        for (unsigned i = 0; i < params->conditional.size; i++) {
            graph->bodies.emplace_back();
            graph->bodies.back().above = graph;
            made.bodies.push_back(&graph->bodies.back());
        }
        c->used = true;
        c->type = params->conditional.type;
        graph->lists.push_back(made.bodies);
        params->conditional.phGraph_out = graph->lists.back().data();
        graph->nodes.push_back(made);
        *out = node_of(graph, static_cast<int>(graph->nodes.size()) - 1);
        return cudaSuccess;
    });
}
}
