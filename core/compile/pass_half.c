/* core/compile/pass_half.c - what is computed in half is computed in float, and rounded to half where it was.
 *
 *   half x -> Conv2D -> BiasAdd -> Relu -> Cast -> float y
 *
 *   becomes    x -> Cast -> Conv2D -> BiasAdd -> Relu -> _RoundHalf -> y          all in float
 *
 * A processor multiplies halves as floats, so that each kernel of halves widens what it reads and rounds what
 * it makes, a pass over memory each, and what comes from a Cast of a weight is widened again in each run. In
 * float the passes behind this one see layers as they know them, the rounding is one more stage of a fused
 * node, and weights are settled values (core/run/settled.h). Values are those that single kernels make, but
 * that a sum which begins a node is not rounded before its bias is added.
 *
 * Rounding waits until somebody reads the value for arithmetic: what moves elements, picks one of them or
 * changes their sign gives the same before and after (TD_HALVES_KEEP), and a value that is half afterwards,
 * or goes into a Cast, needs no rounding besides that. A value that others read as half is a Cast of the
 * float one.
 *
 * A node is widened where it is a product, or its neighbours are floats too: a lone sum of halves stays.
 *
 * Does not: bfloat16, which some processors multiply (kernels/cpu/bfloat16.h); nodes of a device, which has
 * kernels of halves; graphs with Switch.
 *
 * Invariant (td_remap_check): what is read in place of a value has its type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/ir_shapes.h"
#include "core/compile/passes.h"
#include "core/compile/placer.h"
#include "core/compile/remap.h"
#include "core/graph/fused.h"
#include "core/run/model.h"

enum { LARGEST_LITERAL = 4096 };

/* Output 0 of a node in float. */
struct single {
    struct td_value raw, rounded; /* no node: not made */
    bool sum;                     /* raw is what a product or a convolution adds up */
};

struct halves {
    struct td_ir *ir;
    struct td_emitter e;
    struct td_remap remap;
    const struct td_model_opts *o;
    const struct td_op_def *cast, *round;
    struct single *single; /* by node id, of nodes as they were */
    bool *wanted;          /* by node id: somebody would read it in float */
};

/* ------------------------------------------------------------------ which nodes */

/* What stands for it in float: a node of the same op. */
static enum td_halves kind_of(const struct halves *x, const struct td_node *n)
{
    const struct td_op *op = n->op;
    bool fits = op != NULL && n->def != NULL && n->def->op == op && n->fused == NULL && n->loop == NULL &&
                n->n_out == 1 && n->out_type[0] == TD_HALF && n->n_in > 0 && n->n_control == 0 &&
                (op->flags & TD_OP_STATEFUL) == 0 && !td_ir_any_reference(n) &&
                td_attr_type(n, "T") == TD_HALF && (x->o->device == NULL || !td_placer_on_device(x->o, n));
    if (!fits) {
        return TD_HALVES_NOT;
    }
    return op->halves != TD_HALVES_NOT                     ? op->halves
           : op->fuse.head || td_fused_stage_of(n) != NULL ? TD_HALVES_ROUND
           : (op->flags & TD_OP_VIEW) != 0                 ? TD_HALVES_KEEP
                                                           : TD_HALVES_NOT;
}

static bool rounds(enum td_halves kind)
{
    return kind == TD_HALVES_ROUND || kind == TD_HALVES_ADD;
}

static bool is_cast(const struct halves *x, const struct td_node *n, enum td_dtype from, enum td_dtype to)
{
    return n->op == x->cast->op && n->n_control == 0 && n->n_in == 1 && td_dtype_of(n->in[0]) == from &&
           n->out_type[0] == to && !td_ir_any_reference(n) && !td_attr_bool(n, "Truncate");
}

static void find_wanted(struct halves *x)
{
    for (int k = 0; k < x->ir->n_nodes; k++) {
        const struct td_node *n = x->ir->nodes[k];
        const bool asks = rounds(kind_of(x, n)) || is_cast(x, n, TD_HALF, TD_FLOAT);
        for (int i = 0; asks && i < n->n_in; i++) {
            x->wanted[n->in[i].node->id] |= n->in[i].port == 0;
        }
    }
}

static struct single *single_of(const struct halves *x, struct td_value v)
{
    struct single *w = v.port == 0 && v.node->id < x->remap.n ? &x->single[v.node->id] : NULL;
    return w != NULL && w->raw.node != NULL ? w : NULL;
}

static bool is_worth_it(const struct halves *x, const struct td_node *n, enum td_halves kind)
{
    bool worth = n->op->fuse.head || (rounds(kind) && x->wanted[n->id]);
    for (int i = 0; !worth && i < n->n_in; i++) {
        worth = single_of(x, n->in[i]) != NULL;
    }
    return worth;
}

/* ------------------------------------------------------------------ values */

static struct td_value cast_to(struct halves *x, struct td_value v, enum td_dtype type)
{
    return td_emit_def(&x->e, x->cast, &v, 1, TD_ATTRS(TD_ATTR_OF_TYPE(x->cast->out[0].type_attr, type)));
}

static struct td_value literal(struct halves *x, const struct td_tensor *half)
{
    struct td_tensor t;
    struct td_err *err = x->e.err;
    if (x->e.rc || (x->e.rc = td_tensor_new(&t, TD_FLOAT, &half->shape, err)) != TD_OK) {
        return td_no_value;
    }
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        TD_DATA(&t, float)[i] = td_half_to_float(TD_DATA(half, td_half)[i]);
    }
    const struct td_value made = td_emit_const(&x->e, &t);
    td_tensor_clear(&t);
    return made;
}

