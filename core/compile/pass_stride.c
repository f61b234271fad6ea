/* core/compile/pass_stride.c - pixels that nobody reads are not computed.
 *
 *   c = Conv2D 3x3 (b)   d = Conv2D 1x1 (c)   e = Relu(d + x)   f, g = Conv2D 1x1, stride 2 (e)
 *
 *   becomes
 *
 *   c = Conv2D 3x3, stride 2 (b)   d = Conv2D 1x1 (c)   e = Relu(d + x[::2, ::2])   f, g = Conv2D 1x1 (e)
 *
 * which is how a residual net shrinks its images: three of four pixels of the block before were computed for
 * nothing, a tenth of ResNet50.
 *
 * One walk against the order tells of each value how far apart the pixels are that its readers want: what
 * a convolution of single pixels (struct td_stride_rule) strides by, times what is wanted of itself; an
 * element-wise node wants of its inputs what is wanted of it; everybody else wants all. A value can be
 * kept so when a convolution makes it, which then takes longer strides, or an element-wise node. The
 * latter is worth it only when some convolution above does less for it: those that are not are left
 * alone, and the walk is made again.
 *
 * Images are channels last, and their ranks must be known. That sizes of two operands differ by less than a
 * stride is not noticed any more.
 *
 * Does not: reach through pools, Pads or Concats.
 *
 * Invariant (td_pass_check): every pixel that is read is equal to what it was, up to the order of a sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/passes.h"
#include "core/graph/fused.h"

enum { IMAGE_RANK = 4, MAX_WALKS = 16, MAX_STRIDE = 1 << 10 };

/* Between two pixels, in rows and in columns. */
struct stride {
    int64_t by[2];
};

struct node_strides {
    struct stride wanted; /* by all readers of output 0; {0, 0}: there are none so far */
    struct stride kept;   /* what becomes of output 0 */
    struct td_value thin; /* that output's pixels, `thin_by` apart, beside the whole one; no node: not made */
    struct stride thin_by;
    bool left_alone;
};

struct strides {
    struct td_ir *ir;
    struct td_emitter e;
    struct node_strides *at; /* by node id */
    int n_nodes;
    const struct td_stride_rule *rule; /* of any op: it can thin a value */
};

static const struct stride all = {{1, 1}};

static bool same(struct stride a, struct stride b)
{
    return a.by[0] == b.by[0] && a.by[1] == b.by[1];
}

/* a's pixels, of which every b-th is wanted; all, where that is further than anything strides. */
static struct stride times(struct stride a, struct stride b)
{
    struct stride s;
    for (int i = 0; i < 2; i++) {
        if (a.by[i] > MAX_STRIDE / b.by[i]) {
            return all;
        }
        s.by[i] = a.by[i] * b.by[i];
    }
    return s;
}

/* ------------------------------------------------------------------ what nodes do */

static bool plain(const struct td_node *n)
{
    return n->op != NULL && n->n_out > 0 && n->n_control == 0 && n->fused == NULL && !td_ir_any_reference(n);
}

static const struct td_stride_rule *rule_of(const struct td_node *n)
{
    return plain(n) ? n->op->stride : NULL;
}

/* The stride of a convolution whose pixels each follow from one pixel of its input; false: from several. */
static bool reads_single(const struct strides *s, const struct td_node *n, struct stride *by)
{
    const struct td_stride_rule *rule = rule_of(n);
    return rule != NULL && rule->single(&s->e, n, by->by);
}

enum operand { WHOLE, PIXELS, PARAMETER };

/* Whether input i of an element-wise node is an image, or the same for all pixels; WHOLE: not known. */
static enum operand operand(const struct strides *s, const struct td_node *n, int i)
{
    const struct td_shape *shape = td_emit_shape(&s->e, n->in[i]);
    if (i > 0 && n->op->fuse.first_only) {
        return PARAMETER;
    }
    if (shape->rank < 0 || shape->rank > IMAGE_RANK) {
        return WHOLE;
    }
    bool flat = true;
    for (int axis = 1; axis <= 2; axis++) { /* rows and columns, counted from the last axis */
        const int d = axis - IMAGE_RANK + shape->rank;
        flat = flat && (d < 0 || shape->dim[d] == 1);
    }
    return flat ? PARAMETER : shape->rank == IMAGE_RANK ? PIXELS : WHOLE;
}

/* Whether each pixel of output 0 follows from those of the inputs there. */
static bool keeps_pixels(const struct strides *s, const struct td_node *n)
{
    if (!plain(n) || td_fused_stage_of(n) == NULL || s->at[n->id].left_alone ||
        (n->op->fuse.refuse != NULL && n->op->fuse.refuse(n)) ||
        strncmp(td_attr_str(n, "data_format"), "NC", 2) == 0) {
        return false;
    }
    bool images = false;
    for (int i = 0; i < n->n_in; i++) {
        const enum operand o = operand(s, n, i);
        if (o == WHOLE) {
            return false;
        }
        images = images || o == PIXELS;
    }
    return images;
}

/* ------------------------------------------------------------------ who wants what */

static void want(struct strides *s, struct td_value v, struct stride by)
{
    struct stride *wanted = &s->at[v.node->id].wanted;
    const bool first = wanted->by[0] == 0;
    *wanted = v.port == 0 && (first || same(*wanted, by)) ? by : all;
}

static struct stride kept_by(const struct strides *s, const struct td_node *n)
{
    const struct stride wanted = s->at[n->id].wanted;
    const struct td_stride_rule *rule = rule_of(n);
    if (wanted.by[0] == 0 || same(wanted, all) || s->at[n->id].left_alone) {
        return all;
    }
    const bool can = rule != NULL ? rule->may(&s->e, n, wanted.by) : keeps_pixels(s, n);
    return can ? wanted : all;
}

