/* tests/host_cuda/cudnn_graph.cc - the stand-in's graph interface: descriptors, what each must have when it
 * is finalized, and attention, the one operation that there is.
 *
 * Of three configurations that its heuristics tell the first is not deterministic, the second makes no plan,
 * and the third wants a workspace, which is filled before it computes. Rows of more than 256 numbers have
 * none. A call is refused, without a report, where the scale is -1: a library may refuse any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/cudnn.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fake_cudnn;
using stand_in::place;

namespace
{

enum { ALIGNED = 16, ROOM = 1024, CONFIGS = 3, ENTRIES = 5, DIMS = 4, MOST_WIDTH = 256 };
enum { WITH_LUCK, WITHOUT_PLAN, WORKS };

struct attribute {
    int type = -1;
    int64_t n = 0;
    std::vector<char> bytes;
};

struct descriptor {
    int type = -1;
    bool final = false;
    std::map<int, attribute> has;
    int config = -1;                   /* of a configuration and its engine: which */
    unsigned context = 0;              /* of a plan */
    const descriptor *graph = nullptr; /* of heuristics, a configuration, a plan */
};

stand_in::registry<descriptor> descriptors;

size_t size_of_type(int type)
{
    switch (type) {
    case TD_CUDNN_TYPE_DATA_TYPE:
    case TD_CUDNN_TYPE_HEUR_MODE:
    case TD_CUDNN_TYPE_NOTE:
        return sizeof(int);
    case TD_CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    default:
        return 8;
    }
}

/* The attributes that a kind of descriptor takes, and of which type. */
struct may {
    int kind, name, type;
    bool must;
};
const may taken[] = {
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_BYTE_ALIGNMENT, TD_CUDNN_TYPE_INT64, true},
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_DATA_TYPE, TD_CUDNN_TYPE_DATA_TYPE, true},
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_DIMENSIONS, TD_CUDNN_TYPE_INT64, true},
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_STRIDES, TD_CUDNN_TYPE_INT64, true},
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_UNIQUE_ID, TD_CUDNN_TYPE_INT64, true},
    {TD_CUDNN_TENSOR, TD_CUDNN_TENSOR_IS_BY_VALUE, TD_CUDNN_TYPE_BOOLEAN, false},
    {TD_CUDNN_SDPA_FORWARD, TD_CUDNN_SDPA_Q, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_SDPA_FORWARD, TD_CUDNN_SDPA_K, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_SDPA_FORWARD, TD_CUDNN_SDPA_V, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_SDPA_FORWARD, TD_CUDNN_SDPA_O, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_SDPA_FORWARD, TD_CUDNN_SDPA_SCALE, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_GRAPH, TD_CUDNN_GRAPH_HANDLE, TD_CUDNN_TYPE_HANDLE, true},
    {TD_CUDNN_GRAPH, TD_CUDNN_GRAPH_OPS, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_HEUR, TD_CUDNN_HEUR_GRAPH, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_HEUR, TD_CUDNN_HEUR_MODE, TD_CUDNN_TYPE_HEUR_MODE, true},
    {TD_CUDNN_PLAN, TD_CUDNN_PLAN_HANDLE, TD_CUDNN_TYPE_HANDLE, true},
    {TD_CUDNN_PLAN, TD_CUDNN_PLAN_CONFIG, TD_CUDNN_TYPE_DESCRIPTOR, true},
    {TD_CUDNN_PACK, TD_CUDNN_PACK_UNIQUE_IDS, TD_CUDNN_TYPE_INT64, true},
    {TD_CUDNN_PACK, TD_CUDNN_PACK_POINTERS, TD_CUDNN_TYPE_POINTER, true},
    {TD_CUDNN_PACK, TD_CUDNN_PACK_WORKSPACE, TD_CUDNN_TYPE_POINTER, true},
};

template <class T> std::vector<T> values(const descriptor &d, int name)
{
    const auto i = d.has.find(name);
    std::vector<T> v(i == d.has.end() ? 0 : static_cast<size_t>(i->second.n));
    if (!v.empty()) {
        memcpy(v.data(), i->second.bytes.data(), v.size() * sizeof(T));
    }
    return v;
}

/* The first of an attribute's descriptors, of that kind and finalized; else NULL. */
const descriptor *part(const descriptor &d, int name, int kind)
{
    const std::vector<void *> all = values<void *>(d, name);
    const descriptor *const p = all.size() == 1 ? descriptors.find(all[0]) : nullptr;
    return p != nullptr && p->type == kind && p->final ? p : nullptr;
}

