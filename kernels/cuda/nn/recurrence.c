/* kernels/cuda/nn/recurrence.c - the row of _RecurrenceTensors: all steps of a cell are queued at once, and
 * nothing is waited for.
 *
 * How many steps there are, the host knows when it launches: the limits are numbers of its own. A step is our
 * own kernel (recurrence.cu), product and cell in one; where there are many rows, the product is cuBLASLt's.
 * h of all steps is made where a list of it is wanted; else it goes to and fro between two places.
 *
 * What an output still lacks in the end is copied. Elements of lists that no step puts anything into are
 * zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/recurrence.h"

#include <assert.h>
#include <string.h>

#include "kernels/control/recurrence_tensors.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/rows.h"

static_assert((int)TD_CELL_PLAIN == (int)TD_CUDA_CELL_PLAIN && (int)TD_CELL_GRU == (int)TD_CUDA_CELL_GRU &&
                  (int)TD_SQUASH_HARD == (int)TD_CUDA_SQUASH_HARD &&
                  (int)TD_SQUASH_RELU == (int)TD_CUDA_SQUASH_RELU,
              "cells and squashes have one number each");

enum { MOST_OUTPUTS = 64 };
enum { FEW_ROWS = 32 }; /* up to which the weights are read by our own kernel, once for 8 of them */

/* What prepare made. */
struct state {
    struct td_recurrence_tensors t;
    struct td_cublaslt_plan *product[2]; /* NULL: our own kernel makes them */
};

static bool needs_outputs(const struct td_recurrence_tensors *t)
{
    return t->cell[TD_RECURRENCE_O] >= 0 || t->cell[TD_RECURRENCE_Z] >= 0;
}

/* ------------------------------------------------------------------ workspace */

/* Its parts, each from a multiple of 256 bytes on. */
enum part { RING_H, RING_O, STATE_C, UPDATE, RESET_H, PRODUCT, CUBLASLT, PARTS };

static size_t size_parts(const struct state *s, size_t at[PARTS + 1])
{
    const struct td_recurrence_tensors *t = &s->t;
    const size_t one = (size_t)(t->rows * t->units) * sizeof(float);
    const bool before = t->kind == TD_CELL_GRU_BEFORE;
    size_t bytes[PARTS] = {[RING_H] = 2 * one,
                           [RING_O] = needs_outputs(t) ? 2 * one : 0,
                           [STATE_C] = t->kind == TD_CELL_LSTM ? one : 0,
                           [UPDATE] = before ? one : 0,
                           [RESET_H] = before ? one : 0};
    for (int k = 0; k < 2 && s->product[k] != NULL; k++) {
        const size_t wants = td_cublaslt_plan_workspace(s->product[k]);
        bytes[PRODUCT] = (size_t)td_cell_gates(t->kind) * one;
        bytes[CUBLASLT] = wants > bytes[CUBLASLT] ? wants : bytes[CUBLASLT];
    }
    at[0] = 0;
    for (int i = 0; i < PARTS; i++) {
        at[i + 1] = at[i] + (bytes[i] + 255) / 256 * 256;
    }
    return at[PARTS];
}

/* ------------------------------------------------------------------ before a run */

static void release(void *state)
{
    struct state *s = state;
    td_cublaslt_plan_free(s->product[0]);
    td_cublaslt_plan_free(s->product[1]);
    td_free(s);
}

static bool plan_product(const struct td_cublaslt *lt, const struct td_recurrence_tensors *t, int64_t gates,
                         struct td_cublaslt_plan **out)
{
    const struct td_cublaslt_product p = {.type = TD_CUDA_FLOAT,
                                          .m = t->rows,
                                          .n = gates * t->units,
                                          .k = t->units,
                                          .batches = 1,
                                          .epilogue = TD_CUBLASLT_PLAIN};
    return td_cublaslt_plan_make(lt, &p, 0, out) == NULL;
}

/* The library's products, where it is to make them. */
static void plan_products(const struct td_cublaslt *lt, struct state *s)
{
    const struct td_recurrence_tensors *t = &s->t;
    const bool ok = lt != NULL && t->rows > FEW_ROWS && t->rows * t->units % (TD_CUBLASLT_ALIGNED / 4) == 0 &&
                    plan_product(lt, t, td_cell_gates(t->kind), &s->product[0]) &&
                    (t->kind != TD_CELL_GRU_BEFORE || plan_product(lt, t, 1, &s->product[1]));
    if (!ok) {
        td_cublaslt_plan_free(s->product[0]);
        s->product[0] = NULL;
    }
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct td_recurrence_tensors t;
    size_t at[PARTS + 1];
    int64_t all;
    if (!td_recurrence_tensors_read(q->node, q->in, &t) || !td_i64_mul(t.rows, t.units, &all)) {
        o->refusal = "its shapes are not those of a cell";
        return TD_OK;
    }
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a recurrence");
    }
    s->t = t;
    plan_products(td_cuda_libraries_of(q->target.device)->cublaslt, s);
    o->state = s;
    o->state_bytes = sizeof *s;
    o->name = s->product[0] != NULL ? "recurrence.cublaslt" : NULL;
    o->workspace_bytes = size_parts(s, at);
    return TD_OK;
}

