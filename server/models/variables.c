/* server/models/variables.c - a table of variables: resources of the engine, each with its key and object.
 *
 *   resources of the model            rows, sorted by name
 *   the graph's restoring part        RestoreV2(names[i], slices[i]) -> .. -> Assign(handle): key and slice
 *   object graph, checkpoint's twin   which key a function's variable has; trainable or not, and the name
 *                                     there, by key
 *   TF1's collection                  trainable or not, by name
 *
 * Rows of one key are the parts of one variable, put in order by where their slices begin. What cannot be
 * read (a graph that restores in another way) costs keys, not variables: those have their resources' names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir.h"
#include "core/grad/grad.h"
#include "core/run/variable.h"
#include "proto/checkpoint/bundle.h"
#include "proto/model/object_graph.h"
#include "server/models/variables_impl.h"

#define TABLE_BYTES ((size_t)256 << 20)
#define GRAPH_BYTES ((size_t)512 << 20)
#define MAX_STEPS 100 /* between a restored value and its variable */

/* ------------------------------------------------------------------ resources */

struct listing {
    struct td_variables *v;
    struct td_err *err;
};

static enum td_code no_memory(struct td_err *err)
{
    return td_no_memory(err, 1, "the names of variables");
}

static enum td_code add_row(struct td_variables *v, const char *name, const struct td_variable *var,
                            struct td_err *err)
{
    if (v->n_rows == v->cap_rows) {
        const int cap = v->cap_rows == 0 ? 64 : 2 * v->cap_rows;
        struct row *grown = td_realloc(v->rows, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return no_memory(err);
        }
        v->rows = grown;
        v->cap_rows = cap;
    }
    const char *copy = td_arena_strdup(v->arena, name);
    v->rows[v->n_rows++] =
        (struct row){.resource = copy,
                     .dtype = var->dtype,
                     .shape = var->value.dtype != TD_DTYPE_NONE ? var->value.shape : td_shape_unknown(),
                     .box.rank = -1};
    return copy != NULL ? TD_OK : no_memory(err);
}

static void list_resource(void *ctx, const char *name, struct td_obj *o)
{
    struct listing *l = ctx;
    struct td_variable *var = (struct td_variable *)o;
    if (l->err->code == TD_OK) {
        pthread_mutex_lock(&var->mu);
        l->err->code = add_row(l->v, name, var, l->err);
        pthread_mutex_unlock(&var->mu);
    }
}

static int by_resource(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->resource, ((const struct row *)b)->resource);
}

static struct row *row_of(const struct td_variables *v, const char *resource)
{
    const struct row key = {.resource = resource};
    return v->n_rows == 0 ? NULL : bsearch(&key, v->rows, (size_t)v->n_rows, sizeof *v->rows, by_resource);
}

/* ------------------------------------------------------------------ keys: what is restored, and where to */

struct reader {
    struct td_variables *v;
    const struct td_grad_formulas *formulas;
    struct td_err *err;
};

#define KEY_TAIL "/.ATTRIBUTES/VARIABLE_VALUE"

/* NULL: the key does not end so, or there is no memory. */
static const char *stem_of(struct td_arena *a, const char *key)
{
    const size_t n = key == NULL ? 0 : strlen(key), tail = sizeof KEY_TAIL - 1;
    return n > tail && strcmp(key + n - tail, KEY_TAIL) == 0 ? td_arena_strndup(a, key, n - tail) : NULL;
}

