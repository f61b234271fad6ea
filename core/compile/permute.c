/* core/compile/permute.c - see permute.h. One pair of functions a kind of op: may it be permuted, and what
 * changes in it then.
 *
 * Kinds come from enum td_rows_rule where that already tells what the op does with its axes, else from its
 * name. Anything not known to commute with Transpose cannot be permuted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"

#include <assert.h>
#include <string.h>

enum { MAX_ARGS = 64 };

/* ------------------------------------------------------------------ changing constant arguments */

static void put_int(struct td_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == TD_INT32) {
        TD_DATA(t, int32_t)[i] = (int32_t)v;
    } else {
        TD_DATA(t, int64_t)[i] = v;
    }
}

/* Constant input i lists axes of the permuted tensor instead. */
static enum td_code permute_axes(const struct td_permuter *t, struct td_node *n, int i,
                                 const struct td_perm *p)
{
    struct td_tensor axes;
    TD_TRY(td_permute_own_input(t, n, i, &axes));
    for (int64_t k = 0; k < td_tensor_count(&axes); k++) {
        int axis = 0;
        (void)td_shape_axis(p->rank, td_tensor_int(&axes, k), &axis); /* checked by known_axes */
        put_int(&axes, k, td_perm_axis(p, axis));
    }
    td_tensor_clear(&axes);
    return TD_OK;
}

/* Constant input i, `each` numbers an axis, takes the permuted order. */
enum td_code td_permute_numbers(const struct td_permuter *t, struct td_node *n, int i,
                                const struct td_perm *p, int each)
{
    const struct td_tensor *old = td_node_const(n->in[i].node);
    struct td_tensor rows;
    TD_TRY(td_permute_own_input(t, n, i, &rows));
    for (int k = 0; k < each * p->rank; k++) {
        put_int(&rows, k, td_tensor_int(old, p->at[k / each] * each + k % each));
    }
    td_tensor_clear(&rows);
    return TD_OK;
}

/* ------------------------------------------------------------------ what is known of arguments */

static const struct td_permuted never = {0, 0};
static const struct td_permuted first_in_and_out = {1, 1};

static int rank_of(const struct td_permuter *t, struct td_value v)
{
    return td_ir_shape(t->shapes, v)->rank;
}

static int out_rank(const struct td_permuter *t, const struct td_node *n, int port)
{
    return rank_of(t, (struct td_value){(struct td_node *)n, port});
}

/* Bits of the axes that constant input i lists; false when that is not known or a number is none. */
static bool known_axes(const struct td_node *n, int i, int rank, uint32_t *axes)
{
    const struct td_tensor *c = td_node_const(n->in[i].node);
    bool ok = td_permute_is_index(c) && c->shape.rank <= 1 && td_tensor_count(c) <= TD_MAX_RANK;
    *axes = 0;
    for (int64_t k = 0; ok && k < td_tensor_count(c); k++) {
        int axis;
        ok = td_shape_axis(rank, td_tensor_int(c, k), &axis) && !(*axes >> axis & 1u);
        *axes |= ok ? 1u << axis : 0;
    }
    return ok;
}

/* Whether the axes that are left without those of `gone` keep their order. */
static bool keeps_order(const struct td_perm *p, uint32_t gone)
{
    int last = -1;
    for (int i = 0; i < p->rank; i++) {
        if (gone >> p->at[i] & 1u) {
            continue;
        }
        if (p->at[i] < last) {
            return false;
        }
        last = p->at[i];
    }
    return true;
}

static bool has_numbers(const struct td_node *n, int i, int64_t count)
{
    const struct td_tensor *c = td_node_const(n->in[i].node);
    return td_permute_is_index(c) && td_tensor_count(c) == count;
}

/* ------------------------------------------------------------------ element-wise */

static bool all_ones(const struct td_shape *s)
{
    bool ones = s->rank >= 0;
    for (int i = 0; ones && i < s->rank; i++) {
        ones = s->dim[i] == 1;
    }
    return ones;
}

static struct td_permuted find_elementwise(const struct td_permuter *t, const struct td_node *n,
                                           const struct td_perm *p)
{
    struct td_permuted permute = {0, 1};
    bool broadcasts = n->op->rows != TD_ROWS_SELECT;
    const struct td_attr *lenient = td_attr_find(n->attrs, n->n_attrs, "incompatible_shape_error");
    if (n->n_out != 1 || out_rank(t, n, 0) != p->rank || (lenient != NULL && !lenient->b[0])) {
        return never;
    }
    for (int i = 0; i < n->n_in; i++) {
        const struct td_shape *s = td_ir_shape(t->shapes, n->in[i]);
        if (s->rank == p->rank) {
            permute.in |= (uint64_t)1 << i;
        } else if (s->rank != 0 && !(broadcasts && (all_ones(s) || td_node_const(n->in[i].node) != NULL))) {
            return never;
        }
    }
    return permute;
}