/* ------------------------------------------------------------------ numbers of the run */

struct run {
    struct td_call *c;
    struct td_recurrence_tensors t;
    const struct state *state;
    size_t at[PARTS + 1];
    struct td_cuda_recurrence s;
    int h_list, o_list; /* the output that the steps put h into, or what is put in its place; -1: none */
    struct td_tensor *out[MOST_OUTPUTS];
};

static int64_t number(const struct run *r, int64_t input)
{
    return td_tensor_int(r->c->in[r->t.inputs[input]], 0);
}

/* How many steps the conditions allow. */
static enum td_code count_steps(struct run *r, struct td_err *err)
{
    r->s.first = number(r, r->t.cell[TD_RECURRENCE_INDEX]);
    r->s.steps = INT64_MAX;
    for (int k = 0; k < r->t.n_limits; k++) {
        const int64_t *limit = r->t.limits + (ptrdiff_t)3 * k, from = number(r, limit[0]);
        const int64_t most = limit[1] == 0 ? number(r, limit[2]) : limit[2];
        const int64_t left = from >= most ? 0 : (int64_t)((uint64_t)most - (uint64_t)from);
        r->s.steps = left >= 0 && left < r->s.steps ? left : r->s.steps;
    }
    int64_t n = r->t.n_x;
    n = r->t.cell[TD_RECURRENCE_ITEMS2] >= 0 && r->t.n_x2 < n ? r->t.n_x2 : n;
    n = r->t.cell[TD_RECURRENCE_MASK] >= 0 && r->t.n_masks < n ? r->t.n_masks : n;
    const int64_t end = r->s.first < 0 || r->s.first > n ? -1 : n - r->s.first;
    TD_FAIL_IF(r->s.steps > 0 && r->s.steps > end, err, INVALID_ARGUMENT,
               "%s: Trying to access element %lld in a list with %lld elements.", TD_NODE_STR(r->c->node),
               (long long)(end < 0 ? r->s.first : n), (long long)n);
    return TD_OK;
}

/* The elements [*from, *end) of output k, a list, that steps put something into. */
static enum td_code filled(const struct run *r, int k, int64_t *from, int64_t *end, struct td_err *err)
{
    const int64_t at = r->t.becomes[2 * r->t.outputs[k] + 1], n = r->out[k]->shape.dim[0];
    const struct td_shape said = td_shape_matrix(r->t.shapes[2 * k], r->t.shapes[2 * k + 1]);
    *from = at < 0 ? r->s.first : at;
    *end = at < 0 ? r->s.first + r->s.steps : at + 1;
    if (r->s.steps == 0) {
        TD_FAIL_IF(!td_shape_known(&said), err, INVALID_ARGUMENT,
                   "%s: Tried to stack list which only contains uninitialized tensors and has a "
                   "non-fully-defined element_shape: %s",
                   TD_NODE_STR(r->c->node), TD_SHAPE_STR(&said));
        *from = *end = 0;
    }
    TD_FAIL_IF(*end > n, err, INVALID_ARGUMENT, "%s: Tried to set item %lld in a list with %lld elements",
               TD_NODE_STR(r->c->node), (long long)(*from < n ? n : *from), (long long)n);
    return TD_OK;
}

/* ------------------------------------------------------------------ what the steps read and write */

static const float *floats(const struct run *r, int what)
{
    const int at = td_recurrence_tensors_at(&r->t, what);
    return at < 0 ? NULL : r->c->in[at]->data;
}

static void *part(const struct run *r, enum part i)
{
    return r->at[i + 1] > r->at[i] ? (char *)r->c->workspace + r->at[i] : NULL;
}

static void put_cell(struct run *r)
{
    const int64_t *cell = r->t.cell;
    r->s.cell = (int)r->t.kind;
    r->s.gate = (int)cell[TD_RECURRENCE_GATE];
    r->s.state = (int)cell[TD_RECURRENCE_STATE];
    r->s.slope = r->t.numbers[TD_RECURRENCE_SLOPE];
    r->s.offset = r->t.numbers[TD_RECURRENCE_OFFSET];
    r->s.rows = r->t.rows;
    r->s.units = r->t.units;
    for (int k = 0; k < TD_CELL_GATES; k++) {
        r->s.add[k] = r->t.numbers[TD_RECURRENCE_ADD + k];
        r->s.place[k] = (int)cell[TD_RECURRENCE_PLACE + k];
    }
}

