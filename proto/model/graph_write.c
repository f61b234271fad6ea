/* proto/model/graph_write.c - attribute by attribute, edge by edge into a sink.
 *
 * An attribute is one element or a list of them; both are arrays in core/graph/attr.h, so one function writes
 * an element, under AttrValue's field number for a single value and under ListValue's in a list. Those are
 * the same but for functions. Whether an attribute has its default is told by comparing what both are
 * written as.
 *
 * What is written here and read by proto/model/graph_pb.c is the node again (test_saved_model_write).
 *
 * Does not: write functions (they are copied from the file they came in, proto/model/saved_model_write.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/graph_write.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/tensor_pb.h"
#include "proto/pb/wire.h"

enum { LIST = 1, LIST_FUNC = 9 };                                    /* of AttrValue, of ListValue */
enum { DIM = 2, UNKNOWN_RANK = 3, DIM_SIZE = 1 };                    /* of TensorShapeProto */
enum { FUNC_NAME = 1, FUNC_ATTR = 2, KEY = 1, VALUE = 2 };           /* of NameAttrList, of map entries */
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTR }; /* of NodeDef */

static const uint32_t field_of[] = {
    [TD_ATTR_STRING] = 2, [TD_ATTR_INT] = 3,         [TD_ATTR_FLOAT] = 4,
    [TD_ATTR_BOOL] = 5,   [TD_ATTR_TYPE] = 6,        [TD_ATTR_SHAPE] = 7,
    [TD_ATTR_TENSOR] = 8, [TD_ATTR_PLACEHOLDER] = 9, [TD_ATTR_FUNC] = 10,
};

