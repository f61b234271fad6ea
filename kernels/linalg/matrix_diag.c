/* kernels/linalg/matrix_diag.c - diagonals and bands of matrices [.., M, N].
 *
 *   MatrixBandPart   keeps what lies at most num_lower below and num_upper above the main diagonal
 *   MatrixDiagPart   diagonals lo..hi of a matrix as rows   [.., hi - lo + 1, L]  (one diagonal: [.., L])
 *   MatrixDiag       the other way round, the rest padded;  MatrixSetDiag: into an existing matrix
 *   Diag, DiagPart   the same idea for the main "diagonal" of a tensor of shape [s, s]
 *
 * Rows are packed from the highest diagonal to the lowest, L is the longest's length; a shorter one stands
 * at the left or right end of its row as `align` says, separately for diagonals above and below the main
 * one (the main diagonal is always the longest or follows either). In a matrix of N columns a diagonal is
 * a walk of stride N + 1, so that each one is a strided copy over all matrices of the batch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/cpu/array_types.h"
#include "kernels/linalg/matrix_diag_grad.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

static void *element(const struct td_tensor *t, int64_t i)
{
    return t->data == NULL ? NULL : (char *)t->data + i * (int64_t)td_dtype_size(t->dtype);
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ------------------------------------------------------------------ MatrixBandPart */

static enum td_code band_part_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0 || c->in[0].rank == 1, err, INVALID_ARGUMENT,
               "%s: input must be at least 2-dim, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    for (int i = 1; i <= 2; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be scalar, got shape %s",
                   TD_NODE_STR(c->node), i == 1 ? "num_lower" : "num_upper", TD_SHAPE_STR(&c->in[i]));
    }
    return td_infer_same(c, err);
}