static void put_inputs(struct run *r)
{
    const int mask = td_recurrence_tensors_at(&r->t, TD_RECURRENCE_MASK),
              lengths = td_recurrence_tensors_at(&r->t, TD_RECURRENCE_LENGTHS);
    const float *x2 = floats(r, TD_RECURRENCE_ITEMS2);
    struct td_cuda_recurrence *s = &r->s;
    s->x_row = r->t.x_width;
    s->x_step = s->rows * s->x_row;
    s->x = floats(r, TD_RECURRENCE_ITEMS);
    s->x += s->steps > 0 ? s->first * s->x_step : 0;
    s->x2_row = x2 != NULL ? s->units : s->x_row;
    s->x2_step = s->rows * s->x2_row;
    if (s->steps > 0) {
        s->x2 = x2 != NULL ? x2 + s->first * s->x2_step : s->x + td_cell_gates(r->t.kind) * s->units;
        s->mask = mask < 0 ? NULL : (const unsigned char *)r->c->in[mask]->data + s->first * s->rows;
    }
    s->lengths = lengths < 0 ? NULL : r->c->in[lengths]->data;
    s->long_lengths = lengths >= 0 && r->c->in[lengths]->dtype == TD_INT64;
    s->u = floats(r, TD_RECURRENCE_U);
    s->u2 = floats(r, TD_RECURRENCE_U2);
    s->bx = floats(r, TD_RECURRENCE_BX);
    s->bh = floats(r, TD_RECURRENCE_BH);
    s->b2 = floats(r, TD_RECURRENCE_B2);
    s->h0 = floats(r, TD_RECURRENCE_H);
    s->c0 = floats(r, TD_RECURRENCE_C);
    s->o0 = floats(r, TD_RECURRENCE_O);
    s->z = floats(r, TD_RECURRENCE_Z);
}

/* Output k is what variables of this kind become; or a list of what is put into lists. */
static int find_output(const struct run *r, enum td_becomes kind)
{
    for (int k = 0; k < r->t.n_outputs; k++) {
        const int64_t *becomes = r->t.becomes + 2 * r->t.outputs[k];
        if (becomes[0] == kind && (kind != TD_SETS_AT || becomes[1] < 0)) {
            return k;
        }
    }
    return -1;
}

/* Steps leave h in the list that collects it, if there are two places in it; or what it collects instead. */
static void put_results(struct run *r)
{
    const int all = r->s.steps >= 2 ? find_output(r, TD_SETS_AT) : -1, c = find_output(r, TD_C);
    const bool other = needs_outputs(&r->t);
    float *list = all < 0 ? NULL : (float *)r->out[all]->data + r->s.first * r->s.rows * r->s.units;
    r->h_list = other ? -1 : all;
    r->o_list = other ? all : -1;
    r->s.h = r->h_list >= 0 ? list : part(r, RING_H);
    r->s.h_kept = r->h_list >= 0 ? r->s.steps : 2;
    r->s.o = r->o_list >= 0 ? list : part(r, RING_O);
    r->s.o_kept = r->o_list >= 0 ? r->s.steps : 2;
    r->s.c = c < 0 ? part(r, STATE_C) : r->out[c]->data;
    r->s.update = part(r, UPDATE);
    r->s.reset_h = part(r, RESET_H);
}

/* ------------------------------------------------------------------ steps */

static bool all_aligned(const struct run *r)
{
    return td_cublaslt_aligned(r->s.u) && td_cublaslt_aligned(r->s.u2) && td_cublaslt_aligned(r->s.h0) &&
           td_cublaslt_aligned(r->s.h);
}

static enum td_code step_by_library(const struct run *r, int64_t t, struct td_err *err)
{
    const struct td_cuda_recurrence *s = &r->s;
    struct td_cublaslt_call call = {.a = t == 0 ? s->h0 : s->h + (t - 1) % s->h_kept * s->rows * s->units,
                                    .b = s->u,
                                    .y = part(r, PRODUCT),
                                    .workspace = part(r, CUBLASLT),
                                    .stream = td_cuda_stream_of(r->c)};
    for (int k = 0; k < td_cuda_recurrence_products(s); k++) {
        TD_TRY(td_cublaslt_multiply(r->state->product[k], &call, err));
        TD_TRY(td_cuda_launched(r->c, td_cuda_recurrence_behind(s, t, k, call.y, call.stream), err));
        call.a = s->reset_h;
        call.b = s->u2;
    }
    return TD_OK;
}