static bool is_op(const struct td_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

/* v, seen through nodes that show their input. */
static struct td_value behind(struct td_value v)
{
    for (int i = 0; i < MAX_STEPS && v.node->n_in > 0; i++) {
        const struct td_node *n = v.node;
        if (!is_op(n, "Identity") && !is_op(n, "Reshape") && !is_op(n, "Cast") && !is_op(n, "EnsureShape")) {
            break;
        }
        v = n->in[0];
    }
    return v;
}

/* Element i of the constant vector of strings v, as a text of the table; NULL: there is none. */
static const char *text_at(struct reader *r, struct td_value v, int i)
{
    const struct td_tensor *t = td_node_const(behind(v).node);
    if (t == NULL || t->dtype != TD_STRING || i >= td_tensor_count(t)) {
        return NULL;
    }
    size_t n;
    const char *text = td_tensor_str(t, i, &n);
    return memchr(text, 0, n) != NULL ? NULL : td_arena_strndup(r->v->arena, text, n);
}

static void note_restored(struct reader *r, const struct td_node *assign)
{
    const struct td_value handle = behind(assign->in[0]), value = behind(assign->in[1]);
    const char *name = r->formulas->variable(handle);
    struct row *row = name == NULL ? NULL : row_of(r->v, name);
    if (row == NULL || !is_op(value.node, "RestoreV2") || value.node->n_in < 3) {
        return;
    }
    const char *slice = text_at(r, value.node->in[2], value.port);
    struct td_err ignored = {0};
    row->key = text_at(r, value.node->in[1], value.port);
    row->stem = stem_of(r->v->arena, row->key);
    if (row->key != NULL && slice != NULL && slice[0] != 0 &&
        td_slice_parse(slice, &row->whole, &row->box, &ignored)) {
        row->box.rank = -1;
    }
}

static void read_restored(struct reader *r, struct td_servable *s)
{
    const struct td_saved_model *m = td_servable_model(s);
    struct td_model *engine = td_servable_engine(s);
    struct td_node *node = m->restore_op == NULL ? NULL
                                                 : td_graph_find(td_model_graph(engine), m->restore_op,
                                                                 strcspn(m->restore_op, ":"));
    struct td_arena *arena = td_arena_new(GRAPH_BYTES);
    const struct td_callable_opts part = {.name = "restore", .targets = &node, .n_targets = 1};
    struct td_err ignored = {0};
    struct td_ir ir;
    if (node != NULL && arena != NULL &&
        td_ir_build(&ir, arena, td_model_graph(engine), td_model_library(engine), &part, TD_IR_INLINE,
                    &ignored) == TD_OK) {
        for (int i = 0; i < ir.n_nodes; i++) {
            const struct td_node *n = ir.nodes[i];
            if (n->n_in >= 2 && (is_op(n, "AssignVariableOp") || is_op(n, "Assign"))) {
                note_restored(r, n);
            }
        }
    }
    td_arena_free(arena);
}

/* ------------------------------------------------------------------ which of them training moves */

/* The call of f in the graph: what its handles are is what f is bound to; NULL: there is none. */
static const struct td_node *call_of(const struct td_graph *graph, const struct td_concrete *f)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct td_node *n = graph->nodes[i];
        const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, "f");
        if (a != NULL && a->kind == TD_ATTR_FUNC && a->n == 1 && strcmp(a->func->name, f->name) == 0) {
            return n;
        }
    }
    return NULL;
}

/* Gives resource's row the key; the row that had it takes this one's. */
static enum td_code claim(struct reader *r, const char *resource, const char *key)
{
    struct row *row = row_of(r->v, resource);
    if (row == NULL || row->box.rank >= 0 || (row->key != NULL && strcmp(row->key, key) == 0)) {
        return TD_OK;
    }
    const char *copy = td_arena_strdup(r->v->arena, key);
    for (int i = 0; i < r->v->n_rows; i++) {
        struct row *other = &r->v->rows[i];
        if (other->key != NULL && strcmp(other->key, key) == 0) {
            other->key = row->key;
            other->stem = row->stem;
        }
    }
    row->twin = row->key;
    row->key = copy;
    row->stem = stem_of(r->v->arena, copy);
    return copy != NULL ? TD_OK : no_memory(r->err);
}

/* Keras 3 exports each variable twice, as two resources of one value and two keys. The one that functions
 * read has the key that the object graph knows the functions' variable by. */
