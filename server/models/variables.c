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
#include "proto/checkpoint/slice.h"
#include "proto/model/object_graph.h"
#include "server/base/glob.h"

#define TABLE_BYTES ((size_t)256 << 20)
#define GRAPH_BYTES ((size_t)512 << 20)
#define MAX_STEPS 100 /* between a restored value and its variable */

struct row {
    const char *resource, *key, *object; /* the last two may be NULL */
    const char *twin; /* the key that the graph restores it from, where that is another; else NULL */
    const char *stem; /* the key without what all keys of objects end with; NULL: it is no such key */
    enum td_dtype dtype;
    bool trainable;
    struct td_shape whole; /* of the variable that it is a part of */
    struct td_box box;     /* rank -1: it is no part */
};

/* Rows [first, first + n) of the sorted table. */
struct group {
    const char **resources;
    int first, n, axis;
};

struct td_variables {
    struct td_arena *arena;
    struct row *rows;
    int n_rows, cap_rows;
    struct group *groups;
    int n_groups;
};

/* ------------------------------------------------------------------ resources */

struct listing {
    struct td_variables *v;
    struct td_err *err;
};

static enum td_code no_memory(struct td_err *err)
{
    return td_no_memory(err, 1, "the names of variables");
}

static enum td_code add_row(struct td_variables *v, const char *name, enum td_dtype dtype, struct td_err *err)
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
    v->rows[v->n_rows++] = (struct row){.resource = copy, .dtype = dtype, .box.rank = -1};
    return copy != NULL ? TD_OK : no_memory(err);
}

static void list_resource(void *ctx, const char *name, struct td_obj *o)
{
    struct listing *l = ctx;
    const struct td_variable *var = (const struct td_variable *)o;
    if (l->err->code == TD_OK) {
        l->err->code = add_row(l->v, name, var->dtype, l->err);
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
        }
    }
    row->twin = row->key;
    row->key = copy;
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

/* The object graph with the checkpoint's own beside it, where there is one. */
static enum td_code read_objects(struct reader *r, struct td_servable *s, bool *any)
{
    struct td_variables *v = r->v;
    struct td_err *err = r->err;
    const struct td_bytes saved = td_servable_model(s)->object_graph;
    char prefix[4096];
    struct td_bundle *bundle = NULL;
    struct td_tensor twin = {0};
    struct td_bytes twin_bytes = {"", 0};
    struct td_object_graph *g = NULL;
    struct td_err ignored = {0};
    if (saved.len == 0) {
        return TD_OK;
    }
    const int n = snprintf(prefix, sizeof prefix, "%s/variables/variables", td_servable_dir(s));
    if (n > 0 && (size_t)n < sizeof prefix && td_bundle_open(prefix, &bundle, &ignored) == TD_OK &&
        td_bundle_read(bundle, "_CHECKPOINTABLE_OBJECT_GRAPH", "", &twin, &ignored) == TD_OK &&
        twin.dtype == TD_STRING && td_tensor_count(&twin) == 1) {
        twin_bytes.p = td_tensor_str(&twin, 0, &twin_bytes.len);
    }
    enum td_code rc = td_object_graph_read(saved, twin_bytes, &g, err);
    rc = rc ? rc : claim_bound(r, s, g);
    rc = rc ? rc : join_objects(v, g, any, err);
    td_object_graph_free(g);
    td_tensor_clear(&twin);
    td_bundle_close(bundle);
    return rc;
}