static enum td_code run_steps(const struct run *r, struct td_err *err)
{
    if (r->state->product[0] == NULL || !all_aligned(r)) {
        return td_cuda_launched(r->c, td_cuda_recurrence_run(&r->s, td_cuda_stream_of(r->c)), err);
    }
    for (int64_t t = 0; t < r->s.steps && r->s.rows > 0; t++) {
        TD_TRY(step_by_library(r, t, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ outputs */

static enum td_code copy(const struct run *r, const float *from, float *to, struct td_err *err)
{
    const int64_t n = r->s.rows * r->s.units;
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, n, 1, 1);
    return n == 0 || from == to
               ? TD_OK
               : td_cuda_launched(
                     r->c, td_cuda_move(sizeof(float), &steps, from, to, n, td_cuda_stream_of(r->c)), err);
}

/* Elements [from, end) of output k, a list. */
static enum td_code clear(const struct run *r, int k, int64_t from, int64_t end, struct td_err *err)
{
    static const unsigned char zero[16];
    const int64_t each = r->s.rows * r->s.units, n = (end - from) * each;
    return n <= 0 ? TD_OK
                  : td_cuda_launched(r->c,
                                     td_cuda_fill(sizeof(float), zero, (float *)r->out[k]->data + from * each,
                                                  n, td_cuda_stream_of(r->c)),
                                     err);
}

/* Behind the last step: h, or o. */
static const float *last_of(const struct run *r, bool o)
{
    const int64_t t = r->s.steps - 1, each = r->s.rows * r->s.units;
    const float *none = o ? r->s.o0 : r->s.h0, *all = o ? r->s.o : r->s.h;
    return t < 0 ? none : all + t % (o ? r->s.o_kept : r->s.h_kept) * each;
}

static enum td_code put_list(const struct run *r, int k, struct td_err *err)
{
    const int64_t each = r->s.rows * r->s.units;
    const bool other = needs_outputs(&r->t);
    const int written = other ? r->o_list : r->h_list;
    float *list = r->out[k]->data;
    int64_t from, end;
    TD_TRY(filled(r, k, &from, &end, err));
    TD_TRY(clear(r, k, 0, from, err));
    TD_TRY(clear(r, k, end, r->out[k]->shape.dim[0], err));
    if (written >= 0 && end - from == r->s.steps) { /* a list like the one that was written, or that one */
        const float *all = (const float *)r->out[written]->data;
        for (int64_t i = from; i < end && k != written; i++) {
            TD_TRY(copy(r, all + i * each, list + i * each, err));
        }
        return TD_OK;
    }
    return end > from ? copy(r, last_of(r, other), list + (end - 1) * each, err) : TD_OK;
}

static enum td_code put_output(const struct run *r, int k, struct td_err *err)
{
    switch ((enum td_becomes)r->t.becomes[2 * r->t.outputs[k]]) {
    case TD_SETS_AT:
        return put_list(r, k, err);
    case TD_C:
        return copy(r, r->s.steps == 0 ? r->s.c0 : r->s.c, r->out[k]->data, err);
    default:
        return copy(r, last_of(r, r->t.becomes[2 * r->t.outputs[k]] == TD_O), r->out[k]->data, err);
    }
}

/* Before anything is queued: lists have room for what is put into them. */
static enum td_code check_lists(const struct run *r, struct td_err *err)
{
    for (int k = 0; k < r->t.n_outputs; k++) {
        int64_t from, end;
        int count;
        if (td_recurrence_tensors_is_list(&r->t, k, &count)) {
            TD_TRY(filled(r, k, &from, &end, err));
        }
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct run r = {.c = c, .state = c->state};
    r.t = r.state->t;
    TD_TRY(count_steps(&r, err));
    (void)size_parts(r.state, r.at);
    put_cell(&r);
    put_inputs(&r);
    for (int k = 0; k < r.t.n_outputs; k++) {
        TD_TRY(td_out(c, k, NULL, &r.out[k], err));
    }
    TD_TRY(check_lists(&r, err));
    put_results(&r);
    TD_TRY(run_steps(&r, err));
    for (int k = 0; k < r.t.n_outputs; k++) {
        TD_TRY(put_output(&r, k, err));
    }
    return TD_OK;
}

static const char *refuse(const struct td_node *n)
{
    return n->loop == NULL                             ? "only the compiler makes nodes of this op"
           : td_attr_len(n, "_outputs") > MOST_OUTPUTS ? "too many outputs"
                                                       : NULL;
}

TD_CUDA_ROWS(rows, "recurrence.cuda", .refuse = refuse, .prepare = prepare, .release = release, .run = run);

const struct td_op_rows td_cuda_rows_recurrence[] = {{"_RecurrenceTensors", rows}, {NULL, NULL}};
