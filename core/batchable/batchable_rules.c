/* core/batchable/batchable_rules.c - the table of rules, what they share, and the rules of ops that keep the
 * shape of what they are given. Rules of ops that move axes about are in core/batchable/batchable_axes.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rules.h"

#include "core/graph/graph.h"
#include "core/batchable/batchable_axes.h"
#include "core/batchable/batchable_call.h"
#include "core/batchable/batchable_fused.h"
#include "core/batchable/batchable_list.h"

/* ------------------------------------------------------------------ what rules share */

struct td_shape *td_rows_out_shape(const struct td_batchable_step *s, int o, int probe)
{
    return &s->bound[probe]->shape[s->step->out0 + o];
}

static int64_t entries(const struct td_shape *const *shape, int axis)
{
    int64_t k = axis < shape[0]->rank ? shape[0]->dim[axis] / td_rows_probe[0] : 0;
    for (int p = 0; p < TD_ROWS_PROBES && k > 0; p++) {
        int64_t want;
        bool fits = axis < shape[p]->rank && !__builtin_mul_overflow(k, td_rows_probe[p], &want);
        k = fits && shape[p]->dim[axis] == want ? k : 0;
    }
    return k;
}

/* Entries a row along `axis` of input i: the dimension is k*N at every probe. 0 when it is not. */
static int64_t per_row(const struct td_batchable_step *s, int i, int axis)
{
    const struct td_shape *shape[TD_ROWS_PROBES];
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        shape[p] = &s->in_shape[p][i];
    }
    return entries(shape, axis);
}

/* All dimensions but `axis` (-1: really all) known, and the same at all probes. */
static bool steady(const struct td_shape *const *shape, int axis)
{
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        if (!td_shape_known(shape[p]) || shape[p]->rank != shape[0]->rank) {
            return false;
        }
        for (int d = 0; d < shape[0]->rank; d++) {
            if (d != axis && shape[p]->dim[d] != shape[0]->dim[d]) {
                return false;
            }
        }
    }
    return true;
}

bool td_rows_put(struct td_batchable_step *s, int o, int axis, int64_t pre, int64_t k)
{
    const struct td_shape *shape[TD_ROWS_PROBES];
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        shape[p] = td_rows_out_shape(s, o, p);
        if (!td_shape_known(shape[p])) {
            return td_rows_no(s, "the shape of its output %d is not known before it runs", o);
        }
    }
    int64_t have = axis < 0 ? 0 : entries(shape, axis);
    if (have == 0 || pre < 1 || have % pre != 0 || (k != 0 && have != k) || !steady(shape, axis)) {
        return td_rows_no(s, "its output %d of shape %s for %lld rows does not keep them", o,
                          TD_SHAPE_STR(shape[0]), (long long)td_rows_probe[0]);
    }
    s->out[o] = (struct td_row_axis){.kind = TD_ROWS_ROW, .axis = axis, .pre = pre};
    return true;
}

bool td_rows_int(const struct td_batchable_step *s, int i, int64_t k, int64_t *out)
{
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        const struct td_tensor *t = td_rows_value(s, i, p);
        if (t == NULL || !td_dtype_in(t->dtype, TD_SET_INTS) || k < 0 || k >= td_tensor_count(t) ||
            (p > 0 && td_tensor_int(t, k) != *out)) {
            return false;
        }
        *out = td_tensor_int(t, k);
    }
    return true;
}

/* All inputs but `but` (-1: all) are CONST; else says which is not. */
static bool consts(struct td_batchable_step *s, int but)
{
    for (int i = 0; i < s->n_in; i++) {
        if (i != but && s->in[i].kind != TD_ROWS_CONST) {
            return td_rows_no(s,
                              s->in[i].kind == TD_ROWS_SIZE
                                  ? "its input %d follows from the number of rows"
                                  : "its input %d differs by row, and is read for all rows",
                              i);
        }
    }
    return true;
}

bool td_rows_as_input(struct td_batchable_step *s, int o, int i, int axis)
{
    return td_rows_put(s, o, axis, s->in[i].pre, per_row(s, i, s->in[i].axis));
}