/* text is name, or name with ":0" behind it. */
static bool is_named(const char *text, const char *name)
{
    const size_t n = name == NULL ? 0 : strlen(name);
    return name != NULL && strncmp(text, name, n) == 0 && (text[n] == 0 || strcmp(text + n, ":0") == 0);
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
            v->rows[i].trainable = is_named(m->trainable[k], v->rows[i].resource);
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

/* ------------------------------------------------------------------ finding */

static struct td_variable_found found_as(const struct td_variables *v, const struct group *g,
                                         const char *name)
{
    return (struct td_variable_found){.name = name,
                                      .resources = g->resources,
                                      .n = g->n,
                                      .axis = g->axis,
                                      .dtype = v->rows[g->first].dtype};
}

static const char *key_of(const struct td_variables *v, const struct group *g)
{
    return v->rows[g->first].key;
}

/* One part of a variable, or the whole of one that was not cut, by its resource. */
static bool find_resource(const struct td_variables *v, const char *text, struct td_variable_found *out)
{
    for (int i = 0; i < v->n_groups; i++) {
        const struct group *g = &v->groups[i];
        for (int k = 0; k < g->n; k++) {
            if (is_named(text, g->resources[k])) {
                const struct group one = {.resources = &g->resources[k], .first = g->first + k, .n = 1};
                *out = found_as(v, &one, text);
                return true;
            }
        }
    }
    return false;
}

static int find_object(const struct td_variables *v, const char *text, struct td_variable_found *out)
{
    int n = 0;
    for (int i = 0; i < v->n_groups; i++) {
        if (is_named(text, v->rows[v->groups[i].first].stem)) {
            *out = found_as(v, &v->groups[i], text);
            return 1;
        }
    }
    for (int i = 0; i < v->n_groups; i++) {
        if (is_named(text, v->rows[v->groups[i].first].object)) {
            *out = found_as(v, &v->groups[i], text);
            n++;
        }
    }
    return n;
}

/* The key is the surest name, then the engine's, of which there is one each; then the object graph's path,
 * and last its names. */
static enum td_code find_exact(const struct td_variables *v, const char *text, bool *known,
                               struct td_variable_found *out, struct td_err *err)
{
    *known = true;
    for (int i = 0; i < v->n_groups; i++) {
        if (is_named(text, key_of(v, &v->groups[i]))) {
            *out = found_as(v, &v->groups[i], text);
            return TD_OK;
        }
    }
    if (find_resource(v, text, out)) {
        return TD_OK;
    }
    const int n = find_object(v, text, out);
    *known = n > 0;
    TD_FAIL_IF(n > 1, err, INVALID_ARGUMENT,
               "%d variables are called '%.200s': say which by its checkpoint key ('%.200s' is one)", n, text,
               out->resources[0]);
    return TD_OK;
}

/* TensorFlow's name of a variable that nobody named: Variable, Variable_1, .. */
static bool is_nameless(const char *resource)
{
    static const char word[] = "Variable";
    return strncmp(resource, word, sizeof word - 1) == 0 &&
           resource[sizeof word - 1 + strspn(resource + sizeof word - 1, "_0123456789")] == 0;
}

/* What a person would call it: the variable's own name; of the parts of one, the name they share; of one
 * without a name, where it hangs in the object graph. */
static const char *own_name(const struct td_variables *v, const struct group *g)
{
    const char *key = key_of(v, g), *stem = v->rows[g->first].stem;
    return stem != NULL && is_nameless(g->resources[0]) ? stem
           : key == NULL || stem != NULL                ? g->resources[0]
                                                        : key;
}

/* The name of the group's that matches; NULL: none does. */
static const char *matching(const struct td_variables *v, const struct group *g, const char *pattern)
{
    const char *const names[] = {own_name(v, g), g->n == 1 ? g->resources[0] : NULL, v->rows[g->first].stem,
                                 key_of(v, g)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && td_glob(pattern, names[i])) {
            return names[i];
        }
    }
    /* the object graph may call several so: this one by what it alone is called */
    const char *object = v->rows[g->first].object;
    return object != NULL && td_glob(pattern, object) ? own_name(v, g) : NULL;
}

static enum td_code match_group(const struct td_variables *v, const struct group *g, const char *pattern,
                                td_variable_fn *fn, void *ctx, int *n, struct td_err *err)
{
    const char *name = matching(v, g, pattern);
    if (name != NULL) {
        const struct td_variable_found whole = found_as(v, g, name);
        ++*n;
        return fn(ctx, &whole, err);
    }
    for (int k = 0; g->n > 1 && k < g->n; k++) { /* its parts, each by its own name */
        const struct group one = {.resources = &g->resources[k], .first = g->first + k, .n = 1};
        if (td_glob(pattern, g->resources[k])) {
            const struct td_variable_found part = found_as(v, &one, g->resources[k]);
            ++*n;
            TD_TRY(fn(ctx, &part, err));
        }
    }
    return TD_OK;
}

static enum td_code not_found(const struct td_variables *v, const char *text, bool pattern,
                              struct td_err *err)
{
    char names[600];
    size_t n = 0;
    names[0] = 0;
    for (int i = 0; i < v->n_groups && n < sizeof names - 1; i++) {
        const int put =
            snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", own_name(v, &v->groups[i]));
        n += put > 0 ? (size_t)put : 0;
    }
    TD_FAIL(err, INVALID_ARGUMENT, "%s '%.200s'; its %d variables are: %s%s",
            pattern ? "no variable that training moves matches" : "the model has no variable", text,
            v->n_groups, names, n >= sizeof names ? ".." : "");
}

enum td_code td_variables_find(const struct td_variables *v, const char *text, td_variable_fn *fn, void *ctx,
                               struct td_err *err)
{
    struct td_variable_found found;
    bool known;
    TD_TRY(find_exact(v, text, &known, &found, err));
    if (known) {
        return fn(ctx, &found, err);
    }
    const bool pattern = strpbrk(text, "*?") != NULL;
    int n = 0;
    for (int i = 0; pattern && i < v->n_groups; i++) {
        const struct row *row = &v->rows[v->groups[i].first];
        if (row->trainable && td_dtype_in(row->dtype, TD_SET_FLOATS | TD_SET_COMPLEX)) {
            TD_TRY(match_group(v, &v->groups[i], text, fn, ctx, &n, err));
        }
    }
    return n > 0 ? TD_OK : not_found(v, text, pattern, err);
}

enum td_code td_variables_each_twin(const struct td_variables *v, td_twin_fn *fn, void *ctx,
                                    struct td_err *err)
{
    for (int i = 0; i < v->n_rows; i++) {
        if (v->rows[i].twin != NULL) {
            TD_TRY(fn(ctx, v->rows[i].key, v->rows[i].twin, err));
        }
    }
    return TD_OK;
}
