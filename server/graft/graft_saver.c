/* server/graft/graft_saver.c - the variables that a graft reads, what saves and restores them, and what they
 * start with.
 *
 *   NAME            VarHandleOp, as it was (a reference variable stays one)
 *   NAME/Read       what the graph and the saver read of it
 *   NAME/Assign     with what it starts with, NAME/Initializer: zeros, or a further variable's draw
 *   save/..         SaveV2 and RestoreV2 of all of them under their checkpoint keys, parts by their slices
 *
 * A variable goes by the name that the object graph gives it, as patterns do (FORMAT.md), where no other has
 * that name and no function names the resource.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/formula/formula.h"
#include "proto/checkpoint/slice.h"
#include "server/graft/graft_impl.h"

/* v's node is called a followed by b. */
static void call(struct td_graft *g, struct td_value v, const char *a, const char *b)
{
    if (g->e.rc == TD_OK) {
        const char *name = td_graft_joined(g, a, b);
        v.node->name = name == NULL ? "" : name;
        g->e.rc = name == NULL ? td_graft_no_memory(g->e.err) : TD_OK;
    }
}

/* ------------------------------------------------------------------ variables that are read */

enum td_code td_graft_reader(struct td_graft *g, struct td_graft_kept *k, struct td_err *err)
{
    (void)err;
    enum td_dtype dtype = k->from != NULL ? k->from->dtype : td_dtype_of(k->start);
    const struct td_attr attr = {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype};
    k->read = k->is_resource ? td_emit(&g->e, "ReadVariableOp", TD_IN(k->handle), &attr, 1)
                             : td_emit(&g->e, "Identity", TD_IN(k->handle), TD_NO_ATTRS);
    call(g, k->read, k->name, "/Read");
    return g->e.rc;
}

struct known { /* a resource of the original: a variable, or a part of one */
    const char *resource;
    struct td_variable_row row;
    int part;
    int at; /* among the kept ones; -1: not read */
};
struct table {
    struct known *known;
    int n;
};

static int by_resource(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->resource, ((const struct known *)b)->resource);
}

static enum td_code list_known(struct td_graft *g, struct table *t, struct td_err *err)
{
    const int rows = td_variables_count(g->names);
    int n = 0;
    for (int i = 0; i < rows; i++) {
        n += td_variables_row(g->names, i).n;
    }
    t->known = td_calloc((size_t)n + 1, sizeof *t->known);
    if (t->known == NULL) {
        return td_graft_no_memory(err);
    }
    for (int i = 0; i < rows; i++) {
        const struct td_variable_row row = td_variables_row(g->names, i);
        for (int k = 0; k < row.n; k++) {
            t->known[t->n++] = (struct known){.resource = row.resources[k], .row = row, .part = k, .at = -1};
        }
    }
    qsort(t->known, (size_t)t->n, sizeof *t->known, by_resource);
    return TD_OK;
}

static struct known *known_as(const struct table *t, const char *resource)
{
    const struct known key = {.resource = resource};
    return resource == NULL || t->n == 0
               ? NULL
               : bsearch(&key, t->known, (size_t)t->n, sizeof *t->known, by_resource);
}

static struct td_variable *variable_of(const struct td_graft *g, const char *resource)
{
    struct td_obj *o = td_model_resource(td_servable_engine(g->servable), &td_variable_type, resource);
    struct td_variable *v = (struct td_variable *)o;
    return v != NULL && td_variable_initialized(v) ? v : NULL;
}

/* Where the part lies in the variable: parts follow each other along one axis. */
static enum td_code slice_of(struct td_graft *g, const struct known *known, const char **out,
                             struct td_err *err)
{
    const struct td_variable_row *row = &known->row;
    const int axis = row->shape.rank + row->axis;
    struct td_box box = td_box_whole(&row->shape);
    struct td_sink text = {0};
    *out = "";
    if (row->n == 1) {
        return TD_OK;
    }
    box.full[axis] = false;
    for (int k = 0; k <= known->part; k++) {
        const struct td_variable *part = variable_of(g, row->resources[k]);
        TD_FAIL_IF(part == NULL || part->shape.rank != row->shape.rank, err, FAILED_PRECONDITION,
                   "a part of the variable '%.200s' has no value", row->name);
        box.start[axis] += k == 0 ? 0 : box.len[axis];
        box.len[axis] = part->shape.dim[axis];
    }
    enum td_code rc = td_slice_text(&row->shape, &box, &text, err);
    if (rc == TD_OK) {
        *out = td_arena_strndup(g->ir.arena, text.p, text.n);
        rc = *out == NULL ? td_graft_no_memory(err) : TD_OK;
    }
    td_sink_fini(&text);
    return rc;
}

