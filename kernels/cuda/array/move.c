/* kernels/cuda/array/move.c - rows of ops that put elements elsewhere: Transpose, and whole tensors of parts
 * (Pack, Concat, ConcatV2, ParallelConcat) and their ways back (Unpack, Split, SplitV); IdentityN.
 *
 *   a part of a whole:   outer runs of `chunk` elements, `pitch` apart in the whole, the first at `at`
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/move.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/rows.h"

static enum td_code move(const struct td_call *c, enum td_dtype type, const struct td_cuda_steps *steps,
                         const void *x, void *y, int64_t n, struct td_err *err)
{
    return td_cuda_launched(c, td_cuda_move(td_dtype_size(type), steps, x, y, n, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ whole tensors */

enum td_code td_cuda_zero(const struct td_call *c, const struct td_tensor *y, struct td_err *err)
{
    static const unsigned char zero[16];
    const size_t bytes = td_tensor_bytes(y), unit = td_cuda_unit(bytes, y->data, NULL);
    return td_cuda_launched(
        c, td_cuda_fill(unit, zero, y->data, (int64_t)(bytes / unit), td_cuda_stream_of(c)), err);
}

enum td_code td_cuda_copy_all(const struct td_call *c, const struct td_tensor *x, const struct td_tensor *y,
                              struct td_err *err)
{
    const size_t bytes = td_tensor_bytes(y), unit = td_cuda_unit(bytes, x->data, y->data);
    const int64_t n = (int64_t)(bytes / unit);
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, n, 1, 1);
    return td_cuda_launched(c, td_cuda_move(unit, &steps, x->data, y->data, n, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ Transpose */

static enum td_code prepare_transpose(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                      struct td_err *err)
{
    (void)err;
    o->refusal = q->in[0].rank <= TD_CUDA_DIMS ? NULL : "more than eight dimensions";
    return TD_OK;
}

static enum td_code run_transpose(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    struct td_cuda_steps steps = {0};
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_cuda_row_major(&x->shape, from);
    td_cuda_row_major(&y->shape, to);
    bool fits = true;
    for (int i = y->shape.rank - 1; i >= 0 && fits; i--) {
        int axis = 0;
        fits = td_shape_axis(x->shape.rank, td_tensor_int(c->in[1], i), &axis) &&
               td_cuda_steps_add(&steps, y->shape.dim[i], from[axis], to[i]);
    }
    TD_FAIL_IF(!fits, err, INTERNAL, "%s: more than eight dimensions", c->node->op_name);
    return move(c, x->dtype, &steps, x->data, y->data, td_tensor_count(y), err);
}

/* ------------------------------------------------------------------ parts of a whole */

struct part {
    int64_t outer, chunk, pitch, at;
};

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

static enum td_code join(const struct td_call *c, const struct part *p, const struct td_tensor *part,
                         const struct td_tensor *whole, struct td_err *err)
{
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, p->chunk, 1, 1);
    (void)td_cuda_steps_add(&steps, p->outer, p->chunk, p->pitch);
    return move(c, part->dtype, &steps, part->data, element(whole, p->at), p->outer * p->chunk, err);
}

static enum td_code cut(const struct td_call *c, const struct part *p, const struct td_tensor *whole,
                        const struct td_tensor *part, struct td_err *err)
{
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, p->chunk, 1, 1);
    (void)td_cuda_steps_add(&steps, p->outer, p->pitch, p->chunk);
    return move(c, part->dtype, &steps, element(whole, p->at), part->data, p->outer * p->chunk, err);
}

/* Parts along `axis`, which `asked` names and infer has checked. */
static struct part first_part(const struct td_shape *whole, int64_t asked)
{
    int axis = 0;
    (void)td_shape_axis(whole->rank, asked, &axis);
    return (struct part){.outer = td_shape_range(whole, 0, axis),
                         .pitch = td_shape_range(whole, axis, whole->rank)};
}

static bool take(struct part *p, const struct td_tensor *part)
{
    const int64_t n = td_tensor_count(part);
    p->at += p->chunk;
    p->chunk = n == 0 ? 0 : n / p->outer;
    return n > 0;
}

static enum td_code concat(struct td_call *c, int first, int n, int64_t axis, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct part p = first_part(&y->shape, axis);
    for (int i = first; i < first + n; i++) {
        if (take(&p, c->in[i])) {
            TD_TRY(join(c, &p, c->in[i], y, err));
        }
    }
    return TD_OK;
}

static enum td_code split(struct td_call *c, const struct td_tensor *x, int64_t axis, struct td_err *err)
{
    struct part p = first_part(&x->shape, axis);
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        if (take(&p, y)) {
            TD_TRY(cut(c, &p, x, y, err));
        }
    }
    return TD_OK;
}

static enum td_code run_pack(struct td_call *c, struct td_err *err)
{
    return concat(c, 0, c->n_in, td_attr_int(c->node, "axis"), err);
}

static enum td_code run_concat(struct td_call *c, struct td_err *err)
{
    return concat(c, 1, c->n_in - 1, td_tensor_int(c->in[0], 0), err);
}

static enum td_code run_concat_v2(struct td_call *c, struct td_err *err)
{
    return concat(c, 0, c->n_in - 1, td_tensor_int(c->in[c->n_in - 1], 0), err);
}

static enum td_code run_parallel(struct td_call *c, struct td_err *err)
{
    return concat(c, 0, c->n_in, 0, err);
}

static enum td_code run_unpack(struct td_call *c, struct td_err *err)
{
    return split(c, c->in[0], td_attr_int(c->node, "axis"), err);
}

static enum td_code run_split(struct td_call *c, struct td_err *err)
{
    return split(c, c->in[1], td_tensor_int(c->in[0], 0), err);
}

static enum td_code run_split_v(struct td_call *c, struct td_err *err)
{
    return split(c, c->in[0], td_tensor_int(c->in[2], 0), err);
}

static enum td_code run_identity_n(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        TD_TRY(td_tensor_count(y) > 0 ? td_cuda_copy_all(c, c->in[i], y, err) : TD_OK);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_ROWS(rows_conjugate, "move.cuda", .types = {{"T", TD_SET_PLAIN & ~TD_SET_COMPLEX}},
             .prepare = prepare_transpose, .run = run_transpose);
TD_CUDA_ROWS(rows_transpose, "move.cuda", .types = {{"T", TD_SET_PLAIN}}, .prepare = prepare_transpose,
             .run = run_transpose);
#define ROWS(op) TD_CUDA_ROWS(rows_##op, "move.cuda", .types = {{"T", TD_SET_PLAIN}}, .run = run_##op);
ROWS(pack)
ROWS(concat)
ROWS(concat_v2)
ROWS(parallel)
ROWS(unpack)
ROWS(split)
ROWS(split_v)
ROWS(identity_n)

const struct td_op_rows td_cuda_rows_move[] = {{"Transpose", rows_transpose},
                                               {"ConjugateTranspose", rows_conjugate},
                                               {"Pack", rows_pack},
                                               {"Concat", rows_concat},
                                               {"ConcatV2", rows_concat_v2},
                                               {"ParallelConcat", rows_parallel},
                                               {"Unpack", rows_unpack},
                                               {"Split", rows_split},
                                               {"SplitV", rows_split_v},
                                               {"IdentityN", rows_identity_n},
                                               {NULL, NULL}};
