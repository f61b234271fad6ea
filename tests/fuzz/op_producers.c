/* tests/fuzz/op_producers.c - the nodes that make what an op takes: values, variables, tables, queues, lists.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_draw.h"

#include <stdio.h>
#include <string.h>

const char *op_make_value(struct op_maker *m, enum td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor t;
    if (!op_draw_tensor(m, dtype, shape, &t)) {
        const struct td_shape scalar = td_shape_scalar();
        if (!op_draw_tensor(m, dtype, &scalar, &t)) {
            return "";
        }
    }
    return op_graph_value(m->g, &t, m->constants ? !op_one_in(m, 4) : op_one_in(m, 4));
}

static struct td_node *producer(struct op_maker *m, const char *op)
{
    char name[32];
    snprintf(name, sizeof name, "made%d", m->g->n_values++);
    return op_graph_node(m->g, name, op);
}

static void set_type(struct op_maker *m, struct td_node *n, const char *name, enum td_dtype t)
{
    op_graph_attr(m->g, n, name, TD_ATTR_TYPE, false, 1)->type[0] = t;
}

static void set_types(struct op_maker *m, struct td_node *n, const char *name, enum td_dtype t)
{
    op_graph_attr(m->g, n, name, TD_ATTR_TYPE, true, 1)->type[0] = t;
}

static void control(struct op_maker *m, const char *name)
{
    char text[40];
    snprintf(text, sizeof text, "^%s", name);
    op_graph_input(m->g, m->node, text);
}

/* The dtype of the elements that the op under test works on. */
static enum td_dtype element_type(struct op_maker *m)
{
    static const char *const names[] = {"dtype",   "element_dtype", "T",  "elem_type",
                                        "Tparams", "value_dtype",   "Tin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !op_one_in(m, 16); i++) {
        const struct td_attr *a = op_maker_attr(m, names[i]);
        if (a != NULL && a->kind == TD_ATTR_TYPE && !a->is_list) {
            return a->type[0];
        }
    }
    return m->list_type;
}

const char *op_make_variable(struct op_maker *m, bool reference)
{
    const enum td_dtype t = element_type(m);
    struct td_node *v = producer(m, reference ? "VariableV2" : "VarHandleOp");
    struct td_node *set = producer(m, reference ? "Assign" : "AssignVariableOp");
    if (v == NULL || set == NULL) {
        return "";
    }
    const struct td_shape shape = op_draw_shape(m);
    set_type(m, v, "dtype", t);
    op_graph_attr(m->g, v, "shape", TD_ATTR_SHAPE, false, 1)->shape[0] =
        op_one_in(m, 2) ? td_shape_unknown() : shape;
    struct td_bytes *name = op_graph_attr(m->g, v, "shared_name", TD_ATTR_STRING, false, 1)->str;
    *name = (struct td_bytes){v->name, strlen(v->name)};
    set_type(m, set, reference ? "T" : "dtype", t);
    op_graph_input(m->g, set, v->name);
    op_graph_input(m->g, set, op_make_value(m, t, &shape));
    if (!op_one_in(m, 12)) {
        control(m, set->name);
    }
    return v->name;
}

static const char *make_table(struct op_maker *m)
{
    static const char *const ops[] = {"HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2"};
    const bool mutable = op_one_in(m, 2);
    const struct td_attr *key = op_maker_attr(m, "Tin"), *value = op_maker_attr(m, "Tout");
    enum td_dtype k = key != NULL && key->kind == TD_ATTR_TYPE && !key->is_list ? key->type[0] : TD_INT64;
    enum td_dtype v =
        value != NULL && value->kind == TD_ATTR_TYPE && !value->is_list ? value->type[0] : TD_FLOAT;
    struct td_node *n = producer(m, ops[mutable ? 1 + op_one_in(m, 3) : 0]);
    if (n == NULL) {
        return "";
    }
    set_type(m, n, "key_dtype", k);
    set_type(m, n, "value_dtype", v);
    struct td_node *fill =
        op_one_in(m, 4) ? NULL : producer(m, mutable ? "LookupTableInsertV2" : "LookupTableImportV2");
    if (fill != NULL) {
        const struct td_shape shape = td_shape_vector((int64_t)op_draw(m, 5));
        set_type(m, fill, "Tin", k);
        set_type(m, fill, "Tout", v);
        op_graph_input(m->g, fill, n->name);
        op_graph_input(m->g, fill, op_make_value(m, k, &shape));
        op_graph_input(m->g, fill, op_make_value(m, v, &shape));
        control(m, fill->name);
    }
    return n->name;
}

