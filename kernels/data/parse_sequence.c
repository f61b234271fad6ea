/* kernels/data/parse_sequence.c - ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample.
 *
 * A sequence example has a context (features as of an example) and feature lists (a feature a time step). The
 * three ops differ in where their keys stand, as those of parse_example.c do; all become a struct spec.
 * Outputs in order, each as many as there are keys of the kind: context sparse (indices, values, shapes),
 * context dense, context ragged (values, splits), list sparse (indices, values, shapes), list dense (values,
 * lengths), list ragged (values, outer, inner).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/data/parse_lists.h"

#include <string.h>

enum group { C_SPARSE, C_DENSE, C_RAGGED, L_SPARSE, L_DENSE, L_RAGGED, GROUPS };

enum version { V1, V2, SINGLE };

struct spec {
    enum version version;
    int n[GROUPS]; /* keys of each group */
    const enum td_dtype *type[GROUPS];
    const struct td_shape *c_shapes, *l_shapes;
    struct td_bytes *keys[GROUPS];
    bool *may_miss;           /* of the dense lists */
    int first_default, names; /* inputs */
};

static enum td_code read_spec(const struct td_node *n, struct spec *s, struct td_err *err)
{
    static const char *const types[GROUPS] = {
        "context_sparse_types",      "Tcontext_dense",           "context_ragged_value_types",
        "feature_list_sparse_types", "feature_list_dense_types", "feature_list_ragged_value_types"};
    static const char *const counts[GROUPS] = {"Ncontext_sparse",      "Ncontext_dense",      NULL,
                                               "Nfeature_list_sparse", "Nfeature_list_dense", NULL};
    int nc, nl;
    *s = (struct spec){.version = strcmp(n->op_name, "ParseSequenceExampleV2") == 0       ? V2
                                  : strcmp(n->op_name, "ParseSingleSequenceExample") == 0 ? SINGLE
                                                                                          : V1};
    for (int g = 0; g < GROUPS; g++) {
        if ((g == C_RAGGED || g == L_RAGGED) && s->version != V2) {
            continue;
        }
        s->type[g] = td_attr_types(n, types[g], &s->n[g]);
        bool counted = counts[g] && !(g == C_DENSE && s->version == V2);
        TD_FAIL_IF(counted && td_attr_int(n, counts[g]) != s->n[g], err, INVALID_ARGUMENT,
                   "%s: %s is %lld, len(%s) is %d", TD_NODE_STR(n), counts[g],
                   (long long)td_attr_int(n, counts[g]), types[g], s->n[g]);
    }
    s->c_shapes = td_attr_shapes(n, "context_dense_shapes", &nc);
    s->l_shapes = td_attr_shapes(n, "feature_list_dense_shapes", &nl);
    TD_FAIL_IF(nc != s->n[C_DENSE] || nl != s->n[L_DENSE], err, INVALID_ARGUMENT,
               "%s: %d context_dense_shapes and %d feature_list_dense_shapes for %d and %d keys",
               TD_NODE_STR(n), nc, nl, s->n[C_DENSE], s->n[L_DENSE]);
    s->names = s->version == SINGLE ? -1 : 1;
    s->first_default = s->version == V1 ? 2
                       : s->version == V2
                           ? 9
                           : 2 + s->n[C_SPARSE] + s->n[C_DENSE] + s->n[L_SPARSE] + s->n[L_DENSE];
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes */

static enum td_code check_spec(const struct td_infer *c, const struct spec *s, struct td_err *err)
{
    for (int g = 0; g < GROUPS; g++) {
        for (int i = 0; i < s->n[g]; i++) {
            TD_TRY(td_parse_check_type(c, s->type[g][i], err));
        }
    }
    if (s->version == V2) {
        TD_TRY(td_parse_check_splits(c, "context_ragged_split_types", s->n[C_RAGGED], err));
        TD_TRY(td_parse_check_splits(c, "feature_list_ragged_split_types", s->n[L_RAGGED], err));
    }
    for (int i = 0; i < s->n[C_DENSE]; i++) {
        TD_TRY(td_parse_check_dense(c, &s->c_shapes[i], &c->in[s->first_default + i], err));
    }
    for (int i = 0; i < s->n[L_DENSE]; i++) {
        TD_FAIL_IF(!td_shape_known(&s->l_shapes[i]), err, INVALID_ARGUMENT,
                   "%s: feature_list_dense_shapes[%d] %s is not fully known", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&s->l_shapes[i]));
    }
    return TD_OK;
}