enum td_code td_shape_write(struct td_sink *s, const struct td_shape *shape, struct td_err *err)
{
    TD_TRY(shape->rank < 0 ? td_put_int(s, UNKNOWN_RANK, 1, err) : TD_OK);
    for (int i = 0; i < shape->rank; i++) {
        const size_t dim = td_put_mark(s);
        TD_TRY(shape->dim[i] != 0 ? td_put_int(s, DIM_SIZE, shape->dim[i], err) : TD_OK);
        TD_TRY(td_put_end(s, DIM, dim, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ attributes */

static enum td_code put_attrs(struct td_sink *s, uint32_t field, const struct td_attr *attrs, int n,
                              struct td_err *err);

static enum td_code put_nested(struct td_sink *s, uint32_t field, const struct td_attr *a, int i,
                               struct td_err *err)
{
    if (a->kind == TD_ATTR_TENSOR) {
        TD_TRY(td_put_head(s, field, td_tensor_pb_size(&a->tensor[i], true), err));
        return td_tensor_to_bytes(&a->tensor[i], true, s, err);
    }
    const size_t mark = td_put_mark(s);
    if (a->kind == TD_ATTR_SHAPE) {
        TD_TRY(td_shape_write(s, &a->shape[i], err));
    } else {
        TD_TRY(td_put_text(s, FUNC_NAME, a->func[i].name, err));
        TD_TRY(put_attrs(s, FUNC_ATTR, a->func[i].attrs, a->func[i].n_attrs, err));
    }
    return td_put_end(s, field, mark, err);
}

static enum td_code put_element(struct td_sink *s, uint32_t field, const struct td_attr *a, int i,
                                struct td_err *err)
{
    switch (a->kind) {
    case TD_ATTR_STRING:
    case TD_ATTR_PLACEHOLDER:
        return td_put_bytes(s, field, a->str[i].p, a->str[i].len, err);
    case TD_ATTR_INT:
        return td_put_int(s, field, a->i[i], err);
    case TD_ATTR_FLOAT:
        return td_put_float(s, field, a->f[i], err);
    case TD_ATTR_BOOL:
        return td_put_int(s, field, a->b[i], err);
    case TD_ATTR_TYPE:
        return td_put_int(s, field, (int64_t)a->type[i], err);
    case TD_ATTR_SHAPE:
    case TD_ATTR_TENSOR:
    case TD_ATTR_FUNC:
        return put_nested(s, field, a, i, err);
    default:
        return TD_OK; /* not set */
    }
}

enum td_code td_attr_write(struct td_sink *s, const struct td_attr *a, struct td_err *err)
{
    if (!a->is_list) {
        return a->n == 1 ? put_element(s, field_of[a->kind], a, 0, err) : TD_OK;
    }
    const size_t list = td_put_mark(s);
    const uint32_t field = a->kind == TD_ATTR_FUNC ? LIST_FUNC : field_of[a->kind];
    for (int i = 0; i < a->n; i++) {
        TD_TRY(put_element(s, field, a, i, err));
    }
    return td_put_end(s, LIST, list, err);
}

static enum td_code put_attr(struct td_sink *s, uint32_t field, const struct td_attr *a, struct td_err *err)
{
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, KEY, a->name, err));
    const size_t value = td_put_mark(s);
    TD_TRY(td_attr_write(s, a, err));
    TD_TRY(td_put_end(s, VALUE, value, err));
    return td_put_end(s, field, entry, err);
}

static enum td_code put_attrs(struct td_sink *s, uint32_t field, const struct td_attr *attrs, int n,
                              struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        TD_TRY(put_attr(s, field, &attrs[i], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ nodes */

/* What a's default is in the definition; NULL: it has none. */
static const struct td_attr *default_of(const struct td_op_def *def, const struct td_attr *a)
{
    for (int i = 0; def != NULL && i < def->n_attrs; i++) {
        if (strcmp(def->attrs[i].name, a->name) == 0) {
            return def->attrs[i].has_default ? &def->attrs[i].value : NULL;
        }
    }
    return NULL;
}

static enum td_code is_default(const struct td_node *n, const struct td_attr *a, bool *yes,
                               struct td_err *err)
{
    const struct td_attr *d = default_of(n->def, a);
    struct td_sink mine = {0}, its = {0};
    *yes = false;
    if (d == NULL || d->kind != a->kind || d->is_list != a->is_list || d->n != a->n) {
        *yes = d != NULL && d->is_list && a->is_list && d->n == 0 && a->n == 0;
        return TD_OK;
    }
    enum td_code rc = td_attr_write(&mine, a, err);
    rc = rc ? rc : td_attr_write(&its, d, err);
    *yes = rc == TD_OK && mine.n == its.n && (mine.n == 0 || memcmp(mine.p, its.p, mine.n) == 0);
    td_sink_fini(&mine);
    td_sink_fini(&its);
    return rc;
}

static enum td_code put_input(struct td_sink *s, struct td_value v, struct td_err *err)
{
    char port[16] = "";
    const size_t name = strlen(v.node->name);
    if (v.port > 0) {
        snprintf(port, sizeof port, ":%d", v.port);
    }
    TD_TRY(td_put_head(s, NODE_INPUT, name + strlen(port), err));
    TD_TRY(td_sink_put(s, v.node->name, name, err));
    return td_sink_put(s, port, strlen(port), err);
}

static enum td_code put_control(struct td_sink *s, const struct td_node *before, struct td_err *err)
{
    const size_t name = strlen(before->name);
    TD_TRY(td_put_head(s, NODE_INPUT, name + 1, err));
    TD_TRY(td_sink_put(s, "^", 1, err));
    return td_sink_put(s, before->name, name, err);
}

enum td_code td_node_write(struct td_sink *s, uint32_t field, const struct td_node *n, struct td_err *err)
{
    const size_t node = td_put_mark(s);
    TD_TRY(td_put_text(s, NODE_NAME, n->name, err));
    TD_TRY(td_put_text(s, NODE_OP, n->op_name, err));
    for (int i = 0; i < n->n_in; i++) {
        TD_TRY(put_input(s, n->in[i], err));
    }
    for (int i = 0; i < n->n_control; i++) {
        TD_TRY(put_control(s, n->control[i], err));
    }
    TD_TRY(n->device != NULL && n->device[0] != 0 ? td_put_text(s, NODE_DEVICE, n->device, err) : TD_OK);
    for (int i = 0; i < n->n_attrs; i++) {
        bool left_out;
        TD_TRY(is_default(n, &n->attrs[i], &left_out, err));
        TD_TRY(left_out ? TD_OK : put_attr(s, NODE_ATTR, &n->attrs[i], err));
    }
    return td_put_end(s, field, node, err);
}
