/* kernels/cuda/fused/fused_program.c - parts become steps in their order; their names are those of the tables
 * that hold the formulas.
 *
 * An input is an operand once, however often it is read. Its steps in the result follow from its shape alone:
 * a part's result has the dims of its operands, or is repeated as they are, so that element i of the node
 * depends on one element of each input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/fused/fused_program.h"

#include <stddef.h>
#include <string.h>

#include "core/graph/graph.h"
#include "core/graph/op.h"

struct step_name {
    const char *op;
    enum td_cuda_fused_op step;
    int n_in;
};

static const struct step_name names[] = {
#define UNARY_STEP(op, types, value) {#op, TD_CUDA_FUSED_##op, 1},
#include "kernels/cuda/math/unary.def"
#define BINARY_STEP(op, types, value) {#op, TD_CUDA_FUSED_##op, 2},
#include "kernels/cuda/math/binary.def"
    {"LeakyRelu", TD_CUDA_FUSED_Leaky, 1},         {"Div", TD_CUDA_FUSED_RealDiv, 2},
    {"BiasAdd", TD_CUDA_FUSED_AddV2, 2},           {"BiasAddV1", TD_CUDA_FUSED_AddV2, 2},
    {"FusedBatchNorm", TD_CUDA_FUSED_Normal, 5},   {"FusedBatchNormV2", TD_CUDA_FUSED_Normal, 5},
    {"FusedBatchNormV3", TD_CUDA_FUSED_Normal, 5},
};

static const struct step_name *name_of(const struct td_node *part)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].op, part->op_name) == 0 && names[i].n_in == part->n_in) {
            return &names[i];
        }
    }
    return NULL;
}

static int first_step(const struct td_fused *f)
{
    return f->has_head ? 1 + f->has_view : 0;
}

const char *td_cuda_fused_refuses(const struct td_node *n)
{
    if (n->fused == NULL) {
        return "only the compiler makes nodes of this op";
    }
    for (int k = first_step(n->fused); k < n->fused->n_parts; k++) {
        if (name_of(n->fused->parts[k].node) == NULL) {
            return "a part of it has no step there";
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ steps */

struct maker {
    const struct td_kernel_query *q;
    struct td_cuda_fused_plan *plan;
    struct td_shape shapes[TD_FUSED_PARTS];
    int operand[TD_FUSED_INPUTS + 1]; /* by input of the node, then of the head; -1: none yet */
    int result[TD_FUSED_PARTS];       /* steps */
    int n_operands, n_instr;
};

/* Operands come first in the end: until they are all known, a step's result is written -1 - its number. */
static int add(struct maker *m, enum td_cuda_fused_op op, int a, int b, float parameter)
{
    m->plan->program.instr[m->n_instr] =
        (struct td_cuda_instr){.op = (short)op, .a = (short)a, .b = (short)b, .parameter = parameter};
    return -1 - m->n_instr++;
}

enum { NO_OPERAND = 1000 };

/* Input number `from` of the node, or behind them a part. */
static int register_of(struct maker *m, int from)
{
    const int n_in = m->q->n_in;
    const bool inner = from >= n_in + first_step(m->q->node->fused);
    if (inner) {
        return m->result[from - n_in];
    }
    const int which = from < n_in ? from : TD_FUSED_INPUTS; /* the head, or its view */
    if (m->operand[which] < 0) {
        m->plan->from[m->n_operands] = (short)(from < n_in ? from : -1);
        m->operand[which] = m->n_operands++;
    }
    return m->operand[which];
}

/* (x - mean) * (scale / sqrt(variance + epsilon)) + offset. r: x, scale, offset, mean, variance. */
static int add_norm(struct maker *m, const struct td_node *part, const int *r)
{
    const int by = add(m, TD_CUDA_FUSED_Normal, r[1], r[4], (float)td_attr_float(part, "epsilon"));
    const int centred = add(m, TD_CUDA_FUSED_Sub, r[0], r[3], 0);
    return add(m, TD_CUDA_FUSED_AddV2, add(m, TD_CUDA_FUSED_Mul, centred, by, 0), r[2], 0);
}

static void add_part(struct maker *m, int k)
{
    const struct td_part *part = &m->q->node->fused->parts[k];
    const struct step_name *name = name_of(part->node);
    int r[5] = {0, NO_OPERAND};
    for (int i = 0; i < part->node->n_in; i++) {
        r[i] = register_of(m, part->from[i]);
    }
    const bool leaky = name->step == TD_CUDA_FUSED_Leaky;
    m->result[k] = name->n_in == 5 ? add_norm(m, part->node, r)
                                   : add(m, name->step, r[0], r[1],
                                         leaky ? (float)td_attr_float(part->node, "alpha") : 0);
}

static short numbered(const struct maker *m, short reg)
{
    return (short)(reg == NO_OPERAND ? -1 : reg < 0 ? m->n_operands - 1 - reg : reg);
}

