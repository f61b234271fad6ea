/* tests/fuzz/op_maker.c - draws attributes, values and producers for one op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_maker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

struct maker {
    struct op_graph *g;
    struct op_script *s;
    const struct td_op_def *def;
    const struct td_kernel *row; /* the kernel row whose dtypes are drawn */
    struct td_node *node;
    struct td_shape base;    /* the shape that inputs agree on */
    enum td_dtype list_type; /* the dtype that lists of types lean to */
    int64_t numbers;         /* length that "N" and lists of types lean to */
    int hostility;           /* one draw in this many is hostile */
    bool constants;          /* values are constants more often than feeds */
};

void op_script_open(struct op_script *s, const uint8_t *bytes, size_t n)
{
    *s = (struct op_script){.p = bytes, .left = n, .state = 0x9e3779b97f4a7c15u};
    for (size_t i = 0; i < n; i++) {
        s->state = (s->state ^ bytes[i]) * 0x100000001b3u;
    }
}

uint64_t op_script_draw(struct op_script *s, uint64_t n)
{
    if (s->left > 0 && n <= 256) {
        s->left--;
        return *s->p++ % n;
    }
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static uint64_t draw(struct maker *m, uint64_t n)
{
    return op_script_draw(m->s, n);
}

static bool one_in(struct maker *m, uint64_t n)
{
    return draw(m, n) == n - 1;
}

static bool hostile(struct maker *m)
{
    return one_in(m, (uint64_t)m->hostility);
}

/* ------------------------------------------------------------------ values */

static int64_t hostile_int(struct maker *m)
{
    static const int64_t v[] = {0,         -1,        -2,        INT32_MAX, INT32_MIN,  INT64_MAX,
                                INT64_MIN, 1LL << 32, 1LL << 40, 65536,     0xdeadbeef, 0xb500005b,
                                1LL << 62, 100,       -100,      1610637938};
    return v[draw(m, sizeof v / sizeof v[0])];
}

static int64_t some_int(struct maker *m)
{
    return hostile(m) ? hostile_int(m) : (int64_t)draw(m, 6) - (int64_t)one_in(m, 4);
}

static double some_float(struct maker *m)
{
    static const double v[] = {NAN,   INFINITY, -INFINITY, 1e38,         -1e38,
                               1e-40, 1e300,    -0.0,      4294967296.0, 9.3e18};
    return hostile(m) ? v[draw(m, 10)] : ((double)draw(m, 64) - 16) / 8;
}

static const char *some_string(struct maker *m, size_t *len)
{
    static const char *const v[] = {"",
                                    "a",
                                    "ab,bc->ac",
                                    "...ij->...ji",
                                    "hello world",
                                    "3.5",
                                    "-7",
                                    "12,\"x\",",
                                    "[a-z]+",
                                    "\\1",
                                    "%d %s",
                                    "{\"a\":1}",
                                    "UTF-8",
                                    "SAME",
                                    "VALID",
                                    "NHWC",
                                    "NCHW",
                                    "/etc/passwd",
                                    "../x",
                                    "ii->i",
                                    "\xff\xfe",
                                    "aGVsbG8",
                                    "sum",
                                    "mean",
                                    "1,2,3",
                                    "\xe4\xbd\xa0\xe5\xa5\xbd",
                                    "float32",
                                    "UTF-16-BE",
                                    "value0",
                                    "GIF89a",
                                    "BM"};
    const char *text = v[draw(m, sizeof v / sizeof v[0])];
    *len = strlen(text);
    if (hostile(m)) {
        *len = 3;
        return "a\0b";
    }
    return text;
}

static struct td_shape some_shape(struct maker *m)
{
    struct td_shape s = m->base;
    const uint64_t how = draw(m, 16);
    if (how < 7) {
        return s;
    }
    if (how < 9) {
        return td_shape_scalar();
    }
    if (how < 11) {
        return td_shape_vector((int64_t)draw(m, 5));
    }
    if (how == 11) {
        s.rank = s.rank > 0 ? s.rank - 1 : 0;
    } else if (how == 12 && s.rank < TD_MAX_RANK) {
        s.dim[s.rank++] = (int64_t)draw(m, 4);
    } else if (how == 13 && s.rank > 0) {
        s.dim[draw(m, (uint64_t)s.rank)] = 0;
    } else if (how == 14 && s.rank > 0) {
        s.dim[draw(m, (uint64_t)s.rank)] = (int64_t)draw(m, 5);
    } else {
        s.rank = (int)draw(m, 6);
        for (int i = 0; i < s.rank; i++) {
            s.dim[i] = (int64_t)draw(m, 4);
        }
    }
    return s;
}

static enum td_dtype any_dtype(struct maker *m)
{
    for (;;) {
        const int t = 1 + (int)draw(m, TD_DTYPE_END - 1);
        if (td_dtype_valid(t)) {
            return (enum td_dtype)t;
        }
    }
}

static enum td_dtype dtype_of_set(struct maker *m, uint32_t set)
{
    enum td_dtype list[32];
    int n = 0;
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t) && td_dtype_in((enum td_dtype)t, set)) {
            list[n++] = (enum td_dtype)t;
        }
    }
    return n == 0 ? TD_FLOAT : list[draw(m, (uint64_t)n)];
}