/* n is a handle, or a reference variable. */
static enum td_code keep(struct td_graft *g, struct table *t, struct td_node *n, struct td_err *err)
{
    const struct td_value handle = {n, 0};
    const char *resource = n->n_out == 0 ? NULL : g->formulas->variable(handle);
    struct known *known = known_as(t, resource);
    struct td_variable *from = known == NULL || known->at >= 0 ? NULL : variable_of(g, resource);
    if (from == NULL) {
        return TD_OK; /* whoever assigns it does so in the new graph, too */
    }
    struct td_graft_kept *k;
    TD_TRY(td_graft_keep(g, &k, err));
    known->at = g->n_kept - 1;
    k->from = from;
    k->handle = handle;
    k->is_resource = !n->out_ref[0];
    k->trainable = known->row.trainable;
    k->name = td_arena_strdup(g->ir.arena, resource);
    k->key = td_arena_strdup(g->ir.arena, known->row.key != NULL ? known->row.key : resource);
    TD_TRY(k->name == NULL || k->key == NULL ? td_graft_no_memory(err) : TD_OK);
    return slice_of(g, known, &k->slice, err);
}

/* ---- names that people know them by */

static bool functions_have_handles(const struct td_library *lib, const struct td_grad_formulas *f)
{
    for (int i = 0; i < lib->n_functions; i++) {
        const struct td_graph *body = &lib->functions[i]->body;
        for (int k = 0; k < body->n_nodes; k++) {
            if (body->nodes[k]->op != NULL && f->variable((struct td_value){body->nodes[k], 0}) != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* Whether another variable that is read has the name, as its own or as its resource's. */
static bool is_called(const struct table *t, const char *name, const struct known *but)
{
    for (int i = 0; i < t->n; i++) {
        const struct known *other = &t->known[i];
        if (other != but && other->at >= 0 &&
            (strcmp(other->resource, name) == 0 || strcmp(other->row.name, name) == 0)) {
            return true;
        }
    }
    return false;
}

static void share_name(struct td_graft *g, const char *was, const char *name)
{
    const struct td_attr attr = TD_ATTR_OF_TEXT("shared_name", name);
    for (int i = 0; i < g->ir.n_nodes; i++) {
        struct td_node *n = g->ir.nodes[i];
        const char *have = n->n_out == 0 ? NULL : g->formulas->variable((struct td_value){n, 0});
        if (have != NULL && strcmp(have, was) == 0) {
            td_emit_attr(&g->e, n, &attr);
        }
    }
}

enum { MOST_RENAMED = 1000 };

static enum td_code use_object_names(struct td_graft *g, const struct table *t, struct td_err *err)
{
    int renamed = 0;
    if (functions_have_handles(td_model_library(td_servable_engine(g->servable)), g->formulas)) {
        return TD_OK;
    }
    for (int i = 0; i < t->n && renamed < MOST_RENAMED; i++) {
        const struct known *known = &t->known[i];
        const char *object = known->row.n == 1 ? known->row.name : NULL;
        if (known->at < 0 || object == NULL || strcmp(object, known->resource) == 0 ||
            is_called(t, object, known)) {
            continue;
        }
        const char *copy = td_arena_strdup(g->ir.arena, object);
        TD_TRY(copy == NULL ? td_graft_no_memory(err) : TD_OK);
        share_name(g, known->resource, copy);
        g->kept[known->at].name = copy;
        renamed++;
    }
    return g->e.rc;
}

static enum td_code list_variables(struct td_graft *g, struct td_err *err)
{
    struct table t = {0};
    enum td_code rc = list_known(g, &t, err);
    for (int i = 0; rc == TD_OK && i < g->ir.n_nodes; i++) {
        rc = keep(g, &t, g->ir.nodes[i], err);
    }
    rc = rc ? rc : use_object_names(g, &t, err);
    td_free(t.known);
    return rc;
}

/* ------------------------------------------------------------------ saver and initializers */

/* Zeros of the variable's shape: what TensorFlow's loaders may start it with before they restore it. */
static enum td_code zeros(struct td_graft *g, struct td_graft_kept *k, struct td_err *err)
{
    struct td_tensor value, zero;
    const struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_variable_read(k->from, &value, err));
    const struct td_shape shape = value.shape;
    const enum td_dtype dtype = value.dtype;
    td_tensor_clear(&value);
    TD_TRY(td_tensor_new(&zero, dtype, &scalar, err));
    if (!td_dtype_is_object(dtype)) {
        memset(zero.data, 0, td_dtype_size(dtype));
    }
    k->start =
        td_f_fill(&g->e, td_emit_ints(&g->e, TD_INT32, shape.dim, shape.rank), td_emit_literal(&g->e, &zero));
    call(g, k->start, k->name, "/Initializer");
    td_tensor_clear(&zero);
    return g->e.rc;
}

static enum td_code text_vector(struct td_graft *g, bool slices, struct td_value *out, struct td_err *err)
{
    const struct td_shape shape = td_shape_vector(g->n_kept);
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, TD_STRING, &shape, err));
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < g->n_kept; i++) {
        const char *text = slices ? g->kept[i].slice : g->kept[i].key;
        rc = td_tensor_set_str(&t, i, text, strlen(text), err);
    }
    if (rc == TD_OK) {
        *out = td_emit_literal(&g->e, &t);
        call(g, *out, "save/", slices ? "shape_and_slices" : "tensor_names");
        rc = g->e.rc;
    }
    td_tensor_clear(&t);
    return rc;
}

