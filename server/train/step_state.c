/* server/train/step_state.c - what a step keeps, read and written as tensors.
 *
 * All of it are variables of the engine: reading takes a counted snapshot and copies nothing; writing puts
 * the given tensor in the old one's place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/train/step_impl.h"

enum td_code td_step_bind_state(struct td_step *s, struct td_err *err)
{
    struct td_model *engine = td_servable_engine(s->servable);
    for (int i = 0; i < s->n_state; i++) {
        struct td_step_state *state = &s->state[i];
        state->variable = (struct td_variable *)td_model_resource(engine, &td_variable_type, state->resource);
        TD_FAIL_IF(state->variable == NULL, err, INTERNAL, "training: there is no variable '%.200s'",
                   state->resource);
    }
    return TD_OK;
}

int td_step_n_state(const struct td_step *s)
{
    return s->n_state;
}

const char *td_step_state_name(const struct td_step *s, int i)
{
    return s->state[i].name;
}

bool td_step_state_is_model(const struct td_step *s, int i)
{
    return s->state[i].model;
}

enum td_code td_step_get_state(struct td_step *s, int i, struct td_tensor *out, struct td_err *err)
{
    return td_variable_read(s->state[i].variable, out, err);
}

enum td_code td_step_set_state(struct td_step *s, int i, struct td_tensor *takes, struct td_err *err)
{
    const struct td_step_state *state = &s->state[i];
    TD_FAIL_IF(takes->dtype != state->dtype || !td_shape_compatible(&takes->shape, &state->shape), err,
               INVALID_ARGUMENT, "progress has '%.200s' as %s %s, the job as %s %s", state->name,
               td_dtype_name(takes->dtype), TD_SHAPE_STR(&takes->shape), td_dtype_name(state->dtype),
               TD_SHAPE_STR(&state->shape));
    return td_variable_assign(state->variable, takes, err);
}

/* ------------------------------------------------------------------ the result */

/* Bytes of one row of a part: what lies behind `axis`, times its length there. */
static size_t run_bytes(const struct td_tensor *t, int axis)
{
    size_t bytes = td_dtype_size(t->dtype);
    for (int d = axis; d < t->shape.rank; d++) {
        bytes *= (size_t)t->shape.dim[d];
    }
    return bytes;
}

/* part[n] one behind the other along axis. */
static enum td_code join(const struct td_tensor *part, int n, int axis, struct td_tensor *out,
                         struct td_err *err)
{
    struct td_shape shape = part[0].shape;
    int64_t outer = 1;
    size_t total = 0, at = 0;
    for (int i = 1; i < n; i++) {
        shape.dim[axis] += part[i].shape.dim[axis];
    }
    for (int d = 0; d < axis; d++) {
        outer *= shape.dim[d];
    }
    TD_TRY(td_tensor_new(out, part[0].dtype, &shape, err));
    for (int i = 0; i < n; i++) {
        total += run_bytes(&part[i], axis);
    }
    for (int i = 0; i < n; i++) {
        const size_t bytes = run_bytes(&part[i], axis);
        for (int64_t o = 0; o < outer; o++) {
            memcpy((char *)out->data + (size_t)o * total + at, (const char *)part[i].data + (size_t)o * bytes,
                   bytes);
        }
        at += bytes;
    }
    return TD_OK;
}

static enum td_code whole_value(struct td_step *s, const struct td_step_result_row *row,
                                struct td_tensor *out, struct td_err *err)
{
    struct td_tensor *part = td_calloc((size_t)row->n, sizeof *part);
    enum td_code rc = part == NULL ? td_no_memory(err, (size_t)row->n, "a variable's parts") : TD_OK;
    for (int i = 0; rc == TD_OK && i < row->n; i++) {
        rc = td_step_get_state(s, row->state + i, &part[i], err);
    }
    rc = rc ? rc : join(part, row->n, part[0].shape.rank + row->axis, out, err);
    for (int i = 0; part != NULL && i < row->n; i++) {
        td_tensor_clear(&part[i]);
    }
    td_free(part);
    return rc;
}

enum td_code td_step_each_result(struct td_step *s, bool final, td_step_value_fn *fn, void *ctx,
                                 struct td_err *err)
{
    if (final && s->run[TD_RUN_AVERAGES] != NULL) {
        TD_TRY(td_step_use_averages(s, err));
    }
    for (int i = 0; i < s->n_result; i++) {
        const struct td_step_result_row *row = &s->result[i];
        struct td_tensor value;
        if (row->key == NULL) {
            continue;
        }
        TD_TRY(row->n == 1 ? td_step_get_state(s, row->state, &value, err)
                           : whole_value(s, row, &value, err));
        const enum td_code rc = fn(ctx, row->key, &value, err);
        td_tensor_clear(&value);
        TD_TRY(rc);
    }
    return TD_OK;
}

enum td_code td_step_use_averages(struct td_step *s, struct td_err *err)
{
    struct td_callable *run = s->run[TD_RUN_AVERAGES];
    return run == NULL ? TD_OK : td_callable_run(run, NULL, NULL, NULL, err);
}
