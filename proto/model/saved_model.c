/* proto/model/saved_model.c - from a directory to graph, functions and signatures in one arena.
 *
 *   saved_model.pb(txt) -> bytes -> the meta graph with the wanted tags -> graph | object graph | rest
 *
 * The file is read whole; a .pbtxt is turned into serialized bytes first. Its meta graphs are found by
 * scanning, and the chosen one is taken apart: the graph is read where it lies (proto/model/graph_pb.h), the
 * object graph is copied as it is, and the rest, which is small, is put together again and unpacked as a
 * message (proto/schema/loader.proto). From that come tags, signatures (proto/model/signature_pb.c), assets,
 * saver and init op. At last the graph is resolved, and StableHLO modules in it become functions.
 *
 * The arena is bounded by the size of the file, constants by theirs; names of assets must stay inside the
 * assets folder.
 *
 * Does not: map or restore variables, run the init op (server/models/servable.c), read chunked .cpb models.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/saved_model.h"
#include "proto/pb/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/model/call_module.h"
#include "proto/model/custom_gradient.h"
#include "proto/model/graph_pb.h"
#include "proto/pb/guard.h"
#include "proto/model/opdef_pb.h"
#include "proto/pb/scan.h"
#include "proto/model/signature_pb.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"

enum { MAX_TAGS = 64 };
enum { META_INFO = 1, GRAPH_DEF = 2, OBJECT_GRAPH = 7 }; /* fields of MetaGraphDef */
enum { INFO_TAGS = 4 };                                  /* of its MetaInfoDef */
#define MAX_FILE_BYTES ((size_t)2 << 30)                 /* protobuf's own limit */
#define CONST_BYTES ((uint64_t)1 << 30) /* all constants together, plus what the file itself holds */
#define SLACK_BYTES ((uint64_t)64 << 20)
#define MEMORY_PER_BYTE 128 /* the smallest NodeDef is 8 bytes in the file and some 300 here */

typedef Tensord__Loader__MetaGraphDef meta_graph;

struct span {
    const uint8_t *p;
    size_t n;
};

struct loader {
    const char *dir;
    const char *tags;
    const char *bytes; /* the serialized SavedModel; borrowed */
    size_t n;
    struct span chosen, object_graph;
    struct td_bytes *graphs; /* the parts of its GraphDef */
    int n_graphs;
    struct td_saved_model *m;
};

/* ---- the file */

static enum td_code check_content(const char *path, const char *bytes, size_t n, struct td_err *err)
{
    static const char lfs[] = "version https://git-lfs";
    TD_FAIL_IF(n == 0, err, DATA_LOSS, "Reading %s: the file is empty", path);
    TD_FAIL_IF(n >= sizeof lfs - 1 && memcmp(bytes, lfs, sizeof lfs - 1) == 0, err, FAILED_PRECONDITION,
               "Reading %s: it is a git-LFS pointer, not the model itself (fetch it with 'git lfs pull')",
               path);
    return TD_OK;
}

/* *bytes, a text, becomes the serialized message. */
static enum td_code convert_text(const char *path, char **bytes, size_t *n, struct td_err *err)
{
    struct td_sink s = {.limit = MAX_FILE_BYTES};
    enum td_code rc = td_textpb_to_bytes(&tensorflow__saved_model__descriptor, *bytes, *n, true, &s, err);
    td_free(*bytes);
    *n = s.n;
    *bytes = td_sink_take(&s);
    return rc ? td_err_wrap(err, "Reading %s", path) : TD_OK;
}