static enum td_code add_after(struct td_graft *g, struct td_node *n, struct td_node *const *before, int count)
{
    n->control = td_graft_room(g, count, sizeof(void *));
    if (n->control == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    for (int i = 0; i < count; i++) {
        n->control[n->n_control++] = before[i];
    }
    return TD_OK;
}

static struct td_value assign(struct td_graft *g, const struct td_graft_kept *k, struct td_value value)
{
    return td_emit(&g->e, k->is_resource ? "AssignVariableOp" : "Assign", TD_IN(k->handle, value),
                   TD_NO_ATTRS);
}

/* names: of the values that are saved and restored; slices: those of parts. */
static enum td_code restore_nodes(struct td_graft *g, struct td_value prefix, struct td_value names,
                                  struct td_value slices)
{
    enum td_dtype *types = td_graft_room(g, g->n_kept, sizeof *types);
    struct td_node **assigns = td_graft_room(g, g->n_kept, sizeof(void *));
    if (types == NULL || assigns == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    for (int i = 0; i < g->n_kept; i++) {
        types[i] = td_dtype_of(g->kept[i].read);
    }
    const struct td_attr dtypes = {
        .name = "dtypes", .kind = TD_ATTR_TYPE, .is_list = true, .n = g->n_kept, .type = types};
    const struct td_value restored = td_emit(&g->e, "RestoreV2", TD_IN(prefix, names, slices), &dtypes, 1);
    call(g, restored, "save/", "RestoreV2");
    for (int i = 0; g->e.rc == TD_OK && i < g->n_kept; i++) {
        assigns[i] = assign(g, &g->kept[i], td_f_port(restored, i)).node;
    }
    const struct td_value all = td_emit(&g->e, "NoOp", TD_NO_INPUTS, TD_NO_ATTRS);
    call(g, all, "save/", "restore_all");
    TD_TRY(g->e.rc);
    g->restore = all.node->name;
    TD_TRY(td_ir_add_root(&g->ir, all.node, g->e.err));
    return add_after(g, all.node, assigns, g->n_kept);
}

static enum td_code save_nodes(struct td_graft *g, struct td_value prefix, struct td_value names,
                               struct td_value slices)
{
    struct td_value *in = td_graft_room(g, g->n_kept + 3, sizeof *in);
    if (in == NULL) {
        return td_graft_no_memory(g->e.err);
    }
    in[0] = prefix;
    in[1] = names;
    in[2] = slices;
    for (int i = 0; i < g->n_kept; i++) {
        in[3 + i] = g->kept[i].read;
    }
    const struct td_value save = td_emit(&g->e, "SaveV2", in, g->n_kept + 3, TD_NO_ATTRS);
    call(g, save, "save/", "SaveV2");
    const struct td_value done = td_emit(&g->e, "Identity", TD_IN(prefix), TD_NO_ATTRS);
    call(g, done, "save/", "control_dependency");
    TD_TRY(g->e.rc);
    g->save = td_graft_joined(g, done.node->name, ":0");
    TD_TRY(g->save == NULL ? td_graft_no_memory(g->e.err) : TD_OK);
    TD_TRY(td_ir_add_root(&g->ir, done.node, g->e.err));
    return add_after(g, done.node, &save.node, 1);
}

static enum td_code saver(struct td_graft *g, struct td_err *err)
{
    struct td_value names, slices;
    enum td_dtype dtype = TD_STRING;
    struct td_shape scalar = td_shape_scalar();
    const struct td_attr attrs[] = {
        {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype},
        {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &scalar},
    };
    td_graft_emitter(g, "save");
    const struct td_value prefix = td_emit(&g->e, "Placeholder", TD_NO_INPUTS, attrs, 2);
    call(g, prefix, "save/", "filename");
    TD_TRY(text_vector(g, false, &names, err));
    TD_TRY(text_vector(g, true, &slices, err));
    g->filename = "save/filename:0";
    TD_TRY(save_nodes(g, prefix, names, slices));
    return restore_nodes(g, prefix, names, slices);
}

static enum td_code initializers(struct td_graft *g, struct td_err *err)
{
    td_graft_emitter(g, "save");
    for (int i = 0; i < g->n_kept; i++) {
        struct td_graft_kept *k = &g->kept[i];
        TD_TRY(k->from == NULL ? TD_OK : td_graft_reader(g, k, err));
        TD_TRY(k->from == NULL ? TD_OK : zeros(g, k, err));
        const struct td_value assigned = assign(g, k, k->start);
        call(g, assigned, k->name, "/Assign");
        TD_TRY(g->e.rc);
        k->assign = assigned.node;
        TD_TRY(td_ir_add_root(&g->ir, k->assign, err));
    }
    return TD_OK;
}

enum td_code td_graft_saver(struct td_graft *g, struct td_err *err)
{
    TD_TRY(list_variables(g, err));
    TD_TRY(initializers(g, err));
    return g->n_kept == 0 ? TD_OK : saver(g, err);
}
