/* proto/model/object_graph.c - objects, variables and functions of a TF2 model, and the checkpoint key of
 * each variable.
 *
 * Reading unpacks the message through the guard and copies nodes and concrete functions into one arena;
 * structured signatures are flattened to lists of tensors, dicts by sorted key, as TensorFlow passes them.
 * Then one breadth-first walk from the root gives every node its shortest path and, going along in the
 * checkpoint's graph, its twin there; a variable's key is its twin's. Slots of optimizers hang on no child
 * and are matched afterwards, by variable and name. Without the checkpoint's graph a key is made of the path,
 * as TensorFlow makes it:
 *
 *   layers/0/kernel/.ATTRIBUTES/VARIABLE_VALUE      ("." and "/" in a name are ".." and ".S")
 *
 * Node numbers are checked as they are read. Flattening recurses as deep as the guard lets messages nest;
 * tensors of a signature beyond the 4,096th are left out.
 *
 * Does not: read values (proto/checkpoint/bundle.c), or know Python classes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/object_graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/guard.h"
#include "proto/pb/shape_pb.h"
#include "proto/bytes/sink.h"
#include "proto/schema/tensorflow.pb-c.h"

enum { MAX_NODES = 1 << 22, MAX_CHILDREN = 1 << 14, MAX_SPECS = 1 << 12, BYTES_PER_BYTE = 256 };
#define SLACK_BYTES ((size_t)16 << 20)

typedef Tensorflow__StructuredValue structured;
typedef Tensorflow__TrackableObjectGraph trackable_graph;

static void *get(struct td_arena *a, size_t n, size_t size, enum td_code *rc, struct td_err *err)
{
    void *p = td_arena_alloc(a, n ? n : 1, size);
    *rc = p == NULL ? td_no_memory(err, n * size, "object graph") : TD_OK;
    return p;
}

static enum td_code copy_text(struct td_arena *a, const char *s, const char **out, struct td_err *err)
{
    *out = td_arena_strdup(a, s);
    return *out == NULL ? td_no_memory(err, strlen(s), "object graph") : TD_OK;
}

/* ---- nodes */