static enum td_code claim_bound(struct reader *r, struct td_servable *s, const struct td_object_graph *g)
{
    const struct td_graph *graph = td_model_graph(td_servable_engine(s));
    for (int i = 0; i < g->n_functions; i++) {
        const struct td_concrete *f = &g->functions[i];
        const struct td_node *n = f->n_bound == 0 ? NULL : call_of(graph, f);
        const int first = n == NULL ? 0 : n->n_in - f->n_bound;
        for (int k = 0; n != NULL && first >= 0 && k < f->n_bound; k++) {
            const struct td_object *o = &g->nodes[f->bound[k]];
            const char *resource = r->formulas->variable(behind(n->in[first + k]));
            if (o->kind == TD_OBJECT_VARIABLE && o->key != NULL && resource != NULL) {
                TD_TRY(claim(r, resource, o->key));
            }
        }
    }
    return TD_OK;
}

static enum td_code join_objects(struct td_variables *v, const struct td_object_graph *g, bool *any,
                                 struct td_err *err)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct td_object *o = &g->nodes[i];
        *any = *any || o->kind == TD_OBJECT_VARIABLE;
        for (int k = 0; o->kind == TD_OBJECT_VARIABLE && k < v->n_rows; k++) {
            struct row *row = &v->rows[k];
            const bool same = row->key != NULL && o->key != NULL ? strcmp(row->key, o->key) == 0
                                                                 : strcmp(row->resource, o->text) == 0;
            if (same) {
                row->object = td_arena_strdup(v->arena, o->text);
                row->trainable = o->trainable;
                TD_TRY(row->object != NULL ? TD_OK : no_memory(err));
            }
        }
    }
    return TD_OK;
}

enum td_code td_variables_objects(struct td_servable *s, struct td_object_graph **out, struct td_err *err)
{
    const struct td_bytes saved = td_servable_model(s)->object_graph;
    char prefix[4096];
    struct td_bundle *bundle = NULL;
    struct td_tensor twin = {0};
    struct td_bytes twin_bytes = {"", 0};
    struct td_err ignored = {0};
    *out = NULL;
    if (saved.len == 0) {
        return TD_OK;
    }
    const int n = snprintf(prefix, sizeof prefix, "%s/variables/variables", td_servable_dir(s));
    if (n > 0 && (size_t)n < sizeof prefix &&
        td_bundle_open_beneath(td_servable_dir(s), prefix, &bundle, &ignored) == TD_OK &&
        td_bundle_read(bundle, "_CHECKPOINTABLE_OBJECT_GRAPH", "", &twin, &ignored) == TD_OK &&
        twin.dtype == TD_STRING && td_tensor_count(&twin) == 1) {
        twin_bytes.p = td_tensor_str(&twin, 0, &twin_bytes.len);
    }
    const enum td_code rc = td_object_graph_read(saved, twin_bytes, out, err);
    td_tensor_clear(&twin);
    td_bundle_close(bundle);
    return rc;
}

static enum td_code read_objects(struct reader *r, struct td_servable *s, bool *any)
{
    struct td_object_graph *g = NULL;
    TD_TRY(td_variables_objects(s, &g, r->err));
    enum td_code rc = g == NULL ? TD_OK : claim_bound(r, s, g);
    rc = rc || g == NULL ? rc : join_objects(r->v, g, any, r->err);
    td_object_graph_free(g);
    return rc;
}

