/* core/compile/pass_fuse.c - a matrix product or convolution and the element-wise nodes behind it become one
 * node; so do chains of element-wise nodes.
 *
 *   Conv2D -> BiasAdd -> Mul, AddV2 (batch norm) -> AddV2 (residual) -> Relu      becomes      one step
 *
 * A group grows forward from its first node (a head, latest first, so that a sum of two branches goes to the
 * one that is computed last; then any element-wise node). The next member is always the earliest outside
 * reader of the group; after each the group is closed when only its last member is read outside, and the
 * largest closed group is taken. So a value read twice inside (swish, GELU, layer norm) does not end it. A
 * group without a head then also takes in producers that only it reads.
 *
 * Shapes are mostly unknown here: a node is not fused into one that is surely larger (a scale of C channels
 * into the C columns of a batch), and kernels/fused/fused_kernel.c copes with whatever broadcasting the run
 * brings.
 *
 * Where the model has a device, a group is all of nodes that run there or all of nodes that run on the host,
 * and so is what it becomes; nodes that run on a device without a kernel for fused nodes stay as they are.
 * There, half and bfloat16 are fused, too.
 *
 * Invariant (td_ir_check): no value of a group but the last is fetched, a root, the source of a control edge,
 * or read outside the group; each element is computed by the same operations in the same order, up to
 * rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/graph/fused.h"
#include "core/compile/ir_shapes.h"
#include "core/base/mem.h"
#include "core/run/model.h"
#include "core/compile/passes.h"
#include "core/compile/placer.h"
#include "core/compile/remap.h"

enum { MAX_READERS = 8, NAME_BYTES = 160, OTHERS = 2 };

struct fuser {
    struct td_ir *ir;
    struct td_emitter e;
    struct td_remap remap;
    const struct td_op_def *with_head, *without;
    int *reader_at;           /* by node id: where its readers start in readers[] */
    struct td_node **readers; /* one an edge */
    unsigned char *pinned;    /* by node id: its value must exist; OTHERS: one that is not its first */
    unsigned char *taken;     /* by node id: fused already, or in the group at hand */
    unsigned char *on_device; /* by node id: it runs on the model's device; NULL: there is none */
    struct td_node *group[TD_FUSED_PARTS];
    int n_group;
};

/* ------------------------------------------------------------------ who reads what */