/* A constant of lower rank is given the axes it lacks, then permuted; the fold pass computes that. */
static enum td_code apply_elementwise(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    for (int i = 0; i < n->n_in; i++) {
        struct td_shape low = *td_ir_shape(t->shapes, n->in[i]);
        if (low.rank == p->rank || all_ones(&low)) {
            continue;
        }
        struct td_tensor wide;
        struct td_node *literal, *from = n->in[i].node;
        struct td_shape shape = td_shape_of_rank(p->rank);
        for (int k = 0; k < p->rank; k++) {
            int at = k - (p->rank - low.rank);
            shape.dim[k] = at < 0 ? 1 : low.dim[at];
        }
        td_tensor_ref(&wide, td_node_const(from));
        wide.shape = shape;
        enum td_code rc = td_ir_add(t->ir, from, from->name, &literal, t->err);
        rc = rc ? rc : td_ir_make_literal(t->ir, literal, &wide, t->err);
        td_tensor_clear(&wide);
        TD_TRY(rc);
        literal->n_control = 0;
        TD_TRY(td_permute_add_transpose(t, literal, (struct td_value){literal, 0}, p, &n->in[i]));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ ops with a channel axis */

/* Where the channels of a tensor of data format `format` are. */
static int channel_axis(const char *format, int rank)
{
    return strncmp(format, "NC", 2) == 0 && rank > 2 ? 1 : rank - 1;
}

static struct td_permuted find_channels(const struct td_permuter *t, const struct td_node *n,
                                        const struct td_perm *p)
{
    bool may_be_first = td_attr_find(n->attrs, n->n_attrs, "data_format") != NULL && p->rank > 2;
    int at = td_perm_axis(p, channel_axis(td_attr_str(n, "data_format"), p->rank));
    bool ok = rank_of(t, n->in[0]) == p->rank && (at == p->rank - 1 || (at == 1 && may_be_first));
    return ok ? first_in_and_out : never;
}

static enum td_code apply_channels(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    const char *format = td_attr_str(n, "data_format");
    bool first = td_perm_axis(p, channel_axis(format, p->rank)) != p->rank - 1;
    if (td_attr_find(n->attrs, n->n_attrs, "data_format") == NULL) {
        return TD_OK;
    }
    bool deep = strlen(format) == 5;
    return td_permute_set_text(t, n, "data_format",
                               first ? (deep ? "NCDHW" : "NCHW") : (deep ? "NDHWC" : "NHWC"));
}

/* DepthToSpace and its inverse read their blocks row by row: height stays before width. */
static struct td_permuted find_blocks(const struct td_permuter *t, const struct td_node *n,
                                      const struct td_perm *p)
{
    struct td_permuted permute = find_channels(t, n, p);
    int channel = channel_axis(td_attr_str(n, "data_format"), p->rank);
    bool ok = p->rank == 4 && p->at[0] == 0 && keeps_order(p, 1u << channel) &&
              strlen(td_attr_str(n, "data_format")) == 4;
    return ok ? permute : never;
}

/* ------------------------------------------------------------------ along axes */

static struct td_permuted find_concat(const struct td_permuter *t, const struct td_node *n,
                                      const struct td_perm *p)
{
    int axis = strcmp(n->op_name, "Concat") == 0 ? 0 : n->n_in - 1;
    uint32_t axes;
    struct td_permuted permute = {0, 1};
    for (int i = 0; i < n->n_in; i++) {
        permute.in |= i == axis ? 0 : (uint64_t)1 << i;
        if (i != axis && rank_of(t, n->in[i]) != p->rank) {
            return never;
        }
    }
    return known_axes(n, axis, p->rank, &axes) && axes != 0 ? permute : never;
}

static enum td_code apply_concat(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    return permute_axes(t, n, strcmp(n->op_name, "Concat") == 0 ? 0 : n->n_in - 1, p);
}

static struct td_permuted find_split(const struct td_permuter *t, const struct td_node *n,
                                     const struct td_perm *p)
{
    bool plain = strcmp(n->op_name, "Split") == 0;
    uint32_t axes;
    if (rank_of(t, n->in[plain ? 1 : 0]) != p->rank || !known_axes(n, plain ? 0 : 2, p->rank, &axes) ||
        axes == 0) {
        return never;
    }
    return (struct td_permuted){plain ? 2 : 1, UINT64_MAX >> (MAX_ARGS - n->n_out)};
}

static enum td_code apply_split(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    return permute_axes(t, n, strcmp(n->op_name, "Split") == 0 ? 0 : 2, p);
}

static struct td_permuted find_reduce(const struct td_permuter *t, const struct td_node *n,
                                      const struct td_perm *p)
{
    uint32_t axes;
    if (n->n_out != 1 || rank_of(t, n->in[0]) != p->rank || !known_axes(n, 1, p->rank, &axes)) {
        return never;
    }
    if (td_attr_bool(n, "keep_dims")) {
        return first_in_and_out;
    }
    return axes != 0 && keeps_order(p, axes) ? (struct td_permuted){1, 0} : never;
}

static enum td_code apply_reduce(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    return permute_axes(t, n, 1, p);
}

static struct td_permuted find_along(const struct td_permuter *t, const struct td_node *n,
                                     const struct td_perm *p)
{
    uint32_t axes;
    int at = strcmp(n->op_name, "Roll") == 0 ? 2 : 1;
    return rank_of(t, n->in[0]) == p->rank && known_axes(n, at, p->rank, &axes) ? first_in_and_out : never;
}

static enum td_code apply_along(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    return permute_axes(t, n, strcmp(n->op_name, "Roll") == 0 ? 2 : 1, p);
}

static uint32_t squeezed(const struct td_node *n, int rank)
{
    int count;
    const int64_t *dims = td_attr_ints(n, "squeeze_dims", &count);
    uint32_t gone = 0;
    for (int i = 0; i < count; i++) {
        int axis;
        if (!td_shape_axis(rank, dims[i], &axis)) {
            return 0;
        }
        gone |= 1u << axis;
    }
    return gone;
}

static struct td_permuted find_squeeze(const struct td_permuter *t, const struct td_node *n,
                                       const struct td_perm *p)
{
    uint32_t gone = rank_of(t, n->in[0]) == p->rank ? squeezed(n, p->rank) : 0;
    return gone != 0 && keeps_order(p, gone) ? (struct td_permuted){1, 0} : never;
}

static enum td_code apply_squeeze(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    uint32_t gone = squeezed(n, p->rank);
    int64_t dims[TD_MAX_RANK];
    int count = 0;
    for (int i = 0; i < p->rank; i++) {
        if (gone >> p->at[i] & 1u) {
            dims[count++] = i;
        }
    }
    return td_permute_set_ints(t, n, "squeeze_dims", dims, count);
}

/* ------------------------------------------------------------------ numbers for every axis */

static struct td_permuted find_pad(const struct td_permuter *t, const struct td_node *n,
                                   const struct td_perm *p)
{
    return rank_of(t, n->in[0]) == p->rank && has_numbers(n, 1, 2 * (int64_t)p->rank) ? first_in_and_out
                                                                                      : never;
}

static enum td_code apply_pad(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    return td_permute_numbers(t, n, 1, p, 2);
}

static struct td_permuted find_slice(const struct td_permuter *t, const struct td_node *n,
                                     const struct td_perm *p)
{
    bool ok = rank_of(t, n->in[0]) == p->rank;
    for (int i = 1; ok && i < n->n_in; i++) {
        ok = has_numbers(n, i, p->rank);
    }
    bool plain = strcmp(n->op_name, "Slice") == 0 ||
                 (td_attr_int(n, "ellipsis_mask") == 0 && td_attr_int(n, "new_axis_mask") == 0 &&
                  td_attr_int(n, "shrink_axis_mask") == 0);
    return ok && plain ? first_in_and_out : never;
}

static enum td_code permute_mask(const struct td_permuter *t, struct td_node *n, const char *name,
                                 const struct td_perm *p)
{
    int64_t mask = td_attr_int(n, name), permuted = 0;
    for (int i = 0; i < p->rank; i++) {
        permuted |= (mask >> p->at[i] & 1) << i;
    }
    return td_permute_set_ints(t, n, name, &permuted, 1);
}

static enum td_code apply_slice(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    for (int i = 1; i < n->n_in; i++) {
        TD_TRY(td_permute_numbers(t, n, i, p, 1));
    }
    if (strcmp(n->op_name, "Slice") == 0) {
        return TD_OK;
    }
    TD_TRY(permute_mask(t, n, "begin_mask", p));
    return permute_mask(t, n, "end_mask", p);
}

/* ------------------------------------------------------------------ along the last axes only */

static struct td_permuted last_axes_stay(const struct td_permuter *t, const struct td_node *n,
                                         const struct td_perm *p, int last)
{
    bool ok = rank_of(t, n->in[0]) == p->rank && p->rank >= last;
    for (int i = p->rank - last; ok && i < p->rank; i++) {
        ok = p->at[i] == i;
    }
    for (int i = 0; ok && i < n->n_out; i++) {
        ok = out_rank(t, n, i) == p->rank;
    }
    return ok ? (struct td_permuted){1, UINT64_MAX >> (MAX_ARGS - n->n_out)} : never;
}

static struct td_permuted find_map(const struct td_permuter *t, const struct td_node *n,
                                   const struct td_perm *p)
{
    bool names_its_shape = td_attr_find(n->attrs, n->n_attrs, "shape") != NULL;
    return names_its_shape ? never : last_axes_stay(t, n, p, (int)n->op->rows - (int)TD_ROWS_MAP);
}

/* Size and Rank do not care. */
static struct td_permuted find_count(const struct td_permuter *t, const struct td_node *n,
                                     const struct td_perm *p)
{
    return rank_of(t, n->in[0]) == p->rank ? (struct td_permuted){1, 0} : never;
}

static enum td_code apply_nothing(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    (void)t;
    (void)n;
    (void)p;
    return TD_OK;
}

/* ------------------------------------------------------------------ which op is what */

struct kind {
    struct td_permuted (*find)(const struct td_permuter *t, const struct td_node *n, const struct td_perm *p);
    enum td_code (*apply)(const struct td_permuter *t, struct td_node *n, const struct td_perm *p);
};

static const struct named {
    const char *op;
    struct kind kind;
} by_name[] = {
    {"Pad", {find_pad, apply_pad}},
    {"PadV2", {find_pad, apply_pad}},
    {"MirrorPad", {find_pad, apply_pad}},
    {"Size", {find_count, apply_nothing}},
    {"Rank", {find_count, apply_nothing}},
    {"Squeeze", {find_squeeze, apply_squeeze}},
    {"DepthToSpace", {find_blocks, apply_channels}},
    {"SpaceToDepth", {find_blocks, apply_channels}},
};

static const struct kind by_rows[TD_ROWS_RULES] = {
    [TD_ROWS_BROADCAST] = {find_elementwise, apply_elementwise},
    [TD_ROWS_SELECT] = {find_elementwise, apply_nothing},
    [TD_ROWS_LIKE] = {find_elementwise, apply_nothing},
    [TD_ROWS_BIAS] = {find_channels, apply_channels},
    [TD_ROWS_NORM] = {find_channels, apply_channels},
    [TD_ROWS_CONCAT] = {find_concat, apply_concat},
    [TD_ROWS_SPLIT] = {find_split, apply_split},
    [TD_ROWS_REDUCE] = {find_reduce, apply_reduce},
    [TD_ROWS_ALONG] = {find_along, apply_along},
    [TD_ROWS_SLICE] = {find_slice, apply_slice},
    [TD_ROWS_STRIDED] = {find_slice, apply_slice},
    [TD_ROWS_MAP] = {find_map, apply_nothing},
    [TD_ROWS_MAP1] = {find_map, apply_nothing},
    [TD_ROWS_MAP2] = {find_map, apply_nothing},
    [TD_ROWS_MAP3] = {find_map, apply_nothing},
};
static_assert(TD_ROWS_MAP3 == TD_ROWS_MAP + 3, "find_map counts the last axes by the rule");

static const struct kind *kind_of(const struct td_node *n)
{
    for (size_t i = 0; i < sizeof by_name / sizeof by_name[0]; i++) {
        if (strcmp(n->op_name, by_name[i].op) == 0) {
            return &by_name[i].kind;
        }
    }
    enum td_rows_rule rows = n->op->rows != TD_ROWS_NONE          ? n->op->rows
                             : (n->op->flags & TD_OP_ELEMENTWISE) ? TD_ROWS_BROADCAST
                                                                  : TD_ROWS_NONE;
    return by_rows[rows].find != NULL ? &by_rows[rows] : NULL;
}

struct td_permuted td_permute_find(const struct td_permuter *t, const struct td_node *n,
                                   const struct td_perm *p)
{
    if (n->op == NULL || n->fused != NULL || n->loop != NULL || n->n_control > 0 || n->n_in == 0 ||
        n->n_in > MAX_ARGS || n->n_out == 0 || n->n_out > MAX_ARGS || (n->op->flags & TD_OP_STATEFUL)) {
        return never;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (n->in_ref[i] || n->in[i].node->out_ref[n->in[i].port]) {
            return never;
        }
    }
    for (int i = 0; i < n->n_out; i++) {
        if (n->out_ref[i]) {
            return never;
        }
    }
    const struct kind *k = kind_of(n);
    struct td_permuted permute = k != NULL ? k->find(t, n, p) : never;
    bool ok = permute.in != 0;
    for (int i = 0; ok && i < n->n_out; i++) {
        ok = !(permute.out >> i & 1u) || out_rank(t, n, i) == p->rank;
    }
    return ok ? permute : never;
}

enum td_code td_permute_apply(const struct td_permuter *t, struct td_node *n, const struct td_perm *p)
{
    t->ir->changes++;
    return kind_of(n)->apply(t, n, p);
}
