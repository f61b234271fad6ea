/* proto/model/saved_model_write.c - message inside message, each written before its head; the parts that stay
 * are found in the original's file and copied.
 *
 *   SavedModel { schema version, MetaGraphDef { MetaInfoDef*, GraphDef { nodes, library { functions* },
 *   versions* }, saver, collections, signatures, assets } }                                  * copied
 *
 * Functions are those that the nodes name, and those that these name in turn; of one that was made of a
 * template (core/graph/instantiate.h), which is in no file, the template. A node that names such a one itself
 * has lost what it was called with: it is refused.
 *
 * Does not: write variables' values (proto/checkpoint/bundle.h), assets' files, or the file itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/saved_model_write.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/model/graph_write.h"
#include "proto/model/signature_write.h"
#include "proto/pb/scan.h"

enum { SCHEMA_VERSION = 1, META_GRAPHS = 2 };                            /* of SavedModel */
enum { META_INFO = 1, GRAPH, SAVER, COLLECTION, SIGNATURE, ASSET_FILE }; /* of MetaGraphDef */
enum { NODE = 1, LIBRARY = 2, VERSIONS = 4 };                            /* of GraphDef */
enum { FUNCTION = 1, FUNCTION_SIGNATURE = 1, OP_NAME = 1 };              /* down to a function's name */
enum { FILENAME_TENSOR = 1, SAVE_TENSOR, RESTORE_OP, MAX_TO_KEEP, VERSION = 7 }; /* of SaverDef */
enum { CHECKPOINT_V2 = 2, KEPT_CHECKPOINTS = 5 };
enum { KEY = 1, VALUE = 2 };                                /* of map entries */
enum { NODE_LIST = 1, BYTES_LIST = 2, LIST_VALUE = 1 };     /* of CollectionDef */
enum { ASSET_TENSOR = 1, ASSET_NAME = 2, TENSOR_NAME = 1 }; /* of AssetFileDef */
enum { VAR_NAME = 1, VAR_INIT = 2, VAR_SNAPSHOT = 3, VAR_RESOURCE = 5, VAR_VALUE = 6, VAR_TRAINABLE = 7 };
enum { MAX_DEPTH = 32 }; /* of functions in attributes */

struct writer {
    const struct td_new_model *m;
    struct td_sink *s;
    struct td_err *err;
    struct td_bytes meta;            /* the original's meta graph */
    const struct td_function **need; /* functions to be copied, in the order in which they were met */
    int n_need;
    bool *needed; /* by number in the library */
};

/* ------------------------------------------------------------------ functions that are needed */

static int number_of(const struct writer *w, const char *name, size_t n)
{
    int lo = 0, hi = w->m->lib->n_functions - 1; /* they are sorted */
    while (lo <= hi) {
        const int mid = lo + (hi - lo) / 2;
        const char *have = w->m->lib->functions[mid]->name;
        int order = strncmp(name, have, n);
        order = order == 0 && have[n] != 0 ? -1 : order;
        if (order == 0) {
            return mid;
        }
        lo = order > 0 ? mid + 1 : lo;
        hi = order < 0 ? mid - 1 : hi;
    }
    return -1;
}

static void need(struct writer *w, const char *name)
{
    const int i = number_of(w, name, strlen(name));
    if (i >= 0 && !w->needed[i]) {
        w->needed[i] = true;
        w->need[w->n_need++] = w->m->lib->functions[i];
    }
}

static void need_named(struct writer *w, const struct td_attr *attrs, int n, int depth)
{
    for (int i = 0; depth < MAX_DEPTH && i < n; i++) {
        for (int k = 0; attrs[i].kind == TD_ATTR_FUNC && k < attrs[i].n; k++) {
            need(w, attrs[i].func[k].name);
            need_named(w, attrs[i].func[k].attrs, attrs[i].func[k].n_attrs, depth + 1);
        }
    }
}

static void need_of(struct writer *w, struct td_node *const *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        if (nodes[i]->op == NULL) {
            need(w, nodes[i]->op_name);
        }
        need_named(w, nodes[i]->attrs, nodes[i]->n_attrs, 0);
    }
}

/* The template that a function is made of, as the file's functions call it; -1: it is none. */
static int template_of(const struct writer *w, const struct td_function *f)
{
    const char *values = strchr(f->name, '[');
    const int i = values == NULL ? -1 : number_of(w, f->name, (size_t)(values - f->name));
    return i >= 0 && w->m->lib->functions[i]->is_template ? i : -1;
}

static enum td_code refuse_instances(struct writer *w)
{
    for (int i = 0; i < w->n_need; i++) {
        TD_FAIL_IF(template_of(w, w->need[i]) >= 0, w->err, UNIMPLEMENTED,
                   "function '%s' is a template with its values filled in; a graph that calls one is not "
                   "written to a new model",
                   w->need[i]->name);
    }
    return TD_OK;
}

