/* kernels/cuda/base/cudnn_attention.c - the graph of one operation, from its tensors to a plan.
 *
 *   tensors -> operation -> graph -> heuristics -> engine configurations -> plan
 *
 * All are descriptors, which get attributes and are finalized, each after those that it is made of. The first
 * configuration, in the order of the heuristics, is taken whose sums are the same each time and whose plan
 * can be made within a call's workspace.
 *
 * A plan's code is the device context's, so that the descriptors are destroyed when the library is stopped
 * (td_cudnn.attentions), and the plan serves no more: whoever has it goes on by itself. The library is not
 * stopped while somebody has a handle, hence a call looks at the plan with one in hand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cudnn_attention.h"

#include "core/base/mem.h"
#include "kernels/cuda/base/cudnn_impl.h"

enum { MOST_CONFIGS = 8, MOST_NOTES = 16, DIMS = 4, ALIGNED = 16, SCALE = TD_CUDNN_ATTENTION_TENSORS };
enum { ENTRIES = TD_CUDNN_ATTENTION_TENSORS + 1 };
/* tensors and scale, operation, graph, heuristics, configuration and engine, plan */
enum { MOST_PARTS = ENTRIES + 6 };

struct td_cudnn_attention_plan {
    struct td_cudnn *dnn;
    struct td_cudnn_attention_plan *next, **back; /* under dnn->mu; back NULL: it is not listed */
    void *part[MOST_PARTS];                       /* descriptors, in the order that they were made in */
    int n_parts;
    void *plan; /* the last of them; NULL: there is none any more */
    size_t workspace_bytes;
    float scale;
};

/* ------------------------------------------------------------------ descriptors */

/* A new one, that the plan has; NULL: the library has no such thing. */
static void *add(struct td_cudnn_attention_plan *p, int type)
{
    void *made = NULL;
    if (p->n_parts == MOST_PARTS || p->dnn->api.cudnnBackendCreateDescriptor(type, &made) != 0) {
        return NULL;
    }
    p->part[p->n_parts++] = made;
    return made;
}

static void remove_last(struct td_cudnn_attention_plan *p)
{
    (void)p->dnn->api.cudnnBackendDestroyDescriptor(p->part[--p->n_parts]);
}

static bool set(const struct td_cudnn_attention_plan *p, void *d, int name, int type, int64_t n,
                const void *values)
{
    return d != NULL && p->dnn->api.cudnnBackendSetAttribute(d, name, type, n, values) == 0;
}

static bool set_part(const struct td_cudnn_attention_plan *p, void *d, int name, void *const *part)
{
    return *part != NULL && set(p, d, name, TD_CUDNN_TYPE_DESCRIPTOR, 1, part);
}

static bool finalize(const struct td_cudnn_attention_plan *p, void *d)
{
    return p->dnn->api.cudnnBackendFinalize(d) == 0;
}

/* Tensor `uid` of [batch, heads, rows, numbers]; of one number: the scale, which comes from the host. */
static bool add_tensor(struct td_cudnn_attention_plan *p, int64_t uid, int type, const int64_t *dim,
                       const int64_t *step, void **out)
{
    const int64_t aligned = ALIGNED;
    const bool by_value = uid == SCALE;
    void *d = *out = add(p, TD_CUDNN_TENSOR);
    return set(p, d, TD_CUDNN_TENSOR_UNIQUE_ID, TD_CUDNN_TYPE_INT64, 1, &uid) &&
           set(p, d, TD_CUDNN_TENSOR_DATA_TYPE, TD_CUDNN_TYPE_DATA_TYPE, 1, &type) &&
           set(p, d, TD_CUDNN_TENSOR_DIMENSIONS, TD_CUDNN_TYPE_INT64, DIMS, dim) &&
           set(p, d, TD_CUDNN_TENSOR_STRIDES, TD_CUDNN_TYPE_INT64, DIMS, step) &&
           set(p, d, TD_CUDNN_TENSOR_BYTE_ALIGNMENT, TD_CUDNN_TYPE_INT64, 1, &aligned) &&
           (!by_value || set(p, d, TD_CUDNN_TENSOR_IS_BY_VALUE, TD_CUDNN_TYPE_BOOLEAN, 1, &by_value)) &&
           finalize(p, d);
}

static bool add_tensors(struct td_cudnn_attention_plan *p, const struct td_cudnn_attention *s,
                        void *tensor[ENTRIES])
{
    static const int64_t ones[DIMS] = {1, 1, 1, 1};
    const int type = s->type == TD_CUDA_HALF ? TD_CUDNN_HALF : TD_CUDNN_BFLOAT16;
    bool made = true;
    for (int i = 0; i < TD_CUDNN_ATTENTION_TENSORS && made; i++) {
        const bool of_query = i == TD_CUDNN_QUERY || i == TD_CUDNN_OUTPUT;
        const bool deep = i == TD_CUDNN_QUERY || i == TD_CUDNN_KEY;
        const int64_t dim[DIMS] = {s->batch, s->heads, of_query ? s->queries : s->keys,
                                   deep ? s->depth : s->width};
        const int64_t step[DIMS] = {s->step[i][0], s->step[i][1], s->step[i][2], 1};
        made = add_tensor(p, i, type, dim, step, &tensor[i]);
    }
    return made && add_tensor(p, SCALE, TD_CUDNN_FLOAT, ones, ones, &tensor[SCALE]);
}