bool td_rows_alone(struct td_batchable_step *s, int i)
{
    return consts(s, i) && (s->in[i].kind == TD_ROWS_ROW || td_rows_no(s, "its input %d has no rows", i));
}

int td_rows_growing(const struct td_batchable_step *s, int o)
{
    const struct td_shape *a = td_rows_out_shape(s, o, 0), *b = td_rows_out_shape(s, o, 1);
    for (int d = 0; d < a->rank && d < b->rank; d++) {
        if (a->dim[d] != b->dim[d]) {
            return d;
        }
    }
    return -1;
}

bool td_rows_same_rows(struct td_batchable_step *s, int i, int j)
{
    const struct td_row_axis *a = &s->in[i], *b = &s->in[j];
    return (a->kind == TD_ROWS_ROW && b->kind == TD_ROWS_ROW && a->pre == b->pre &&
            per_row(s, i, a->axis) == per_row(s, j, b->axis)) ||
           td_rows_no(s, "its inputs %d and %d do not have the same rows", i, j);
}

static bool pass_on(struct td_batchable_step *s, int o, int i)
{
    s->out[o] = s->in[i];
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        *td_rows_out_shape(s, o, p) = s->in_shape[p][i];
    }
    return true;
}

static bool same(struct td_batchable_step *s)
{
    for (int i = 0; i < s->n_in && i < s->n_out; i++) {
        pass_on(s, i, i);
    }
    return true;
}

/* ------------------------------------------------------------------ element by element */

bool td_rows_spans(const struct td_batchable_step *s, int i, int back)
{
    const struct td_shape *shape = &s->in_shape[0][i];
    return shape->rank < 0 || (back < shape->rank && shape->dim[shape->rank - 1 - back] != 1);
}

/* Axes align from the right, so that is where they are counted from. */
static bool broadcast(struct td_batchable_step *s)
{
    int first = -1, back = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_ROWS_SIZE || s->in[i].kind == TD_ROWS_LIST) {
            return td_rows_no(s, "its input %d follows from the number of rows", i);
        }
        if (s->in[i].kind != TD_ROWS_ROW) {
            continue;
        }
        int at = s->in_shape[0][i].rank - 1 - s->in[i].axis;
        if (first >= 0 && (at != back || !td_rows_same_rows(s, first, i))) {
            return td_rows_no(s, "the rows of its inputs %d and %d are not aligned", first, i);
        }
        first = first < 0 ? i : first;
        back = at;
    }
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_ROWS_CONST && td_rows_spans(s, i, back)) {
            return td_rows_no(s, "its input %d has a constant for each row", i);
        }
    }
    for (int o = 0; o < s->n_out; o++) {
        if (first < 0 || !td_rows_as_input(s, o, first, td_rows_out_shape(s, o, 0)->rank - 1 - back)) {
            return false;
        }
    }
    return true;
}

static bool select_rows(struct td_batchable_step *s)
{
    if (s->in_shape[0][0].rank != 1 || s->in_shape[0][1].rank == 1) {
        return broadcast(s);
    }
    for (int i = 0; i < 3; i++) {
        if (!td_rows_same_rows(s, 0, i) || s->in[i].axis != 0) {
            return td_rows_no(
                s, "its condition chooses along an axis of input %d that is not that of the rows", i);
        }
    }
    return td_rows_as_input(s, 0, 1, 0);
}

/* ------------------------------------------------------------------ one input of rows */

static bool map_over(struct td_batchable_step *s, int taken)
{
    if (!td_rows_alone(s, 0)) {
        return false;
    }
    if (s->in[0].axis >= s->in_shape[0][0].rank - taken) {
        return td_rows_no(s, "it works along the axis of the rows");
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_rows_as_input(s, o, 0, s->in[0].axis)) {
            return false;
        }
    }
    return true;
}

static bool map0(struct td_batchable_step *s)
{
    return map_over(s, 0);
}
static bool map1(struct td_batchable_step *s)
{
    return map_over(s, 1);
}
static bool map2(struct td_batchable_step *s)
{
    return map_over(s, 2);
}
static bool map3(struct td_batchable_step *s)
{
    return map_over(s, 3);
}

