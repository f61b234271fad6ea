/* kernels/data/dataset_reduce.c - ops that draw a dataset up at once: ReduceDataset, DatasetToSingleElement,
 * and DatasetCardinality, which only asks.
 *
 * ReduceDataset pulls elements one by one and calls its function with state, element and captured tensors;
 * the result takes the state's place. State, captured tensors and room for an element and a result are one
 * array, so one loop clears all of it whatever went wrong. DatasetToSingleElement pulls twice: the second
 * time must find the end.
 *
 * The iterator lives for the call. Does not: run in parallel, whatever the attributes allow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/dataset.h"
#include "kernels/ops.h"

#include "core/base/mem.h"

/* What a reduction holds, in one block: state, captured arguments, an element and the next state. */
struct reduction {
    struct td_tensor *state, *captured, *element, *next;
    int n_state, n_captured, width; /* width: of an element */
};

static struct reduction reduction_of(struct td_tensor *all, int n_state, int n_captured, int width)
{
    return (struct reduction){.state = all,
                              .captured = all + n_state,
                              .element = all + n_state + n_captured,
                              .next = all + n_state + n_captured + width,
                              .n_state = n_state,
                              .n_captured = n_captured,
                              .width = width};
}

/* state = f(state, element, captured arguments) for every element; all tensors are the caller's. */
static enum td_code reduce(struct td_call *c, struct td_dataset_iter *it, const struct reduction *r,
                           struct td_err *err)
{
    const char *function = td_attr_func(c->node, "f", 0)->name;
    const size_t state_bytes = (size_t)r->n_state * sizeof *r->state;
    for (;;) {
        bool end = false;
        TD_TRY(td_dataset_next(c, it, r->element, &end, err));
        if (end) {
            return TD_OK;
        }
        const struct td_tensor *const parts[3] = {r->state, r->element, r->captured};
        enum td_code rc =
            td_dataset_call(c, function, parts, (const int[3]){r->n_state, r->width, r->n_captured}, r->next,
                            r->n_state, err);
        td_dataset_clear(r->element, r->width);
        if (rc) {
            return rc;
        }
        td_dataset_clear(r->state, r->n_state);
        memcpy(r->state, r->next, state_bytes);
        memset(r->next, 0, state_bytes);
    }
}

static enum td_code keep_inputs(struct td_call *c, int first, struct td_tensor *t, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        TD_TRY(td_keep(c, first + i, &t[i], err));
    }
    return TD_OK;
}

static enum td_code out_state(struct td_call *c, struct td_tensor *state, int n, struct td_err *err)
{
    TD_FAIL_IF(n != c->n_out, err, INVALID_ARGUMENT, "%s: %d state tensors for %d outputs",
               TD_NODE_STR(c->node), n, c->n_out);
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(state[i].dtype != c->node->out_type[i], err, INVALID_ARGUMENT,
                   "%s: component %d is %s, output_types says %s", TD_NODE_STR(c->node), i,
                   td_dtype_name(state[i].dtype), td_dtype_name(c->node->out_type[i]));
    }
    for (int i = 0; i < n; i++) {
        td_out_move(c, i, &state[i]);
    }
    return TD_OK;
}

static enum td_code reduce_dataset(struct td_call *c, struct td_dataset *ds, const struct reduction *r,
                                   struct td_err *err)
{
    struct td_dataset_iter *it;
    TD_TRY(keep_inputs(c, 1, r->state, r->n_state + r->n_captured, err));
    TD_TRY(td_dataset_iter_new(ds, &it, err));
    enum td_code rc = reduce(c, it, r, err);
    td_dataset_iter_free(it);
    TD_TRY(rc);
    return out_state(c, r->state, r->n_state, err);
}

static enum td_code reduce_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    int n_state = td_attr_len(c->node, "Tstate"), n_captured = td_attr_len(c->node, "Targuments");
    TD_FAIL_IF(!td_attr_func(c->node, "f", 0), err, INVALID_ARGUMENT, "%s: no function",
               TD_NODE_STR(c->node));
    TD_TRY(td_dataset_in(c, 0, &ds, err));
    int n = 2 * n_state + n_captured + ds->n_out;
    struct td_tensor *all = td_calloc((size_t)n + 1, sizeof *all);
    if (!all) {
        return td_no_memory(err, (size_t)n * sizeof *all, "reduction state");
    }
    struct reduction r = reduction_of(all, n_state, n_captured, ds->n_out);
    enum td_code rc = reduce_dataset(c, ds, &r, err);
    td_dataset_clear(all, n);
    td_free(all);
    return rc;
}

/* The only element of `it` into out[0 .. width), with room for another behind. */
static enum td_code take_only(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                              struct td_err *err)
{
    bool end = false;
    TD_TRY(td_dataset_next(c, it, out, &end, err));
    TD_FAIL_IF(end, err, INVALID_ARGUMENT, "%s: Dataset was empty.", TD_NODE_STR(c->node));
    TD_TRY(td_dataset_next(c, it, out + it->ds->n_out, &end, err));
    TD_FAIL_IF(!end, err, INVALID_ARGUMENT, "%s: Dataset had more than one element.", TD_NODE_STR(c->node));
    return out_state(c, out, it->ds->n_out, err);
}

static enum td_code only_element(struct td_call *c, struct td_dataset *ds, struct td_tensor *out,
                                 struct td_err *err)
{
    struct td_dataset_iter *it;
    TD_TRY(td_dataset_iter_new(ds, &it, err));
    enum td_code rc = take_only(c, it, out, err);
    td_dataset_iter_free(it);
    return rc;
}

static enum td_code single_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    TD_TRY(td_dataset_in(c, 0, &ds, err));
    struct td_tensor *element = td_calloc(2 * (size_t)ds->n_out + 1, sizeof *element);
    if (!element) {
        return td_no_memory(err, (size_t)ds->n_out * sizeof *element, "dataset element");
    }
    enum td_code rc = only_element(c, ds, element, err);
    td_dataset_clear(element, 2 * ds->n_out);
    td_free(element);
    return rc;
}

static enum td_code cardinality_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    struct td_tensor *out;
    TD_TRY(td_dataset_in(c, 0, &ds, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, int64_t)[0] = ds->cardinality;
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define T_S "output_types:list(type); output_shapes:list(shape)"
#define META "; metadata:string=''"
#define RESULT(opname, signature, fn, gradient)                                                              \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_STATEFUL,                             \
        .kernels = TD_KERNEL("dataset.cpu", fn), .grad = gradient                                            \
    }
#define PURE(opname, signature, fn)                                                                          \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD, .infer = td_dataset_scalars, \
        .kernels = TD_KERNEL("dataset.cpu", fn)                                                              \
    }

const struct td_op td_ops_dataset_reduce[] = {
    RESULT("ReduceDataset",
           "(input_dataset:variant, initial_state:Tstate, other_arguments:Targuments) -> "
           "(components:output_types) "
           "{f:func; Tstate:list(type); Targuments:list(type); " T_S
           "; use_inter_op_parallelism:bool=true" META "}",
           reduce_run, td_not_differentiable),
    RESULT("DatasetToSingleElement", "(dataset:variant) -> (components:output_types) {" T_S META "}",
           single_run, NULL),
    PURE("DatasetCardinality",
         "(input_dataset:variant) -> (cardinality:int64) {cardinality_options:string=''}", cardinality_run),
    {.name = NULL},
};
