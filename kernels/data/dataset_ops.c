/* kernels/data/dataset_ops.c - the ops that make datasets.
 *
 * All makers read their inputs alike: datasets first, then tensors to keep (components, initial state,
 * captured arguments), then scalars. What only tunes the speed of an input pipeline (prefetching,
 * parallel calls, options) is the input dataset itself.
 *
 * Not here: files, snapshots, generators from Python; windows and groups are in dataset_window.c and
 * dataset_group.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/dataset.h"
#include "kernels/ops.h"

#include "core/base/mem.h"

/* ------------------------------------------------------------------ making */

static int count_outputs(const struct td_node *n)
{
    int k = td_attr_len(n, "output_types");
    return k > 0 ? k : td_attr_len(n, "Toutput_types");
}

enum td_code td_dataset_keep_from(struct td_call *c, struct td_dataset *ds, struct td_err *err)
{
    for (int i = 0; i < ds->n_from; i++) {
        struct td_dataset *from;
        TD_TRY(td_dataset_in(c, i, &from, err));
        TD_FAIL_IF(from->nest.depth >= TD_NEST_LIMIT, err, RESOURCE_EXHAUSTED,
                   "%s: a dataset built of more than %d others, one on the other", TD_NODE_STR(c->node),
                   TD_NEST_LIMIT);
        ds->nest.depth = from->nest.depth >= ds->nest.depth ? from->nest.depth + 1 : ds->nest.depth;
        ds->from[i] = from;
        td_obj_ref(&from->nest.obj);
    }
    return TD_OK;
}

static enum td_code keep_args(struct td_call *c, struct td_dataset *ds, struct td_err *err)
{
    for (int i = 0; i < ds->n_args; i++) {
        int depth = 1;
        TD_TRY(td_tensor_list_nest(c->in[ds->n_from + i], &depth, err));
        ds->nest.depth = depth > ds->nest.depth ? depth : ds->nest.depth;
        TD_TRY(td_keep(c, ds->n_from + i, &ds->arg[i], err));
    }
    return TD_OK;
}

static enum td_code read_numbers(struct td_call *c, struct td_dataset *ds, struct td_err *err)
{
    int first = ds->n_from + ds->n_args;
    for (int i = first; i < c->n_in && i - first < TD_DATASET_NUMBERS; i++) {
        const struct td_tensor *t = c->in[i];
        if (t->dtype != TD_INT64 && t->dtype != TD_INT32 && t->dtype != TD_BOOL) {
            continue;
        }
        TD_FAIL_IF(td_tensor_count(t) != 1, err, INVALID_ARGUMENT,
                   "%s: input %d must be a scalar, but has shape %s", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&t->shape));
        ds->number[i - first] = t->dtype == TD_BOOL ? TD_DATA(t, td_bool)[0] : td_tensor_int(t, 0);
    }
    return TD_OK;
}

static enum td_code set_function(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    const struct td_func_ref *f = td_attr_func(n, "f", 0);
    f = f ? f : td_attr_func(n, "predicate", 0);
    if (!f) {
        return TD_OK;
    }
    ds->function = td_strdup(f->name);
    return ds->function ? TD_OK : td_no_memory(err, strlen(f->name), "function name");
}

/* What the node's inputs and attributes say. */
static enum td_code fill(struct td_call *c, const struct td_dataset_kind *k, struct td_dataset *ds,
                         struct td_err *err)
{
    TD_TRY(td_dataset_keep_from(c, ds, err));
    TD_TRY(keep_args(c, ds, err));
    TD_TRY(read_numbers(c, ds, err));
    TD_TRY(set_function(c->node, ds, err));
    return k->finish ? k->finish(c->node, ds, err) : TD_OK;
}

enum td_code td_dataset_build(struct td_call *c, const struct td_dataset_kind *k, struct td_dataset **out,
                              struct td_err *err)
{
    const struct td_node *n = c->node;
    struct td_dataset *ds;
    int n_from = k->n_from < 0 ? c->n_in : k->n_from;
    int n_state = td_attr_len(n, "Tstate"), n_args = n_state + td_attr_len(n, "Targuments");
    n_args = k->all_args ? c->n_in - n_from : n_args;
    TD_TRY(td_dataset_new(k->next, count_outputs(n), n_from, n_args, &ds, err));
    ds->n_state = n_state;
    enum td_code rc = fill(c, k, ds, err);
    if (rc) {
        td_obj_unref(&ds->nest.obj);
        return rc;
    }
    *out = ds;
    return TD_OK;
}