static void put_number(enum td_dtype dtype, void *at, int64_t i, double d)
{
    const float f = (float)d;
    const td_half h = td_float_to_half(f);
    const td_bf16 b = td_float_to_bf16(f);
    const td_c64 c = {f, -f};
    const td_c128 z = {d, -d};
    switch (dtype) {
    case TD_FLOAT:
        memcpy(at, &f, sizeof f);
        break;
    case TD_DOUBLE:
        memcpy(at, &d, sizeof d);
        break;
    case TD_HALF:
        memcpy(at, &h, sizeof h);
        break;
    case TD_BFLOAT16:
        memcpy(at, &b, sizeof b);
        break;
    case TD_COMPLEX64:
        memcpy(at, &c, sizeof c);
        break;
    case TD_COMPLEX128:
        memcpy(at, &z, sizeof z);
        break;
    case TD_BOOL:
        *(td_bool *)at = (td_bool)(i & 1);
        break;
    default:
        memcpy(at, &i, td_dtype_size(dtype)); /* little-endian */
    }
}

static bool make_tensor(struct maker *m, enum td_dtype dtype, const struct td_shape *shape,
                        struct td_tensor *t)
{
    struct td_err err = {0};
    if (td_tensor_new(t, dtype, shape, &err)) {
        return false;
    }
    const int64_t n = td_tensor_count(t);
    const uint64_t how = draw(m, 6); /* 0: rising, 1: all equal, else drawn one by one */
    int64_t number = some_int(m);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == TD_STRING) {
            size_t len;
            const char *text = some_string(m, &len);
            if (td_tensor_set_str(t, i, text, len, &err)) {
                break;
            }
        } else if (!td_dtype_is_object(dtype)) {
            number = how == 0 ? i : how == 1 ? number : some_int(m);
            const double d = how < 2 ? (double)number : some_float(m);
            put_number(dtype, (unsigned char *)t->data + (size_t)i * td_dtype_size(dtype), number, d);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ attributes */

static enum td_dtype draw_dtype(struct maker *m, const char *attr)
{
    if (one_in(m, 40)) {
        return any_dtype(m);
    }
    for (int i = 0; m->row != NULL && i < TD_TYPE_RULES && m->row->types[i].attr != NULL; i++) {
        if (strcmp(m->row->types[i].attr, attr) == 0) {
            return dtype_of_set(m, m->row->types[i].set);
        }
    }
    return one_in(m, 3) ? any_dtype(m) : dtype_of_set(m, TD_SET_REALS | TD_BIT(TD_STRING));
}

static bool is_number_attr(const struct td_op_def *def, const char *name)
{
    for (int i = 0; i < def->n_in + def->n_out; i++) {
        const struct td_arg_def *a = i < def->n_in ? &def->in[i] : &def->out[i - def->n_in];
        if (a->number_attr != NULL && strcmp(a->number_attr, name) == 0) {
            return true;
        }
    }
    return false;
}

static int list_length(struct maker *m, const struct td_attr_def *d)
{
    if (d->kind == TD_ATTR_TYPE || d->kind == TD_ATTR_SHAPE) {
        return one_in(m, 4) ? (int)draw(m, 5) : (int)m->numbers;
    }
    if (d->has_default && d->value.n > 0 && !hostile(m)) {
        return d->value.n;
    }
    static const int usual[] = {0, 1, 2, 4, 5, 3};
    return one_in(m, 4) ? usual[draw(m, 6)] : m->base.rank;
}

static int64_t draw_attr_int(struct maker *m, const struct td_attr_def *d, int i, int n)
{
    if (!d->is_list && is_number_attr(m->def, d->name)) {
        return hostile(m) ? hostile_int(m) : m->numbers;
    }
    if (d->is_list && n >= 4 && (i == 0 || i == n - 1) && !one_in(m, 6)) {
        return 1; /* strides and windows of batch and depth */
    }
    return hostile(m) ? hostile_int(m) : d->is_list ? 1 + (int64_t)draw(m, 3) : (int64_t)draw(m, 5);
}

static struct td_shape attr_shape(struct maker *m)
{
    struct td_shape s = some_shape(m);
    if (one_in(m, 3)) {
        return td_shape_unknown();
    }
    if (s.rank > 0 && one_in(m, 3)) {
        s.dim[draw(m, (uint64_t)s.rank)] = one_in(m, 4) ? (int64_t)1 << 40 : -1;
    }
    return s;
}

static struct td_bytes attr_string(struct maker *m, const struct td_attr_def *d)
{
    if (d->n_allowed > 0 && !one_in(m, 24)) {
        return d->allowed[draw(m, (uint64_t)d->n_allowed)];
    }
    struct td_bytes b;
    b.p = some_string(m, &b.len);
    return b;
}

static void set_attr_value(struct maker *m, const struct td_attr_def *d, struct td_attr *a, int i)
{
    struct td_shape shape = some_shape(m);
    switch (a->kind) {
    case TD_ATTR_STRING:
        a->str[i] = attr_string(m, d);
        break;
    case TD_ATTR_INT:
        a->i[i] = draw_attr_int(m, d, i, a->n);
        break;
    case TD_ATTR_FLOAT:
        a->f[i] = (float)some_float(m);
        break;
    case TD_ATTR_BOOL:
        a->b[i] = one_in(m, 2);
        break;
    case TD_ATTR_TYPE:
        a->type[i] = d->is_list && !one_in(m, 4) ? m->list_type : draw_dtype(m, d->name);
        break;
    case TD_ATTR_SHAPE:
        a->shape[i] = attr_shape(m);
        break;
    case TD_ATTR_FUNC:
        a->func[i] = (struct td_func_ref){.name = "f"};
        break;
    case TD_ATTR_TENSOR:
        if (!make_tensor(m, draw_dtype(m, "dtype"), &shape, &a->tensor[i])) {
            a->n = 0;
        }
        break;
    default:
        break;
    }
}

static void clear_tensor(void *t)
{
    td_tensor_clear(t);
}

static void add_attr(struct maker *m, const struct td_attr_def *d)
{
    if (d->has_default && draw(m, 5) < 3) {
        return;
    }
    const int n = d->is_list ? list_length(m, d) : 1;
    struct td_attr *a = op_graph_attr(m->g, m->node, d->name, d->kind, d->is_list, n);
    for (int i = 0; i < n; i++) {
        set_attr_value(m, d, a, i);
    }
    if (d->kind == TD_ATTR_TENSOR && a->n == 1 &&
        td_arena_defer(m->g->arena, clear_tensor, &a->tensor[0]) != 0) {
        td_tensor_clear(&a->tensor[0]);
    }
}

static const struct td_attr *attr_of(const struct maker *m, const char *name)
{
    const struct td_attr *a = td_attr_find(m->node->attrs, m->node->n_attrs, name);
    for (int i = 0; a == NULL && i < m->def->n_attrs; i++) {
        if (strcmp(m->def->attrs[i].name, name) == 0 && m->def->attrs[i].has_default) {
            a = &m->def->attrs[i].value;
        }
    }
    return a;
}

static enum td_dtype type_attr(const struct maker *m, const char *name, int i)
{
    const struct td_attr *a = name == NULL ? NULL : attr_of(m, name);
    return a != NULL && a->kind == TD_ATTR_TYPE && i < a->n ? a->type[i] : TD_FLOAT;
}

/* ------------------------------------------------------------------ producers of resources, variants,
 * references */

static const char *value_of(struct maker *m, enum td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor t;
    if (!make_tensor(m, dtype, shape, &t)) {
        const struct td_shape scalar = td_shape_scalar();
        if (!make_tensor(m, dtype, &scalar, &t)) {
            return "";
        }
    }
    return op_graph_value(m->g, &t, m->constants ? !one_in(m, 4) : one_in(m, 4));
}

static struct td_node *producer(struct maker *m, const char *op)
{
    char name[32];
    snprintf(name, sizeof name, "made%d", m->g->n_values++);
    return op_graph_node(m->g, name, op);
}

static void set_type(struct maker *m, struct td_node *n, const char *name, enum td_dtype t)
{
    op_graph_attr(m->g, n, name, TD_ATTR_TYPE, false, 1)->type[0] = t;
}

static void set_types(struct maker *m, struct td_node *n, const char *name, enum td_dtype t)
{
    op_graph_attr(m->g, n, name, TD_ATTR_TYPE, true, 1)->type[0] = t;
}

static void control(struct maker *m, const char *name)
{
    char text[40];
    snprintf(text, sizeof text, "^%s", name);
    op_graph_input(m->g, m->node, text);
}

/* The dtype of the elements that the op under test works on. */
static enum td_dtype element_type(struct maker *m)
{
    static const char *const names[] = {"dtype",   "element_dtype", "T",  "elem_type",
                                        "Tparams", "value_dtype",   "Tin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !one_in(m, 16); i++) {
        const struct td_attr *a = attr_of(m, names[i]);
        if (a != NULL && a->kind == TD_ATTR_TYPE && !a->is_list) {
            return a->type[0];
        }
    }
    return m->list_type;
}

static const char *make_variable(struct maker *m, bool reference)
{
    const enum td_dtype t = element_type(m);
    struct td_node *v = producer(m, reference ? "VariableV2" : "VarHandleOp");
    struct td_node *set = producer(m, reference ? "Assign" : "AssignVariableOp");
    if (v == NULL || set == NULL) {
        return "";
    }
    const struct td_shape shape = some_shape(m);
    set_type(m, v, "dtype", t);
    op_graph_attr(m->g, v, "shape", TD_ATTR_SHAPE, false, 1)->shape[0] =
        one_in(m, 2) ? td_shape_unknown() : shape;
    struct td_bytes *name = op_graph_attr(m->g, v, "shared_name", TD_ATTR_STRING, false, 1)->str;
    *name = (struct td_bytes){v->name, strlen(v->name)};
    set_type(m, set, reference ? "T" : "dtype", t);
    op_graph_input(m->g, set, v->name);
    op_graph_input(m->g, set, value_of(m, t, &shape));
    if (!one_in(m, 12)) {
        control(m, set->name);
    }
    return v->name;
}

static const char *make_table(struct maker *m)
{
    static const char *const ops[] = {"HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2"};
    const bool mutable = one_in(m, 2);
    const struct td_attr *key = attr_of(m, "Tin"), *value = attr_of(m, "Tout");
    enum td_dtype k = key != NULL && key->kind == TD_ATTR_TYPE && !key->is_list ? key->type[0] : TD_INT64;
    enum td_dtype v =
        value != NULL && value->kind == TD_ATTR_TYPE && !value->is_list ? value->type[0] : TD_FLOAT;
    struct td_node *n = producer(m, ops[mutable ? 1 + one_in(m, 3) : 0]);
    if (n == NULL) {
        return "";
    }
    set_type(m, n, "key_dtype", k);
    set_type(m, n, "value_dtype", v);
    struct td_node *fill =
        one_in(m, 4) ? NULL : producer(m, mutable ? "LookupTableInsertV2" : "LookupTableImportV2");
    if (fill != NULL) {
        const struct td_shape shape = td_shape_vector((int64_t)draw(m, 5));
        set_type(m, fill, "Tin", k);
        set_type(m, fill, "Tout", v);
        op_graph_input(m->g, fill, n->name);
        op_graph_input(m->g, fill, value_of(m, k, &shape));
        op_graph_input(m->g, fill, value_of(m, v, &shape));
        control(m, fill->name);
    }
    return n->name;
}

static const char *make_queue(struct maker *m)
{
    static const char *const ops[] = {"FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2",
                                      "PriorityQueueV2"};
    struct td_node *n = producer(m, ops[draw(m, 4)]);
    struct td_node *put = one_in(m, 4) ? NULL : producer(m, "QueueEnqueueManyV2");
    if (n == NULL) {
        return "";
    }
    set_types(m, n, "component_types", m->list_type);
    if (one_in(m, 2)) {
        op_graph_attr(m->g, n, "shapes", TD_ATTR_SHAPE, true, 1)->shape[0] = attr_shape(m);
    }
    op_graph_attr(m->g, n, "capacity", TD_ATTR_INT, false, 1)->i[0] = hostile(m) ? hostile_int(m) : 10;
    if (put != NULL) {
        const struct td_shape shape = some_shape(m);
        set_types(m, put, "Tcomponents", m->list_type);
        op_graph_input(m->g, put, n->name);
        op_graph_input(m->g, put, value_of(m, m->list_type, &shape));
        control(m, put->name);
    }
    return n->name;
}

static const char *make_sized(struct maker *m, const char *op, const char *type_name)
{
    struct td_node *n = producer(m, op);
    if (n == NULL) {
        return "";
    }
    const struct td_shape scalar = hostile(m) ? some_shape(m) : td_shape_scalar();
    set_type(m, n, type_name, element_type(m));
    op_graph_input(m->g, n, value_of(m, TD_INT32, &scalar));
    if (strcmp(op, "TensorArrayV3") == 0 && one_in(m, 2)) {
        op_graph_attr(m->g, n, "dynamic_size", TD_ATTR_BOOL, false, 1)->b[0] = true;
    }
    return n->name;
}

static const char *make_list(struct maker *m)
{
    const bool filled = !one_in(m, 3);
    struct td_node *n = producer(m, filled ? "TensorListFromTensor" : "TensorListReserve");
    if (n == NULL) {
        return "";
    }
    const enum td_dtype t = element_type(m);
    const struct td_shape shape = some_shape(m), scalar = td_shape_scalar();
    const struct td_shape elem = td_shape_vector(shape.rank > 0 && one_in(m, 2) ? shape.rank - 1 : 0);
    set_type(m, n, "element_dtype", t);
    set_type(m, n, "shape_type", TD_INT32);
    if (filled) {
        op_graph_input(m->g, n, value_of(m, t, &shape));
    }
    struct td_tensor minus;
    struct td_err err = {0};
    if (!one_in(m, 4) && td_tensor_new(&minus, TD_INT32, &scalar, &err) == TD_OK) {
        *TD_DATA(&minus, int32_t) = -1;
        op_graph_input(m->g, n, op_graph_value(m->g, &minus, one_in(m, 2)));
    } else {
        op_graph_input(m->g, n, value_of(m, TD_INT32, &elem));
    }
    if (!filled) {
        op_graph_input(m->g, n, value_of(m, TD_INT32, &scalar));
    }
    return n->name;
}

static const char *make_of_values(struct maker *m, const char *op)
{
    struct td_node *n = producer(m, op);
    if (n == NULL) {
        return "";
    }
    const struct td_shape shape = some_shape(m);
    set_types(m, n, "Toutput_types", m->list_type);
    if (strstr(op, "Dataset") != NULL) {
        op_graph_attr(m->g, n, "output_shapes", TD_ATTR_SHAPE, true, 1)->shape[0] = td_shape_unknown();
    }
    op_graph_input(m->g, n, value_of(m, m->list_type, &shape));
    return n->name;
}

static const char *make_ragged(struct maker *m)
{
    struct td_node *n = producer(m, "RaggedTensorToVariant");
    if (n == NULL) {
        return "";
    }
    const struct td_shape splits = td_shape_vector(1 + (int64_t)draw(m, 4)), values = some_shape(m);
    const enum td_dtype t = type_attr(m, "Tvalues", 0);
    op_graph_attr(m->g, n, "RAGGED_RANK", TD_ATTR_INT, false, 1)->i[0] = 1;
    set_type(m, n, "Tvalues", t);
    op_graph_attr(m->g, n, "batched_input", TD_ATTR_BOOL, false, 1)->b[0] = one_in(m, 2);
    op_graph_input(m->g, n, value_of(m, TD_INT64, &splits));
    op_graph_input(m->g, n, value_of(m, t, &values));
    return n->name;
}

static const char *make_iterator(struct maker *m)
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

static const char *make_resource(struct maker *m)
{
    const char *op = one_in(m, 24) ? "" : m->def->name;
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
    return make_variable(m, false);
}

static const char *make_variant(struct maker *m)
{
    const char *op = m->def->name;
    switch (one_in(m, 24) ? draw(m, 5) : 9) {
    case 0:
        return make_list(m);
    case 1:
        return make_of_values(m, "OptionalFromValue");
    case 2:
        return make_of_values(m, "TensorSliceDataset");
    case 3:
        return make_ragged(m);
    case 4:
        return value_of(m, TD_VARIANT, &m->base);
    default:
        break;
    }
    return strncmp(op, "Optional", 8) == 0  ? make_of_values(m, "OptionalFromValue")
           : strncmp(op, "Ragged", 6) == 0  ? make_ragged(m)
           : strstr(op, "Dataset") != NULL  ? make_of_values(m, "TensorSliceDataset")
           : strstr(op, "Iterator") != NULL ? make_of_values(m, "TensorSliceDataset")
                                            : make_list(m);
}

/* ------------------------------------------------------------------ the case */

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Is name, or its end, among the words? A word that starts with '=' is the whole name. */
static bool named(const char *name, const char *const *words)
{
    for (; *words != NULL; words++) {
        if ((*words)[0] == '=' ? strcmp(name, *words + 1) == 0 : ends_with(name, *words)) {
            return true;
        }
    }
    return false;
}

static const char *const scalars[] = {"=lr",
                                      "=l1",
                                      "=l2",
                                      "=alpha",
                                      "=beta",
                                      "beta1",
                                      "beta2",
                                      "_power",
                                      "=epsilon",
                                      "=rho",
                                      "=momentum",
                                      "=lr_power",
                                      "=logbase",
                                      "=sign_decay",
                                      "l2_shrinkage",
                                      "num_segments",
                                      "=num",
                                      "=limit",
                                      "=start",
                                      "=stop",
                                      "=delta",
                                      "contents",
                                      "=minval",
                                      "=maxval",
                                      "min_range",
                                      "max_range",
                                      "=min",
                                      "=max",
                                      "axis",
                                      "_dim",
                                      "=dim",
                                      "=dimension",
                                      "num_bits",
                                      "=method",
                                      "=index",
                                      "num_elements",
                                      "global_step",
                                      "max_output_size",
                                      "_threshold",
                                      "=buffer_size",
                                      "=seed2",
                                      "=count",
                                      "=batch_size",
                                      "=size_scalar",
                                      "=depth",
                                      "on_value",
                                      "off_value",
                                      "=diagonal_index",
                                      "padding_value",
                                      "num_rows",
                                      "num_cols",
                                      "=n",
                                      "=k",
                                      "=lower",
                                      "=upper",
                                      "num_shards",
                                      "=tag",
                                      "num_classes",
                                      "=alg",
                                      "=nbins",
                                      "=sample_rate",
                                      "drop_remainder",
                                      "=quality",
                                      "=pred",
                                      "=seed",
                                      "=frame_length",
                                      "=input_rate",
                                      NULL};
static const char *const vectors[] = {"=begin",  "=end",    "=strides",        "=shape",   "_shape",
                                      "_sizes",  "=perm",   "=multiples",      "=dims",    "=output_size",
                                      "_splits", "=seqlen", "sequence_length", "sp_shape", NULL};
static const char *const pairs[] = {"=paddings", "=crops", NULL};

/* Sparse tensors: indices [n, rank], values [n], shape [rank], the same n and rank mostly. */
static bool sparse_shape(struct maker *m, const char *name, struct td_shape *s)
{
    const char *op = m->def->name;
    if (strstr(op, "Sparse") == NULL && strstr(op, "Set") == NULL && strncmp(op, "CTC", 3) != 0 &&
        strcmp(op, "EditDistance") != 0) {
        return false;
    }
    if (strstr(op, "Segment") != NULL || strncmp(op, "SparseApply", 11) == 0 ||
        strncmp(op, "ResourceSparse", 14) == 0) {
        *s = td_shape_vector(m->numbers);
        return strstr(name, "indices") != NULL || strstr(name, "segment_ids") != NULL;
    }
    const int64_t rank = m->base.rank > 0 ? m->base.rank : 2;
    if (ends_with(name, "indices")) {
        *s = td_shape_matrix(m->numbers, rank);
    } else if (ends_with(name, "values")) {
        *s = td_shape_vector(m->numbers);
    } else if (ends_with(name, "shape") || ends_with(name, "shapes")) {
        *s = td_shape_vector(rank);
    } else {
        return false;
    }
    return true;
}

/* Keys, counters and seeds of the stateless generators. */
static bool random_shape(const struct maker *m, const char *name, struct td_shape *s)
{
    if (strncmp(m->def->name, "Stateless", 9) != 0) {
        return false;
    }
    const int64_t n = strcmp(name, "counter") == 0 || strcmp(name, "seed") == 0 ? 2
                      : strcmp(name, "key") == 0                                ? 1
                                                                                : 0;
    *s = td_shape_vector(n);
    return n > 0;
}

/* Shape of an input, by what its name promises; arguments of a fixed integer type are mostly axes, sizes,
 * lists. */
static struct td_shape input_shape(struct maker *m, const struct td_arg_def *a)
{
    struct td_shape s;
    if (!one_in(m, 6)) {
        if (random_shape(m, a->name, &s) || sparse_shape(m, a->name, &s)) {
            return s;
        }
        if (named(a->name, scalars)) {
            return td_shape_scalar();
        }
        if (named(a->name, vectors)) {
            return td_shape_vector(m->base.rank);
        }
        if (named(a->name, pairs)) {
            return td_shape_matrix(strstr(m->def->name, "Batch") != NULL ? 2 : m->base.rank, 2);
        }
    }
    if (a->type != TD_INT32 && a->type != TD_INT64 && a->type != TD_BOOL) {
        return some_shape(m);
    }
    switch (draw(m, 8)) {
    case 0:
    case 1:
    case 2:
        return td_shape_scalar();
    case 3:
        return td_shape_vector((int64_t)draw(m, 5));
    case 4:
        return td_shape_vector(m->base.rank);
    case 5:
        return td_shape_matrix((int64_t)draw(m, 4), (int64_t)draw(m, 4));
    default:
        return some_shape(m);
    }
}

/* Ops on images and volumes want a rank; others take any. */
static int base_rank(struct maker *m)
{
    static const char *const four[] = {
        "Conv2D", "Conv2d", "Pool", "FusedBatchNorm", "Image",      "Resize", "ToDepth", "DepthTo",
        "LRN",    "Boxes",  "Crop", "Patches",        "Dilation2D", "Adjust", "Draw",    NULL};
    static const char *const five[] = {"3D", "Volume", NULL};
    static const char *const three[] = {"CTC", "BlockLSTM", "EncodeJpeg",  "EncodePng",
                                        "RGB", "HSV",       "BatchMatMul", NULL};
    static const char *const two[] = {
        "MatMul", "Matrix",   "CrossEntropy", "BlockCell",         "Sampler", "Multinomial",
        "TopK",   "Cholesky", "Gather",       "NonMaxSuppression", NULL};
    static const char *const *const lists[] = {five, four, three, two};
    static const int ranks[] = {5, 4, 3, 2};
    for (int i = 0; i < 4 && !one_in(m, 8); i++) {
        for (int k = 0; lists[i][k] != NULL; k++) {
            if (strstr(m->def->name, lists[i][k]) != NULL) {
                return ranks[i];
            }
        }
    }
    return (int)draw(m, 6);
}

static void add_input(struct maker *m, const struct td_arg_def *a, enum td_dtype dtype)
{
    const struct td_shape shape = input_shape(m, a);
    const char *text = a->is_ref              ? make_variable(m, true)
                       : dtype == TD_RESOURCE ? make_resource(m)
                       : dtype == TD_VARIANT  ? make_variant(m)
                                              : value_of(m, dtype, &shape);
    op_graph_input(m->g, m->node, text);
}

static void add_argument(struct maker *m, const struct td_arg_def *a)
{
    const struct td_attr *number = a->number_attr != NULL ? attr_of(m, a->number_attr) : NULL;
    const struct td_attr *list = a->list_attr != NULL ? attr_of(m, a->list_attr) : NULL;
    int64_t n = number != NULL && number->n == 1 && number->kind == TD_ATTR_INT ? number->i[0] : 1;
    n = list != NULL ? list->n : n;
    for (int64_t i = 0; i < n && i < 8; i++) {
        const enum td_dtype t = a->list_attr != NULL   ? type_attr(m, a->list_attr, (int)i)
                                : a->type_attr != NULL ? type_attr(m, a->type_attr, 0)
                                                       : a->type;
        add_input(m, a, t);
    }
}

static const struct td_kernel *draw_row(struct maker *m, const struct td_op *op)
{
    int n = 0;
    while (op != NULL && op->kernels != NULL && op->kernels[n].run != NULL) {
        n++;
    }
    return n == 0 ? NULL : &op->kernels[draw(m, (uint64_t)n)];
}

static void put_last(struct td_graph *graph, struct td_node *n)
{
    for (int i = 0; i + 1 < graph->n_nodes; i++) {
        if (graph->nodes[i] == n) {
            graph->nodes[i] = graph->nodes[i + 1];
            graph->nodes[i + 1] = n;
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i]->id = i;
    }
}

/* Control inputs come after the data inputs, whatever order they were added in. */
static void controls_last(struct td_node *n)
{
    const char *sorted[OP_GRAPH_INPUTS];
    int k = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n->n_inputs; i++) {
            if ((n->inputs[i][0] == '^') == (pass == 1)) {
                sorted[k++] = n->inputs[i];
            }
        }
    }
    memcpy(n->inputs, sorted, (size_t)k * sizeof sorted[0]);
}