static void *add_graph(struct td_cudnn_attention_plan *p, void *handle, const struct td_cudnn_attention *s)
{
    static const int names[ENTRIES] = {TD_CUDNN_SDPA_Q, TD_CUDNN_SDPA_K, TD_CUDNN_SDPA_V, TD_CUDNN_SDPA_O,
                                       TD_CUDNN_SDPA_SCALE};
    void *tensor[ENTRIES];
    if (!add_tensors(p, s, tensor)) {
        return NULL;
    }
    void *op = add(p, TD_CUDNN_SDPA_FORWARD);
    bool made = op != NULL;
    for (int i = 0; i < ENTRIES && made; i++) {
        made = set_part(p, op, names[i], &tensor[i]);
    }
    void *graph = made && finalize(p, op) ? add(p, TD_CUDNN_GRAPH) : NULL;
    return set(p, graph, TD_CUDNN_GRAPH_HANDLE, TD_CUDNN_TYPE_HANDLE, 1, &handle) &&
                   set_part(p, graph, TD_CUDNN_GRAPH_OPS, &op) && finalize(p, graph)
               ? graph
               : NULL;
}

/* ------------------------------------------------------------------ engines */

/* Whether the configuration's engine gives the same bits each time. */
static bool is_same_each_time(struct td_cudnn_attention_plan *p, void *config)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    int notes[MOST_NOTES];
    int64_t n = 0;
    void *engine = add(p, TD_CUDNN_ENGINE);
    bool same = engine != NULL &&
                api->cudnnBackendGetAttribute(config, TD_CUDNN_CONFIG_ENGINE, TD_CUDNN_TYPE_DESCRIPTOR, 1, &n,
                                              &engine) == 0 &&
                api->cudnnBackendGetAttribute(engine, TD_CUDNN_ENGINE_NOTES, TD_CUDNN_TYPE_NOTE, MOST_NOTES,
                                              &n, notes) == 0 &&
                n <= MOST_NOTES;
    for (int64_t i = 0; same && i < n; i++) {
        same = notes[i] != TD_CUDNN_NONDETERMINISTIC;
    }
    if (engine != NULL) {
        remove_last(p);
    }
    return same;
}

/* A plan by that configuration. False: there is none, and nothing is left of it. */
static bool add_plan(struct td_cudnn_attention_plan *p, void *handle, void *config)
{
    int64_t bytes = 0, n = 0;
    void *plan = add(p, TD_CUDNN_PLAN);
    const bool made = set(p, plan, TD_CUDNN_PLAN_HANDLE, TD_CUDNN_TYPE_HANDLE, 1, &handle) &&
                      set_part(p, plan, TD_CUDNN_PLAN_CONFIG, &config) && finalize(p, plan) &&
                      p->dnn->api.cudnnBackendGetAttribute(plan, TD_CUDNN_PLAN_WORKSPACE, TD_CUDNN_TYPE_INT64,
                                                           1, &n, &bytes) == 0 &&
                      bytes >= 0 && (uint64_t)bytes <= p->dnn->most_workspace;
    if (made) {
        p->plan = plan;
        p->workspace_bytes = (size_t)bytes;
    } else if (plan != NULL) {
        remove_last(p);
    }
    return made;
}

/* How many configurations there are in `config`, best first. */
static int64_t ask_heuristics(struct td_cudnn_attention_plan *p, void *graph, void *config[MOST_CONFIGS])
{
    const int mode = TD_CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    void *heur = add(p, TD_CUDNN_HEUR);
    const bool asked =
        set_part(p, heur, TD_CUDNN_HEUR_GRAPH, &graph) &&
        set(p, heur, TD_CUDNN_HEUR_MODE, TD_CUDNN_TYPE_HEUR_MODE, 1, &mode) && finalize(p, heur) &&
        p->dnn->api.cudnnBackendGetAttribute(heur, TD_CUDNN_HEUR_RESULTS, TD_CUDNN_TYPE_DESCRIPTOR,
                                             MOST_CONFIGS, &n, config) == 0;
    return !asked ? 0 : n < MOST_CONFIGS ? n : MOST_CONFIGS;
}

/* The configuration that is taken stays, and the others go. */
static bool choose(struct td_cudnn_attention_plan *p, void *handle, void *graph)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    void *config[MOST_CONFIGS];
    int made = 0;
    while (made < MOST_CONFIGS && api->cudnnBackendCreateDescriptor(TD_CUDNN_CONFIG, &config[made]) == 0) {
        made++;
    }
    const int64_t n = made == MOST_CONFIGS ? ask_heuristics(p, graph, config) : 0;
    for (int64_t i = 0; i < n && p->plan == NULL; i++) {
        p->part[p->n_parts++] = config[i];
        if (is_same_each_time(p, config[i]) && add_plan(p, handle, config[i])) {
            config[i] = NULL; /* the plan's */
        } else {
            p->n_parts--;
        }
    }
    for (int i = 0; i < made; i++) {
        if (config[i] != NULL) {
            (void)api->cudnnBackendDestroyDescriptor(config[i]);
        }
    }
    return p->plan != NULL;
}