static bool map_first(struct td_batchable_step *s)
{
    return (s->in[0].axis == 0 || td_rows_no(s, "the rows are not its axis 0")) && map_over(s, 0);
}

static bool all_first(struct td_batchable_step *s)
{
    int first = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_ROWS_CONST) {
            continue;
        }
        if (s->in[i].kind != TD_ROWS_ROW || s->in[i].axis != 0 ||
            (first >= 0 && !td_rows_same_rows(s, first, i))) {
            return td_rows_no(s, "its input %d does not have the rows at axis 0", i);
        }
        first = first < 0 ? i : first;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_rows_as_input(s, o, first, 0)) {
            return false;
        }
    }
    return true;
}

static bool bias(struct td_batchable_step *s)
{
    const char *format = td_attr_str(s->node, "data_format");
    int channel = format[0] == 'N' && format[1] == 'C' ? 1 : s->in_shape[0][0].rank - 1;
    if (!td_rows_alone(s, 0)) {
        return false;
    }
    return s->in[0].axis != channel ? td_rows_as_input(s, 0, 0, s->in[0].axis)
                                    : td_rows_no(s, "its channels are the rows");
}

/* Mean and variance are of a channel: where the rows are channels, as those of Keras's LayerNormalization
 * (a row and its place in a sequence make one channel of NCHW), training keeps them apart. */
static bool norm_of_channels(struct td_batchable_step *s)
{
    for (int i = 1; i < s->n_in; i++) {
        const bool none = s->in[i].kind == TD_ROWS_CONST && td_shape_count(&s->in_shape[0][i]) == 0;
        if (!none && (!td_rows_same_rows(s, 0, i) || s->in[i].axis != 0)) {
            return td_rows_no(s, "its channels are the rows, and its input %d is not by row", i);
        }
    }
    for (int o = 1; o < s->n_out; o++) {
        s->out[o].kind = TD_ROWS_MIX;
        s->out[o].why = "statistics of a batch normalization";
    }
    return td_rows_as_input(s, 0, 0, 1);
}

/* Outputs past the first are the moving statistics as given, or what only training reads. */
static bool norm(struct td_batchable_step *s)
{
    const char *format = td_attr_str(s->node, "data_format");
    if (td_attr_bool(s->node, "is_training")) {
        return format[0] == 'N' && format[1] == 'C' && s->in[0].kind == TD_ROWS_ROW && s->in[0].axis == 1
                   ? norm_of_channels(s)
                   : td_rows_no(s, "it takes mean and variance over the rows");
    }
    for (int o = 1; o < s->n_out; o++) {
        s->out[o].kind = TD_ROWS_CONST;
    }
    return td_rows_alone(s, 0) && (s->in[0].axis == 0 || td_rows_no(s, "the rows are not its axis 0")) &&
           td_rows_as_input(s, 0, 0, 0);
}

/* SpaceToBatch makes image b its blocks [block * images + b]; BatchToSpace goes back. */
static bool space_batch(struct td_batchable_step *s)
{
    if (!td_rows_alone(s, 0) || s->in[0].axis != 0) {
        return td_rows_no(s, "the rows are not its axis 0");
    }
    const struct td_shape *x = &s->in_shape[0][0], *y = td_rows_out_shape(s, 0, 0);
    if (y->rank < 1 || x->dim[0] <= 0 || y->dim[0] <= 0) {
        return td_rows_no(s, "the shape of its output is not known before it runs");
    }
    int64_t more = y->dim[0] / x->dim[0], fewer = x->dim[0] / y->dim[0];
    if (more >= 1) {
        return td_rows_put(s, 0, 0, s->in[0].pre * more, per_row(s, 0, 0) * more);
    }
    return s->in[0].pre % fewer == 0 ? td_rows_put(s, 0, 0, s->in[0].pre / fewer, per_row(s, 0, 0) / fewer)
                                     : td_rows_no(s, "it makes one image of several rows");
}

static bool conv_back(struct td_batchable_step *s)
{
    return s->in[0].kind <= TD_ROWS_SIZE && s->in[1].kind == TD_ROWS_CONST && s->in[2].kind == TD_ROWS_ROW &&
           s->in[2].axis == 0 && td_rows_as_input(s, 0, 2, 0);
}

