/* kernels/cuda/array/diagonal.c - rows of ops on diagonals and bands: MatrixBandPart, MatrixDiag*,
 * MatrixDiagPart*, MatrixSetDiag*, Diag, DiagPart. What they ask for has been checked with the shapes; that
 * of MatrixBandPart is here, as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/pick.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const bool empty = td_shape_count(&q->in[0]) == 0 || td_shape_count(&q->out[0]) == 0;
    (void)err;
    o->refusal = empty ? "nothing is moved" : NULL;
    return TD_OK;
}

static struct td_cuda_pick from(const struct td_tensor *x, const struct td_tensor *y)
{
    const int64_t nx = td_tensor_count(x), ny = td_tensor_count(y);
    return (struct td_cuda_pick){
        .bytes = td_dtype_size(y->dtype), .x = x->data, .y = y->data, .n = ny, .most = nx > ny ? nx : ny};
}

/* The diagonals that k names (NULL: the main one) of such matrices, packed in such rows. */
static struct td_cuda_diagonals diagonals(const struct td_node *n, const struct td_tensor *k,
                                          const struct td_shape *matrix, const struct td_shape *packed)
{
    const char *align = td_attr_str(n, "align"); /* ops without it align left */
    const bool none = align[0] == '\0';
    return (struct td_cuda_diagonals){.rows = matrix->dim[matrix->rank - 2],
                                      .cols = matrix->dim[matrix->rank - 1],
                                      .lo = k == NULL ? 0 : td_tensor_int(k, 0),
                                      .hi = k == NULL ? 0 : td_tensor_int(k, td_tensor_count(k) - 1),
                                      .longest = packed->dim[packed->rank - 1],
                                      .left_above = none || strncmp(align, "LEFT", 4) == 0,
                                      .left_below = none || strcmp(align, "LEFT_LEFT") == 0 ||
                                                    strcmp(align, "RIGHT_LEFT") == 0};
}

static enum td_code run_part(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_pick p = from(c->in[0], y);
    p.other = c->n_in > 2 ? c->in[2]->data : NULL;
    const struct td_cuda_diagonals s =
        diagonals(c->node, c->n_in > 1 ? c->in[1] : NULL, &c->in[0]->shape, &y->shape);
    return td_cuda_launched(c, td_cuda_pick_packed(&p, &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_make(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_pick p = from(c->in[0], y);
    p.other = c->n_in > 4 ? c->in[4]->data : NULL;
    const struct td_cuda_diagonals s =
        diagonals(c->node, c->n_in > 1 ? c->in[1] : NULL, &y->shape, &c->in[0]->shape);
    return td_cuda_launched(c, td_cuda_pick_matrix(&p, &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_set(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_pick p = from(c->in[1], y);
    p.other = c->in[0]->data;
    p.each = true;
    const struct td_cuda_diagonals s =
        diagonals(c->node, c->n_in > 2 ? c->in[2] : NULL, &y->shape, &c->in[1]->shape);
    return td_cuda_launched(c, td_cuda_pick_matrix(&p, &s, td_cuda_stream_of(c)), err);
}

/* A set of nothing is the host's, too. */
static enum td_code prepare_set(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    TD_TRY(prepare(q, o, err));
    o->refusal = td_shape_count(&q->in[1]) == 0 ? "nothing is moved" : o->refusal;
    return TD_OK;
}

/* x [s..] as the main diagonal of y [s.., s..], and back. */
static struct td_cuda_diagonals main_diagonal(int64_t n)
{
    return (struct td_cuda_diagonals){
        .rows = n, .cols = n, .longest = n, .left_above = true, .left_below = true};
}

static enum td_code run_diag(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_pick p = from(c->in[0], y);
    const struct td_cuda_diagonals s = main_diagonal(td_tensor_count(c->in[0]));
    return td_cuda_launched(c, td_cuda_pick_matrix(&p, &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_diag_part(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_pick p = from(c->in[0], y);
    const struct td_cuda_diagonals s = main_diagonal(td_tensor_count(y));
    return td_cuda_launched(c, td_cuda_pick_packed(&p, &s, td_cuda_stream_of(c)), err);
}

static enum td_code run_band(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_pick p = from(c->in[0], y);
    const struct td_cuda_band s = {.rows = x->dim[x->rank - 2],
                                   .cols = x->dim[x->rank - 1],
                                   .below = td_tensor_int(c->in[1], 0),
                                   .above = td_tensor_int(c->in[2], 0)};
    TD_FAIL_IF(s.below > s.rows, err, INVALID_ARGUMENT,
               "%s: num_lower must be negative or less or equal to number of rows (%lld) got: %lld",
               TD_NODE_STR(c->node), (long long)s.rows, (long long)s.below);
    TD_FAIL_IF(s.above > s.cols, err, INVALID_ARGUMENT,
               "%s: num_upper must be negative or less or equal to number of columns (%lld) got: %lld",
               TD_NODE_STR(c->node), (long long)s.cols, (long long)s.above);
    return td_cuda_launched(c, td_cuda_pick_band(&p, &s, td_cuda_stream_of(c)), err);
}

#define ROWS(op, ready)                                                                                      \
    TD_CUDA_ROWS(rows_##op, "diagonal.cuda", .types = {{"T", TD_SET_NUMBERS | TD_CUDA_BOOLS}},               \
                 .prepare = ready, .run = run_##op);
ROWS(part, prepare)
ROWS(make, prepare)
ROWS(set, prepare_set)
ROWS(diag, prepare)
ROWS(diag_part, prepare)
ROWS(band, prepare)

const struct td_op_rows td_cuda_rows_diagonal[] = {{"MatrixBandPart", rows_band},
                                                   {"BatchMatrixBandPart", rows_band},
                                                   {"MatrixDiag", rows_make},
                                                   {"BatchMatrixDiag", rows_make},
                                                   {"MatrixDiagV2", rows_make},
                                                   {"MatrixDiagV3", rows_make},
                                                   {"MatrixDiagPart", rows_part},
                                                   {"BatchMatrixDiagPart", rows_part},
                                                   {"MatrixDiagPartV2", rows_part},
                                                   {"MatrixDiagPartV3", rows_part},
                                                   {"MatrixSetDiag", rows_set},
                                                   {"BatchMatrixSetDiag", rows_set},
                                                   {"MatrixSetDiagV2", rows_set},
                                                   {"MatrixSetDiagV3", rows_set},
                                                   {"Diag", rows_diag},
                                                   {"DiagPart", rows_diag_part},
                                                   {NULL, NULL}};
