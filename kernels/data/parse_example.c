/* kernels/data/parse_example.c - ParseExample, ParseExampleV2, ParseSingleExample.
 *
 * The three ops differ only in where their keys stand: in one input each, in three vector inputs, in
 * attributes. All become a struct spec; the rest is common (parse_columns.c). Outputs in order: sparse
 * indices, sparse values, sparse shapes, dense values, ragged values, ragged splits, each as many as there
 * are keys of the kind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/data/parse_columns.h"

#include <string.h>

struct spec {
    int n_sparse, n_dense, n_ragged;
    int first_default; /* input that holds the first dense default */
    const enum td_dtype *sparse_types, *dense_types, *ragged_types, *split_types;
    const struct td_shape *dense_shapes;
    struct td_bytes *keys; /* sparse, dense, ragged */
};

static enum td_code read_types(const struct td_node *n, struct spec *s, struct td_err *err)
{
    int n_split = 0, n_shapes = 0;
    s->sparse_types = td_attr_types(n, "sparse_types", &s->n_sparse);
    s->dense_types = td_attr_types(n, "Tdense", &s->n_dense);
    s->dense_shapes = td_attr_shapes(n, "dense_shapes", &n_shapes);
    if (strcmp(n->op_name, "ParseExampleV2") == 0) {
        s->ragged_types = td_attr_types(n, "ragged_value_types", &s->n_ragged);
        s->split_types = td_attr_types(n, "ragged_split_types", &n_split);
    }
    TD_FAIL_IF(n_shapes != s->n_dense, err, INVALID_ARGUMENT,
               "%s: len(dense_keys) != len(dense_shapes): %d vs. %d", TD_NODE_STR(n), s->n_dense, n_shapes);
    int64_t want = td_attr_int(n, strcmp(n->op_name, "ParseExample") == 0 ? "Nsparse" : "num_sparse");
    TD_FAIL_IF(want != s->n_sparse, err, INVALID_ARGUMENT, "%s: %lld sparse keys with %d sparse_types",
               TD_NODE_STR(n), (long long)want, s->n_sparse);
    TD_FAIL_IF(n_split != s->n_ragged, err, INVALID_ARGUMENT,
               "%s: len(ragged_value_types) != len(ragged_split_types): %d vs. %d", TD_NODE_STR(n),
               s->n_ragged, n_split);
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes */

/* Shapes of all outputs for examples of shape `batch` ([] or [n]); defaults start at input first_default. */
static enum td_code infer_outputs(struct td_infer *c, const struct spec *s, const struct td_shape *batch,
                                  struct td_err *err)
{
    int o = 0, rank = batch->rank < 0 ? -1 : batch->rank + 1;
    for (int i = 0; i < s->n_sparse; i++) {
        TD_TRY(td_parse_check_type(c, s->sparse_types[i], err));
        c->out[o + i] = td_shape_matrix(-1, rank);
        c->out[o + s->n_sparse + i] = td_shape_vector(-1);
        c->out[o + 2 * s->n_sparse + i] = td_shape_vector(rank);
    }
    o += 3 * s->n_sparse;
    for (int i = 0; i < s->n_dense; i++, o++) {
        TD_TRY(td_parse_check_type(c, s->dense_types[i], err));
        TD_TRY(td_parse_check_dense(c, &s->dense_shapes[i], &c->in[s->first_default + i], err));
        TD_TRY(td_parse_dense_shape(batch, &s->dense_shapes[i], &c->out[o], err));
    }
    if (s->n_ragged > 0) {
        TD_TRY(td_parse_check_splits(c, "ragged_split_types", s->n_ragged, err));
    }
    for (int i = 0; i < s->n_ragged; i++) {
        TD_TRY(td_parse_check_type(c, s->ragged_types[i], err));
        c->out[o + i] = td_shape_vector(-1);
        c->out[o + s->n_ragged + i] =
            td_shape_vector(batch->rank == 0                       ? 0
                            : batch->rank < 0 || batch->dim[0] < 0 ? -1
                                                                   : batch->dim[0] + 1);
    }
    return TD_OK;
}

static enum td_code check_names(const struct td_infer *c, struct td_err *err)
{
    int64_t n = td_shape_count(&c->in[1]), rows = td_shape_count(&c->in[0]);
    TD_FAIL_IF(n > 0 && rows >= 0 && n != rows, err, INVALID_ARGUMENT,
               "%s: Expected len(names) == len(serialized), but got: %lld vs. %lld", TD_NODE_STR(c->node),
               (long long)n, (long long)rows);
    return TD_OK;
}

static enum td_code v1_infer(struct td_infer *c, struct td_err *err)
{
    struct spec s = {0};
    TD_TRY(read_types(c->node, &s, err));
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(check_names(c, err));
    for (int i = 0; i < s.n_sparse + s.n_dense; i++) {
        TD_FAIL_IF(c->in[2 + i].rank > 0, err, INVALID_ARGUMENT,
                   "%s: Expected keys to be scalars, got shape %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&c->in[2 + i]));
    }
    s.first_default = 2 + s.n_sparse + s.n_dense;
    struct td_shape batch = td_shape_vector(c->in[0].rank < 0 ? -1 : c->in[0].dim[0]);
    return infer_outputs(c, &s, &batch, err);
}

static enum td_code check_key_vector(const struct td_infer *c, int i, const char *what, int want,
                                     struct td_err *err)
{
    TD_TRY(td_infer_rank(c, i, 1, err));
    TD_FAIL_IF(c->in[i].rank == 1 && c->in[i].dim[0] >= 0 && c->in[i].dim[0] != want, err, INVALID_ARGUMENT,
               "%s: Expected len(%s) == %d, the number of its types, but got %lld", TD_NODE_STR(c->node),
               what, want, (long long)c->in[i].dim[0]);
    return TD_OK;
}

static enum td_code v2_infer(struct td_infer *c, struct td_err *err)
{
    struct spec s = {.first_default = 5};
    TD_TRY(read_types(c->node, &s, err));
    TD_FAIL_IF(c->in[0].rank > 1, err, INVALID_ARGUMENT,
               "%s: Expected serialized to be a scalar or vector, got shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_TRY(check_names(c, err));
    TD_TRY(check_key_vector(c, 2, "sparse_keys", s.n_sparse, err));
    TD_TRY(check_key_vector(c, 3, "dense_keys", s.n_dense, err));
    TD_TRY(check_key_vector(c, 4, "ragged_keys", s.n_ragged, err));
    return infer_outputs(c, &s, &c->in[0], err);
}

static enum td_code single_infer(struct td_infer *c, struct td_err *err)
{
    struct spec s = {.first_default = 1};
    TD_TRY(read_types(c->node, &s, err));
    TD_FAIL_IF(td_attr_len(c->node, "sparse_keys") != s.n_sparse ||
                   td_attr_int(c->node, "num_sparse") != s.n_sparse,
               err, INVALID_ARGUMENT,
               "%s: num_sparse (%lld) must match the size of sparse_keys (%d) and sparse_types (%d)",
               TD_NODE_STR(c->node), (long long)td_attr_int(c->node, "num_sparse"),
               td_attr_len(c->node, "sparse_keys"), s.n_sparse);
    TD_FAIL_IF(td_attr_len(c->node, "dense_keys") != s.n_dense, err, INVALID_ARGUMENT,
               "%s: len(dense_keys) != len(Tdense): %d vs. %d", TD_NODE_STR(c->node),
               td_attr_len(c->node, "dense_keys"), s.n_dense);
    TD_TRY(td_infer_rank(c, 0, 0, err));
    struct td_shape batch = td_shape_scalar();
    return infer_outputs(c, &s, &batch, err);
}

/* ------------------------------------------------------------------ running */

static enum td_code parse(struct td_call *c, const struct spec *s, const struct td_tensor *names,
                          struct td_err *err)
{
    struct td_parse p = {.c = c,
                         .serialized = c->in[0],
                         .names = names,
                         .rows = td_tensor_count(c->in[0]),
                         .single = c->in[0]->shape.rank == 0};
    struct td_example_span *found;
    int n = s->n_sparse + s->n_dense + s->n_ragged, o = 0;
    TD_TRY(td_parse_read(&p, 1, s->keys, n, &found, err));
    for (int i = 0; i < s->n_sparse; i++) {
        struct td_cells k = {s->keys[i], s->sparse_types[i], found + i, n};
        TD_TRY(td_parse_sparse(&p, &k, i, s->n_sparse + i, 2 * s->n_sparse + i, err));
    }
    o = 3 * s->n_sparse;
    for (int i = 0; i < s->n_dense; i++, o++) {
        struct td_cells k = {s->keys[s->n_sparse + i], s->dense_types[i], found + s->n_sparse + i, n};
        TD_TRY(td_parse_dense(&p, &k, &s->dense_shapes[i], c->in[s->first_default + i], o, err));
    }
    for (int i = 0; i < s->n_ragged; i++) {
        int at = s->n_sparse + s->n_dense + i;
        struct td_cells k = {s->keys[at], s->ragged_types[i], found + at, n};
        TD_TRY(td_parse_ragged(&p, &k, o + i, o + s->n_ragged + i, err));
    }
    return TD_OK;
}

static enum td_code key_storage(struct td_call *c, struct spec *s, struct td_err *err)
{
    void *keys;
    size_t n = (size_t)(s->n_sparse + s->n_dense + s->n_ragged) + 1;
    TD_TRY(td_scratch(c, n * sizeof(struct td_bytes), &keys, err));
    s->keys = keys;
    return TD_OK;
}

static struct td_bytes element(const struct td_tensor *t, int64_t i)
{
    struct td_bytes b;
    b.p = td_tensor_str(t, i, &b.len);
    return b;
}

static enum td_code v1_run(struct td_call *c, struct td_err *err)
{
    struct spec s = {0};
    TD_TRY(read_types(c->node, &s, err));
    TD_TRY(key_storage(c, &s, err));
    for (int i = 0; i < s.n_sparse + s.n_dense; i++) {
        s.keys[i] = element(c->in[2 + i], 0);
    }
    s.first_default = 2 + s.n_sparse + s.n_dense;
    return parse(c, &s, c->in[1], err);
}

static enum td_code v2_run(struct td_call *c, struct td_err *err)
{
    struct spec s = {.first_default = 5};
    TD_TRY(read_types(c->node, &s, err));
    TD_TRY(key_storage(c, &s, err));
    int at = 0;
    for (int input = 2; input < 5; input++) {
        for (int64_t i = 0, n = td_tensor_count(c->in[input]); i < n; i++) {
            s.keys[at++] = element(c->in[input], i);
        }
    }
    return parse(c, &s, c->in[1], err);
}

static enum td_code single_run(struct td_call *c, struct td_err *err)
{
    struct spec s = {.first_default = 1};
    int n;
    TD_TRY(read_types(c->node, &s, err));
    TD_TRY(key_storage(c, &s, err));
    const struct td_bytes *sparse = td_attr_strs(c->node, "sparse_keys", &n);
    for (int i = 0; i < n; i++) {
        s.keys[i] = sparse[i];
    }
    const struct td_bytes *dense = td_attr_strs(c->node, "dense_keys", &n);
    for (int i = 0; i < n; i++) {
        s.keys[s.n_sparse + i] = dense[i];
    }
    return parse(c, &s, NULL, err);
}

/* ------------------------------------------------------------------ batches */

static bool parse_rows(struct td_batchable_step *s)
{
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (s->in_shape[0][0].rank != 1 || !td_batchable_as_input(s, o, 0, 0)) {
            s->out[o] = (struct td_batchable_value){
                .kind = TD_VALUE_MIX, .why = "a sparse, ragged or variable-length feature numbers the rows"};
        }
    }
    return true;
}

const struct td_op td_ops_parse_example[] = {
    {.name = "ParseExample",
     .sig = "(serialized:string, names:string, sparse_keys:Nsparse*string, dense_keys:Ndense*string, "
            "dense_defaults:Tdense) -> (sparse_indices:Nsparse*int64, sparse_values:sparse_types, "
            "sparse_shapes:Nsparse*int64, dense_values:Tdense) {Nsparse:int; Ndense:int; "
            "sparse_types:list(type); "
            "Tdense:list(type); dense_shapes:list(shape)}",
     .batchable = TD_BATCHABLE(parse_rows),
     .infer = v1_infer,
     .kernels = TD_KERNEL("parse_example.cpu", v1_run, {0})},
    {.name = "ParseExampleV2",
     .sig =
         "(serialized:string, names:string, sparse_keys:string, dense_keys:string, ragged_keys:string, "
         "dense_defaults:Tdense) -> (sparse_indices:num_sparse*int64, sparse_values:sparse_types, "
         "sparse_shapes:num_sparse*int64, dense_values:Tdense, ragged_values:ragged_value_types, "
         "ragged_row_splits:ragged_split_types) {Tdense:list(type); num_sparse:int; sparse_types:list(type); "
         "ragged_value_types:list(type); ragged_split_types:list(type); dense_shapes:list(shape)}",
     .batchable = TD_BATCHABLE(parse_rows),
     .infer = v2_infer,
     .kernels = TD_KERNEL("parse_example.cpu", v2_run, {0})},
    {.name = "ParseSingleExample",
     .sig =
         "(serialized:string, dense_defaults:Tdense) -> (sparse_indices:num_sparse*int64, "
         "sparse_values:sparse_types, sparse_shapes:num_sparse*int64, dense_values:Tdense) {num_sparse:int; "
         "sparse_keys:list(string); dense_keys:list(string); sparse_types:list(type); Tdense:list(type); "
         "dense_shapes:list(shape)}",
     .infer = single_infer,
     .kernels = TD_KERNEL("parse_example.cpu", single_run, {0})},
    {.name = NULL},
};