/* ------------------------------------------------------------------ what is finalized */

struct tensor_view {
    int64_t uid = -1, dim[DIMS] = {}, step[DIMS] = {};
    int type = -1;
    bool by_value = false;
    int64_t extent() const /* elements from the first to behind the last */
    {
        int64_t last = 0;
        for (int i = 0; i < DIMS; i++) {
            last += (dim[i] - 1) * step[i];
        }
        return last + 1;
    }
    int64_t at(int64_t b, int64_t h, int64_t row, int64_t i) const
    {
        return b * step[0] + h * step[1] + row * step[2] + i * step[3];
    }
};

bool check_tensor(const char *call, const descriptor &d)
{
    const std::vector<int64_t> dim = values<int64_t>(d, TD_CUDNN_TENSOR_DIMENSIONS),
                               step = values<int64_t>(d, TD_CUDNN_TENSOR_STRIDES);
    if (dim.size() != DIMS || step.size() != DIMS) {
        return wrong(call, text("a tensor of %zu dimensions and %zu strides", dim.size(), step.size()));
    }
    for (int i = 0; i < DIMS; i++) {
        if (dim[i] < 1 || step[i] < 1) {
            return wrong(call, text("dimension %d of a tensor is %lld, and its stride %lld", i,
                                    static_cast<long long>(dim[i]), static_cast<long long>(step[i])));
        }
    }
    return values<int64_t>(d, TD_CUDNN_TENSOR_BYTE_ALIGNMENT)[0] == ALIGNED ||
           wrong(call, "a tensor is aligned in another way");
}

tensor_view view(const descriptor &d)
{
    tensor_view t;
    const std::vector<int64_t> dim = values<int64_t>(d, TD_CUDNN_TENSOR_DIMENSIONS),
                               step = values<int64_t>(d, TD_CUDNN_TENSOR_STRIDES);
    std::copy(dim.begin(), dim.end(), t.dim);
    std::copy(step.begin(), step.end(), t.step);
    t.uid = values<int64_t>(d, TD_CUDNN_TENSOR_UNIQUE_ID)[0];
    t.type = values<int>(d, TD_CUDNN_TENSOR_DATA_TYPE)[0];
    const std::vector<bool> by = [&] {
        const auto i = d.has.find(TD_CUDNN_TENSOR_IS_BY_VALUE);
        return std::vector<bool>{i != d.has.end() && i->second.bytes[0] != 0};
    }();
    t.by_value = by[0];
    return t;
}

const int sdpa_names[ENTRIES] = {TD_CUDNN_SDPA_Q, TD_CUDNN_SDPA_K, TD_CUDNN_SDPA_V, TD_CUDNN_SDPA_O,
                                 TD_CUDNN_SDPA_SCALE};

struct attention {
    tensor_view q, k, v, o, scale;
};

attention attention_of(const descriptor &graph)
{
    const descriptor &op = *part(graph, TD_CUDNN_GRAPH_OPS, TD_CUDNN_SDPA_FORWARD);
    tensor_view t[ENTRIES];
    for (int i = 0; i < ENTRIES; i++) {
        t[i] = view(*part(op, sdpa_names[i], TD_CUDNN_TENSOR));
    }
    return {t[0], t[1], t[2], t[3], t[4]};
}

bool check_attention(const char *call, const descriptor &op)
{
    tensor_view t[ENTRIES];
    for (int i = 0; i < ENTRIES; i++) {
        const descriptor *const d = part(op, sdpa_names[i], TD_CUDNN_TENSOR);
        if (d == nullptr) {
            return wrong(call, text("tensor %d of attention is none that was finalized", i));
        }
        t[i] = view(*d);
    }
    const tensor_view &q = t[0], &k = t[1], &v = t[2], &o = t[3], &scale = t[4];
    for (int i = 0; i < ENTRIES - 1; i++) {
        if (t[i].type != q.type || (q.type != TD_CUDNN_HALF && q.type != TD_CUDNN_BFLOAT16)) {
            return wrong(call, text("tensors of attention have type %d", t[i].type));
        }
        if (t[i].step[3] != 1 || t[i].step[2] % 8 != 0 || t[i].step[1] % 8 != 0 || t[i].step[0] % 8 != 0) {
            return wrong(call, "rows of attention do not lie at multiples of 16 bytes");
        }
        if (t[i].dim[0] != q.dim[0] || t[i].dim[1] != q.dim[1] || t[i].by_value) {
            return wrong(call, "tensors of attention are of several batches");
        }
    }
    if (k.dim[3] != q.dim[3] || v.dim[2] != k.dim[2] || o.dim[2] != q.dim[2] || o.dim[3] != v.dim[3]) {
        return wrong(call, "rows of attention do not fit");
    }
    return (scale.type == TD_CUDNN_FLOAT && scale.by_value && scale.extent() == 1) ||
           wrong(call, "the scale is no float by value");
}