static enum td_code read_file(const char *dir, char **bytes, size_t *n, struct td_err *err)
{
    char path[TD_FILE_PATH];
    static const char *const names[] = {"saved_model.pb", "saved_model.pbtxt"};
    for (int text = 0; text < 2; text++) {
        int len = snprintf(path, sizeof path, "%s/%s", dir, names[text]);
        TD_FAIL_IF(len >= (int)sizeof path, err, INVALID_ARGUMENT,
                   "SavedModel directory: its name is %d bytes long", len);
        struct td_err why = {0};
        const enum td_code rc = td_file_read_beneath(dir, path, MAX_FILE_BYTES, bytes, n, &why);
        if (rc == TD_NOT_FOUND) {
            continue;
        }
        if (rc) {
            return td_fail(err, rc, "%s", why.msg);
        }
        TD_TRY(check_content(path, *bytes, *n, err));
        return text ? convert_text(path, bytes, n, err) : TD_OK;
    }
    snprintf(path, sizeof path, "%s/saved_model.cpb", dir);
    TD_FAIL_IF(access(path, F_OK) == 0, err, UNIMPLEMENTED,
               "Reading %s: chunked models (.cpb) are not supported; export with a saved_model.pb", path);
    TD_FAIL(err, NOT_FOUND,
            "Could not find SavedModel .pb or .pbtxt at supplied export directory path: %s. Check that the "
            "directory exists and that you have the right permissions for accessing it.",
            dir);
}

/* ---- meta graphs and their tags */

struct tag_set {
    struct span tags[MAX_TAGS];
    int n;
};

static bool has_tag(const struct tag_set *s, const char *p, size_t n)
{
    for (int i = 0; i < s->n; i++) {
        if (s->tags[i].n == n && memcmp(s->tags[i].p, p, n) == 0) {
            return true;
        }
    }
    return false;
}

static void add_tag(struct tag_set *s, const uint8_t *p, size_t n)
{
    if (s->n < MAX_TAGS && !has_tag(s, (const char *)p, n)) {
        s->tags[s->n++] = (struct span){p, n};
    }
}

static void split_tags(const char *text, struct tag_set *s)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n > 0) {
            add_tag(s, (const uint8_t *)text, n);
        }
        text += n + (text[n] == ',');
    }
}

static bool same_tags(const struct tag_set *a, const struct tag_set *b)
{
    for (int i = 0; i < a->n; i++) {
        if (!has_tag(b, (const char *)a->tags[i].p, a->tags[i].n)) {
            return false;
        }
    }
    return a->n == b->n;
}

static void scan_tags(struct span meta, struct tag_set *out)
{
    struct td_scan s = td_scan_make(meta.p, meta.n);
    struct td_scan_field f, tag;
    while (td_scan_next(&s, &f)) {
        struct td_scan info = td_scan_make(f.p, f.number == META_INFO ? f.len : 0);
        while (td_scan_next(&info, &tag)) {
            if (tag.number == INFO_TAGS && tag.type == TD_WIRE_BYTES) {
                add_tag(out, tag.p, tag.len);
            }
        }
    }
}

static void describe_tags(const struct tag_set *s, char *buf, size_t size)
{
    size_t at = strlen(buf);
    at += (size_t)snprintf(buf + at, size - at, "%s{ ", at ? ", " : "");
    for (int i = 0; i < s->n && at < size; i++) {
        int len = s->tags[i].n > 60 ? 60 : (int)s->tags[i].n;
        at += (size_t)snprintf(buf + at, size - at, "%.*s ", len, (const char *)s->tags[i].p);
    }
    if (at < size) {
        snprintf(buf + at, size - at, "}");
    }
}

