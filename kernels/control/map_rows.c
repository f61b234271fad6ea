/* kernels/control/map_rows.c - a function called for each of k rows, its results stacked.
 *
 *   k [1], inputs: [k, s..] where `many`, else [s..]  ->  [k, r..] each
 *   f: inputs [s..] -> [r..]
 *
 * What a pass over many rows does with an op that does not know such an axis (core/grad/vectorize.h). Rows
 * are shown to f where they lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/graph.h"
#include "kernels/control/list_args.h"
#include "kernels/ops.h"

struct map {
    struct td_call *c;
    int n_in;
    const bool *many;
    const struct td_tensor **in;  /* of f */
    struct td_tensor *row, *made; /* shown to f; by f */
    struct td_tensor **out;
};

static enum td_code put(const struct map *m, int i, int64_t row, int64_t k, struct td_err *err)
{
    const struct td_tensor *t = &m->made[i];
    const struct td_shape first = td_shape_vector(k);
    struct td_shape shape;
    TD_TRY(td_shape_concat(&first, &t->shape, &shape, err));
    if (row == 0) {
        TD_TRY(td_out(m->c, i, &shape, &m->out[i], err));
    }
    TD_FAIL_IF(!td_shape_equal(&shape, &m->out[i]->shape), err, INVALID_ARGUMENT,
               "%s: result %d of row %lld has shape %s, the first one's are rows of %s",
               TD_NODE_STR(m->c->node), i, (long long)row, TD_SHAPE_STR(&t->shape),
               TD_SHAPE_STR(&m->out[i]->shape));
    td_list_args_put(m->out[i], row * td_tensor_count(t), t, td_tensor_count(t));
    return TD_OK;
}

static enum td_code one_row(const struct map *m, int64_t row, int64_t k, struct td_err *err)
{
    const struct td_function_values v = {.in = m->in, .n_in = m->n_in, .out = m->made, .n_out = m->c->n_out};
    for (int i = 0; i < m->n_in; i++) {
        m->in[i] = m->c->in[1 + i];
        if (m->many[i]) {
            td_list_args_row(&m->row[i], m->c->in[1 + i], row);
            m->in[i] = &m->row[i];
        }
    }
    enum td_code rc = td_call_function(m->c, "f", 0, &v, err);
    for (int i = 0; i < m->n_in; i++) {
        td_tensor_clear(&m->row[i]);
    }
    for (int i = 0; i < m->c->n_out; i++) {
        rc = rc ? rc : put(m, i, row, k, err);
        td_tensor_clear(&m->made[i]);
    }
    return rc;
}

static enum td_code check_rows(const struct map *m, int64_t k, struct td_err *err)
{
    for (int i = 0; i < m->n_in; i++) {
        const struct td_shape *s = &m->c->in[1 + i]->shape;
        TD_FAIL_IF(m->many[i] && (s->rank < 1 || s->dim[0] != k), err, INTERNAL,
                   "%s: input %d has shape %s, want %lld rows", TD_NODE_STR(m->c->node), 1 + i,
                   TD_SHAPE_STR(s), (long long)k);
    }
    TD_FAIL_IF(k < 1, err, INTERNAL, "%s: %lld rows, want at least 1", TD_NODE_STR(m->c->node), (long long)k);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const size_t n_in = (size_t)c->n_in, n_out = (size_t)c->n_out + 1;
    int n_many;
    struct map m = {.c = c, .n_in = c->n_in - 1, .many = td_attr_bools(c->node, "many", &n_many)};
    void *in, *row, *made, *out;
    TD_FAIL_IF(n_many != m.n_in || td_tensor_count(c->in[0]) != 1, err, INVALID_ARGUMENT,
               "%s: 'many' has %d elements and the number of rows %lld, want %d and 1", TD_NODE_STR(c->node),
               n_many, (long long)td_tensor_count(c->in[0]), m.n_in);
    const int64_t k = td_tensor_int(c->in[0], 0);
    TD_TRY(check_rows(&m, k, err));
    TD_TRY(td_scratch(c, n_in * sizeof *m.in, &in, err));
    TD_TRY(td_scratch(c, n_in * sizeof *m.row, &row, err));
    TD_TRY(td_scratch(c, n_out * sizeof *m.made, &made, err));
    TD_TRY(td_scratch(c, n_out * sizeof *m.out, &out, err));
    m.in = in;
    m.row = memset(row, 0, n_in * sizeof *m.row);
    m.made = memset(made, 0, n_out * sizeof *m.made);
    m.out = memset(out, 0, n_out * sizeof *m.out);
    for (int64_t r = 0; r < k; r++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_TRY(one_row(&m, r, k, err));
    }
    return TD_OK;
}

const struct td_op td_ops_map_rows[] = {
    {.name = "_MapRows",
     .sig = "(k:int32, input:Tin) -> (output:Tout) {f:func; Tin:list(type); many:list(bool); "
            "Tout:list(type)}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | TD_OP_HEAVY,
     .host_in = 1,
     .kernels = TD_KERNEL("map_rows.cpu", run)},
    {.name = NULL},
};