static enum td_code make(struct td_call *c, const struct td_dataset_kind *k, struct td_err *err)
{
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, k, &ds, err));
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* ------------------------------------------------------------------ checks of each kind */

enum td_code td_dataset_same_width(const struct td_node *n, const struct td_dataset *ds, struct td_err *err)
{
    for (int i = 0; i < ds->n_from; i++) {
        TD_FAIL_IF(ds->from[i]->n_out != ds->n_out, err, INVALID_ARGUMENT,
                   "%s: input %d has %d components, output_types has %d", TD_NODE_STR(n), i,
                   ds->from[i]->n_out, ds->n_out);
    }
    return TD_OK;
}

static enum td_code finish_once(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    (void)n;
    (void)err;
    ds->n_out = ds->n_args;
    ds->cardinality = 1;
    return TD_OK;
}

static enum td_code finish_slice(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    ds->n_out = ds->n_args;
    for (int k = 0; k < ds->n_args; k++) {
        const struct td_shape *s = &ds->arg[k].shape;
        TD_FAIL_IF(s->rank < 1, err, INVALID_ARGUMENT, "%s: All components must be at least 1-dimensional",
                   TD_NODE_STR(n));
        TD_FAIL_IF(s->dim[0] != ds->arg[0].shape.dim[0], err, INVALID_ARGUMENT,
                   "%s: All components must have the same size in the 0th dimension: %s, %s", TD_NODE_STR(n),
                   TD_SHAPE_STR(&ds->arg[0].shape), TD_SHAPE_STR(s));
        ds->cardinality = s->dim[0];
    }
    return TD_OK;
}

static enum td_code finish_range(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t start = ds->number[0], stop = ds->number[1], step = ds->number[2];
    TD_FAIL_IF(step == 0, err, INVALID_ARGUMENT, "%s: step must be a non-zero integer.", TD_NODE_STR(n));
    TD_FAIL_IF(ds->n_out != 1 || td_attr_types(n, "output_types", &(int){0})[0] != TD_INT64, err,
               UNIMPLEMENTED, "%s: output_types, want one int64", TD_NODE_STR(n));
    bool up = step > 0;
    uint64_t span = up ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t by = up ? (uint64_t)step : 0 - (uint64_t)step;
    bool empty = up ? stop <= start : stop >= start;
    uint64_t count = empty ? 0 : (span - 1) / by + 1;
    ds->cardinality = count > INT64_MAX ? INT64_MAX : (int64_t)count;
    return TD_OK;
}

static enum td_code finish_map(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(!ds->function, err, INVALID_ARGUMENT, "%s: no function", TD_NODE_STR(n));
    if (td_attr_bool(n, "preserve_cardinality")) {
        ds->cardinality = ds->from[0]->cardinality;
    }
    return TD_OK;
}