static enum td_code choose_meta_graph(struct loader *l, struct td_err *err)
{
    struct tag_set want = {0};
    char found[300] = "";
    int n_graphs = 0, n_fit = 0;
    struct span only = {0};
    struct td_scan s = td_scan_make(l->bytes, l->n);
    struct td_scan_field f;
    split_tags(l->tags == NULL ? "serve" : l->tags, &want);
    while (td_scan_next(&s, &f)) {
        TD_FAIL_IF(f.number == 1 && f.type == TD_WIRE_VARINT && f.u64 > 1, err, UNIMPLEMENTED,
                   "SavedModel %s: schema version %llu, this loader knows 0 and 1", l->dir,
                   (unsigned long long)f.u64);
        if (f.number != 2 || f.type != TD_WIRE_BYTES) {
            continue;
        }
        struct tag_set have = {0};
        only = (struct span){f.p, f.len};
        scan_tags(only, &have);
        n_graphs++;
        if (same_tags(&want, &have) && n_fit++ == 0) {
            l->chosen = only;
        } else if (strlen(found) < sizeof found - 20) {
            describe_tags(&have, found, sizeof found);
        }
    }
    TD_FAIL_IF(s.bad, err, DATA_LOSS, "SavedModel %s: cut or malformed bytes", l->dir);
    TD_FAIL_IF(n_graphs == 0, err, DATA_LOSS, "SavedModel %s: the file holds no meta graph", l->dir);
    if (n_fit == 0 && l->tags == NULL && n_graphs == 1) {
        l->chosen = only;
        n_fit = 1;
    }
    TD_FAIL_IF(n_fit == 0, err, NOT_FOUND,
               "Could not find meta graph def matching supplied tags: { %s }. The SavedModel %s has: %s",
               l->tags == NULL ? "serve" : l->tags, l->dir, found);
    return TD_OK;
}

/* Field f of the chosen meta graph, whose bytes begin there. */
static enum td_code split_field(struct loader *l, const struct td_scan_field *f, const uint8_t *begin,
                                const uint8_t *end, struct td_sink *rest, struct td_err *err)
{
    if (f->type != TD_WIRE_BYTES || (f->number != GRAPH_DEF && f->number != OBJECT_GRAPH)) {
        return td_sink_put(rest, begin, (size_t)(end - begin), err);
    }
    if (f->number == OBJECT_GRAPH) {
        l->object_graph = (struct span){f->p, f->len};
    } else {
        l->graphs[l->n_graphs++] = (struct td_bytes){(const char *)f->p, f->len};
    }
    return TD_OK;
}

/* Finds the graph and the object graph of the chosen meta graph, and puts the rest of it into `rest`. */
static enum td_code split_meta_graph(struct loader *l, struct td_sink *rest, struct td_err *err)
{
    struct td_scan s = td_scan_make(l->chosen.p, l->chosen.n);
    struct td_scan_field f;
    size_t n = 0;
    while (td_scan_next(&s, &f)) {
        n += f.number == GRAPH_DEF;
    }
    TD_FAIL_IF(s.bad, err, DATA_LOSS, "SavedModel %s: cut or malformed bytes", l->dir);
    l->graphs = td_arena_alloc(l->m->arena, n, sizeof l->graphs[0]);
    if (l->graphs == NULL) {
        return td_no_memory(err, n, "SavedModel");
    }
    s = td_scan_make(l->chosen.p, l->chosen.n);
    for (const uint8_t *begin = s.p; td_scan_next(&s, &f); begin = s.p) {
        TD_TRY(split_field(l, &f, begin, s.p, rest, err));
    }
    return TD_OK;
}

/* ---- what is in a meta graph */

static enum td_code copy_text(struct td_saved_model *m, const char *s, const char **out, struct td_err *err)
{
    *out = NULL;
    if (s != NULL && s[0] != 0) {
        *out = td_arena_strdup(m->arena, s);
        return *out == NULL ? td_no_memory(err, strlen(s), "SavedModel") : TD_OK;
    }
    return TD_OK;
}