static enum td_code check_keys_v1(const struct td_infer *c, const struct spec *s, struct td_err *err)
{
    static const char *const attrs[GROUPS] = {"context_sparse_keys",      "context_dense_keys",      NULL,
                                              "feature_list_sparse_keys", "feature_list_dense_keys", NULL};
    for (int g = 0; g < GROUPS; g++) {
        TD_FAIL_IF(attrs[g] && td_attr_len(c->node, attrs[g]) != s->n[g], err, INVALID_ARGUMENT,
                   "%s: len(%s) is %d, want %d", TD_NODE_STR(c->node), attrs[g],
                   td_attr_len(c->node, attrs[g]), s->n[g]);
    }
    return TD_OK;
}

static enum td_code check_keys_v2(const struct td_infer *c, const struct spec *s, struct td_err *err)
{
    static const enum group order[] = {C_SPARSE, C_DENSE, C_RAGGED, L_SPARSE, L_DENSE, L_RAGGED, L_DENSE};
    for (int i = 0; i < 7; i++) {
        TD_TRY(td_infer_rank(c, 2 + i, 1, err));
        TD_FAIL_IF(c->in[2 + i].rank == 1 && c->in[2 + i].dim[0] >= 0 &&
                       c->in[2 + i].dim[0] != s->n[order[i]],
                   err, INVALID_ARGUMENT, "%s: Expected len(%s) == %d but got %lld", TD_NODE_STR(c->node),
                   c->node->def->in[2 + i].name, s->n[order[i]], (long long)c->in[2 + i].dim[0]);
    }
    return TD_OK;
}