bool op_maker_fill(struct op_graph *g, const struct td_op_def *def, struct op_script *s)
{
    struct maker m = {.g = g, .s = s, .def = def};
    static const int hostility[] = {4, 12, 60, 200};
    m.hostility = hostility[draw(&m, 4)];
    m.constants = one_in(&m, 2);
    m.row = draw_row(&m, def->op);
    m.base.rank = base_rank(&m);
    const int64_t side = one_in(&m, 8) ? 17 : 4; /* one case in eight is wide enough for vector loops */
    for (int i = 0; i < m.base.rank; i++) {
        m.base.dim[i] =
            one_in(&m, 2) && i > 0 ? m.base.dim[i - 1] : (int64_t)draw(&m, (uint64_t)side) + !one_in(&m, 12);
    }
    m.list_type = draw_dtype(&m, "");
    m.numbers = 1 + (int64_t)draw(&m, 3);
    static const char *const off[] = {NULL, NULL, NULL, "all"};
    g->passes_off = off[draw(&m, 4)];
    g->eager = one_in(&m, 8);
    g->kernels = one_in(&m, 2) ? TD_KERNELS_REFERENCE : TD_KERNELS_FAST;
    m.node = op_graph_node(g, "test", def->name);
    if (m.node == NULL) {
        return false;
    }
    for (int i = 0; i < def->n_attrs; i++) {
        add_attr(&m, &def->attrs[i]);
    }
    for (int i = 0; i < def->n_in; i++) {
        add_argument(&m, &def->in[i]);
    }
    if (one_in(&m, 60)) {
        op_graph_input(g, m.node, value_of(&m, TD_FLOAT, &m.base));
    } else if (m.node->n_inputs > 0 && one_in(&m, 60)) {
        m.node->n_inputs--;
    }
    controls_last(m.node);
    put_last(&g->graph, m.node);
    return true;
}