bool check_handle_of(const char *call, const descriptor &d, int name)
{
    const std::vector<void *> handles_of = values<void *>(d, name);
    return handles_of.size() == 1 && find_handle(call, handles_of[0]) != nullptr;
}

/* Whether all of it is there, and what that says fits; *supported: and the library has it. */
bool check_final(const char *call, descriptor *d, bool *supported)
{
    *supported = true;
    for (const may &m : taken) {
        if (m.kind == d->type && m.must && d->has.find(m.name) == d->has.end()) {
            return wrong(call, text("attribute %d was not set", m.name));
        }
    }
    switch (d->type) {
    case TD_CUDNN_TENSOR:
        return check_tensor(call, *d);
    case TD_CUDNN_SDPA_FORWARD:
        return check_attention(call, *d);
    case TD_CUDNN_GRAPH:
        return check_handle_of(call, *d, TD_CUDNN_GRAPH_HANDLE) &&
               (part(*d, TD_CUDNN_GRAPH_OPS, TD_CUDNN_SDPA_FORWARD) != nullptr ||
                wrong(call, "a graph without an operation that was finalized"));
    case TD_CUDNN_HEUR:
        d->graph = part(*d, TD_CUDNN_HEUR_GRAPH, TD_CUDNN_GRAPH);
        return (d->graph != nullptr && values<int>(*d, TD_CUDNN_HEUR_MODE)[0] == TD_CUDNN_HEUR_MODE_A) ||
               wrong(call, "heuristics without a graph, or in another mode");
    case TD_CUDNN_PLAN: {
        const std::vector<void *> of = values<void *>(*d, TD_CUDNN_PLAN_CONFIG);
        const descriptor *const config = of.size() == 1 ? descriptors.find(of[0]) : nullptr;
        if (config == nullptr || config->type != TD_CUDNN_CONFIG || config->graph == nullptr) {
            return wrong(call, "a plan without a configuration that was advised");
        }
        d->graph = config->graph;
        d->config = config->config;
        d->context = stand_in::current_context();
        *supported = d->config == WORKS;
        return check_handle_of(call, *d, TD_CUDNN_PLAN_HANDLE);
    }
    case TD_CUDNN_PACK:
        return true;
    default:
        return wrong(call, "that is not finalized");
    }
}

/* ------------------------------------------------------------------ what is asked */

/* Fills the configurations that the caller has made. */
bool advise(const char *call, const descriptor &heur, int64_t room, int64_t *n, void *const *out)
{
    const attention a = attention_of(*heur.graph);
    *n = std::max(a.q.dim[3], a.v.dim[3]) > MOST_WIDTH ? 0 : std::min<int64_t>(room, CONFIGS);
    for (int64_t i = 0; i < *n; i++) {
        descriptor *const d = descriptors.find(out[i]);
        if (d == nullptr || d->type != TD_CUDNN_CONFIG) {
            return wrong(call, "results are no configurations");
        }
        d->config = static_cast<int>(i);
        d->graph = heur.graph;
    }
    return true;
}

bool tell(const char *call, const descriptor &d, int name, int64_t room, int64_t *n, void *out)
{
    if (d.type == TD_CUDNN_HEUR && name == TD_CUDNN_HEUR_RESULTS && d.final) {
        return advise(call, d, room, n, static_cast<void **>(out));
    }
    *n = 1;
    if (d.type == TD_CUDNN_CONFIG && name == TD_CUDNN_CONFIG_ENGINE && d.config >= 0) {
        descriptor *const engine = descriptors.find(*static_cast<void **>(out));
        if (engine == nullptr || engine->type != TD_CUDNN_ENGINE) {
            return wrong(call, "the engine is none");
        }
        engine->config = d.config;
        return true;
    }
    if (d.type == TD_CUDNN_ENGINE && name == TD_CUDNN_ENGINE_NOTES && d.config >= 0) {
        *static_cast<int *>(out) = d.config == WITH_LUCK ? TD_CUDNN_NONDETERMINISTIC : 0;
        return true;
    }
    if (d.type == TD_CUDNN_PLAN && name == TD_CUDNN_PLAN_WORKSPACE && d.final) {
        *static_cast<int64_t *>(out) = ROOM;
        return true;
    }
    return wrong(call, text("attribute %d is not told of descriptor %d", name, d.type));
}