static bool reverse_sequence(struct td_batchable_step *s)
{
    if (!td_rows_same_rows(s, 0, 1)) {
        return false;
    }
    return s->in[0].axis == td_attr_int(s->node, "batch_dim") ? td_rows_as_input(s, 0, 0, s->in[0].axis)
                                                              : td_rows_no(s, "its lengths are not by row");
}

/* ------------------------------------------------------------------ state and checks */

static bool read_state(struct td_batchable_step *s)
{
    return consts(s, -1);
}

static bool lookup(struct td_batchable_step *s)
{
    if (!td_rows_alone(s, 1)) {
        return false;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_rows_as_input(s, o, 1, s->in[1].axis)) {
            return false;
        }
    }
    return true;
}

static bool holds(const struct td_batchable_step *s)
{
    for (int p = 0; p < TD_ROWS_PROBES; p++) {
        const struct td_tensor *t = td_rows_value(s, 0, p);
        if (t == NULL || t->dtype != TD_BOOL || td_tensor_count(t) != 1 || !TD_DATA(t, td_bool)[0]) {
            return false;
        }
    }
    return true;
}

static bool check(struct td_batchable_step *s)
{
    if (s->in[0].kind == TD_ROWS_UNSET) {
        return true;
    }
    for (int o = 0; o < s->n_out; o++) {
        s->out[o].kind = TD_ROWS_CONST;
    }
    return s->in[0].kind == TD_ROWS_CONST || holds(s) ||
           td_rows_no(s, "it may fail for one request, and with it all others of a batch");
}

/* ------------------------------------------------------------------ parsing */

static bool parse(struct td_batchable_step *s)
{
    if (!td_rows_alone(s, 0)) {
        return false;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (s->in_shape[0][0].rank != 1 || !td_rows_as_input(s, o, 0, 0)) {
            s->out[o] = (struct td_row_axis){
                .kind = TD_ROWS_MIX, .why = "a sparse, ragged or variable-length feature numbers the rows"};
        }
    }
    return true;
}

/* ------------------------------------------------------------------ TF1 conditionals */

static bool switch_rows(struct td_batchable_step *s)
{
    s->refuse = s->in[1].kind > TD_ROWS_CONST;
    return s->refuse ? td_rows_no(s, "the rows decide which way to go")
                     : pass_on(s, 0, 0) && pass_on(s, 1, 0);
}

static bool merge(struct td_batchable_step *s)
{
    s->out[1].kind = TD_ROWS_CONST;
    for (int i = 1; i < s->n_in; i++) {
        bool same = s->in[i].kind == s->in[0].kind && s->in[i].kind <= TD_ROWS_ROW &&
                    s->in[i].axis == s->in[0].axis && s->in[i].pre == s->in[0].pre;
        for (int p = 0; p < TD_ROWS_PROBES && same; p++) {
            same = td_shape_equal(&s->in_shape[p][i], &s->in_shape[p][0]);
        }
        if (!same || s->in[i].kind == TD_ROWS_SIZE) {
            return td_rows_no(s, "its inputs 0 and %d do not have the same rows", i);
        }
    }
    return pass_on(s, 0, 0);
}

/* ------------------------------------------------------------------ the table */