static enum td_code read_trainable(struct reader *r, struct td_servable *s)
{
    struct td_variables *v = r->v;
    const struct td_saved_model *m = td_servable_model(s);
    bool objects = false;
    TD_TRY(read_objects(r, s, &objects));
    for (int i = 0; !objects && i < v->n_rows; i++) {
        v->rows[i].trainable = m->n_trainable == 0;
        for (int k = 0; k < m->n_trainable && !v->rows[i].trainable; k++) {
            v->rows[i].trainable = td_variable_is_named(m->trainable[k], v->rows[i].resource);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ parts of one variable */

/* The axis that a part was cut along; -1: it is no part, or was cut along several. */
static int axis_of(const struct row *row)
{
    int axis = -1;
    if (row->key == NULL || row->box.rank < 0) {
        return -1;
    }
    for (int d = 0; d < row->box.rank; d++) {
        if (!row->box.full[d] && (row->box.start[d] != 0 || row->box.len[d] != row->whole.dim[d])) {
            if (axis >= 0) {
                return -1;
            }
            axis = d;
        }
    }
    return axis;
}

static int by_key_and_place(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const int order = strcmp(x->key == NULL ? "" : x->key, y->key == NULL ? "" : y->key);
    const int axis = axis_of(x);
    if (order != 0 || axis < 0 || axis != axis_of(y) || x->box.start[axis] == y->box.start[axis]) {
        return order != 0 ? order : strcmp(x->resource, y->resource);
    }
    return x->box.start[axis] < y->box.start[axis] ? -1 : 1;
}

static bool belongs(const struct row *first, const struct row *other)
{
    return first->key != NULL && other->key != NULL && strcmp(first->key, other->key) == 0 &&
           axis_of(first) >= 0 && axis_of(first) == axis_of(other);
}

static enum td_code make_groups(struct td_variables *v, struct td_err *err)
{
    qsort(v->rows, (size_t)v->n_rows, sizeof *v->rows, by_key_and_place);
    v->groups = td_arena_alloc(v->arena, (size_t)v->n_rows + 1, sizeof *v->groups);
    const char **resources = td_arena_alloc(v->arena, (size_t)v->n_rows + 1, sizeof *resources);
    if (v->groups == NULL || resources == NULL) {
        return no_memory(err);
    }
    for (int i = 0; i < v->n_rows; i++) {
        resources[i] = v->rows[i].resource;
        struct group *last = v->n_groups == 0 ? NULL : &v->groups[v->n_groups - 1];
        if (last != NULL && belongs(&v->rows[last->first], &v->rows[i])) {
            last->n++;
        } else {
            v->groups[v->n_groups++] = (struct group){.resources = &resources[i],
                                                      .first = i,
                                                      .n = 1,
                                                      .axis = axis_of(&v->rows[i]) - v->rows[i].box.rank};
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

static enum td_code read_all(struct td_servable *s, struct td_variables *v, struct td_err *err)
{
    struct td_model *engine = td_servable_engine(s);
    const struct td_op_def *seed = td_op_of_role(td_model_opts_of(engine)->ops, TD_ROLE_GRADIENT_SEED);
    td_model_each_resource(engine, &td_variable_type, list_resource, &(struct listing){v, err});
    TD_TRY(err->code);
    TD_FAIL_IF(seed == NULL, err, UNIMPLEMENTED, "this build's ops have no gradients");
    if (v->n_rows > 0) {
        qsort(v->rows, (size_t)v->n_rows, sizeof *v->rows, by_resource);
    }
    struct reader r = {.v = v, .formulas = seed->op->formulas, .err = err};
    read_restored(&r, s);
    TD_TRY(read_trainable(&r, s));
    return v->n_rows == 0 ? TD_OK : make_groups(v, err);
}

enum td_code td_variables_read(struct td_servable *s, struct td_variables **out, struct td_err *err)
{
    struct td_variables *v = td_calloc(1, sizeof *v);
    if (v == NULL) {
        return no_memory(err);
    }
    v->arena = td_arena_new(TABLE_BYTES);
    const enum td_code rc = v->arena == NULL ? no_memory(err) : read_all(s, v, err);
    if (rc) {
        td_variables_free(v);
        return rc;
    }
    *out = v;
    return TD_OK;
}

void td_variables_free(struct td_variables *v)
{
    if (v != NULL) {
        td_arena_free(v->arena);
        td_free(v->rows);
        td_free(v);
    }
}