/* Of a value that stays half. */
static struct td_value as_float(struct halves *x, struct td_value v)
{
    const struct td_tensor *known = td_known_value(v);
    struct single *w = v.port == 0 && v.node->id < x->remap.n ? &x->single[v.node->id] : NULL;
    const struct td_value made = known != NULL && td_tensor_count(known) <= LARGEST_LITERAL
                                     ? literal(x, known)
                                     : cast_to(x, v, TD_FLOAT);
    if (w != NULL) {
        *w = (struct single){.raw = made, .rounded = made};
    }
    return made;
}

static struct td_value rounded(struct halves *x, struct td_value v)
{
    struct single *w = single_of(x, v);
    if (w == NULL) {
        return as_float(x, v);
    }
    if (w->rounded.node == NULL) {
        w->rounded = td_emit_def(&x->e, x->round, &w->raw, 1, TD_NO_ATTRS);
    }
    return w->rounded;
}

/* ------------------------------------------------------------------ nodes */

/* A vector that is added to the sums of a product may be added before they are rounded. */
static bool adds_to_sum(const struct halves *x, const struct td_node *n, int i)
{
    const struct single *w = i == 0 && n->n_in == 2 ? single_of(x, n->in[0]) : NULL;
    const int rank = n->n_in == 2 ? td_emit_shape(&x->e, n->in[1])->rank : -1;
    return w != NULL && w->sum && n->op->halves == TD_HALVES_ADD && rank >= 0 && rank <= 1;
}

/* Input i of what stands for n. *exact: it is not to be rounded any more. */
static struct td_value input(struct halves *x, const struct td_node *n, int i, bool raw, bool *exact)
{
    const struct td_value v = n->in[i];
    const struct single *w = single_of(x, v);
    if (td_dtype_of(v) != TD_HALF) {
        return td_remap_follow(&x->remap, v);
    }
    if (w != NULL && (raw || adds_to_sum(x, n, i))) {
        *exact &= w->rounded.node == w->raw.node;
        return w->raw;
    }
    return rounded(x, v);
}

static const struct td_attr *attrs_of(struct halves *x, const struct td_node *n)
{
    static enum td_dtype type = TD_FLOAT;
    struct td_attr *attrs = td_arena_alloc(x->ir->arena, (size_t)n->n_attrs + 1, sizeof *attrs);
    for (int i = 0; attrs != NULL && i < n->n_attrs; i++) {
        attrs[i] = n->attrs[i];
        attrs[i].type = strcmp(attrs[i].name, "T") == 0 ? &type : attrs[i].type;
    }
    return attrs;
}

static enum td_code compute_single(struct halves *x, struct td_node *n, enum td_halves kind)
{
    bool exact = true;
    const struct td_attr *attrs = attrs_of(x, n);
    struct td_value *in = td_arena_alloc(x->ir->arena, (size_t)n->n_in + 1, sizeof *in);
    if (attrs == NULL || in == NULL) {
        return td_no_memory(x->e.err, (size_t)n->n_in, "compiler pass");
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = input(x, n, i, kind == TD_HALVES_KEEP, &exact);
    }
    const struct td_value made = td_emit_def(&x->e, n->def, in, n->n_in, attrs, n->n_attrs);
    const struct td_value half = cast_to(x, made, TD_HALF);
    TD_TRY(x->e.rc);
    x->single[n->id] = (struct single){.raw = made, .sum = n->op->fuse.head};
    x->single[n->id].rounded = exact && kind == TD_HALVES_KEEP ? made : td_no_value;
    return td_remap_set(x->ir, &x->remap, n, half, x->e.err);
}

static enum td_code look_at(struct halves *x, struct td_node *n)
{
    const enum td_halves kind = kind_of(x, n);
    x->e.at = n;
    if (kind != TD_HALVES_NOT && is_worth_it(x, n, kind)) {
        return compute_single(x, n, kind);
    }
    if (is_cast(x, n, TD_FLOAT, TD_HALF)) {
        const struct td_value from = td_remap_follow(&x->remap, n->in[0]);
        const bool exact = from.node->op == x->round->op;
        x->single[n->id] = (struct single){.raw = from, .rounded = exact ? from : td_no_value};
    } else if (is_cast(x, n, TD_HALF, TD_FLOAT) && single_of(x, n->in[0]) != NULL) {
        const struct td_value v = rounded(x, n->in[0]);
        TD_TRY(x->e.rc);
        return td_remap_set(x->ir, &x->remap, n, v, x->e.err);
    }
    return TD_OK;
}

enum td_code td_pass_half(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    struct halves x = {.ir = ir, .o = o};
    if (o == NULL || td_ir_has_switch(ir)) {
        return TD_OK;
    }
    x.cast = td_op_of_role(o->ops, TD_ROLE_CAST);
    x.round = td_op_of_role(o->ops, TD_ROLE_ROUND_HALF);
    if (x.cast == NULL || x.round == NULL) {
        return TD_OK;
    }
    const struct td_ir_shapes *shapes;
    TD_TRY(td_remap_init(ir, &x.remap, err));
    TD_TRY(td_ir_shapes_now(ir, &shapes, err));
    x.e = td_ir_emitter(ir, shapes, o->ops, err);
    x.single = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *x.single);
    x.wanted = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *x.wanted);
    enum td_code rc = x.single != NULL && x.wanted != NULL
                          ? TD_OK
                          : td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    if (rc == TD_OK) {
        find_wanted(&x);
    }
    for (int k = 0; rc == TD_OK && k < x.remap.n; k++) {
        rc = look_at(&x, ir->nodes[k]);
    }
    const enum td_code emitted = td_emit_close(&x.e);
    rc = rc ? rc : emitted;
    if (rc == TD_OK) {
        td_remap_apply(ir, &x.remap);
    }
    return rc;
}