static bool find_readers(struct fuser *x)
{
    struct td_ir *ir = x->ir;
    size_t edges = 0, n = (size_t)ir->n_nodes;
    for (int k = 0; k < ir->n_nodes; k++) {
        edges += (size_t)ir->nodes[k]->n_in;
    }
    x->reader_at = td_calloc(n + 2, sizeof *x->reader_at);
    x->readers = td_calloc(edges + 1, sizeof(void *));
    x->pinned = td_calloc(n + 1, 1);
    x->taken = td_calloc(n + 1, 1);
    if (x->reader_at == NULL || x->readers == NULL || x->pinned == NULL || x->taken == NULL) {
        return false;
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        for (int i = 0; i < ir->nodes[k]->n_in; i++) {
            x->reader_at[ir->nodes[k]->in[i].node->id + 2]++;
        }
    }
    for (size_t k = 2; k < n + 2; k++) {
        x->reader_at[k] += x->reader_at[k - 1];
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *to = ir->nodes[k];
        for (int i = 0; i < to->n_in; i++) {
            struct td_value v = to->in[i];
            x->readers[x->reader_at[v.node->id + 1]++] = to;
            x->pinned[v.node->id] |= v.port != 0 ? OTHERS : 0;
        }
        for (int i = 0; i < to->n_control; i++) {
            x->pinned[to->control[i]->id] |= 1;
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        x->pinned[ir->fetches[i].node->id] |= ir->fetches[i].port != 0 ? OTHERS : 1;
    }
    for (int i = 0; i < ir->n_roots; i++) {
        x->pinned[ir->roots[i]->id] |= 1;
    }
    return true;
}

static int count_readers(const struct fuser *x, const struct td_node *n)
{
    return x->reader_at[n->id + 1] - x->reader_at[n->id];
}

static struct td_node *reader(const struct fuser *x, const struct td_node *n, int i)
{
    return x->readers[x->reader_at[n->id] + i];
}

/* ------------------------------------------------------------------ what may be fused */

static bool all_of(const struct td_node *n, enum td_dtype type)
{
    bool ok = n->out_type[0] == type && !n->out_ref[0] && n->n_control == 0 && n->fused == NULL;
    for (int i = 0; ok && i < n->n_in; i++) {
        struct td_value v = n->in[i];
        ok = v.node->out_type[v.port] == type && !v.node->out_ref[v.port] && !n->in_ref[i];
    }
    return ok;
}

/* Floats, and on a device half and bfloat16, of which the host has no fused arithmetic. */
static bool all_floats(const struct fuser *x, const struct td_node *n)
{
    const enum td_dtype type = n->out_type[0];
    const bool there = x->on_device != NULL && x->on_device[n->id];
    return (type == TD_FLOAT || (there && (type == TD_HALF || type == TD_BFLOAT16))) && all_of(n, type);
}

static bool is_stage(const struct fuser *x, const struct td_node *n)
{
    if (n->op == NULL || x->taken[n->id] || n->n_in == 0 || (x->pinned[n->id] & OTHERS) ||
        (n->n_out != 1 && n->n_out != 5 && n->n_out != 6)) {
        return false;
    }
    if (td_fused_stage_of(n) == NULL || !all_floats(x, n)) {
        return false;
    }
    const char *format = td_attr_str(n, "data_format"); /* "" where the op has none */
    bool channels_last = strncmp(format, "NC", 2) != 0;
    return channels_last && n->n_in <= 5 && (n->op->fuse.refuse == NULL || !n->op->fuse.refuse(n));
}

static bool is_head(const struct fuser *x, const struct td_node *n)
{
    return td_fused_may_begin(n) && !x->taken[n->id] && n->n_out == 1 && n->n_in > 0 && n->n_in <= 8 &&
           all_floats(x, n);
}

/* A view of the head alone, whose own shape comes from elsewhere. */
static bool is_view_of(const struct td_node *n, const struct td_node *head)
{
    return n->op != NULL && n->op->fuse.view && n->n_control == 0 && n->in[0].node == head &&
           n->in[1].node != head && !n->in[1].node->out_ref[n->in[1].port];
}

/* Whether a value of shape `part` would surely be computed more often inside a loop over `whole`. */
static bool surely_smaller(const struct td_shape *part, const struct td_shape *whole)
{
    if (part->rank < 0) {
        return false;
    }
    if (whole->rank < 0 || part->rank != whole->rank) {
        return part->rank == 0 || whole->rank >= 0;
    }
    for (int i = 0; i < part->rank; i++) {
        if (part->dim[i] == 1 && whole->dim[i] != 1) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ growing a group */

static bool in_group(const struct fuser *x, const struct td_node *n)
{
    for (int i = 0; i < x->n_group; i++) {
        if (x->group[i] == n) {
            return true;
        }
    }
    return false;
}

/* Members that are read outside the group; *next is their earliest reader there, NULL when there is none. */
static int count_leaving(const struct fuser *x, struct td_node **next)
{
    int leaving = 0;
    *next = NULL;
    for (int i = 0; i < x->n_group; i++) {
        const struct td_node *n = x->group[i];
        bool leaves = x->pinned[n->id] || count_readers(x, n) > MAX_READERS;
        for (int k = 0; k < count_readers(x, n) && k < MAX_READERS; k++) {
            struct td_node *to = reader(x, n, k);
            if (!in_group(x, to)) {
                leaves = true;
                *next = *next == NULL || to->id < (*next)->id ? to : *next;
            }
        }
        leaving += leaves;
    }
    return leaving;
}

/* A member that is pinned or read very often can only be the last one. */
static bool has_fixed_end(const struct fuser *x)
{
    for (int i = 0; i < x->n_group; i++) {
        if (x->pinned[x->group[i]->id] || count_readers(x, x->group[i]) > MAX_READERS) {
            return true;
        }
    }
    return false;
}

static int count_inputs(const struct fuser *x)
{
    int n = 0;
    for (int i = 0; i < x->n_group; i++) {
        n += x->group[i]->n_in;
    }
    return n;
}

static bool same_side(const struct fuser *x, const struct td_node *n)
{
    return x->on_device == NULL || x->on_device[n->id] == x->on_device[x->group[0]->id];
}

static bool may_join(const struct fuser *x, const struct td_node *n)
{
    if (!is_stage(x, n) || !same_side(x, n) || x->n_group == TD_FUSED_PARTS ||
        count_inputs(x) + n->n_in > TD_FUSED_INPUTS) {
        return false;
    }
    struct td_value result = {(struct td_node *)n, 0};
    for (int i = 0; i < n->n_in; i++) {
        bool main_input = i == 0 || !n->op->fuse.first_only;
        if (in_group(x, n->in[i].node) &&
            (!main_input || surely_smaller(td_emit_shape(&x->e, n->in[i]), td_emit_shape(&x->e, result)))) {
            return false;
        }
    }
    return true;
}

/* Grows the group forward from `first`, then cuts it back to the largest closed one. */
static void grow(struct fuser *x, struct td_node *first, bool head)
{
    struct td_node *next;
    x->group[0] = first;
    x->n_group = 1;
    int closed = 1, leaving = count_leaving(x, &next);
    if (head && leaving == 1 && next != NULL && !has_fixed_end(x) && is_view_of(next, first) &&
        same_side(x, next) && count_readers(x, first) == 1) {
        x->group[x->n_group++] = next;
        leaving = count_leaving(x, &next);
    }
    while (next != NULL && !has_fixed_end(x) && may_join(x, next)) {
        x->group[x->n_group++] = next;
        leaving = count_leaving(x, &next);
        closed = leaving <= 1 ? x->n_group : closed;
    }
    x->n_group = closed;
}

static bool only_group_reads(const struct fuser *x, const struct td_node *n)
{
    bool ok = !x->pinned[n->id] && count_readers(x, n) <= MAX_READERS;
    for (int k = 0; ok && k < count_readers(x, n); k++) {
        ok = in_group(x, reader(x, n, k));
    }
    return ok;
}

/* Takes in element-wise producers that only the group reads; keeps the order of ids. */
static void grow_back(struct fuser *x)
{
    for (int i = 0; i < x->n_group; i++) {
        for (int k = 0; k < x->group[i]->n_in; k++) {
            struct td_value v = x->group[i]->in[k], to = {x->group[i], 0};
            bool main_input = k == 0 || !x->group[i]->op->fuse.first_only;
            if (!main_input || in_group(x, v.node) || !is_stage(x, v.node) || !same_side(x, v.node) ||
                !only_group_reads(x, v.node) || x->n_group == TD_FUSED_PARTS ||
                count_inputs(x) + v.node->n_in > TD_FUSED_INPUTS ||
                surely_smaller(td_emit_shape(&x->e, v), td_emit_shape(&x->e, to))) {
                continue;
            }
            int at = 0;
            while (x->group[at]->id < v.node->id) {
                at++;
            }
            memmove(&x->group[at + 1], &x->group[at], (size_t)(x->n_group - at) * sizeof x->group[0]);
            x->group[at] = v.node;
            x->n_group++;
            i = -1; /* start over: the members moved */
            break;
        }
    }
}

/* ------------------------------------------------------------------ the node that stands for a group */

static const char *joined_name(struct fuser *x)
{
    char text[NAME_BYTES];
    size_t used = 0;
    for (int i = 0; i < x->n_group && used < sizeof text - 4; i++) {
        int put = snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "+" : "", x->group[i]->op_name);
        used += put > 0 ? (size_t)put : 0;
    }
    if (used >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    return td_arena_strdup(x->ir->arena, text);
}

/* Number of v among the inputs so far, appended when it is not there. Those of a head keep their places. */
static int input_number(struct td_node *n, struct td_value v, bool append)
{
    for (int i = 0; !append && i < n->n_in; i++) {
        if (n->in[i].node == v.node && n->in[i].port == v.port) {
            return i;
        }
    }
    n->in[n->n_in] = v;
    return n->n_in++;
}

/* Sources of part k's inputs: external ones as numbers, parts as -1 - number until n->n_in is final. */
static bool connect(struct fuser *x, struct td_node *n, struct td_fused *f, int k)
{
    const struct td_node *part = x->group[k];
    int *from = td_arena_alloc(x->ir->arena, (size_t)part->n_in + 1, sizeof *from);
    if (from == NULL) {
        return false;
    }
    for (int i = 0; i < part->n_in; i++) {
        int inner = 0;
        while (inner < k && x->group[inner] != part->in[i].node) {
            inner++;
        }
        from[i] = inner < k ? -1 - inner : input_number(n, part->in[i], f->has_head && k == 0);
    }
    f->parts[k] = (struct td_part){part, td_fused_stage_of(part), from};
    return true;
}

static struct td_fused *new_fused(struct fuser *x, bool head)
{
    struct td_fused *f = td_arena_alloc(x->ir->arena, 1, sizeof *f);
    struct td_part *parts = td_arena_alloc(x->ir->arena, (size_t)x->n_group, sizeof *parts);
    if (f == NULL || parts == NULL) {
        return NULL;
    }
    *f = (struct td_fused){.parts = parts,
                           .n_parts = x->n_group,
                           .has_head = head,
                           .has_view = head && x->group[1]->op->fuse.view};
    return f;
}

/* The parts of n, its inputs, and where the parts take theirs from. */
static bool fill(struct fuser *x, struct td_node *n, struct td_fused *f)
{
    n->n_in = 0;
    n->fused = f;
    if (x->on_device != NULL && !x->on_device[x->group[0]->id]) {
        n->device = "/device:CPU:0";
    }
    for (int k = 0; k < x->n_group; k++) {
        if (!connect(x, n, f, k)) {
            return false;
        }
        x->taken[x->group[k]->id] = 1;
    }
    for (int k = 0; k < x->n_group; k++) {
        for (int i = 0; i < x->group[k]->n_in; i++) {
            int *from = (int *)&f->parts[k].from[i];
            *from = *from < 0 ? n->n_in - 1 - *from : *from;
        }
    }
    return true;
}

static enum td_code make_fused(struct fuser *x, bool head)
{
    const struct td_op_def *def = head ? x->with_head : x->without;
    struct td_node *last = x->group[x->n_group - 1];
    struct td_fused *f = new_fused(x, head);
    const char *op_name = joined_name(x);
    if (f == NULL || op_name == NULL) {
        return td_no_memory(x->e.err, sizeof *f, "compiler pass");
    }
    x->e.at = last;
    struct td_node *n = td_emit_bare(&x->e, def->op, op_name, TD_FUSED_INPUTS, 1);
    if (n == NULL) {
        return x->e.rc;
    }
    n->def = def;
    n->out_type[0] = last->out_type[0];
    return fill(x, n, f) ? td_remap_set(x->ir, &x->remap, last, (struct td_value){n, 0}, x->e.err)
                         : td_no_memory(x->e.err, sizeof *f, "compiler pass");
}

static enum td_code fuse_all(struct fuser *x)
{
    int n = x->ir->n_nodes;
    for (int k = n - 1; k >= 0; k--) {
        if (is_head(x, x->ir->nodes[k])) {
            grow(x, x->ir->nodes[k], true);
            if (x->n_group > 1) {
                TD_TRY(make_fused(x, true));
            }
        }
    }
    for (int k = 0; k < n; k++) {
        if (is_stage(x, x->ir->nodes[k])) {
            grow(x, x->ir->nodes[k], false);
            grow_back(x);
            if (x->n_group > 1) {
                TD_TRY(make_fused(x, false));
            }
        }
    }
    td_remap_apply(x->ir, &x->remap);
    return TD_OK;
}

/* Tells the nodes of the model's device from the host's. */
static bool find_sides(struct fuser *x, const struct td_model_opts *o)
{
    if (o->device == NULL) {
        return true;
    }
    const bool fuses = td_select_runs_on(x->with_head, o->device) && td_select_runs_on(x->without, o->device);
    x->on_device = td_calloc((size_t)x->ir->n_nodes + 1, 1);
    for (int i = 0; x->on_device != NULL && i < x->ir->n_nodes; i++) {
        const struct td_node *n = x->ir->nodes[i];
        x->on_device[n->id] = td_placer_on_device(o, n);
        x->taken[n->id] = x->on_device[n->id] && !fuses;
    }
    return x->on_device != NULL;
}

enum td_code td_pass_fuse(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    if (m == NULL) {
        return TD_OK;
    }
    const struct td_op_table *ops = td_model_opts_of(m)->ops;
    struct fuser x = {.ir = ir,
                      .with_head = td_op_of_role(ops, TD_ROLE_FUSED),
                      .without = td_op_of_role(ops, TD_ROLE_FUSED_ELEMENTWISE)};
    if (x.with_head == NULL || x.without == NULL) {
        return TD_OK;
    }
    const struct td_ir_shapes *shapes;
    TD_TRY(td_remap_init(ir, &x.remap, err));
    TD_TRY(td_ir_shapes_now(ir, &shapes, err));
    x.e = td_ir_emitter(ir, shapes, ops, err);
    enum td_code rc = find_readers(&x) && find_sides(&x, td_model_opts_of(m))
                          ? fuse_all(&x)
                          : td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    const enum td_code emitted = td_emit_close(&x.e);
    td_free(x.reader_at);
    td_free(x.readers);
    td_free(x.pinned);
    td_free(x.taken);
    td_free(x.on_device);
    return rc ? rc : emitted;
}