static enum td_code read_children(const Tensorflow__SavedObject *p, struct td_object_graph *g,
                                  struct td_object *o, struct td_err *err)
{
    enum td_code rc;
    TD_FAIL_IF(p->n_children > MAX_CHILDREN || p->n_slot_variables > MAX_CHILDREN, err, INVALID_ARGUMENT,
               "object graph: a node has more than %d children", MAX_CHILDREN);
    o->children = get(g->arena, p->n_children, sizeof o->children[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < p->n_children; i++) {
        int node = p->children[i]->node_id;
        TD_FAIL_IF(node < 0 || node >= g->n_nodes, err, INVALID_ARGUMENT,
                   "object graph: child '%.100s' is node %d of %d", p->children[i]->local_name, node,
                   g->n_nodes);
        o->children[i].node = node;
        TD_TRY(copy_text(g->arena, p->children[i]->local_name, &o->children[i].name, err));
    }
    o->n_children = (int)p->n_children;
    o->slots = get(g->arena, p->n_slot_variables, sizeof o->slots[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < p->n_slot_variables; i++) {
        const Tensorflow__SlotVariableReference *s = p->slot_variables[i];
        TD_FAIL_IF(s->original_variable_node_id < 0 || s->original_variable_node_id >= g->n_nodes ||
                       s->slot_variable_node_id < 0 || s->slot_variable_node_id >= g->n_nodes,
                   err, INVALID_ARGUMENT, "object graph: slot '%.100s' names a node beyond %d", s->slot_name,
                   g->n_nodes);
        o->slots[i] = (struct td_object_slot){.variable = s->original_variable_node_id,
                                              .node = s->slot_variable_node_id};
        TD_TRY(copy_text(g->arena, s->slot_name, &o->slots[i].name, err));
    }
    o->n_slots = (int)p->n_slot_variables;
    return TD_OK;
}

static enum td_code read_function_names(const Tensorflow__SavedFunction *p, struct td_arena *a,
                                        struct td_object *o, struct td_err *err)
{
    enum td_code rc;
    o->functions = get(a, p->n_concrete_functions, sizeof o->functions[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < p->n_concrete_functions; i++) {
        TD_TRY(copy_text(a, p->concrete_functions[i], &o->functions[i], err));
    }
    o->n_functions = (int)p->n_concrete_functions;
    return TD_OK;
}

static enum td_code read_variable(const Tensorflow__SavedVariable *p, struct td_arena *a, struct td_object *o,
                                  struct td_err *err)
{
    TD_TRY(td_dtype_from_number((int)p->dtype, &o->dtype, err));
    TD_TRY(td_shape_from_proto(p->shape, &o->shape, err));
    o->trainable = p->trainable != 0;
    return copy_text(a, p->name, &o->text, err);
}

static enum td_code read_captured(const Tensorflow__CapturedTensor *p, struct td_arena *a,
                                  struct td_object *o, struct td_err *err)
{
    enum td_code rc;
    o->functions = get(a, 1, sizeof o->functions[0], &rc, err);
    TD_TRY(rc);
    o->n_functions = 1;
    TD_TRY(copy_text(a, p->concrete_function, &o->functions[0], err));
    return copy_text(a, p->name, &o->text, err);
}

static enum td_code read_object(const Tensorflow__SavedObject *p, struct td_object_graph *g,
                                struct td_object *o, struct td_err *err)
{
    o->kind = (enum td_object_kind)p->kind_case;
    o->text = "";
    TD_TRY(read_children(p, g, o, err));
    switch (p->kind_case) {
    case TENSORFLOW__SAVED_OBJECT__KIND_USER_OBJECT:
        return copy_text(g->arena, p->user_object->identifier, &o->text, err);
    case TENSORFLOW__SAVED_OBJECT__KIND_ASSET:
        o->asset = p->asset->asset_file_def_index;
        return TD_OK;
    case TENSORFLOW__SAVED_OBJECT__KIND_FUNCTION:
        return read_function_names(p->function, g->arena, o, err);
    case TENSORFLOW__SAVED_OBJECT__KIND_VARIABLE:
        return read_variable(p->variable, g->arena, o, err);
    case TENSORFLOW__SAVED_OBJECT__KIND_BARE_CONCRETE_FUNCTION:
        return copy_text(g->arena, p->bare_concrete_function->concrete_function_name, &o->text, err);
    case TENSORFLOW__SAVED_OBJECT__KIND_CONSTANT:
        return copy_text(g->arena, p->constant->operation, &o->text, err);
    case TENSORFLOW__SAVED_OBJECT__KIND_CAPTURED_TENSOR:
        return read_captured(p->captured_tensor, g->arena, o, err);
    default:
        return TD_OK;
    }
}

/* ---- functions: the tensors of a structured signature, in the order in which they are passed */

struct flat {
    const Tensorflow__TensorSpecProto *specs[MAX_SPECS];
    int place[MAX_SPECS];
    int n, places;
    bool given_true;
};

static int by_field_key(const void *a, const void *b)
{
    typedef Tensorflow__StructuredValue__DictValue__FieldsEntry entry;
    return strcmp((*(const entry *const *)a)->key, (*(const entry *const *)b)->key);
}

static void flatten(const structured *v, struct flat *out)
{
    switch (v == NULL ? 0 : (int)v->kind_case) {
    case TENSORFLOW__STRUCTURED_VALUE__KIND_TENSOR_SPEC_VALUE:
        if (out->n < MAX_SPECS) {
            out->place[out->n] = out->places;
            out->specs[out->n++] = v->tensor_spec_value;
        }
        out->places++;
        return;
    case TENSORFLOW__STRUCTURED_VALUE__KIND_LIST_VALUE:
    case TENSORFLOW__STRUCTURED_VALUE__KIND_TUPLE_VALUE: { /* the two have one type */
        const Tensorflow__StructuredValue__ListValue *l =
            v->kind_case == TENSORFLOW__STRUCTURED_VALUE__KIND_LIST_VALUE ? v->list_value : v->tuple_value;
        for (size_t i = 0; i < l->n_values; i++) {
            flatten(l->values[i], out);
        }
        return;
    }
    case TENSORFLOW__STRUCTURED_VALUE__KIND_DICT_VALUE:
        if (v->dict_value->n_fields > 1) {
            qsort(v->dict_value->fields, v->dict_value->n_fields, sizeof v->dict_value->fields[0],
                  by_field_key);
        }
        for (size_t i = 0; i < v->dict_value->n_fields; i++) {
            flatten(v->dict_value->fields[i]->value, out);
        }
        return;
    case TENSORFLOW__STRUCTURED_VALUE__KIND_NAMED_TUPLE_VALUE:
        for (size_t i = 0; i < v->named_tuple_value->n_values; i++) {
            flatten(v->named_tuple_value->values[i]->value, out);
        }
        return;
    case TENSORFLOW__STRUCTURED_VALUE__KIND_BOOL_VALUE:
        out->given_true = out->given_true || v->bool_value;
        out->places++;
        return;
    default:
        out->places++;
        return;
    }
}

static enum td_code copy_spec(struct td_arena *a, const Tensorflow__TensorSpecProto *from, struct td_spec *to,
                              struct td_err *err)
{
    TD_TRY(td_dtype_from_number((int)from->dtype, &to->dtype, err));
    TD_TRY(td_shape_from_proto(from->shape, &to->shape, err));
    return copy_text(a, from->name, &to->name, err);
}

static enum td_code read_specs(const structured *v, struct td_arena *a, struct td_spec **out, int *n,
                               bool *given_true, struct td_err *err)
{
    struct flat *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "object graph");
    }
    flatten(v, f);
    enum td_code rc;
    *out = get(a, (size_t)f->n, sizeof **out, &rc, err);
    *n = f->n;
    *given_true = f->given_true;
    for (int i = 0; rc == TD_OK && i < f->n; i++) {
        rc = copy_spec(a, f->specs[i], &(*out)[i], err);
        (*out)[i].place = f->place[i];
    }
    td_free(f);
    return rc;
}

static enum td_code read_function(const Tensorflow__SavedObjectGraph__ConcreteFunctionsEntry *p,
                                  struct td_object_graph *g, struct td_concrete *f, struct td_err *err)
{
    enum td_code rc;
    const Tensorflow__SavedConcreteFunction *c = p->value;
    TD_TRY(copy_text(g->arena, p->key, &f->name, err));
    if (c == NULL) {
        return TD_OK;
    }
    f->bound = get(g->arena, c->n_bound_inputs, sizeof f->bound[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < c->n_bound_inputs; i++) {
        TD_FAIL_IF(c->bound_inputs[i] < 0 || c->bound_inputs[i] >= g->n_nodes, err, INVALID_ARGUMENT,
                   "object graph: function '%.100s' is bound to node %d of %d", p->key, c->bound_inputs[i],
                   g->n_nodes);
        f->bound[i] = c->bound_inputs[i];
    }
    f->n_bound = (int)c->n_bound_inputs;
    bool ignored;
    TD_TRY(read_specs(c->output_signature, g->arena, &f->out, &f->n_out, &ignored, err));
    return read_specs(c->canonicalized_input_signature, g->arena, &f->in, &f->n_in, &f->given_true, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_concrete *)a)->name, ((const struct td_concrete *)b)->name);
}