const struct td_rows_rule_row *td_rows_rule(const struct td_op *op)
{
    static const struct td_rows_rule_row rows[TD_ROWS_RULES] = {
        [TD_ROWS_BROADCAST] = {broadcast, false},
        [TD_ROWS_SELECT] = {select_rows, false},
        [TD_ROWS_MAP] = {map0, false},
        [TD_ROWS_MAP1] = {map1, false},
        [TD_ROWS_MAP2] = {map2, false},
        [TD_ROWS_MAP3] = {map3, false},
        [TD_ROWS_MAP_FIRST] = {map_first, false},
        [TD_ROWS_ALL_FIRST] = {all_first, false},
        [TD_ROWS_SAME] = {same, true},
        [TD_ROWS_SPACE_BATCH] = {space_batch, false},
        [TD_ROWS_CONV_BACK] = {conv_back, false},
        [TD_ROWS_REVERSE] = {reverse_sequence, false},
        [TD_ROWS_BIAS] = {bias, false},
        [TD_ROWS_NORM] = {norm, false},
        [TD_ROWS_MATMUL] = {td_rows_matmul, false},
        [TD_ROWS_BATCH_MATMUL] = {td_rows_batch_matmul, false},
        [TD_ROWS_EINSUM] = {td_rows_einsum, false},
        [TD_ROWS_REDUCE] = {td_rows_reduce, false},
        [TD_ROWS_ALONG] = {td_rows_along, false},
        [TD_ROWS_RESHAPE] = {td_rows_reshape, false},
        [TD_ROWS_TRANSPOSE] = {td_rows_transpose, false},
        [TD_ROWS_CONCAT] = {td_rows_concat, false},
        [TD_ROWS_PACK] = {td_rows_pack, false},
        [TD_ROWS_UNPACK] = {td_rows_unpack, false},
        [TD_ROWS_SPLIT] = {td_rows_split, false},
        [TD_ROWS_SLICE] = {td_rows_slice, false},
        [TD_ROWS_STRIDED] = {td_rows_strided, false},
        [TD_ROWS_SPREAD] = {td_rows_spread, false},
        [TD_ROWS_TILE] = {td_rows_tile, false},
        [TD_ROWS_FILL] = {td_rows_fill, false},
        [TD_ROWS_LIKE] = {td_rows_like, true},
        [TD_ROWS_GATHER] = {td_rows_gather, false},
        [TD_ROWS_GATHER_ND] = {td_rows_gather_nd, false},
        [TD_ROWS_ONE_HOT] = {td_rows_one_hot, false},
        [TD_ROWS_READ] = {read_state, false},
        [TD_ROWS_LOOKUP] = {lookup, false},
        [TD_ROWS_CHECK] = {check, true},
        [TD_ROWS_PARSE] = {parse, false},
        [TD_ROWS_SWITCH] = {switch_rows, true},
        [TD_ROWS_MERGE] = {merge, true},
        [TD_ROWS_CALL] = {td_rows_call, true},
        [TD_ROWS_IF] = {td_rows_if, true},
        [TD_ROWS_CASE] = {td_rows_case, true},
        [TD_ROWS_WHILE] = {td_rows_while, true},
        [TD_ROWS_LOOP] = {td_rows_loop, true},
        [TD_ROWS_FUSED] = {td_rows_fused, false},
        [TD_ROWS_LIST_NEW] = {td_rows_list_new, true},
        [TD_ROWS_LIST_EMPTY] = {td_rows_list_empty, true},
        [TD_ROWS_LIST_POP] = {td_rows_list_pop, true},
        [TD_ROWS_LIST_FROM] = {td_rows_list_from, true},
        [TD_ROWS_LIST_GET] = {td_rows_list_get, true},
        [TD_ROWS_LIST_SET] = {td_rows_list_set, true},
        [TD_ROWS_LIST_PUSH] = {td_rows_list_push, true},
        [TD_ROWS_LIST_STACK] = {td_rows_list_stack, true},
        [TD_ROWS_LIST_LENGTH] = {td_rows_list_length, true},
        [TD_ROWS_ARRAY_NEW] = {td_rows_array_new, true},
        [TD_ROWS_ARRAY_WRITE] = {td_rows_array_write, true},
        [TD_ROWS_ARRAY_SCATTER] = {td_rows_array_scatter, true},
        [TD_ROWS_ARRAY_READ] = {td_rows_array_read, true},
        [TD_ROWS_ARRAY_GATHER] = {td_rows_array_gather, true},
        [TD_ROWS_ARRAY_SIZE] = {td_rows_array_size, true},
    };
    enum td_rows_rule rule = op->rows != TD_ROWS_NONE          ? op->rows
                             : (op->flags & TD_OP_ELEMENTWISE) ? TD_ROWS_BROADCAST
                                                               : TD_ROWS_NONE;
    return rows[rule].fn == NULL ? NULL : &rows[rule];
}