static enum td_code find_needed(struct writer *w)
{
    const size_t n = (size_t)w->m->lib->n_functions;
    w->need = td_calloc(n + 1, sizeof(void *));
    w->needed = td_calloc(n + 1, sizeof *w->needed);
    if (w->need == NULL || w->needed == NULL) {
        return td_no_memory(w->err, n, "a new SavedModel");
    }
    need_of(w, w->m->nodes, w->m->n_nodes);
    TD_TRY(refuse_instances(w));
    for (int i = 0; i < w->n_need; i++) { /* the list grows */
        need_of(w, w->need[i]->body.nodes, w->need[i]->body.n_nodes);
    }
    for (int i = 0, met = w->n_need; i < met; i++) { /* functions that are copied call the template itself */
        const int template = template_of(w, w->need[i]);
        if (template >= 0) {
            w->needed[number_of(w, w->need[i]->name, strlen(w->need[i]->name))] = false;
            need(w, w->m->lib->functions[template]->name);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what is copied */

/* Calls fn for each field `number` of the message. */
typedef enum td_code field_fn(struct writer *w, const struct td_scan_field *f);
static enum td_code each(struct writer *w, const void *p, size_t n, uint32_t number, field_fn *fn)
{
    struct td_scan s = td_scan_make(p, n);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        TD_TRY(f.number == number && f.type == TD_WIRE_BYTES ? fn(w, &f) : TD_OK);
    }
    TD_FAIL_IF(s.bad, w->err, DATA_LOSS, "SavedModel %s: cut or malformed bytes", w->m->dir);
    return TD_OK;
}

static struct td_bytes field_in(struct td_bytes message, uint32_t number)
{
    struct td_scan s = td_scan_make(message.p, message.len);
    struct td_scan_field f;
    struct td_bytes last = {"", 0};
    while (td_scan_next(&s, &f)) {
        if (f.number == number && f.type == TD_WIRE_BYTES) {
            last = (struct td_bytes){(const char *)f.p, f.len};
        }
    }
    return last;
}

static enum td_code copy_meta_info(struct writer *w, const struct td_scan_field *f)
{
    return td_put_bytes(w->s, META_INFO, f->p, f->len, w->err);
}

static enum td_code copy_versions(struct writer *w, const struct td_scan_field *f)
{
    return td_put_bytes(w->s, VERSIONS, f->p, f->len, w->err);
}

static enum td_code copy_graph_versions(struct writer *w, const struct td_scan_field *f)
{
    return each(w, f->p, f->len, VERSIONS, copy_versions);
}

static enum td_code copy_function(struct writer *w, const struct td_scan_field *f)
{
    const struct td_bytes function = {(const char *)f->p, f->len};
    const struct td_bytes name = field_in(field_in(function, FUNCTION_SIGNATURE), OP_NAME);
    const int i = number_of(w, name.p, name.len);
    if (i < 0 || !w->needed[i]) {
        return TD_OK;
    }
    w->needed[i] = false; /* once */
    return td_put_bytes(w->s, FUNCTION, f->p, f->len, w->err);
}

static enum td_code copy_library(struct writer *w, const struct td_scan_field *f)
{
    return each(w, f->p, f->len, FUNCTION, copy_function);
}

static enum td_code copy_graph_library(struct writer *w, const struct td_scan_field *f)
{
    return each(w, f->p, f->len, LIBRARY, copy_library);
}

static enum td_code put_library(struct writer *w)
{
    const size_t mark = td_put_mark(w->s);
    TD_TRY(find_needed(w));
    TD_TRY(w->n_need == 0 ? TD_OK : each(w, w->meta.p, w->meta.len, GRAPH, copy_graph_library));
    return td_put_end(w->s, LIBRARY, mark, w->err);
}

/* ------------------------------------------------------------------ what is made */

static enum td_code put_graph(struct writer *w)
{
    const size_t mark = td_put_mark(w->s);
    for (int i = 0; i < w->m->n_nodes; i++) {
        TD_TRY(td_node_write(w->s, NODE, w->m->nodes[i], w->err));
    }
    TD_TRY(put_library(w));
    TD_TRY(each(w, w->meta.p, w->meta.len, GRAPH, copy_graph_versions));
    return td_put_end(w->s, GRAPH, mark, w->err);
}

static enum td_code put_saver(struct writer *w)
{
    const struct td_new_model *m = w->m;
    const size_t mark = td_put_mark(w->s);
    if (m->restore_op == NULL) {
        return TD_OK;
    }
    TD_TRY(td_put_text(w->s, FILENAME_TENSOR, m->filename_tensor, w->err));
    TD_TRY(td_put_text(w->s, SAVE_TENSOR, m->save_tensor, w->err));
    TD_TRY(td_put_text(w->s, RESTORE_OP, m->restore_op, w->err));
    TD_TRY(td_put_int(w->s, MAX_TO_KEEP, KEPT_CHECKPOINTS, w->err));
    TD_TRY(td_put_int(w->s, VERSION, CHECKPOINT_V2, w->err));
    return td_put_end(w->s, SAVER, mark, w->err);
}

static enum td_code put_variable(struct writer *w, const struct td_new_variable *v)
{
    const size_t mark = td_put_mark(w->s);
    TD_TRY(td_put_text(w->s, VAR_NAME, v->name, w->err));
    TD_TRY(td_put_text(w->s, VAR_INIT, v->initializer, w->err));
    TD_TRY(td_put_text(w->s, VAR_SNAPSHOT, v->snapshot, w->err));
    TD_TRY(v->is_resource ? td_put_int(w->s, VAR_RESOURCE, 1, w->err) : TD_OK);
    TD_TRY(td_put_text(w->s, VAR_VALUE, v->initial_value, w->err));
    TD_TRY(v->trainable ? td_put_int(w->s, VAR_TRAINABLE, 1, w->err) : TD_OK);
    return td_put_end(w->s, LIST_VALUE, mark, w->err);
}

static enum td_code put_variables(struct writer *w, const char *collection, bool trained_only)
{
    int n = 0;
    for (int i = 0; i < w->m->n_variables; i++) {
        n += !trained_only || w->m->variables[i].trainable;
    }
    if (n == 0) {
        return TD_OK;
    }
    const size_t entry = td_put_mark(w->s);
    TD_TRY(td_put_text(w->s, KEY, collection, w->err));
    const size_t value = td_put_mark(w->s), list = value;
    for (int i = 0; i < w->m->n_variables; i++) {
        const struct td_new_variable *v = &w->m->variables[i];
        TD_TRY(!trained_only || v->trainable ? put_variable(w, v) : TD_OK);
    }
    TD_TRY(td_put_end(w->s, BYTES_LIST, list, w->err));
    TD_TRY(td_put_end(w->s, VALUE, value, w->err));
    return td_put_end(w->s, COLLECTION, entry, w->err);
}

/* The collection that TensorFlow 1's loader, TensorFlow Serving's and tf.saved_model.load look for it in. */
static enum td_code put_init_op(struct writer *w)
{
    if (w->m->init_op == NULL) {
        return TD_OK;
    }
    const size_t entry = td_put_mark(w->s);
    TD_TRY(td_put_text(w->s, KEY, "saved_model_main_op", w->err));
    const size_t value = td_put_mark(w->s), list = value;
    TD_TRY(td_put_text(w->s, LIST_VALUE, w->m->init_op, w->err));
    TD_TRY(td_put_end(w->s, NODE_LIST, list, w->err));
    TD_TRY(td_put_end(w->s, VALUE, value, w->err));
    return td_put_end(w->s, COLLECTION, entry, w->err);
}

static enum td_code put_asset(struct writer *w, const struct td_asset *a)
{
    const size_t mark = td_put_mark(w->s), tensor = mark;
    TD_TRY(td_put_text(w->s, TENSOR_NAME, a->tensor, w->err));
    TD_TRY(td_put_end(w->s, ASSET_TENSOR, tensor, w->err));
    TD_TRY(td_put_text(w->s, ASSET_NAME, a->filename, w->err));
    return td_put_end(w->s, ASSET_FILE, mark, w->err);
}

static enum td_code put_meta_graph(struct writer *w)
{
    const size_t mark = td_put_mark(w->s);
    TD_TRY(each(w, w->meta.p, w->meta.len, META_INFO, copy_meta_info));
    TD_TRY(put_graph(w));
    TD_TRY(put_saver(w));
    TD_TRY(put_variables(w, "variables", false));
    TD_TRY(put_variables(w, "trainable_variables", true));
    TD_TRY(put_init_op(w));
    for (int i = 0; i < w->m->n_signatures; i++) {
        TD_TRY(td_signature_write(w->s, SIGNATURE, &w->m->signatures[i], w->err));
    }
    for (int i = 0; i < w->m->n_assets; i++) {
        TD_TRY(put_asset(w, &w->m->assets[i]));
    }
    return td_put_end(w->s, META_GRAPHS, mark, w->err);
}

enum td_code td_saved_model_write(const struct td_new_model *m, struct td_sink *s, struct td_err *err)
{
    struct writer w = {.m = m, .s = s, .err = err};
    char *bytes = NULL;
    TD_TRY(td_saved_model_bytes(m->dir, m->tags, &bytes, &w.meta, err));
    enum td_code rc = td_put_int(s, SCHEMA_VERSION, 1, err);
    rc = rc ? rc : put_meta_graph(&w);
    td_free(bytes);
    td_free(w.need);
    td_free(w.needed);
    return rc;
}