static enum td_code read_graph(const Tensorflow__SavedObjectGraph *p, struct td_object_graph *g,
                               struct td_err *err)
{
    enum td_code rc;
    TD_FAIL_IF(p->n_nodes > MAX_NODES || p->n_concrete_functions > MAX_NODES, err, INVALID_ARGUMENT,
               "object graph: more than %d nodes", MAX_NODES);
    g->n_nodes = (int)p->n_nodes;
    g->nodes = get(g->arena, p->n_nodes, sizeof g->nodes[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < p->n_nodes; i++) {
        TD_TRY(read_object(p->nodes[i], g, &g->nodes[i], err));
    }
    g->functions = get(g->arena, p->n_concrete_functions, sizeof g->functions[0], &rc, err);
    TD_TRY(rc);
    for (size_t i = 0; i < p->n_concrete_functions; i++) {
        TD_TRY(read_function(p->concrete_functions[i], g, &g->functions[i], err));
    }
    g->n_functions = (int)p->n_concrete_functions;
    if (p->n_concrete_functions > 1) {
        qsort(g->functions, p->n_concrete_functions, sizeof g->functions[0], by_name);
    }
    return TD_OK;
}

/* ---- paths and checkpoint keys */

static enum td_code put_text(struct td_sink *s, const char *text, struct td_err *err)
{
    return td_sink_put(s, text, strlen(text), err);
}

/* '.' and '/' have a meaning in keys. */
static enum td_code put_escaped(struct td_sink *s, const char *name, struct td_err *err)
{
    for (; *name; name++) {
        if (*name == '.' || *name == '/') {
            TD_TRY(td_sink_put(s, *name == '.' ? ".." : ".S", 2, err));
        } else {
            TD_TRY(td_sink_put(s, name, 1, err));
        }
    }
    return TD_OK;
}

static enum td_code put_path(struct td_sink *s, const char *left, const char *name, const char *right,
                             struct td_err *err)
{
    TD_TRY(put_text(s, left, err));
    TD_TRY(left[0] == 0 ? TD_OK : put_text(s, "/", err));
    TD_TRY(put_escaped(s, name, err));
    return put_text(s, right, err);
}

static enum td_code join(struct td_arena *a, const char *left, const char *name, const char *right,
                         const char **out, struct td_err *err)
{
    struct td_sink s = {0};
    enum td_code rc = put_path(&s, left, name, right, err);
    if (rc == TD_OK) {
        *out = td_arena_strndup(a, s.p, s.n);
        rc = *out == NULL ? td_no_memory(err, s.n, "object graph") : TD_OK;
    }
    td_sink_fini(&s);
    return rc;
}

struct walk {
    struct td_object_graph *g;
    const trackable_graph *t; /* NULL: none */
    int *queue;
    int *twin; /* node of the checkpoint's graph; -1 none */
    int head, tail;
};

static int find_child(const trackable_graph *t, int node, const char *name)
{
    if (node < 0) {
        return -1;
    }
    const Tensorflow__TrackableObjectGraph__TrackableObject *o = t->nodes[node];
    for (size_t i = 0; i < o->n_children; i++) {
        int child = o->children[i]->node_id;
        if (strcmp(o->children[i]->local_name, name) == 0) {
            return child >= 0 && (size_t)child < t->n_nodes ? child : -1;
        }
    }
    return -1;
}

/* The node of slot `name` of that variable's twin. */
static int find_slot(const struct walk *w, int node, const struct td_object_slot *s)
{
    if (node < 0 || w->twin[s->variable] < 0) {
        return -1;
    }
    const Tensorflow__TrackableObjectGraph__TrackableObject *o = w->t->nodes[node];
    for (size_t i = 0; i < o->n_slot_variables; i++) {
        const Tensorflow__SlotVariableReference *r = o->slot_variables[i];
        if (r->original_variable_node_id == w->twin[s->variable] && strcmp(r->slot_name, s->name) == 0) {
            int slot = r->slot_variable_node_id;
            return slot >= 0 && (size_t)slot < w->t->n_nodes ? slot : -1;
        }
    }
    return -1;
}

static enum td_code visit_children(struct walk *w, int node, struct td_err *err)
{
    const struct td_object *o = &w->g->nodes[node];
    for (int i = 0; i < o->n_children; i++) {
        int child = o->children[i].node;
        if (w->g->nodes[child].path != NULL) {
            continue;
        }
        TD_TRY(join(w->g->arena, o->path, o->children[i].name, "", &w->g->nodes[child].path, err));
        w->twin[child] = w->t == NULL ? -1 : find_child(w->t, w->twin[node], o->children[i].name);
        w->queue[w->tail++] = child;
    }
    return TD_OK;
}

/* Slots hang on no child; what the checkpoint's graph says of them is all there is. */
static void match_slots(struct walk *w)
{
    for (int i = 0; w->t != NULL && i < w->g->n_nodes; i++) {
        const struct td_object *o = &w->g->nodes[i];
        for (int k = 0; k < o->n_slots; k++) {
            int slot = o->slots[k].node;
            w->twin[slot] = w->twin[slot] < 0 ? find_slot(w, w->twin[i], &o->slots[k]) : w->twin[slot];
        }
    }
}

static enum td_code set_key(const struct walk *w, int node, struct td_err *err)
{
    struct td_object *o = &w->g->nodes[node];
    if (o->kind != TD_OBJECT_VARIABLE) {
        return TD_OK;
    }
    if (w->twin[node] >= 0 && w->t->nodes[w->twin[node]]->n_attributes > 0) {
        return copy_text(w->g->arena, w->t->nodes[w->twin[node]]->attributes[0]->checkpoint_key, &o->key,
                         err);
    }
    if (o->path != NULL && w->t == NULL) {
        return join(w->g->arena, o->path, "", ".ATTRIBUTES/VARIABLE_VALUE", &o->key, err);
    }
    return TD_OK;
}

static enum td_code walk_graph(struct td_object_graph *g, const trackable_graph *t, struct td_err *err)
{
    enum td_code rc;
    struct walk w = {.g = g, .t = t, .tail = 1};
    if (g->n_nodes == 0) {
        return TD_OK;
    }
    w.queue = get(g->arena, (size_t)g->n_nodes, sizeof w.queue[0], &rc, err);
    TD_TRY(rc);
    w.twin = get(g->arena, (size_t)g->n_nodes, sizeof w.twin[0], &rc, err);
    TD_TRY(rc);
    memset(w.twin, 0xff, (size_t)g->n_nodes * sizeof w.twin[0]); /* -1 */
    g->nodes[0].path = "";
    w.twin[0] = t != NULL && t->n_nodes > 0 ? 0 : -1;
    while (w.head < w.tail) {
        TD_TRY(visit_children(&w, w.queue[w.head++], err));
    }
    match_slots(&w);
    for (int i = 0; i < g->n_nodes; i++) {
        TD_TRY(set_key(&w, i, err));
    }
    return TD_OK;
}

/* ---- */

static enum td_code read_both(struct td_bytes saved, struct td_bytes trackable, struct td_object_graph *g,
                              struct td_err *err)
{
    ProtobufCMessage *s, *t = NULL;
    TD_TRY(td_guard_unpack(&tensorflow__saved_object_graph__descriptor, saved.p, saved.len,
                           (uint64_t)saved.len * BYTES_PER_BYTE + SLACK_BYTES, &s, err));
    enum td_code rc = read_graph((Tensorflow__SavedObjectGraph *)s, g, err);
    td_guard_free(s);
    if (rc == TD_OK && trackable.len > 0) {
        rc = td_guard_unpack(&tensorflow__trackable_object_graph__descriptor, trackable.p, trackable.len,
                             (uint64_t)trackable.len * BYTES_PER_BYTE + SLACK_BYTES, &t, err);
    }
    if (rc == TD_OK) {
        rc = walk_graph(g, (const trackable_graph *)t, err);
    }
    td_guard_free(t);
    return rc;
}

enum td_code td_object_graph_read(struct td_bytes saved, struct td_bytes trackable,
                                  struct td_object_graph **out, struct td_err *err)
{
    struct td_arena *a = td_arena_new((saved.len + trackable.len) * BYTES_PER_BYTE + SLACK_BYTES);
    struct td_object_graph *g = a == NULL ? NULL : td_arena_alloc(a, 1, sizeof *g);
    if (g == NULL) {
        td_arena_free(a);
        return td_no_memory(err, sizeof *g, "object graph");
    }
    g->arena = a;
    enum td_code rc = read_both(saved, trackable, g, err);
    if (rc) {
        td_arena_free(a);
        return rc;
    }
    *out = g;
    return TD_OK;
}

void td_object_graph_free(struct td_object_graph *g)
{
    if (g != NULL) {
        td_arena_free(g->arena);
    }
}

const struct td_concrete *td_object_graph_function(const struct td_object_graph *g, const char *name)
{
    struct td_concrete key = {.name = name};
    return g->n_functions == 0
               ? NULL
               : bsearch(&key, g->functions, (size_t)g->n_functions, sizeof g->functions[0], by_name);
}