static void walk_back(struct strides *s)
{
    for (int k = 0; k < s->n_nodes; k++) {
        s->at[k].wanted = (struct stride){{0, 0}};
    }
    for (int i = 0; i < s->ir->n_fetches; i++) {
        want(s, s->ir->fetches[i], all);
    }
    for (int i = 0; i < s->ir->n_roots; i++) {
        want(s, (struct td_value){s->ir->roots[i], 0}, all);
    }
    for (int k = s->n_nodes - 1; k >= 0; k--) {
        struct td_node *n = s->ir->nodes[k];
        struct stride by;
        s->at[k].kept = kept_by(s, n);
        const bool single = reads_single(s, n, &by), pixels = !single && keeps_pixels(s, n);
        for (int i = 0; i < n->n_in; i++) {
            const bool image = pixels && operand(s, n, i) == PIXELS;
            want(s, n->in[i], single && i == 0 ? times(by, s->at[k].kept) : image ? s->at[k].kept : all);
        }
        for (int i = 0; i < n->n_control; i++) {
            want(s, (struct td_value){n->control[i], 0}, all);
        }
    }
}

/* Whether some convolution does less for an element-wise node that keeps fewer pixels. */
static bool is_worth(const struct strides *s, const struct td_node *n)
{
    bool worth = false;
    for (int i = 0; !worth && i < n->n_in; i++) {
        const struct td_value v = n->in[i];
        worth = operand(s, n, i) == PIXELS && v.port == 0 && !same(s->at[v.node->id].kept, all);
    }
    return worth;
}

/* Whether nothing had to be left alone, and whether anything is to do at all. */
static bool walk_forward(struct strides *s, bool *any)
{
    bool settled = true;
    *any = false;
    for (int k = 0; k < s->n_nodes; k++) {
        const struct td_node *n = s->ir->nodes[k];
        if (same(s->at[k].kept, all)) {
            continue;
        }
        if (rule_of(n) == NULL && !is_worth(s, n)) {
            s->at[k].left_alone = true;
            s->at[k].kept = all;
            settled = false;
        } else {
            *any = true;
        }
    }
    return settled;
}

/* ------------------------------------------------------------------ doing it */

/* The pixels of v, `by` apart. */
static struct td_value thin(struct strides *s, struct td_value v, struct stride by)
{
    struct node_strides *at = &s->at[v.node->id];
    if (v.port == 0 && at->thin.node != NULL && same(at->thin_by, by)) {
        return at->thin;
    }
    s->e.at = v.node;
    const struct td_value made = s->rule->thin(&s->e, v, by.by);
    if (v.port == 0) {
        at->thin = made;
        at->thin_by = by;
    }
    return made;
}

static void restride(struct strides *s, struct td_node *n, const struct td_stride_rule *rule)
{
    struct stride own;
    const struct stride kept = s->at[n->id].kept;
    const bool single = reads_single(s, n, &own);
    const struct stride given = single && n->in[0].port == 0 ? s->at[n->in[0].node->id].kept : all;
    if (same(kept, all) && same(given, all)) {
        return;
    }
    s->e.at = n;
    s->ir->changes++;
    rule->set(&s->e, n, kept.by, given.by);
}

static void connect(struct strides *s, struct td_node *n)
{
    const struct stride kept = s->at[n->id].kept;
    if (same(kept, all)) {
        return;
    }
    s->ir->changes++;
    for (int i = 0; i < n->n_in; i++) {
        const struct td_value v = n->in[i];
        const bool whole = v.port != 0 || same(s->at[v.node->id].kept, all);
        if (operand(s, n, i) == PIXELS && whole) {
            n->in[i] = thin(s, v, kept);
        }
    }
}

static enum td_code rewrite(struct strides *s)
{
    for (int k = 0; k < s->n_nodes && s->e.rc == TD_OK; k++) {
        struct td_node *n = s->ir->nodes[k];
        const struct td_stride_rule *rule = rule_of(n);
        if (rule != NULL) {
            restride(s, n, rule);
        } else {
            connect(s, n);
        }
    }
    return s->e.rc;
}

/* Whether some convolution strides over pixels of its input; the pass then knows a rule, too. */
static bool has_work(struct strides *s)
{
    bool found = false;
    for (int k = 0; k < s->n_nodes; k++) {
        struct stride by;
        if (reads_single(s, s->ir->nodes[k], &by) && !same(by, all)) {
            s->rule = rule_of(s->ir->nodes[k]);
            found = true;
        }
    }
    return found;
}

static enum td_code run(struct strides *s, struct td_err *err)
{
    bool any = false, settled = false;
    if (!has_work(s)) {
        return TD_OK;
    }
    s->at = td_calloc((size_t)s->n_nodes + 1, sizeof *s->at);
    if (s->at == NULL) {
        return td_no_memory(err, (size_t)s->n_nodes, "compiler pass");
    }
    for (int i = 0; i < MAX_WALKS && !settled; i++) {
        walk_back(s);
        settled = walk_forward(s, &any);
    }
    const enum td_code rc = settled && any ? rewrite(s) : TD_OK;
    td_free(s->at);
    return rc;
}

enum td_code td_pass_stride(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_ir_shapes *shapes;
    if (m == NULL || td_ir_has_switch(ir)) {
        return TD_OK;
    }
    TD_TRY(td_ir_shapes_now(ir, &shapes, err));
    struct strides s = {
        .ir = ir, .e = td_ir_emitter(ir, shapes, td_model_opts_of(m)->ops, err), .n_nodes = ir->n_nodes};
    const enum td_code rc = run(&s, err), closed = td_emit_close(&s.e);
    return rc ? rc : closed;
}