static enum td_code read_meta_info(const meta_graph *p, struct td_saved_model *m, struct td_err *err)
{
    const Tensord__Loader__MetaInfoDef *info = p->meta_info_def;
    m->tf_version = "";
    if (info == NULL) {
        return TD_OK;
    }
    const char **tags = td_arena_alloc(m->arena, info->n_tags + 1, sizeof *tags);
    if (tags == NULL) {
        return td_no_memory(err, info->n_tags, "SavedModel");
    }
    for (size_t i = 0; i < info->n_tags; i++) {
        tags[i] = td_arena_strdup(m->arena, info->tags[i]);
        if (tags[i] == NULL) {
            return td_no_memory(err, strlen(info->tags[i]), "SavedModel");
        }
    }
    m->tags = tags;
    m->n_tags = (int)info->n_tags;
    TD_TRY(copy_text(m, info->tensorflow_version, &m->tf_version, err));
    m->tf_version = m->tf_version == NULL ? "" : m->tf_version;
    return td_file_ops_from_bytes(info->stripped_op_list.data, info->stripped_op_list.len, m->lib, err);
}

static enum td_code read_saver(const meta_graph *p, struct td_saved_model *m, struct td_err *err)
{
    if (p->saver_def == NULL) {
        return TD_OK;
    }
    TD_TRY(copy_text(m, p->saver_def->restore_op_name, &m->restore_op, err));
    TD_TRY(copy_text(m, p->saver_def->filename_tensor_name, &m->filename_tensor, err));
    return copy_text(m, p->saver_def->save_tensor_name, &m->save_tensor, err);
}

static const Tensorflow__CollectionDef *find_collection(const meta_graph *p, const char *name)
{
    for (size_t i = 0; i < p->n_collection_def; i++) {
        if (strcmp(p->collection_def[i]->key, name) == 0) {
            return p->collection_def[i]->value;
        }
    }
    return NULL;
}

/* ---- assets: field 6, or Any messages in a collection */

static enum td_code add_asset(const Tensorflow__AssetFileDef *p, struct td_saved_model *m, struct td_err *err)
{
    struct td_asset *a = &m->assets[m->n_assets];
    const char *f = p->filename;
    bool inside = f[0] != '/' && strcmp(f, "..") != 0 && strncmp(f, "../", 3) != 0 &&
                  strstr(f, "/../") == NULL && !(strlen(f) >= 3 && strcmp(f + strlen(f) - 3, "/..") == 0);
    TD_FAIL_IF(f[0] == 0 || !inside, err, INVALID_ARGUMENT,
               "Asset file '%s': its name leaves the assets directory", f);
    TD_FAIL_IF(p->tensor_info == NULL ||
                   p->tensor_info->encoding_case != TENSORFLOW__TENSOR_INFO__ENCODING_NAME,
               err, INVALID_ARGUMENT, "Asset file '%s': no tensor is named for it", f);
    TD_TRY(copy_text(m, f, &a->filename, err));
    TD_TRY(copy_text(m, p->tensor_info->name, &a->tensor, err));
    TD_FAIL_IF(a->tensor == NULL, err, INVALID_ARGUMENT, "Asset file '%s': no tensor is named for it", f);
    m->n_assets++;
    return TD_OK;
}

static enum td_code add_packed_asset(const Google__Protobuf__Any *any, struct td_saved_model *m,
                                     struct td_err *err)
{
    ProtobufCMessage *asset;
    TD_TRY(td_guard_unpack(&tensorflow__asset_file_def__descriptor, any->value.data, any->value.len,
                           SLACK_BYTES, &asset, err));
    enum td_code rc = add_asset((Tensorflow__AssetFileDef *)asset, m, err);
    td_guard_free(asset);
    return rc;
}

static enum td_code read_assets(const meta_graph *p, struct td_saved_model *m, struct td_err *err)
{
    const Tensorflow__CollectionDef *c = find_collection(p, "saved_model_assets");
    bool packed =
        p->n_asset_file_def == 0 && c != NULL && c->kind_case == TENSORFLOW__COLLECTION_DEF__KIND_ANY_LIST;
    size_t n = packed ? c->any_list->n_value : p->n_asset_file_def;
    m->assets = td_arena_alloc(m->arena, n + 1, sizeof m->assets[0]);
    if (m->assets == NULL) {
        return td_no_memory(err, n, "assets");
    }
    for (size_t i = 0; i < n; i++) {
        TD_TRY(packed ? add_packed_asset(c->any_list->value[i], m, err)
                      : add_asset(p->asset_file_def[i], m, err));
    }
    return TD_OK;
}