static enum td_code finish_filter(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(!ds->function, err, INVALID_ARGUMENT, "%s: no function", TD_NODE_STR(n));
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_flat_map(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(!ds->function, err, INVALID_ARGUMENT, "%s: no function", TD_NODE_STR(n));
    return TD_OK;
}

static enum td_code finish_interleave(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(!ds->function, err, INVALID_ARGUMENT, "%s: no function", TD_NODE_STR(n));
    bool automatic = ds->number[0] == -1;
    ds->number[0] = automatic ? 10 : ds->number[0]; /* AUTOTUNE */
    TD_FAIL_IF(ds->number[0] <= 0 || ds->number[0] > 4096, err, INVALID_ARGUMENT,
               "%s: cycle_length must be > 0 and at most 4096, is %lld", TD_NODE_STR(n),
               (long long)ds->number[0]);
    TD_FAIL_IF(strcmp(n->op_name, "ParallelInterleaveDatasetV4") == 0 && !automatic &&
                   ds->number[4] > ds->number[0],
               err, INVALID_ARGUMENT, "%s: num_parallel_calls is %lld, want at most cycle_length %lld",
               TD_NODE_STR(n), (long long)ds->number[4], (long long)ds->number[0]);
    TD_FAIL_IF(ds->number[1] <= 0, err, INVALID_ARGUMENT, "%s: block_length must be > 0, is %lld",
               TD_NODE_STR(n), (long long)ds->number[1]);
    return TD_OK;
}

static enum td_code finish_batch(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t all = ds->from[0]->cardinality, size = ds->number[0];
    TD_FAIL_IF(size <= 0, err, INVALID_ARGUMENT, "%s: Batch size must be greater than zero.", TD_NODE_STR(n));
    if (td_attr_len(n, "output_types") > 0 && strcmp(n->op_name, "ParallelBatchDataset") == 0) {
        ds->number[1] = ds->number[2]; /* behind num_parallel_calls */
    }
    ds->cardinality = all < 0 ? all : all / size + (all % size != 0 && !ds->number[1]);
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_unbatch(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(ds->n_out == 0, err, INVALID_ARGUMENT, "%s: no components, want at least one", TD_NODE_STR(n));
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_take(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t all = ds->from[0]->cardinality, count = ds->number[0];
    ds->cardinality = all;
    if (count >= 0 && (all > count || all == TD_DATASET_INFINITE)) {
        ds->cardinality = count;
    }
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_skip(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t all = ds->from[0]->cardinality, count = ds->number[0];
    ds->cardinality = all;
    if (count < 0 || all >= 0) {
        ds->cardinality = count < 0 || all < count ? 0 : all - count;
    }
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_repeat(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t all = ds->from[0]->cardinality, count = ds->number[0];
    if (count < 0) {
        ds->cardinality = all == 0 ? 0 : TD_DATASET_INFINITE;
    } else if (count == 0 || all < 0) {
        ds->cardinality = count == 0 ? 0 : all;
    } else if (!td_i64_mul(all, count, &ds->cardinality)) {
        ds->cardinality = TD_DATASET_UNKNOWN;
    }
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_shard(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t all = ds->from[0]->cardinality, shards = ds->number[0], index = ds->number[1];
    TD_FAIL_IF(shards <= 0, err, INVALID_ARGUMENT,
               "%s: Number of shards must be greater than zero (currently num_shards = %lld).",
               TD_NODE_STR(n), (long long)shards);
    TD_FAIL_IF(index < 0 || index >= shards, err, INVALID_ARGUMENT,
               "%s: Index must be between 0 and %lld (currently index = %lld).", TD_NODE_STR(n),
               (long long)shards - 1, (long long)index);
    ds->cardinality = all < 0 ? all : all / shards + (index < all % shards);
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_concatenate(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int64_t a = ds->from[0]->cardinality, b = ds->from[1]->cardinality;
    if (a == TD_DATASET_INFINITE || b == TD_DATASET_INFINITE) {
        ds->cardinality = TD_DATASET_INFINITE;
    } else if (a < 0 || b < 0 || !td_i64_add(a, b, &ds->cardinality)) {
        ds->cardinality = TD_DATASET_UNKNOWN;
    }
    return td_dataset_same_width(n, ds, err);
}

static enum td_code finish_zip(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    int width = 0;
    ds->cardinality = TD_DATASET_INFINITE;
    for (int i = 0; i < ds->n_from; i++) {
        int64_t k = ds->from[i]->cardinality;
        width += ds->from[i]->n_out;
        if (k == TD_DATASET_UNKNOWN || ds->cardinality == TD_DATASET_UNKNOWN) {
            ds->cardinality = TD_DATASET_UNKNOWN;
        } else if (k != TD_DATASET_INFINITE && (ds->cardinality < 0 || k < ds->cardinality)) {
            ds->cardinality = k;
        }
    }
    TD_FAIL_IF(width != ds->n_out, err, INVALID_ARGUMENT,
               "%s: inputs have %d components, output_types has %d", TD_NODE_STR(n), width, ds->n_out);
    return TD_OK;
}

static enum td_code finish_counted(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    ds->cardinality = ds->number[0];
    return td_dataset_same_width(n, ds, err);
}

#define MAKER(name, n_from, all_args, next, finish)                                                          \
    static enum td_code name##_run(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        static const struct td_dataset_kind k = {n_from, all_args, next, finish};                            \
        return make(c, &k, err);                                                                             \
    }
MAKER(once, 0, true, td_dataset_next_once, finish_once)
MAKER(slice, 0, true, td_dataset_next_slice, finish_slice)
MAKER(range, 0, false, td_dataset_next_range, finish_range)
MAKER(map, 1, false, td_dataset_next_map, finish_map)
MAKER(filter, 1, false, td_dataset_next_filter, finish_filter)
MAKER(take_while, 1, false, td_dataset_next_take_while, finish_filter)
MAKER(scan, 1, false, td_dataset_next_scan, finish_map)
MAKER(flat_map, 1, false, td_dataset_next_flat_map, finish_flat_map)
MAKER(interleave, 1, false, td_dataset_next_interleave, finish_interleave)
MAKER(batch, 1, false, td_dataset_next_batch, finish_batch)
MAKER(unbatch, 1, false, td_dataset_next_unbatch, finish_unbatch)
MAKER(take, 1, false, td_dataset_next_take, finish_take)
MAKER(skip, 1, false, td_dataset_next_skip, finish_skip)
MAKER(repeat, 1, false, td_dataset_next_repeat, finish_repeat)
MAKER(shard, 1, false, td_dataset_next_shard, finish_shard)
MAKER(counted, 1, false, td_dataset_next_counted, finish_counted)
MAKER(concatenate, 2, false, td_dataset_next_concatenate, finish_concatenate)
MAKER(zip, -1, false, td_dataset_next_zip, finish_zip)

/* Tunes speed alone; -1, where TensorFlow takes it, leaves the choice to the runtime. */
static enum td_code same_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    int64_t low = strcmp(c->node->op_name, "PrefetchDataset") == 0 ? -1 : 0;
    if (c->n_in == 2 && c->in[1]->dtype == TD_INT64 && td_tensor_count(c->in[1]) == 1) {
        TD_FAIL_IF(td_tensor_int(c->in[1], 0) < low, err, INVALID_ARGUMENT,
                   "%s: input 1 must be >= %lld, is %lld", TD_NODE_STR(c->node), (long long)low,
                   (long long)td_tensor_int(c->in[1], 0));
    }
    TD_TRY(td_dataset_in(c, 0, &ds, err));
    td_obj_ref(&ds->nest.obj);
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

enum td_code td_dataset_scalars(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_shape_scalar();
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define T_S "output_types:list(type); output_shapes:list(shape)"
#define META "; metadata:string=''"
#define ROW(opname, signature, more, fn)                                                                     \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | (more),                     \
        .infer = td_dataset_scalars, .kernels = TD_KERNEL("dataset.cpu", fn)                                 \
    }
#define PURE(opname, signature, fn) ROW(opname, signature, 0, fn)
#define STATE(opname, signature, fn) ROW(opname, signature, TD_OP_STATEFUL, fn)
#define CALLS "(input_dataset:variant, other_arguments:Targuments"

const struct td_op td_ops_dataset_ops[] = {
    STATE("TensorDataset",
          "(components:Toutput_types) -> (handle:variant) {Toutput_types:list(type); "
          "output_shapes:list(shape)" META "}",
          once_run),
    STATE("TensorSliceDataset",
          "(components:Toutput_types) -> (handle:variant) {Toutput_types:list(type); "
          "output_shapes:list(shape); "
          "is_files:bool=false" META "; replicate_on_split:bool=false}",
          slice_run),
    STATE("RangeDataset",
          "(start:int64, stop:int64, step:int64) -> (handle:variant) {" T_S META
          "; replicate_on_split:bool=false}",
          range_run),
    PURE("MapDataset",
         CALLS ") -> (handle:variant) {f:func; Targuments:list(type); " T_S
               "; use_inter_op_parallelism:bool=true; preserve_cardinality:bool=false; "
               "force_synchronous:bool=false" META "}",
         map_run),
    PURE("ParallelMapDataset",
         CALLS ", num_parallel_calls:int32) -> (handle:variant) {f:func; Targuments:list(type); " T_S
               "; use_inter_op_parallelism:bool=true; sloppy:bool=false; preserve_cardinality:bool=false" META
               "}",
         map_run),
    PURE("ParallelMapDatasetV2",
         CALLS ", num_parallel_calls:int64) -> (handle:variant) {f:func; Targuments:list(type); " T_S
               "; use_inter_op_parallelism:bool=true; deterministic:string='default'; "
               "preserve_cardinality:bool=false; "
               "use_unbounded_threadpool:bool=false" META "}",
         map_run),
    PURE("FilterDataset", CALLS ") -> (handle:variant) {predicate:func; Targuments:list(type); " T_S META "}",
         filter_run),
    PURE("ParallelFilterDataset",
         CALLS
         ", num_parallel_calls:int64) -> (handle:variant) {predicate:func; deterministic:string='default'; "
         "Targuments:list(type); " T_S META "}",
         filter_run),
    PURE("TakeWhileDataset",
         CALLS ") -> (handle:variant) {predicate:func; Targuments:list(type); " T_S META "}", take_while_run),
    PURE("ScanDataset",
         "(input_dataset:variant, initial_state:Tstate, other_arguments:Targuments) -> (handle:variant) "
         "{f:func; "
         "Tstate:list(type); Targuments:list(type); " T_S "; preserve_cardinality:bool=false; "
         "use_default_device:bool=true" META "}",
         scan_run),
    PURE("FlatMapDataset", CALLS ") -> (handle:variant) {f:func; Targuments:list(type); " T_S META "}",
         flat_map_run),
    PURE("InterleaveDataset",
         CALLS ", cycle_length:int64, block_length:int64) -> (handle:variant) {f:func; "
               "Targuments:list(type); " T_S META "}",
         interleave_run),
    PURE("ParallelInterleaveDatasetV4",
         CALLS ", cycle_length:int64, block_length:int64, buffer_output_elements:int64, "
               "prefetch_input_elements:int64, "
               "num_parallel_calls:int64) -> (handle:variant) {f:func; deterministic:string='default'; "
               "Targuments:list(type); " T_S META "}",
         interleave_run),
    PURE("BatchDataset", "(input_dataset:variant, batch_size:int64) -> (handle:variant) {" T_S META "}",
         batch_run),
    PURE("BatchDatasetV2",
         "(input_dataset:variant, batch_size:int64, drop_remainder:bool) -> (handle:variant) "
         "{parallel_copy:bool=false; " T_S META "}",
         batch_run),
    PURE("ParallelBatchDataset",
         "(input_dataset:variant, batch_size:int64, num_parallel_calls:int64, drop_remainder:bool) -> "
         "(handle:variant) "
         "{parallel_copy:bool=false; " T_S "; deterministic:string='default'" META "}",
         batch_run),
    PURE("UnbatchDataset", "(input_dataset:variant) -> (handle:variant) {" T_S META "}", unbatch_run),
    PURE("TakeDataset", "(input_dataset:variant, count:int64) -> (handle:variant) {" T_S META "}", take_run),
    PURE("SkipDataset", "(input_dataset:variant, count:int64) -> (handle:variant) {" T_S META "}", skip_run),
    PURE("RepeatDataset", "(input_dataset:variant, count:int64) -> (handle:variant) {" T_S META "}",
         repeat_run),
    PURE("ShardDataset",
         "(input_dataset:variant, num_shards:int64, index:int64) -> (handle:variant) "
         "{require_non_empty:bool=false; " T_S META "}",
         shard_run),
    PURE("ConcatenateDataset",
         "(input_dataset:variant, another_dataset:variant) -> (handle:variant) {" T_S META "}",
         concatenate_run),
    PURE("ZipDataset", "(input_datasets:N*variant) -> (handle:variant) {" T_S "; N:int" META "}", zip_run),
    PURE("PrefetchDataset",
         "(input_dataset:variant, buffer_size:int64) -> (handle:variant) {" T_S
         "; slack_period:int=0; legacy_autotune:bool=true; buffer_size_min:int=0" META "}",
         same_run),
    PURE("OptionsDataset",
         "(input_dataset:variant) -> (handle:variant) {serialized_options:string; " T_S META "}", same_run),
    PURE("ModelDataset",
         "(input_dataset:variant) -> (handle:variant) {algorithm:int=0; cpu_budget:int=0; "
         "ram_budget:int=0; " T_S "}",
         same_run),
    PURE("FinalizeDataset",
         "(input_dataset:variant) -> (handle:variant) {has_captured_ref:bool=false; " T_S "}", same_run),
    PURE("RewriteDataset", "(input_dataset:variant, rewrite_name:string) -> (handle:variant) {" T_S "}",
         same_run),
    PURE("AssertCardinalityDataset",
         "(input_dataset:variant, cardinality:int64) -> (handle:variant) {" T_S "}", counted_run),
    PURE("MaxIntraOpParallelismDataset",
         "(input_dataset:variant, max_intra_op_parallelism:int64) -> (handle:variant) {" T_S "}", same_run),
    PURE("PrivateThreadPoolDataset",
         "(input_dataset:variant, num_threads:int64) -> (handle:variant) {" T_S "}", same_run),
    {.name = NULL},
};