static void infer_sparse(struct td_infer *c, int *o, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        c->out[*o + i] = td_shape_matrix(-1, rank);
        c->out[*o + n + i] = td_shape_vector(-1);
        c->out[*o + 2 * n + i] = td_shape_vector(rank < 0 ? -1 : rank);
    }
    *o += 3 * n;
}

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct spec s;
    TD_TRY(read_spec(c->node, &s, err));
    const struct td_shape *rows = &c->in[0];
    int max_rank = s.version == SINGLE ? 0 : 1;
    TD_FAIL_IF(rows->rank > max_rank || (s.version == V1 && rows->rank == 0), err, INVALID_ARGUMENT,
               "%s: Expected serialized to be a %s, got shape: %s", TD_NODE_STR(c->node),
               s.version == SINGLE ? "scalar"
               : s.version == V1   ? "vector"
                                   : "scalar or vector",
               TD_SHAPE_STR(rows));
    TD_TRY(check_spec(c, &s, err));
    TD_TRY(s.version == V1 ? check_keys_v1(c, &s, err) : s.version == V2 ? check_keys_v2(c, &s, err) : TD_OK);
    int o = 0;
    infer_sparse(c, &o, s.n[C_SPARSE], rows->rank < 0 ? -1 : rows->rank + 1);
    for (int i = 0; i < s.n[C_DENSE]; i++) {
        TD_TRY(td_parse_dense_shape(rows, &s.c_shapes[i], &c->out[o++], err));
    }
    o += 2 * s.n[C_RAGGED];
    infer_sparse(c, &o, s.n[L_SPARSE], rows->rank < 0 ? -1 : rows->rank + 2);
    for (int i = 0; i < s.n[L_DENSE] && rows->rank >= 0; i++) {
        struct td_shape lead = *rows;
        lead.dim[lead.rank++] = -1;
        TD_TRY(td_shape_concat(&lead, &s.l_shapes[i], &c->out[o + i], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ keys */

static struct td_bytes element(const struct td_tensor *t, int64_t i)
{
    struct td_bytes b;
    b.p = td_tensor_str(t, i, &b.len);
    return b;
}

static void keys_of_attrs(const struct td_node *n, struct spec *s)
{
    static const char *const attrs[GROUPS] = {"context_sparse_keys",      "context_dense_keys",      NULL,
                                              "feature_list_sparse_keys", "feature_list_dense_keys", NULL};
    int count, missing;
    for (int g = 0; g < GROUPS; g++) {
        const struct td_bytes *keys = attrs[g] ? td_attr_strs(n, attrs[g], &count) : NULL;
        for (int i = 0; keys && i < count; i++) {
            s->keys[g][i] = keys[i];
        }
    }
    const struct td_bytes *names = td_attr_strs(n, "feature_list_dense_missing_assumed_empty", &missing);
    for (int i = 0; i < s->n[L_DENSE]; i++) {
        for (int k = 0; k < missing; k++) {
            const struct td_bytes *key = &s->keys[L_DENSE][i];
            s->may_miss[i] |= names[k].len == key->len && memcmp(names[k].p, key->p, key->len) == 0;
        }
    }
}

static void keys_of_vectors(const struct td_call *c, struct spec *s)
{
    static const enum group order[] = {C_SPARSE, C_DENSE, C_RAGGED, L_SPARSE, L_DENSE, L_RAGGED};
    for (int i = 0; i < GROUPS; i++) {
        for (int k = 0; k < s->n[order[i]]; k++) {
            s->keys[order[i]][k] = element(c->in[2 + i], k);
        }
    }
    for (int i = 0; i < s->n[L_DENSE]; i++) {
        s->may_miss[i] = TD_DATA(c->in[8], td_bool)[i];
    }
}

static void keys_of_scalars(const struct td_call *c, struct spec *s)
{
    static const enum group order[] = {C_SPARSE, C_DENSE, L_SPARSE, L_DENSE};
    int at = 2;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < s->n[order[i]]; k++) {
            s->keys[order[i]][k] = element(c->in[at++], 0);
        }
    }
    for (int i = 0; i < s->n[L_DENSE]; i++) {
        for (int64_t k = 0; k < td_tensor_count(c->in[1]); k++) {
            struct td_bytes name = element(c->in[1], k), key = s->keys[L_DENSE][i];
            s->may_miss[i] |= name.len == key.len && memcmp(name.p, key.p, key.len) == 0;
        }
    }
}

/* Keys of a context (or of the lists) stand in one array, group after group. */
static enum td_code read_keys(struct td_call *c, struct spec *s, struct td_err *err)
{
    void *p, *miss;
    size_t total = 1;
    for (int g = 0; g < GROUPS; g++) {
        total += (size_t)s->n[g];
    }
    TD_TRY(td_scratch(c, total * sizeof(struct td_bytes), &p, err));
    TD_TRY(td_scratch(c, (size_t)s->n[L_DENSE] + 1, &miss, err));
    memset(miss, 0, (size_t)s->n[L_DENSE] + 1);
    s->may_miss = miss;
    struct td_bytes *at = p;
    for (int g = 0; g < GROUPS; g++) {
        s->keys[g] = at;
        at += s->n[g];
    }
    if (s->version == V1) {
        keys_of_attrs(c->node, s);
    } else if (s->version == V2) {
        keys_of_vectors(c, s);
    } else {
        keys_of_scalars(c, s);
    }
    return TD_OK;
}

static enum td_code check_distinct(const struct spec *s, enum group a, enum group b, const char *what,
                                   struct td_err *err)
{
    for (int i = 0; i < s->n[a]; i++) {
        for (int k = 0; k < s->n[b]; k++) {
            const struct td_bytes *x = &s->keys[a][i], *y = &s->keys[b][k];
            TD_FAIL_IF(x->len == y->len && memcmp(x->p, y->p, x->len) == 0, err, INVALID_ARGUMENT,
                       "%s feature %.100s cannot be both ragged and sparse", what, x->p);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

static struct td_cells cells(const struct spec *s, enum group g, int i, const struct td_example_span *found)
{
    enum group first = g < L_SPARSE ? C_SPARSE : L_SPARSE;
    int n = s->n[first] + s->n[first + 1] + s->n[first + 2];
    return (struct td_cells){s->keys[g][i], s->type[g][i], found + (s->keys[g] - s->keys[first]) + i, n};
}

static enum td_code context(const struct td_parse *p, const struct spec *s, int *o, struct td_err *err)
{
    struct td_example_span *found;
    int sparse = s->n[C_SPARSE], ragged = s->n[C_RAGGED];
    TD_TRY(td_parse_read(p, 1, s->keys[C_SPARSE], sparse + s->n[C_DENSE] + ragged, &found, err));
    for (int i = 0; i < sparse; i++) {
        struct td_cells k = cells(s, C_SPARSE, i, found);
        TD_TRY(td_parse_sparse(p, &k, *o + i, *o + sparse + i, *o + 2 * sparse + i, err));
    }
    *o += 3 * sparse;
    for (int i = 0; i < s->n[C_DENSE]; i++) {
        struct td_cells k = cells(s, C_DENSE, i, found);
        TD_FAIL_IF(p->rows == 0 && td_shape_count(&s->c_shapes[i]) > 0 &&
                       td_tensor_count(p->c->in[s->first_default + i]) == 0,
                   err, INVALID_ARGUMENT,
                   "%s: Inconsistent max number of elements for feature %.100s: expected %lld, but found 0 "
                   "in no examples",
                   TD_NODE_STR(p->c->node), k.key.p, (long long)td_shape_count(&s->c_shapes[i]));
        TD_TRY(td_parse_dense(p, &k, &s->c_shapes[i], p->c->in[s->first_default + i], (*o)++, err));
    }
    for (int i = 0; i < ragged; i++) {
        struct td_cells k = cells(s, C_RAGGED, i, found);
        TD_TRY(td_parse_ragged(p, &k, *o + i, *o + ragged + i, err));
    }
    *o += 2 * ragged;
    return TD_OK;
}

static enum td_code lists(const struct td_parse *p, const struct spec *s, int o, struct td_err *err)
{
    struct td_example_span *found;
    int sparse = s->n[L_SPARSE], dense = s->n[L_DENSE], ragged = s->n[L_RAGGED];
    TD_TRY(td_parse_read(p, 2, s->keys[L_SPARSE], sparse + dense + ragged, &found, err));
    for (int i = 0; i < sparse; i++) {
        struct td_cells k = cells(s, L_SPARSE, i, found);
        TD_TRY(td_lists_sparse(p, &k, o + i, o + sparse + i, o + 2 * sparse + i, err));
    }
    o += 3 * sparse;
    for (int i = 0; i < dense; i++) {
        struct td_cells k = cells(s, L_DENSE, i, found);
        int lengths = s->version == SINGLE ? -1 : o + dense + i;
        TD_TRY(td_lists_dense(p, &k, &s->l_shapes[i], s->may_miss[i], o + i, lengths, err));
    }
    o += s->version == SINGLE ? dense : 2 * dense;
    for (int i = 0; i < ragged; i++) {
        struct td_cells k = cells(s, L_RAGGED, i, found);
        TD_TRY(td_lists_ragged(p, &k, o + i, o + ragged + i, o + 2 * ragged + i, err));
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct spec s;
    int o = 0;
    TD_TRY(read_spec(c->node, &s, err));
    TD_TRY(read_keys(c, &s, err));
    TD_TRY(check_distinct(&s, C_SPARSE, C_RAGGED, "Context", err));
    TD_TRY(check_distinct(&s, L_SPARSE, L_RAGGED, "FeatureList", err));
    struct td_parse p = {.c = c,
                         .serialized = c->in[0],
                         .names = c->in[s.names < 0 ? c->n_in - 1 : s.names],
                         .rows = td_tensor_count(c->in[0]),
                         .single = c->in[0]->shape.rank == 0,
                         .scalar_splits = true};
    TD_TRY(context(&p, &s, &o, err));
    return lists(&p, &s, o, err);
}

#define C_OUT                                                                                                \
    "context_sparse_indices:Ncontext_sparse*int64, context_sparse_values:context_sparse_types, "             \
    "context_sparse_shapes:Ncontext_sparse*int64, context_dense_values:Tcontext_dense, "
#define L_OUT                                                                                                \
    "feature_list_sparse_indices:Nfeature_list_sparse*int64, "                                               \
    "feature_list_sparse_values:feature_list_sparse_types, "                                                 \
    "feature_list_sparse_shapes:Nfeature_list_sparse*int64, "                                                \
    "feature_list_dense_values:feature_list_dense_types"
#define LENGTHS ", feature_list_dense_lengths:Nfeature_list_dense*int64"
#define COUNTS                                                                                               \
    "Ncontext_sparse:int=0; Ncontext_dense:int=0; Nfeature_list_sparse:int=0; Nfeature_list_dense:int=0; "   \
    "context_sparse_types:list(type)=[]; Tcontext_dense:list(type)=[]; "                                     \
    "feature_list_dense_types:list(type)=[]; "                                                               \
    "context_dense_shapes:list(shape)=[]; feature_list_sparse_types:list(type)=[]; "                         \
    "feature_list_dense_shapes:list(shape)=[]}"

const struct td_op td_ops_parse_sequence[] = {
    {.name = "ParseSequenceExample",
     .sig = "(serialized:string, debug_name:string, context_dense_defaults:Tcontext_dense) -> (" C_OUT L_OUT
         LENGTHS
            ") {feature_list_dense_missing_assumed_empty:list(string); context_sparse_keys:list(string); "
            "context_dense_keys:list(string); feature_list_sparse_keys:list(string); "
            "feature_list_dense_keys:list(string); " COUNTS,
     .infer = infer,
     .kernels = TD_KERNEL("parse_sequence.cpu", run, {0})},
    {.name = "ParseSequenceExampleV2",
     .sig = "(serialized:string, debug_name:string, context_sparse_keys:string, context_dense_keys:string, "
            "context_ragged_keys:string, feature_list_sparse_keys:string, feature_list_dense_keys:string, "
            "feature_list_ragged_keys:string, feature_list_dense_missing_assumed_empty:bool, "
            "context_dense_defaults:Tcontext_dense) -> (" C_OUT
            "context_ragged_values:context_ragged_value_types, "
            "context_ragged_row_splits:context_ragged_split_types, " L_OUT LENGTHS
            ", feature_list_ragged_values:feature_list_ragged_value_types, "
            "feature_list_ragged_outer_splits:feature_list_ragged_split_types, "
            "feature_list_ragged_inner_splits:feature_list_ragged_split_types) {Ncontext_sparse:int=0; "
            "Tcontext_dense:list(type)=[]; context_sparse_types:list(type)=[]; "
            "context_ragged_value_types:list(type)=[]; context_ragged_split_types:list(type)=[]; "
            "context_dense_shapes:list(shape)=[]; Nfeature_list_sparse:int=0; Nfeature_list_dense:int=0; "
            "feature_list_dense_types:list(type)=[]; feature_list_sparse_types:list(type)=[]; "
            "feature_list_ragged_value_types:list(type)=[]; feature_list_ragged_split_types:list(type)=[]; "
            "feature_list_dense_shapes:list(shape)=[]}",
     .infer = infer,
     .kernels = TD_KERNEL("parse_sequence.cpu", run, {0})},
    {.name = "ParseSingleSequenceExample",
     .sig = "(serialized:string, feature_list_dense_missing_assumed_empty:string, "
            "context_sparse_keys:Ncontext_sparse*string, context_dense_keys:Ncontext_dense*string, "
            "feature_list_sparse_keys:Nfeature_list_sparse*string, "
            "feature_list_dense_keys:Nfeature_list_dense*string, "
            "context_dense_defaults:Tcontext_dense, debug_name:string) -> (" C_OUT L_OUT ") {" COUNTS,
     .infer = infer,
     .kernels = TD_KERNEL("parse_sequence.cpu", run, {0})},
    {.name = NULL},
};