/* ---- variables that training moves: VariableDef messages { variable_name = 1 } in a collection */

static enum td_code add_trainable(const ProtobufCBinaryData *def, struct td_saved_model *m, const char **out,
                                  struct td_err *err)
{
    const struct td_seg all = {def->data, def->len};
    struct td_wire w;
    struct td_field f;
    *out = "";
    td_wire_init(&w, &all, 1);
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, m->arena, out, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code read_trainable(const meta_graph *p, struct td_saved_model *m, struct td_err *err)
{
    const Tensorflow__CollectionDef *c = find_collection(p, "trainable_variables");
    if (c == NULL || c->kind_case != TENSORFLOW__COLLECTION_DEF__KIND_BYTES_LIST) {
        return TD_OK;
    }
    const char **names = td_arena_alloc(m->arena, c->bytes_list->n_value + 1, sizeof *names);
    if (names == NULL) {
        return td_no_memory(err, c->bytes_list->n_value, "names of variables");
    }
    for (size_t i = 0; i < c->bytes_list->n_value; i++) {
        if (add_trainable(&c->bytes_list->value[i], m, &names[i], err)) {
            return td_err_wrap(err, "Collection 'trainable_variables', variable %zu", i);
        }
    }
    m->trainable = names;
    m->n_trainable = (int)c->bytes_list->n_value;
    return TD_OK;
}

/* ---- the init op */

static enum td_code init_from_collection(const meta_graph *p, const char *name, struct td_saved_model *m,
                                         struct td_err *err)
{
    const Tensorflow__CollectionDef *c = find_collection(p, name);
    if (c == NULL || m->init_op != NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(c->kind_case != TENSORFLOW__COLLECTION_DEF__KIND_NODE_LIST || c->node_list->n_value != 1, err,
               FAILED_PRECONDITION, "Expected exactly one main op in collection '%s'", name);
    return copy_text(m, c->node_list->value[0], &m->init_op, err);
}

static enum td_code read_init_op(const meta_graph *p, struct td_saved_model *m, struct td_err *err)
{
    static const char key[] = "__saved_model_init_op";
    for (int i = 0; i < m->n_signatures; i++) {
        const struct td_signature *s = &m->signatures[i];
        for (int k = 0; strcmp(s->key, key) == 0 && k < s->n_out; k++) {
            if (strcmp(s->out[k].key, key) == 0 && s->out[k].tensor[0] != 0) {
                m->init_op = s->out[k].tensor;
            }
        }
    }
    TD_TRY(init_from_collection(p, "saved_model_main_op", m, err));
    return init_from_collection(p, "legacy_init_op", m, err);
}

/* ---- putting it together */

static enum td_code new_model(size_t file_bytes, struct td_saved_model **out, struct td_err *err)
{
    struct td_arena *a = td_arena_new(file_bytes * MEMORY_PER_BYTE + SLACK_BYTES);
    struct td_saved_model *m = a == NULL ? NULL : td_arena_alloc(a, 1, sizeof *m);
    if (m != NULL) {
        m->arena = a;
        m->graph = td_arena_alloc(a, 1, sizeof *m->graph);
        m->lib = td_arena_alloc(a, 1, sizeof *m->lib);
    }
    if (m == NULL || m->graph == NULL || m->lib == NULL) {
        td_arena_free(a);
        return td_no_memory(err, sizeof *m, "SavedModel");
    }
    td_graph_init(m->graph, a, "");
    m->lib->arena = a;
    *out = m;
    return TD_OK;
}

static enum td_code fill_model(struct loader *l, const meta_graph *p, struct td_err *err)
{
    struct td_saved_model *m = l->m;
    uint64_t tensor_bytes = CONST_BYTES + l->n;
    TD_TRY(read_meta_info(p, m, err));
    TD_TRY(td_graph_from_bytes(l->graphs, l->n_graphs, tensor_bytes, m->graph, m->lib, err));
    const struct td_bytes objects = {(const char *)l->object_graph.p, l->object_graph.n};
    TD_TRY(td_custom_gradients_complete(objects, m->lib, err));
    TD_TRY(td_signatures_from_proto(p, tensor_bytes, m, err));
    TD_TRY(read_assets(p, m, err));
    TD_TRY(read_saver(p, m, err));
    TD_TRY(read_trainable(p, m, err));
    TD_TRY(read_init_op(p, m, err));
    const char *graph = td_arena_strndup(m->arena, (const char *)l->object_graph.p, l->object_graph.n);
    if (graph == NULL) {
        return td_no_memory(err, l->object_graph.n, "object graph");
    }
    m->object_graph = (struct td_bytes){graph, l->object_graph.n};
    return TD_OK;
}

static enum td_code build_model(struct loader *l, struct td_err *err)
{
    ProtobufCMessage *meta;
    struct td_sink rest = {.limit = l->n};
    TD_TRY(choose_meta_graph(l, err));
    TD_TRY(new_model(l->n, &l->m, err));
    enum td_code rc = split_meta_graph(l, &rest, err);
    if (rc == TD_OK) {
        rc = td_guard_unpack(&tensord__loader__meta_graph_def__descriptor, rest.p, rest.n,
                             (uint64_t)l->n * MEMORY_PER_BYTE + SLACK_BYTES, &meta, err);
    }
    td_sink_fini(&rest);
    TD_TRY(rc);
    rc = fill_model(l, (meta_graph *)meta, err);
    td_guard_free(meta);
    return rc;
}

static enum td_code parse_model(struct loader *l, const struct td_op_table *ops, struct td_saved_model **out,
                                struct td_err *err)
{
    enum td_code rc = build_model(l, err);
    if (rc == TD_OK) {
        rc = td_graph_resolve(l->m->graph, l->m->lib, ops, err);
    }
    if (rc == TD_OK) {
        rc = td_call_modules(l->m->graph, l->m->lib, ops, err);
    }
    if (rc) {
        td_saved_model_free(l->m);
        return rc;
    }
    *out = l->m;
    return TD_OK;
}

enum td_code td_saved_model_parse(const char *dir, const void *bytes, size_t n, const char *tags,
                                  const struct td_op_table *ops, struct td_saved_model **out,
                                  struct td_err *err)
{
    struct loader l = {.dir = dir, .tags = tags, .bytes = bytes, .n = n};
    return parse_model(&l, ops, out, err);
}

enum td_code td_saved_model_bytes(const char *dir, const char *tags, char **bytes, struct td_bytes *chosen,
                                  struct td_err *err)
{
    struct loader l = {.dir = dir, .tags = tags};
    char *file = NULL;
    enum td_code rc = read_file(dir, &file, &l.n, err);
    l.bytes = file;
    rc = rc ? rc : choose_meta_graph(&l, err);
    if (rc) {
        td_free(file);
        return rc;
    }
    *bytes = file;
    *chosen = (struct td_bytes){(const char *)l.chosen.p, l.chosen.n};
    return TD_OK;
}

enum td_code td_saved_model_read(const char *dir, const char *tags, const struct td_op_table *ops,
                                 struct td_saved_model **out, struct td_err *err)
{
    struct loader l = {.dir = dir, .tags = tags};
    char *file = NULL;
    enum td_code rc = read_file(dir, &file, &l.n, err);
    if (rc == TD_OK) {
        l.bytes = file;
        rc = parse_model(&l, ops, out, err);
    }
    td_free(file);
    return rc;
}

void td_saved_model_free(struct td_saved_model *m)
{
    if (m != NULL) {
        td_arena_free(m->arena);
    }
}