/* ------------------------------------------------------------------ attention */

void attend_row(const attention &a, const std::vector<double> &q, const std::vector<double> &k,
                const std::vector<double> &v, double scale, const int64_t at[3], void *out)
{
    const int64_t b = at[0], h = at[1], row = at[2], keys = a.k.dim[2];
    std::vector<double> p(static_cast<size_t>(keys));
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < keys; s++) {
        for (int64_t i = 0; i < a.q.dim[3]; i++) {
            p[s] += scale * q[a.q.at(b, h, row, i)] * k[a.k.at(b, h, s, i)];
        }
        most = std::max(most, p[s]);
    }
    for (double &x : p) {
        x = std::exp(x - most);
        sum += x;
    }
    for (int64_t i = 0; i < a.v.dim[3]; i++) {
        double y = 0;
        for (int64_t s = 0; s < keys; s++) {
            y += p[s] / sum * v[a.v.at(b, h, s, i)];
        }
        stand_in::store(number_of(a.o.type), out, static_cast<size_t>(a.o.at(b, h, row, i)), y);
    }
}

void attend(const attention &a, const void *const *at, double scale)
{
    const number t = number_of(a.q.type);
    const std::vector<double> q = stand_in::load(t, at[0], static_cast<size_t>(a.q.extent())),
                              k = stand_in::load(t, at[1], static_cast<size_t>(a.k.extent())),
                              v = stand_in::load(t, at[2], static_cast<size_t>(a.v.extent()));
    for (int64_t i = 0; i < a.q.dim[0] * a.q.dim[1] * a.q.dim[2]; i++) {
        const int64_t where[3] = {i / a.q.dim[2] / a.q.dim[1], i / a.q.dim[2] % a.q.dim[1], i % a.q.dim[2]};
        attend_row(a, q, k, v, scale, where, const_cast<void *>(at[3]));
    }
}

/* The pointers of the pack in the order of the attention's tensors; false: some are missing, or too many. */
bool find_pointers(const char *call, const attention &a, const descriptor &pack, const void **at)
{
    const std::vector<int64_t> uids = values<int64_t>(pack, TD_CUDNN_PACK_UNIQUE_IDS);
    const std::vector<void *> pointers = values<void *>(pack, TD_CUDNN_PACK_POINTERS);
    const int64_t wanted[ENTRIES] = {a.q.uid, a.k.uid, a.v.uid, a.o.uid, a.scale.uid};
    if (uids.size() != ENTRIES || pointers.size() != ENTRIES) {
        return wrong(call, text("%zu tensors and %zu pointers", uids.size(), pointers.size()));
    }
    for (int i = 0; i < ENTRIES; i++) {
        const auto found = std::find(uids.begin(), uids.end(), wanted[i]);
        if (found == uids.end()) {
            return wrong(call, text("tensor %lld has no pointer", static_cast<long long>(wanted[i])));
        }
        at[i] = pointers[static_cast<size_t>(found - uids.begin())];
    }
    return at[ENTRIES - 1] != nullptr || wrong(call, "the scale is NULL");
}

int execute(const char *call, const handle &h, const attention &a, const descriptor &pack)
{
    const void *at[ENTRIES];
    void *const workspace = values<void *>(pack, TD_CUDNN_PACK_WORKSPACE)[0];
    if (h.stream == nullptr || h.set_by != std::this_thread::get_id()) {
        return status_of(wrong(call, "the handle's stream was not set by its caller"));
    }
    if (!find_pointers(call, a, pack, at) || !stand_in::check_stream(call, h.stream)) {
        return TD_CUDNN_BAD_PARAM;
    }
    const float scale = *static_cast<const float *>(at[ENTRIES - 1]); /* by value: read now */
    if (scale == -1) {
        return TD_CUDNN_NOT_SUPPORTED;
    }
    const size_t each = stand_in::size_of(number_of(a.q.type));
    const std::vector<place> places = {{"the query", at[0], static_cast<size_t>(a.q.extent()) * each, false},
                                       {"the key", at[1], static_cast<size_t>(a.k.extent()) * each, false},
                                       {"the value", at[2], static_cast<size_t>(a.v.extent()) * each, false},
                                       {"the output", at[3], static_cast<size_t>(a.o.extent()) * each, true},
                                       {"the workspace", workspace, ROOM, true}};
    const bool fit = std::all_of(places.begin(), places.end(),
                                 [&](const place &x) { return stand_in::check_place(call, x, ALIGNED); });
    if (!fit || !stand_in::check_apart(call, places)) {
        return TD_CUDNN_BAD_PARAM;
    }
    const std::vector<const void *> tensors(at, at + ENTRIES - 1);
    const cudaError_t e = stand_in::queue(h.stream, call, places, [=] {
        memset(workspace, 0xFF, ROOM);
        attend(a, tensors.data(), static_cast<double>(scale));
    });
    return e == cudaSuccess ? TD_CUDNN_SUCCESS : TD_CUDNN_EXECUTION_FAILED;
}

} // namespace