static const char *make_queue(struct op_maker *m)
{
    static const char *const ops[] = {"FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2",
                                      "PriorityQueueV2"};
    struct td_node *n = producer(m, ops[op_draw(m, 4)]);
    struct td_node *put = op_one_in(m, 4) ? NULL : producer(m, "QueueEnqueueManyV2");
    if (n == NULL) {
        return "";
    }
    set_types(m, n, "component_types", m->list_type);
    if (op_one_in(m, 2)) {
        op_graph_attr(m->g, n, "shapes", TD_ATTR_SHAPE, true, 1)->shape[0] = op_draw_attr_shape(m);
    }
    op_graph_attr(m->g, n, "capacity", TD_ATTR_INT, false, 1)->i[0] =
        op_hostile(m) ? op_draw_hostile_int(m) : 10;
    if (put != NULL) {
        const struct td_shape shape = op_draw_shape(m);
        set_types(m, put, "Tcomponents", m->list_type);
        op_graph_input(m->g, put, n->name);
        op_graph_input(m->g, put, op_make_value(m, m->list_type, &shape));
        control(m, put->name);
    }
    return n->name;
}

static const char *make_sized(struct op_maker *m, const char *op, const char *type_name)
{
    struct td_node *n = producer(m, op);
    if (n == NULL) {
        return "";
    }
    const struct td_shape scalar = op_hostile(m) ? op_draw_shape(m) : td_shape_scalar();
    set_type(m, n, type_name, element_type(m));
    op_graph_input(m->g, n, op_make_value(m, TD_INT32, &scalar));
    if (strcmp(op, "TensorArrayV3") == 0 && op_one_in(m, 2)) {
        op_graph_attr(m->g, n, "dynamic_size", TD_ATTR_BOOL, false, 1)->b[0] = true;
    }
    return n->name;
}

static const char *make_list(struct op_maker *m)
{
    const bool filled = !op_one_in(m, 3);
    struct td_node *n = producer(m, filled ? "TensorListFromTensor" : "TensorListReserve");
    if (n == NULL) {
        return "";
    }
    const enum td_dtype t = element_type(m);
    const struct td_shape shape = op_draw_shape(m), scalar = td_shape_scalar();
    const struct td_shape elem = td_shape_vector(shape.rank > 0 && op_one_in(m, 2) ? shape.rank - 1 : 0);
    set_type(m, n, "element_dtype", t);
    set_type(m, n, "shape_type", TD_INT32);
    if (filled) {
        op_graph_input(m->g, n, op_make_value(m, t, &shape));
    }
    struct td_tensor minus;
    struct td_err err = {0};
    if (!op_one_in(m, 4) && td_tensor_new(&minus, TD_INT32, &scalar, &err) == TD_OK) {
        *TD_DATA(&minus, int32_t) = -1;
        op_graph_input(m->g, n, op_graph_value(m->g, &minus, op_one_in(m, 2)));
    } else {
        op_graph_input(m->g, n, op_make_value(m, TD_INT32, &elem));
    }
    if (!filled) {
        op_graph_input(m->g, n, op_make_value(m, TD_INT32, &scalar));
    }
    return n->name;
}