static enum td_code band_part_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t rows = x->shape.dim[x->shape.rank - 2], cols = x->shape.dim[x->shape.rank - 1];
    const int64_t lower = td_tensor_int(c->in[1], 0), upper = td_tensor_int(c->in[2], 0);
    TD_FAIL_IF(lower > rows, err, INVALID_ARGUMENT,
               "%s: num_lower must be negative or less or equal to number of rows (%lld) got: %lld",
               TD_NODE_STR(c->node), (long long)rows, (long long)lower);
    TD_FAIL_IF(upper > cols, err, INVALID_ARGUMENT,
               "%s: num_upper must be negative or less or equal to number of columns (%lld) got: %lld",
               TD_NODE_STR(c->node), (long long)cols, (long long)upper);
    const int64_t count = td_tensor_count(y);
    if (count == 0) {
        return TD_OK;
    }
    td_strided_zero(y->dtype, y->data, count);
    for (int64_t row = 0; row < count / cols; row++) {
        const int64_t i = row % rows;
        const int64_t from = lower < 0 ? 0 : max(0, i - lower);
        const int64_t to = upper < 0 ? cols : min(cols, i + upper + 1);
        if (from < to) {
            td_elems_copy(y->dtype, element(y, row * cols + from), element(x, row * cols + from), to - from);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ ranges of diagonals */

/* Diagonals lo..hi of rows x cols matrices, packed in rows of `longest`. */
struct range {
    int64_t lo, hi, rows, cols, longest;
    bool left_super, left_sub;
};

static int64_t diagonal_length(const struct range *r, int64_t d)
{
    return min(r->rows + min(0, d), r->cols - max(0, d));
}

/* lo and hi from the value of input k (NULL: the main diagonal alone), and the alignment. */
static enum td_code read_range(const struct td_node *node, const struct td_tensor *k, struct range *r,
                               struct td_err *err)
{
    const char *align = td_attr_str(node, "align");
    r->lo = r->hi = 0;
    /* Ops without the attribute align left. */
    r->left_super = align[0] == '\0' || strncmp(align, "LEFT", 4) == 0;
    r->left_sub = align[0] == '\0' || strcmp(align, "LEFT_LEFT") == 0 || strcmp(align, "RIGHT_LEFT") == 0;
    if (k == NULL) {
        return TD_OK;
    }
    const int64_t n = td_tensor_count(k);
    TD_FAIL_IF(k->shape.rank > 1, err, INVALID_ARGUMENT,
               "%s: diag_index must be a scalar or vector, received shape: %s", TD_NODE_STR(node),
               TD_SHAPE_STR(&k->shape));
    TD_FAIL_IF(n < 1 || n > 2, err, INVALID_ARGUMENT,
               "%s: diag_index must have only one or two elements, received %lld elements.",
               TD_NODE_STR(node), (long long)n);
    r->lo = td_tensor_int(k, 0);
    r->hi = td_tensor_int(k, n - 1);
    TD_FAIL_IF(r->lo > r->hi, err, INVALID_ARGUMENT,
               "%s: lower_diag_index must not be larger than upper_diag_index: %lld > %lld",
               TD_NODE_STR(node), (long long)r->lo, (long long)r->hi);
    return TD_OK;
}

/* rows and cols are set: both ends must lie in the matrix. */
static enum td_code check_range(const struct td_node *node, const struct range *r, struct td_err *err)
{
    const int64_t ends[] = {r->lo, r->hi};
    static const char *const names[] = {"lower_diag_index", "upper_diag_index"};
    for (int i = 0; i < 2; i++) {
        TD_FAIL_IF(ends[i] != 0 && (ends[i] <= -r->rows || ends[i] >= r->cols), err, INVALID_ARGUMENT,
                   "%s: %s is out of bound: %lld. It must be between %lld and %lld", TD_NODE_STR(node),
                   names[i], (long long)ends[i], (long long)-r->rows, (long long)r->cols);
    }
    return TD_OK;
}

/* Copies every diagonal between matrices and their packed form. */
static void copy_diagonals(const struct range *r, const struct td_tensor *matrix,
                           const struct td_tensor *packed, bool to_packed)
{
    const int64_t area = r->rows * r->cols, width = (r->hi - r->lo + 1) * r->longest;
    const int64_t batch = area == 0 ? 0 : td_tensor_count(matrix) / area;
    for (int64_t d = r->lo; batch > 0 && d <= r->hi; d++) {
        const int64_t length = diagonal_length(r, d);
        const bool left = (d >= 0 && r->left_super) || (d <= 0 && r->left_sub);
        if (length <= 0) {
            continue;
        }
        const int64_t at = (r->hi - d) * r->longest + (left ? 0 : r->longest - length);
        const int64_t in = d >= 0 ? d : -d * r->cols;
        struct td_strided w = {.rank = 0};
        td_strided_push(&w, batch, to_packed ? width : area, to_packed ? area : width);
        td_strided_push(&w, length, to_packed ? 1 : r->cols + 1, to_packed ? r->cols + 1 : 1);
        td_strided_copy(matrix->dtype, &w, to_packed ? element(packed, at) : element(matrix, in),
                        to_packed ? element(matrix, in) : element(packed, at));
    }
}

/* ------------------------------------------------------------------ MatrixDiagPart, MatrixSetDiag */

/* The range of a matrix of known shape. */
static enum td_code range_of_matrix(const struct td_node *node, const struct td_shape *s,
                                    const struct td_tensor *k, struct range *r, struct td_err *err)
{
    TD_TRY(read_range(node, k, r, err));
    r->rows = s->dim[s->rank - 2];
    r->cols = s->dim[s->rank - 1];
    TD_TRY(check_range(node, r, err));
    r->longest = max(0, min(r->rows + min(r->hi, 0), r->cols - max(r->lo, 0)));
    return TD_OK;
}

static struct td_shape packed_shape(const struct td_shape *matrix, const struct range *r)
{
    struct td_shape s = *matrix;
    s.rank -= 2;
    if (r->hi > r->lo) {
        s.dim[s.rank++] = r->hi - r->lo + 1;
    }
    s.dim[s.rank++] = r->longest;
    return s;
}

/* Input `k` exists in the op and is known, or the op has none. */
static const struct td_tensor *known_k(const struct td_infer *c, int k, bool *known)
{
    *known = k >= c->n_in || c->value[k] != NULL;
    return k < c->n_in ? c->value[k] : NULL;
}

static enum td_code check_matrix(const struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0 || c->in[0].rank == 1, err, INVALID_ARGUMENT,
               "%s: input must be at least 2-dim, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    return TD_OK;
}

static bool matrix_known(const struct td_shape *s)
{
    return s->rank >= 2 && s->dim[s->rank - 2] >= 0 && s->dim[s->rank - 1] >= 0;
}

static enum td_code check_padding(const struct td_infer *c, int i, struct td_err *err)
{
    TD_FAIL_IF(i < c->n_in && c->in[i].rank > 0, err, INVALID_ARGUMENT,
               "%s: padding_value must be a scalar, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

static enum td_code diag_part_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    const struct td_tensor *k = known_k(c, 1, &known);
    TD_TRY(check_matrix(c, err));
    TD_TRY(check_padding(c, 2, err));
    if (known && matrix_known(&c->in[0])) {
        struct range r;
        TD_TRY(range_of_matrix(c->node, &c->in[0], k, &r, err));
        c->out[0] = packed_shape(&c->in[0], &r);
    }
    return TD_OK;
}

static enum td_code diag_part_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct range r;
    struct td_tensor *y;
    TD_TRY(range_of_matrix(c->node, &x->shape, c->n_in > 1 ? c->in[1] : NULL, &r, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t count = td_tensor_count(y);
    if (count > 0 && c->n_in > 2) {
        td_strided_fill(y->dtype, y->data, c->in[2]->data, count);
    }
    copy_diagonals(&r, x, y, true);
    return TD_OK;
}

static enum td_code check_diagonal(const struct td_node *node, const struct td_shape *matrix,
                                   const struct range *r, const struct td_shape *diagonal, struct td_err *err)
{
    const struct td_shape want = packed_shape(matrix, r);
    TD_FAIL_IF(
        !td_shape_compatible(&want, diagonal), err, INVALID_ARGUMENT,
        "%s: Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not "
        "equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: %s\n"
        "Diagonal shape: %s\nExpected diagonal shape: %s",
        TD_NODE_STR(node), TD_SHAPE_STR(matrix), TD_SHAPE_STR(diagonal), TD_SHAPE_STR(&want));
    return TD_OK;
}

/* A k of more axes is never asked for by value again (core/run/bound_plan.h): kernels rely on this. */
static enum td_code check_k(const struct td_infer *c, int k, struct td_err *err)
{
    TD_FAIL_IF(k < c->n_in && c->in[k].rank > 1, err, INVALID_ARGUMENT,
               "%s: diag_index must be a scalar or vector, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[k]));
    return TD_OK;
}

static enum td_code set_diag_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    const struct td_tensor *k = known_k(c, 2, &known);
    TD_TRY(check_matrix(c, err));
    TD_TRY(check_k(c, 2, err));
    TD_FAIL_IF(c->in[1].rank == 0, err, INVALID_ARGUMENT,
               "%s: diagonal must be at least 1-dim, received shape: []", TD_NODE_STR(c->node));
    if (known && matrix_known(&c->in[0])) {
        struct range r;
        TD_TRY(range_of_matrix(c->node, &c->in[0], k, &r, err));
        TD_TRY(check_diagonal(c->node, &c->in[0], &r, &c->in[1], err));
    }
    return td_infer_same(c, err);
}

static enum td_code set_diag_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct range r;
    struct td_tensor *y;
    TD_TRY(range_of_matrix(c->node, &x->shape, c->n_in > 2 ? c->in[2] : NULL, &r, err));
    TD_TRY(check_diagonal(c->node, &x->shape, &r, &c->in[1]->shape, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) > 0) {
        td_elems_copy(y->dtype, y->data, x->data, td_tensor_count(y));
        copy_diagonals(&r, y, c->in[1], false);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ MatrixDiag */

/* Rows and columns asked for (-1: as few as fit), made to agree with the longest diagonal. */
static enum td_code fit_matrix(const struct td_node *node, struct range *r, struct td_err *err)
{
    int64_t least_rows, least_cols;
    TD_FAIL_IF(!td_i64_add(r->longest, -min(r->hi, 0), &least_rows) ||
                   !td_i64_add(r->longest, max(r->lo, 0), &least_cols),
               err, INVALID_ARGUMENT, "%s: the matrix does not fit int64", TD_NODE_STR(node));
    TD_FAIL_IF(r->rows != -1 && r->rows < least_rows, err, INVALID_ARGUMENT,
               "%s: The number of rows is too small.", TD_NODE_STR(node));
    TD_FAIL_IF(r->cols != -1 && r->cols < least_cols, err, INVALID_ARGUMENT,
               "%s: The number of columns is too small.", TD_NODE_STR(node));
    if (r->rows == -1 && r->cols == -1) {
        r->rows = r->cols = max(least_rows, least_cols);
    }
    r->rows = r->rows == -1 ? least_rows : r->rows;
    r->cols = r->cols == -1 ? least_cols : r->cols;
    TD_FAIL_IF(r->rows != least_rows && r->cols != least_cols, err, INVALID_ARGUMENT,
               "%s: The number of rows or columns is not consistent with the specified d_lower, d_upper, and "
               "diagonal.",
               TD_NODE_STR(node));
    return TD_OK;
}

/* value[i] of the op's inputs k, num_rows, num_cols; the diagonal's shape is known. */
static enum td_code range_of_diagonal(const struct td_node *node, const struct td_shape *s,
                                      const struct td_tensor *k, const struct td_tensor *rows,
                                      const struct td_tensor *cols, struct range *r, struct td_err *err)
{
    TD_TRY(read_range(node, k, r, err));
    TD_FAIL_IF(s->rank == 0, err, INVALID_ARGUMENT, "%s: diagonal must be at least 1-dim, received shape: []",
               TD_NODE_STR(node));
    TD_FAIL_IF(r->hi > r->lo && (s->rank < 2 || s->dim[s->rank - 2] != r->hi - r->lo + 1), err,
               INVALID_ARGUMENT,
               "%s: The number of diagonals provided in the input does not match the lower_diag_index and "
               "upper_diag_index range.",
               TD_NODE_STR(node));
    r->longest = s->dim[s->rank - 1];
    r->rows = rows != NULL ? td_tensor_int(rows, 0) : -1;
    r->cols = cols != NULL ? td_tensor_int(cols, 0) : -1;
    return fit_matrix(node, r, err);
}

static enum td_code matrix_diag_shape(const struct td_node *node, const struct td_shape *diagonal,
                                      const struct range *r, struct td_shape *out, struct td_err *err)
{
    *out = *diagonal;
    out->rank -= r->hi > r->lo ? 2 : 1;
    TD_FAIL_IF(out->rank + 2 > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: result rank %d, the largest rank is %d", TD_NODE_STR(node), out->rank + 2, TD_MAX_RANK);
    out->dim[out->rank++] = r->rows;
    out->dim[out->rank++] = r->cols;
    return TD_OK;
}

static enum td_code matrix_diag_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT,
               "%s: diagonal must be at least 1-dim, received shape: []", TD_NODE_STR(c->node));
    bool known = td_shape_known(&c->in[0]);
    static const char *const names[] = {"num_rows", "num_cols"};
    for (int i = 1; i < c->n_in && i < 4; i++) {
        TD_FAIL_IF(i > 1 && c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be a scalar",
                   TD_NODE_STR(c->node), names[i - 2]);
        known = known && c->value[i] != NULL;
    }
    TD_TRY(check_padding(c, 4, err));
    if (!known) {
        return TD_OK;
    }
    const bool v1 = c->n_in == 1;
    struct range r;
    TD_TRY(range_of_diagonal(c->node, &c->in[0], v1 ? NULL : c->value[1], v1 ? NULL : c->value[2],
                             v1 ? NULL : c->value[3], &r, err));
    return matrix_diag_shape(c->node, &c->in[0], &r, &c->out[0], err);
}

static enum td_code matrix_diag_run(struct td_call *c, struct td_err *err)
{
    const bool v1 = c->n_in == 1;
    struct range r;
    struct td_tensor *y;
    TD_TRY(range_of_diagonal(c->node, &c->in[0]->shape, v1 ? NULL : c->in[1], v1 ? NULL : c->in[2],
                             v1 ? NULL : c->in[3], &r, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t count = td_tensor_count(y);
    if (count == 0) {
        return TD_OK;
    }
    if (c->n_in > 4) {
        td_strided_fill(y->dtype, y->data, c->in[4]->data, count);
    } else {
        td_strided_zero(y->dtype, y->data, count);
    }
    copy_diagonals(&r, y, c->in[0], false);
    return TD_OK;
}

/* ------------------------------------------------------------------ Diag, DiagPart */

static enum td_code diag_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: Input must be at least rank 1, got 0",
               TD_NODE_STR(c->node));
    return c->in[0].rank < 0 ? TD_OK : td_shape_concat(&c->in[0], &c->in[0], &c->out[0], err);
}

static enum td_code diag_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(x);
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    struct td_strided w = {.rank = 0};
    td_strided_push(&w, n, n + 1, 1);
    td_strided_copy(x->dtype, &w, y->data, x->data);
    return TD_OK;
}

static enum td_code tensor_diag_part_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    if (s->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(s->rank % 2 != 0, err, INVALID_ARGUMENT,
               "%s: The rank of the tensor should be even and positive, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(s));
    c->out[0] = td_shape_of_rank(s->rank / 2);
    for (int i = 0; i < s->rank / 2; i++) {
        const int64_t a = s->dim[i], b = s->dim[i + s->rank / 2];
        TD_FAIL_IF(a >= 0 && b >= 0 && a != b, err, INVALID_ARGUMENT,
                   "%s: Invalid shape %s: dimensions %d and %d do not match.", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(s), i, i + s->rank / 2);
        c->out[0].dim[i] = a >= 0 ? a : b;
    }
    return TD_OK;
}

static enum td_code tensor_diag_part_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    struct td_strided w = {.rank = 0};
    td_strided_push(&w, n, 1, n + 1);
    td_strided_copy(y->dtype, &w, y->data, c->in[0]->data);
    return TD_OK;
}

#define ALIGN "align:string='RIGHT_LEFT' in ['LEFT_RIGHT','RIGHT_LEFT','LEFT_LEFT','RIGHT_RIGHT']"
#define DIAG_ROW(op, signature, host, axes, shape_fn, kernel, fn)                                            \
    .name = op, .sig = signature, .host_in = host, axes, .infer = shape_fn,                                  \
    .kernels = TD_KERNEL(kernel, fn, {"T", TD_SET_NUM_BOOL})
#define MAP1 .batchable = TD_BATCHABLE(td_batchable_map1), .permute = &td_permute_map1
#define MAP2 .batchable = TD_BATCHABLE(td_batchable_map2), .permute = &td_permute_map2
#define SET .batchable = TD_BATCHABLE(set_diag_rows)
#define PART_ROW(op, sig, host)                                                                              \
    DIAG_ROW(op, sig, host, MAP2, diag_part_infer, "matrix_diag_part.cpu", diag_part_run)
#define MAKE_ROW(op, sig, host)                                                                              \
    DIAG_ROW(op, sig, host, MAP1, matrix_diag_infer, "matrix_diag.cpu", matrix_diag_run)
#define SET_ROW(op, sig, host)                                                                               \
    DIAG_ROW(op, sig, host, SET, set_diag_infer, "matrix_set_diag.cpu", set_diag_run)
#define BAND_ROW(op, sig) DIAG_ROW(op, sig, 6, MAP2, band_part_infer, "matrix_band_part.cpu", band_part_run)
#define DIAG_TYPES                                                                                           \
    {                                                                                                        \
        "T", TD_BIT(TD_HALF) | TD_SET_COMPLEX | TD_SET_INDEX | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)          \
    }

/* Matrices and diagonals have the rows at the same axis before both. */
static bool set_diag_rows(struct td_batchable_step *s)
{
    const int axis = s->in[0].axis;
    if (s->n_in > 2 && s->in[2].kind != TD_VALUE_CONST) {
        return td_batchable_no(s, "which diagonals it sets is not the same for all rows");
    }
    return td_batchable_same_rows(s, 0, 1) &&
           ((s->in[1].axis == axis && axis < td_batchable_rank(s, 0) - 2) ||
            td_batchable_no(s, "it works along the axis of the rows")) &&
           td_batchable_as_input(s, 0, 0, axis);
}

const struct td_op td_ops_matrix_diag[] = {
    {BAND_ROW("MatrixBandPart",
              "(input:T, num_lower:Tindex, num_upper:Tindex) -> (band:T) {T:type; Tindex:type=int64}"),
     .grad = td_matrix_band_part_grad},
    {BAND_ROW("BatchMatrixBandPart", "(input:T, num_lower:int64, num_upper:int64) -> (band:T) {T:type}")},
    {MAKE_ROW("MatrixDiag", "(diagonal:T) -> (output:T) {T:type}", 0), .grad = td_matrix_diag_grad},
    {MAKE_ROW("BatchMatrixDiag", "(diagonal:T) -> (output:T) {T:type}", 0)},
    {MAKE_ROW("MatrixDiagV2",
              "(diagonal:T, k:int32, num_rows:int32, num_cols:int32, padding_value:T) -> (output:T) {T:type}",
              14),
     .grad = td_matrix_diag_grad},
    {MAKE_ROW("MatrixDiagV3",
              "(diagonal:T, k:int32, num_rows:int32, num_cols:int32, padding_value:T) -> (output:T) "
              "{T:type; " ALIGN "}",
              14),
     .grad = td_matrix_diag_grad},
    {PART_ROW("MatrixDiagPart", "(input:T) -> (diagonal:T) {T:type}", 0), .grad = td_matrix_diag_part_grad},
    {PART_ROW("BatchMatrixDiagPart", "(input:T) -> (diagonal:T) {T:type}", 0)},
    {PART_ROW("MatrixDiagPartV2", "(input:T, k:int32, padding_value:T) -> (diagonal:T) {T:type}", 2),
     .grad = td_matrix_diag_part_grad},
    {PART_ROW("MatrixDiagPartV3", "(input:T, k:int32, padding_value:T) -> (diagonal:T) {T:type; " ALIGN "}",
              2),
     .grad = td_matrix_diag_part_grad},
    {SET_ROW("MatrixSetDiag", "(input:T, diagonal:T) -> (output:T) {T:type}", 0),
     .grad = td_matrix_set_diag_grad},
    {SET_ROW("BatchMatrixSetDiag", "(input:T, diagonal:T) -> (output:T) {T:type}", 0)},
    {SET_ROW("MatrixSetDiagV2", "(input:T, diagonal:T, k:int32) -> (output:T) {T:type}", 4),
     .grad = td_matrix_set_diag_grad},
    {SET_ROW("MatrixSetDiagV3", "(input:T, diagonal:T, k:int32) -> (output:T) {T:type; " ALIGN "}", 4),
     .grad = td_matrix_set_diag_grad},
    {.name = "Diag",
     .sig = "(diagonal:T) -> (output:T) {T:type}",
     .infer = diag_infer,
     .kernels = TD_KERNEL("diag.cpu", diag_run, DIAG_TYPES),
     .grad = td_diag_grad},
    {.name = "DiagPart",
     .sig = "(input:T) -> (diagonal:T) {T:type}",
     .infer = tensor_diag_part_infer,
     .kernels = TD_KERNEL("diag_part.cpu", tensor_diag_part_run, DIAG_TYPES),
     .grad = td_diag_part_grad},
    {.name = NULL},
};