size_t fake_cudnn::graph_descriptors()
{
    return descriptors.count();
}

/* ------------------------------------------------------------------ the library's functions */

int cudnnBackendCreateDescriptor(int type, void **desc)
{
    const bool known =
        type == TD_CUDNN_CONFIG || type == TD_CUDNN_ENGINE ||
        std::any_of(std::begin(taken), std::end(taken), [=](const may &m) { return m.kind == type; });
    if (!known) {
        return status_of(wrong(__func__, text("there is no descriptor %d", type)));
    }
    descriptor *const d = descriptors.add();
    d->type = type;
    *desc = d;
    return TD_CUDNN_SUCCESS;
}

int cudnnBackendDestroyDescriptor(void *desc)
{
    const descriptor *const d = descriptors.find(desc);
    if (d != nullptr && d->type == TD_CUDNN_PLAN && d->final && d->context != stand_in::current_context()) {
        return status_of(wrong(__func__, "a plan of a context that is gone"));
    }
    return status_of(descriptors.remove(desc) || wrong(__func__, "no such descriptor"));
}

int cudnnBackendSetAttribute(void *desc, int name, int type, int64_t n, const void *given)
{
    descriptor *const d = descriptors.find(desc);
    if (d == nullptr || d->final) {
        return status_of(wrong(__func__, d == nullptr ? "no such descriptor" : "it was finalized"));
    }
    const may *const m = std::find_if(std::begin(taken), std::end(taken),
                                      [=](const may &x) { return x.kind == d->type && x.name == name; });
    if (m == std::end(taken) || m->type != type || n < 1 || given == nullptr) {
        return status_of(
            wrong(__func__, text("descriptor %d gets attribute %d of type %d", d->type, name, type)));
    }
    attribute &a = d->has[name];
    const char *const from = static_cast<const char *>(given);
    a = {type, n, std::vector<char>(from, from + static_cast<size_t>(n) * size_of_type(type))};
    return TD_CUDNN_SUCCESS;
}

int cudnnBackendGetAttribute(void *desc, int name, int type, int64_t room, int64_t *n, void *out)
{
    const descriptor *const d = descriptors.find(desc);
    const int wanted = name == TD_CUDNN_ENGINE_NOTES     ? TD_CUDNN_TYPE_NOTE
                       : name == TD_CUDNN_PLAN_WORKSPACE ? TD_CUDNN_TYPE_INT64
                                                         : TD_CUDNN_TYPE_DESCRIPTOR;
    if (d == nullptr || type != wanted || room < 1 || n == nullptr || out == nullptr) {
        return status_of(wrong(__func__, "no such descriptor, or no room for what it tells"));
    }
    return status_of(tell(__func__, *d, name, room, n, out));
}

int cudnnBackendFinalize(void *desc)
{
    descriptor *const d = descriptors.find(desc);
    bool supported = true;
    if (d == nullptr || d->final || !check_final(__func__, d, &supported)) {
        return status_of(
            d != nullptr && !d->final
                ? false
                : wrong(__func__, d == nullptr ? "no such descriptor" : "it was finalized before"));
    }
    d->final = supported;
    return supported ? TD_CUDNN_SUCCESS : TD_CUDNN_NOT_SUPPORTED;
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    const fake_cudnn::handle *const h = find_handle(__func__, handle);
    const descriptor *const p = descriptors.find(plan), *const with = descriptors.find(pack);
    if (h == nullptr) {
        return TD_CUDNN_BAD_PARAM;
    }
    if (p == nullptr || p->type != TD_CUDNN_PLAN || !p->final || p->context != stand_in::current_context()) {
        return status_of(wrong(__func__, "no plan, or one of a context that is gone"));
    }
    if (with == nullptr || with->type != TD_CUDNN_PACK || !with->final) {
        return status_of(wrong(__func__, "no pack that was finalized"));
    }
    return execute(__func__, *h, attention_of(*p->graph), *with);
}