static const char *make_of_values(struct op_maker *m, const char *op)
{
    struct td_node *n = producer(m, op);
    if (n == NULL) {
        return "";
    }
    const struct td_shape shape = op_draw_shape(m);
    set_types(m, n, "Toutput_types", m->list_type);
    if (strstr(op, "Dataset") != NULL) {
        op_graph_attr(m->g, n, "output_shapes", TD_ATTR_SHAPE, true, 1)->shape[0] = td_shape_unknown();
    }
    op_graph_input(m->g, n, op_make_value(m, m->list_type, &shape));
    return n->name;
}

static const char *make_ragged(struct op_maker *m)
{
    struct td_node *n = producer(m, "RaggedTensorToVariant");
    if (n == NULL) {
        return "";
    }
    const struct td_shape splits = td_shape_vector(1 + (int64_t)op_draw(m, 4)), values = op_draw_shape(m);
    const enum td_dtype t = op_maker_type(m, "Tvalues", 0);
    op_graph_attr(m->g, n, "RAGGED_RANK", TD_ATTR_INT, false, 1)->i[0] = 1;
    set_type(m, n, "Tvalues", t);
    op_graph_attr(m->g, n, "batched_input", TD_ATTR_BOOL, false, 1)->b[0] = op_one_in(m, 2);
    op_graph_input(m->g, n, op_make_value(m, TD_INT64, &splits));
    op_graph_input(m->g, n, op_make_value(m, t, &values));
    return n->name;
}

static const char *make_iterator(struct op_maker *m)
{
    struct td_node *n = producer(m, "IteratorV2"), *start = producer(m, "MakeIterator");
    if (n == NULL || start == NULL) {
        return "";
    }
    op_graph_attr(m->g, n, "shared_name", TD_ATTR_STRING, false, 1)->str[0] = (struct td_bytes){"it", 2};
    op_graph_attr(m->g, n, "container", TD_ATTR_STRING, false, 1)->str[0] = (struct td_bytes){"", 0};
    set_types(m, n, "output_types", m->list_type);
    op_graph_attr(m->g, n, "output_shapes", TD_ATTR_SHAPE, true, 1)->shape[0] = td_shape_unknown();
    op_graph_input(m->g, start, make_of_values(m, "TensorSliceDataset"));
    op_graph_input(m->g, start, n->name);
    control(m, start->name);
    return n->name;
}

const char *op_make_resource(struct op_maker *m)
{
    const char *op = op_one_in(m, 24) ? "" : m->def->name;
    if (strstr(op, "Table") != NULL) {
        return make_table(m);
    }
    if (strncmp(op, "Queue", 5) == 0) {
        return make_queue(m);
    }
    if (strncmp(op, "TensorArray", 11) == 0) {
        return make_sized(m, "TensorArrayV3", "dtype");
    }
    if (strncmp(op, "Stack", 5) == 0) {
        return make_sized(m, "StackV2", "elem_type");
    }
    if (strstr(op, "Iterator") != NULL) {
        return make_iterator(m);
    }
    if (strstr(op, "Mutex") != NULL) {
        struct td_node *n = producer(m, "MutexV2");
        return n == NULL ? "" : n->name;
    }
    return op_make_variable(m, false);
}

const char *op_make_variant(struct op_maker *m)
{
    const char *op = m->def->name;
    switch (op_one_in(m, 24) ? op_draw(m, 5) : 9) {
    case 0:
        return make_list(m);
    case 1:
        return make_of_values(m, "OptionalFromValue");
    case 2:
        return make_of_values(m, "TensorSliceDataset");
    case 3:
        return make_ragged(m);
    case 4:
        return op_make_value(m, TD_VARIANT, &m->base);
    default:
        break;
    }
    return strncmp(op, "Optional", 8) == 0  ? make_of_values(m, "OptionalFromValue")
           : strncmp(op, "Ragged", 6) == 0  ? make_ragged(m)
           : strstr(op, "Dataset") != NULL  ? make_of_values(m, "TensorSliceDataset")
           : strstr(op, "Iterator") != NULL ? make_of_values(m, "TensorSliceDataset")
                                            : make_list(m);
}