/* ------------------------------------------------------------------ plans */

static void destroy_parts(struct td_cudnn_attention_plan *p)
{
    p->plan = NULL;
    while (p->n_parts > 0) {
        remove_last(p);
    }
}

static void list(struct td_cudnn_attention_plan *p)
{
    struct td_cudnn *dnn = p->dnn;
    p->next = dnn->attentions;
    p->back = &dnn->attentions;
    if (p->next != NULL) {
        p->next->back = &p->next;
    }
    dnn->attentions = p;
}

void td_cudnn_attentions_end(struct td_cudnn *dnn)
{
    for (struct td_cudnn_attention_plan *p = dnn->attentions; p != NULL; p = p->next) {
        destroy_parts(p);
    }
}

void td_cudnn_attention_free(struct td_cudnn_attention_plan *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->dnn->mu);
    if (p->back != NULL) {
        *p->back = p->next;
        if (p->next != NULL) {
            p->next->back = p->back;
        }
    }
    destroy_parts(p);
    pthread_mutex_unlock(&p->dnn->mu);
    td_free(p);
}

const char *td_cudnn_attention_make(struct td_cudnn *dnn, const struct td_cudnn_attention *s,
                                    struct td_cudnn_attention_plan **out)
{
    struct td_cudnn_attention_plan *p = td_calloc(1, sizeof *p);
    int status;
    if (p == NULL) {
        return "there is no memory for a plan of cuDNN's";
    }
    (void)td_cuda_use(dnn->device);
    p->dnn = dnn;
    p->scale = s->scale;
    struct td_cudnn_handle *h = td_cudnn_take(dnn, &status);
    void *graph = h != NULL ? add_graph(p, h->at, s) : NULL;
    const bool made = graph != NULL && choose(p, h->at, graph);
    if (made) {
        pthread_mutex_lock(&dnn->mu);
        list(p);
        pthread_mutex_unlock(&dnn->mu);
    } else {
        td_cudnn_attention_free(p);
    }
    if (h != NULL) {
        td_cudnn_put(dnn, h);
    }
    *out = made ? p : NULL;
    return made ? NULL : h == NULL ? "cuDNN makes no handle" : "cuDNN has no engine for such attention";
}

size_t td_cudnn_attention_workspace(const struct td_cudnn_attention_plan *p)
{
    return p->workspace_bytes;
}

size_t td_cudnn_attention_bytes(const struct td_cudnn_attention_plan *p)
{
    return sizeof *p;
}

/* ------------------------------------------------------------------ calls */

static int execute(const struct td_cudnn_attention_plan *p, void *handle,
                   const struct td_cudnn_attention_call *c)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    int64_t uids[ENTRIES];
    const void *at[ENTRIES];
    void *const workspace = p->workspace_bytes > 0 ? c->workspace : NULL, *pack = NULL;
    for (int i = 0; i < ENTRIES; i++) {
        uids[i] = i;
        at[i] = i == SCALE ? &p->scale : c->tensor[i];
    }
    int status = api->cudnnBackendCreateDescriptor(TD_CUDNN_PACK, &pack);
    if (status != TD_CUDNN_SUCCESS) {
        return status;
    }
    const bool set_all = set(p, pack, TD_CUDNN_PACK_UNIQUE_IDS, TD_CUDNN_TYPE_INT64, ENTRIES, uids) &&
                         set(p, pack, TD_CUDNN_PACK_POINTERS, TD_CUDNN_TYPE_POINTER, ENTRIES, at) &&
                         set(p, pack, TD_CUDNN_PACK_WORKSPACE, TD_CUDNN_TYPE_POINTER, 1, &workspace) &&
                         finalize(p, pack);
    status = set_all ? api->cudnnBackendExecute(handle, p->plan, pack) : TD_CUDNN_NOT_SUPPORTED;
    (void)api->cudnnBackendDestroyDescriptor(pack);
    return status;
}

enum td_code td_cudnn_attend(const struct td_cudnn_attention_plan *p, const struct td_cudnn_attention_call *c,
                             bool *served, struct td_err *err)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    int status;
    struct td_cudnn_handle *h = td_cudnn_take(p->dnn, &status);
    TD_FAIL_IF(h == NULL, err, RESOURCE_EXHAUSTED, "cudnnCreate: %s", api->cudnnGetErrorString(status));
    status = p->plan == NULL ? TD_CUDNN_NOT_SUPPORTED : api->cudnnSetStream(h->at, c->stream);
    status = status == TD_CUDNN_SUCCESS ? execute(p, h->at, c) : status;
    td_cudnn_put(p->dnn, h);
    *served = !td_cudnn_refuses(status);
    TD_FAIL_IF(*served && status != TD_CUDNN_SUCCESS, err, INTERNAL, "cuDNN's attention: %s",
               api->cudnnGetErrorString(status));
    return TD_OK;
}
