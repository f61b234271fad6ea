/* kernels/sparse/csr.c - makes, reads and transposes matrices in compressed rows. One block of memory for
 * the numbers, charged to the work at hand like any tensor's; the values are a tensor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sparse/csr.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "kernels/ops.h"

struct made {
    struct td_csr m;
    struct td_tensor numbers; /* start, row, col */
};

static void destroy(struct td_obj *o)
{
    struct made *p = (struct made *)o;
    td_tensor_clear(&p->numbers);
    td_tensor_clear(&p->m.values);
    td_free(p);
}

static const struct td_obj_type csr_type = {.name = "CSRSparseMatrix", .destroy = destroy};

static enum td_code make_room(struct made *p, enum td_dtype dtype, struct td_err *err)
{
    struct td_csr *m = &p->m;
    const int64_t all_rows = m->batch * (m->rows + 1), numbers = m->batch + 1 + all_rows + m->n;
    const struct td_shape of_numbers = td_shape_vector(numbers), of_values = td_shape_vector(m->n);
    TD_TRY(td_tensor_new(&p->numbers, TD_INT32, &of_numbers, err));
    TD_TRY(td_tensor_new(&m->values, dtype, &of_values, err));
    m->start = p->numbers.data;
    m->row = m->start + m->batch + 1;
    m->col = m->row + all_rows;
    memset(m->start, 0, (size_t)(m->batch + 1 + all_rows) * sizeof *m->start);
    return TD_OK;
}

enum td_code td_csr_new(const struct td_node *node, enum td_dtype dtype, const struct td_shape *shape,
                        int64_t n, struct td_csr **out, struct td_err *err)
{
    int64_t all_rows = 0;
    TD_FAIL_IF(shape->rank != 2 && shape->rank != 3, err, INVALID_ARGUMENT,
               "%s: the shape of a sparse matrix must have rank 2 or 3, is %s", TD_NODE_STR(node),
               TD_SHAPE_STR(shape));
    const int64_t batch = shape->rank == 3 ? shape->dim[0] : 1, rows = shape->dim[shape->rank - 2];
    const int64_t cols = shape->dim[shape->rank - 1];
    const bool fits = batch >= 0 && rows >= 0 && cols >= 0 && cols <= INT32_MAX && rows < INT32_MAX &&
                      td_i64_mul(batch, rows + 1, &all_rows) && all_rows <= INT32_MAX && n <= INT32_MAX;
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: a sparse matrix of shape %s and %lld values is too large",
               TD_NODE_STR(node), TD_SHAPE_STR(shape), (long long)n);
    struct made *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "sparse matrix");
    }
    td_obj_init(&p->m.obj, &csr_type);
    p->m.rank = shape->rank;
    p->m.batch = batch;
    p->m.rows = rows;
    p->m.cols = cols;
    p->m.n = n;
    const enum td_code rc = make_room(p, dtype, err);
    if (rc) {
        td_obj_unref(&p->m.obj);
        return rc;
    }
    *out = &p->m;
    return TD_OK;
}

void td_csr_seal(struct td_csr *m)
{
    for (int64_t b = 0; b < m->batch; b++) {
        int32_t *row = m->row + b * (m->rows + 1);
        for (int64_t i = 0; i < m->rows; i++) {
            row[i + 1] += row[i];
        }
        m->start[b + 1] = m->start[b] + row[m->rows];
    }
}

struct td_shape td_csr_shape(const struct td_csr *m)
{
    return m->rank == 2 ? td_shape_matrix(m->rows, m->cols)
                        : (struct td_shape){3, {m->batch, m->rows, m->cols}};
}

void td_csr_row(const struct td_csr *m, int64_t b, int64_t i, int64_t *from, int64_t *to)
{
    const int32_t *row = m->row + b * (m->rows + 1);
    *from = (int64_t)m->start[b] + row[i];
    *to = (int64_t)m->start[b] + row[i + 1];
}

enum td_code td_csr_in(const struct td_call *c, int i, enum td_dtype dtype, const struct td_csr **out,
                       struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    const struct td_obj *o = t->shape.rank == 0 ? td_tensor_obj(t, 0) : NULL;
    TD_FAIL_IF(o == NULL || o->type != &csr_type, err, INVALID_ARGUMENT,
               "%s: input %d is no CSRSparseMatrix but a %s", TD_NODE_STR(c->node), i,
               o == NULL ? "tensor without one" : o->type->name);
    *out = (const struct td_csr *)o;
    TD_FAIL_IF((*out)->batch == 0, err, INVALID_ARGUMENT, "%s: input %d is not valid: a batch of no matrices",
               TD_NODE_STR(c->node), i);
    TD_FAIL_IF(dtype != TD_DTYPE_NONE && (*out)->values.dtype != dtype, err, INVALID_ARGUMENT,
               "%s: input %d is a CSRSparseMatrix of %s, want %s", TD_NODE_STR(c->node), i,
               td_dtype_name((*out)->values.dtype), td_dtype_name(dtype));
    return TD_OK;
}

/* ------------------------------------------------------------------ transposition */

/* Element k of values: its imaginary part turned round. */
static void conjugate(struct td_tensor *values)
{
    for (int64_t k = 0, n = td_tensor_count(values); k < n; k++) {
        if (values->dtype == TD_COMPLEX64) {
            TD_DATA(values, float)[2 * k + 1] = -TD_DATA(values, float)[2 * k + 1];
        } else if (values->dtype == TD_COMPLEX128) {
            TD_DATA(values, double)[2 * k + 1] = -TD_DATA(values, double)[2 * k + 1];
        }
    }
}

enum td_code td_csr_transpose(struct td_call *c, const struct td_csr *m, bool conjugated, struct td_csr **out,
                              struct td_err *err)
{
    struct td_shape shape = td_csr_shape(m);
    const size_t size = td_dtype_size(m->values.dtype);
    struct td_csr *t;
    void *room;
    shape.dim[m->rank - 1] = m->rows;
    shape.dim[m->rank - 2] = m->cols;
    TD_TRY(td_scratch(c, (size_t)m->cols * sizeof(int64_t), &room, err));
    TD_TRY(td_csr_new(c->node, m->values.dtype, &shape, m->n, &t, err));
    for (int64_t b = 0; b < m->batch; b++) {
        for (int64_t k = m->start[b]; k < m->start[b + 1]; k++) {
            t->row[b * (t->rows + 1) + m->col[k] + 1]++;
        }
    }
    td_csr_seal(t);
    int64_t *next = room;
    for (int64_t b = 0; b < m->batch; b++) {
        for (int64_t i = 0, end; i < t->rows; i++) {
            td_csr_row(t, b, i, &next[i], &end);
        }
        for (int64_t i = 0, from, to; i < m->rows; i++) {
            td_csr_row(m, b, i, &from, &to);
            for (int64_t k = from; k < to; k++) {
                const int64_t at = next[m->col[k]]++;
                t->col[at] = (int32_t)i;
                memcpy((char *)t->values.data + (size_t)at * size,
                       (const char *)m->values.data + (size_t)k * size, size);
            }
        }
    }
    if (conjugated) {
        conjugate(&t->values);
    }
    *out = t;
    return TD_OK;
}
