/* core/batchable/batchable_fused.c - a fused node is judged part by part, each by the rule of its own op.
 *
 *   values    inputs of the node | OUTS_A_PART for part 0 | OUTS_A_PART for part 1 | ...
 *
 * Rules look at values, shapes and known numbers through a step and the bound plans of the probes. So a small
 * plan is made of the parts: what is said of the node's inputs comes first, the shapes of the parts come from
 * td_fused_shapes() at each probe, and each part is shown to its rule as a step that reads them. A part of
 * constants is one, without being asked. What is said of the last part is said of the node; a part that says
 * no has its name put before its reason.
 *
 * All of it lives for one call. Does not: know what is fused (core/graph/fused.h), or which parts an op has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_fused.h"

#include "core/graph/fused.h"
#include "core/run/bound_plan.h"
#include "core/base/mem.h"

enum { OUTS_A_PART = 6 };

struct plan {
    struct td_batchable_step *outer;
    const struct td_fused *fused;
    struct td_batchable_value *value;                /* by value */
    struct td_bound_plan bound[TD_BATCHABLE_PROBES]; /* of which rules see known and shape, by value */
};

static bool allocate(struct plan *p, size_t values)
{
    p->value = td_calloc(values, sizeof *p->value);
    bool ok = p->value != NULL;
    for (int i = 0; i < TD_BATCHABLE_PROBES; i++) {
        p->bound[i].known = td_calloc(values, sizeof *p->bound[i].known);
        p->bound[i].shape = td_calloc(values, sizeof *p->bound[i].shape);
        ok = ok && p->bound[i].known != NULL && p->bound[i].shape != NULL;
    }
    return ok;
}

static void release(struct plan *p)
{
    for (int i = 0; i < TD_BATCHABLE_PROBES; i++) {
        td_free(p->bound[i].known);
        td_free(p->bound[i].shape);
    }
    td_free(p->value);
}

/* Places, shapes and known values of the inputs (tensors are borrowed). */
static void set_inputs(struct plan *p)
{
    struct td_batchable_step *s = p->outer;
    for (int i = 0; i < s->n_in; i++) {
        p->value[i] = s->in[i];
        for (int k = 0; k < TD_BATCHABLE_PROBES; k++) {
            const struct td_tensor *known = td_batchable_known(s, i, k);
            p->bound[k].shape[i] = s->in_shape[k][i];
            if (known != NULL) {
                p->bound[k].known[i] = *known;
            }
        }
    }
}

static void set_shapes(struct plan *p)
{
    struct td_batchable_step *s = p->outer;
    for (int k = 0; k < TD_BATCHABLE_PROBES; k++) {
        struct td_shape shapes[TD_FUSED_PARTS];
        const struct td_tensor *value[TD_FUSED_INPUTS];
        struct td_err ignored = {0};
        for (int i = 0; i < s->n_in; i++) {
            value[i] = td_batchable_known(s, i, k);
        }
        for (int i = 0; i < p->fused->n_parts; i++) {
            shapes[i] = td_shape_unknown();
        }
        (void)!td_fused_shapes(s->node, s->in_shape[k], value, shapes, &ignored); /* the rest stays unknown */
        for (int v = s->n_in; v < s->n_in + p->fused->n_parts * OUTS_A_PART; v++) {
            p->bound[k].shape[v] = td_shape_unknown();
        }
        for (int i = 0; i < p->fused->n_parts; i++) {
            p->bound[k].shape[s->n_in + i * OUTS_A_PART] = shapes[i];
        }
    }
}

/* The part's node with one output: rules place every output a node has, and only the first is read. */
static bool judge_part(struct plan *p, int number)
{
    const struct td_part *part = &p->fused->parts[number];
    struct td_shape in_shape[TD_BATCHABLE_PROBES][TD_FUSED_INPUTS];
    struct td_batchable_value in[TD_FUSED_INPUTS];
    int from[TD_FUSED_INPUTS];
    struct td_step step = {.node = part->node,
                           .in = from,
                           .n_in = part->node->n_in,
                           .n_out = 1,
                           .out0 = p->outer->n_in + number * OUTS_A_PART,
                           .flags = td_node_flags(part->node)};
    struct td_batchable_step s = {.trace = p->outer->trace,
                                  .step = &step,
                                  .node = part->node,
                                  .n_in = step.n_in,
                                  .n_out = 1,
                                  .in = in,
                                  .out = &p->value[step.out0]};
    bool all_const = true;
    for (int i = 0; i < s.n_in; i++) {
        int inner = part->from[i] - p->outer->n_in;
        from[i] = inner < 0 ? part->from[i] : p->outer->n_in + inner * OUTS_A_PART;
        in[i] = p->value[from[i]];
        all_const &= in[i].kind == TD_VALUE_CONST;
        for (int k = 0; k < TD_BATCHABLE_PROBES; k++) {
            in_shape[k][i] = p->bound[k].shape[from[i]];
        }
    }
    for (int k = 0; k < TD_BATCHABLE_PROBES; k++) {
        s.in_shape[k] = in_shape[k];
        s.bound[k] = &p->bound[k];
    }
    const struct td_batchable_rule *rule = td_batchable_rule_of(part->node->op);
    if (all_const) {
        s.out[0] = (struct td_batchable_value){.kind = TD_VALUE_CONST};
        return true;
    }
    if (rule == NULL || !rule->rows(&s)) {
        return td_batchable_no(p->outer, "its part '%s' (%s): %s", part->node->name, part->node->op_name,
                               rule == NULL ? "it is not known to keep rows apart" : s.why);
    }
    return true;
}

bool td_batchable_fused(struct td_batchable_step *s)
{
    struct plan p = {.outer = s, .fused = s->node->fused};
    if (p.fused == NULL) {
        return td_batchable_no(s, "only the compiler makes nodes of this op");
    }
    bool ok = allocate(&p, (size_t)(s->n_in + p.fused->n_parts * OUTS_A_PART) + 1) ||
              td_batchable_no(s, "no memory to judge it");
    if (ok) {
        set_inputs(&p);
        set_shapes(&p);
    }
    for (int i = 0; ok && i < p.fused->n_parts; i++) {
        ok = judge_part(&p, i);
    }
    if (ok) {
        s->out[0] = p.value[s->n_in + (p.fused->n_parts - 1) * OUTS_A_PART];
    }
    release(&p);
    return ok;
}
