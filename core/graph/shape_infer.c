/* core/graph/shape_infer.c - shape functions that many ops share, and the checks that the others are made of.
 *
 * A check passes what is unknown and refuses only what can never fit, because the same functions run when a
 * graph is compiled (little is known) and when it is bound to shapes (nearly all is). Refusals name the node,
 * the input by its name in the op's signature, and both shapes. Values of inputs are there when they are
 * constants or small tensors that the caller knows; a shape that stands in an input is read from its value,
 * else its rank at least from the input's length.
 *
 * Holds no state. Does not: know single ops; those are in kernels/, next to what they compute.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/op.h"

#include "core/graph/graph.h"

enum td_code td_infer_same(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = c->in[0];
    return TD_OK;
}

enum td_code td_infer_broadcast(struct td_infer *c, struct td_err *err)
{
    if (td_shape_broadcast(&c->in[0], &c->in[1], &c->out[0], err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

enum td_code td_infer_scalar(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_shape_scalar();
    }
    return TD_OK;
}

enum td_code td_infer_merge_all(struct td_infer *c, struct td_err *err)
{
    c->out[0] = td_shape_unknown();
    for (int i = 0; i < c->n_in; i++) {
        TD_FAIL_IF(!td_shape_compatible(&c->out[0], &c->in[i]), err, INVALID_ARGUMENT,
                   "%s: Inputs to operation must have the same size and shape. Input 0: %s != input %d: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), i, TD_SHAPE_STR(&c->in[i]));
        TD_TRY(td_shape_merge(&c->out[0], &c->in[i], &c->out[0], err));
    }
    return TD_OK;
}

bool td_infer_is_by_shapes(td_infer_fn *fn)
{
    return fn == td_infer_same || fn == td_infer_broadcast || fn == td_infer_scalar ||
           fn == td_infer_merge_all;
}

/* Name of input i in the op's signature ("input" when it has none). */
static const char *input_name(const struct td_infer *c, int i)
{
    const struct td_op_def *def = c->node->def;
    return def != NULL && i < def->n_in && def->n_in == c->n_in ? def->in[i].name : "input";
}

enum td_code td_infer_rank(const struct td_infer *c, int i, int rank, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank != rank, err, INVALID_ARGUMENT,
               "%s: input %d '%s' must be rank %d, but has shape %s (rank %d)", TD_NODE_STR(c->node), i,
               input_name(c, i), rank, TD_SHAPE_STR(&c->in[i]), c->in[i].rank);
    return TD_OK;
}

enum td_code td_infer_min_rank(const struct td_infer *c, int i, int rank, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank < rank, err, INVALID_ARGUMENT,
               "%s: input %d '%s' must be at least rank %d, but has shape %s (rank %d)", TD_NODE_STR(c->node),
               i, input_name(c, i), rank, TD_SHAPE_STR(&c->in[i]), c->in[i].rank);
    return TD_OK;
}

static enum td_code shape_from_dims(const struct td_infer *c, int i, bool partial, struct td_shape *out,
                                    struct td_err *err)
{
    const struct td_tensor *t = c->value[i];
    int64_t n = td_tensor_count(t), dims[TD_MAX_RANK];
    TD_FAIL_IF(n > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: input %d '%s' asks for rank %lld, the largest rank is %d", TD_NODE_STR(c->node), i,
               input_name(c, i), (long long)n, TD_MAX_RANK);
    for (int k = 0; k < n; k++) {
        dims[k] = td_tensor_int(t, k);
        TD_FAIL_IF(dims[k] < (partial ? -1 : 0), err, INVALID_ARGUMENT,
                   "%s: Dimension %lld must be >= 0 (element %d of '%s')", TD_NODE_STR(c->node),
                   (long long)dims[k], k, input_name(c, i));
    }
    if (td_shape_make(out, dims, (int)n, err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

enum td_code td_infer_shape_value(const struct td_infer *c, int i, bool partial, struct td_shape *out,
                                  struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    *out = td_shape_unknown();
    if (s->rank == 0 && partial) {
        TD_FAIL_IF(c->value[i] != NULL && td_tensor_int(c->value[i], 0) != -1, err, INVALID_ARGUMENT,
                   "%s: '%s' must be a vector or the scalar -1", TD_NODE_STR(c->node), input_name(c, i));
        return TD_OK;
    }
    TD_TRY(td_infer_rank(c, i, 1, err));
    if (c->value[i] != NULL) {
        return shape_from_dims(c, i, partial, out, err);
    }
    if (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] <= TD_MAX_RANK) {
        *out = td_shape_of_rank((int)s->dim[0]);
    }
    return TD_OK;
}

enum td_code td_infer_int_value(const struct td_infer *c, int i, bool *known, int64_t *v, struct td_err *err)
{
    int64_t n = td_shape_count(&c->in[i]);
    TD_FAIL_IF((n >= 0 && n != 1) || c->in[i].rank > 1, err, INVALID_ARGUMENT,
               "%s: input %d '%s' must be a scalar, but has shape %s", TD_NODE_STR(c->node), i,
               input_name(c, i), TD_SHAPE_STR(&c->in[i]));
    *known = c->value[i] != NULL;
    if (*known) {
        *v = td_tensor_int(c->value[i], 0);
    }
    return TD_OK;
}

enum td_code td_infer_rows(const struct td_node *node, const struct td_shape *data, int used, int64_t n,
                           struct td_shape *out, struct td_err *err)
{
    TD_FAIL_IF(data->rank - used + 1 > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: result rank %d, the largest rank is %d", TD_NODE_STR(node), data->rank - used + 1,
               TD_MAX_RANK);
    *out = td_shape_vector(n);
    for (int i = used; i < data->rank; i++) {
        out->dim[out->rank++] = data->dim[i];
    }
    return TD_OK;
}