static void add_parts(struct maker *m)
{
    const struct td_fused *f = m->q->node->fused;
    struct td_cuda_fused *p = &m->plan->program;
    memset(m->operand, -1, sizeof m->operand);
    for (int k = first_step(f); k < f->n_parts; k++) {
        add_part(m, k);
    }
    for (int i = 0; i < m->n_instr; i++) {
        p->instr[i].a = numbered(m, p->instr[i].a);
        p->instr[i].b = numbered(m, p->instr[i].b);
    }
    p->n_operands = m->n_operands;
    p->n_instr = m->n_instr;
}

/* ------------------------------------------------------------------ patterns */

static const struct td_shape *shape_of(const struct maker *m, int operand)
{
    const int from = m->plan->from[operand];
    return from >= 0 ? &m->q->in[from] : &m->shapes[m->q->node->fused->has_view];
}

/* Steps through dim i of the result, counted from the end; *elements: of the operand's dims behind it. */
static int64_t step_at(const struct td_shape *s, int i, int64_t *elements)
{
    const int64_t d = i <= s->rank ? s->dim[s->rank - i] : 1, step = d != 1 ? *elements : 0;
    *elements *= d;
    return step;
}

/* Whether dim `rank` steps on from the one before it, in every operand. */
static bool goes_on(const struct td_cuda_fused *p, const int64_t *step)
{
    bool same = p->rank > 0;
    for (int k = 0; same && k <= p->n_operands; k++) {
        const int64_t last = p->step[k][p->rank - 1];
        same = step[k] == (last == 0 ? 0 : last * p->dim[p->rank - 1]);
    }
    return same;
}

/* step[0]: the result's own; step[1 + k]: of operand k. */
static bool set_steps(struct maker *m, const struct td_shape *y)
{
    struct td_cuda_fused *p = &m->plan->program;
    int64_t elements[TD_CUDA_FUSED_OPERANDS + 1], step[TD_CUDA_FUSED_OPERANDS + 1];
    for (int k = 0; k <= p->n_operands; k++) {
        elements[k] = 1;
    }
    for (int i = 1; i <= y->rank; i++) {
        const int64_t dim = y->dim[y->rank - i];
        for (int k = 0; k <= p->n_operands; k++) {
            step[k] = step_at(k == 0 ? y : shape_of(m, k - 1), i, &elements[k]);
        }
        if (dim == 1) {
            continue;
        }
        if (goes_on(p, step)) {
            p->dim[p->rank - 1] *= dim;
            continue;
        }
        if (p->rank == TD_CUDA_DIMS) {
            return false;
        }
        p->dim[p->rank] = dim;
        for (int k = 0; k <= p->n_operands; k++) {
            p->step[k][p->rank] = step[k];
        }
        p->rank++;
    }
    return true;
}

/* Operands that step alike share a pattern; those that are left move up. */
static void share_patterns(struct td_cuda_fused *p)
{
    p->n_patterns = 1;
    for (int k = 0; k < p->n_operands; k++) {
        int at = 0;
        while (at < p->n_patterns && memcmp(p->step[at], p->step[1 + k], sizeof p->step[0]) != 0) {
            at++;
        }
        if (at == p->n_patterns) {
            memmove(p->step[at], p->step[1 + k], sizeof p->step[0]);
            p->n_patterns++;
        }
        p->pattern[k] = (unsigned char)at;
    }
}

/* ------------------------------------------------------------------ the whole */

enum td_code td_cuda_fused_make(const struct td_kernel_query *q, struct td_cuda_fused_plan *out,
                                const char **refusal, struct td_err *err)
{
    struct maker m = {.q = q, .plan = out};
    const struct td_fused *f = q->node->fused;
    const struct td_shape *y = &q->out[0];
    memset(out, 0, sizeof *out);
    TD_TRY(td_fused_shapes(q->node, q->in, q->value, m.shapes, err));
    *refusal =
        f->has_view && !td_shape_known(&m.shapes[1]) ? "the shape of its view comes with the run" : NULL;
    if (*refusal != NULL) {
        return TD_OK;
    }
    add_parts(&m);
    out->program.n = td_shape_count(y);
    out->bare = m.shapes[0];
    out->apart = f->has_head && td_shape_count(&out->bare) != out->program.n;
    if (!set_steps(&m, y)) {
        *refusal = "more than eight dimensions";
        return TD_OK;
    }
    share_patterns(&out->program);
    return td_cuda_fused_check(&out->program, err);
}

enum td_code td_cuda_fused_check(const struct td_cuda_fused *p, struct td_err *err)
{
    TD_FAIL_IF(p->n_operands > TD_CUDA_FUSED_OPERANDS || p->n_instr < 1 || p->n_instr > TD_CUDA_FUSED_INSTRS,
               err, INTERNAL, "a fused node of %d operands and %d steps", p->n_operands, p->n_instr);
    for (int i = 0; i < p->n_instr; i++) {
        const int own = p->n_operands + i, a = p->instr[i].a, b = p->instr[i].b;
        TD_FAIL_IF(a < 0 || a >= own || b < -1 || b >= own, err, INTERNAL,
                   "step %d reads registers %d and %d and makes %d", i, a, b, own);
    }
    return TD_OK;
}

size_t td_cuda_fused_bytes(const struct td_cuda_fused *p)
{
    return offsetof(struct td_cuda_fused, step) + (size_t)p->n_patterns * sizeof p->step[0];
}
