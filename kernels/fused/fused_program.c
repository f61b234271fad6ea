/* kernels/fused/fused_program.c - from the parts of a fused node to instructions, and which of them a kernel
 * could do itself.
 *
 * Parts are walked in their order, each becoming one instruction (FusedBatchNorm five). Results of
 * instructions that have fewer elements than the output are small: they do not depend on the head, or only on
 * a small one.
 *
 * Behind the head, the instructions that add, subtract or multiply by a number or by a vector of the channels
 * are put together as one post, whose scale and shift are worked out in each run. Then come single ones that
 * kernels know, and longer patterns: sigmoid times its input is swish; x / 2 times twice the normal
 * distribution function, in any order of the multiplications, is GELU. The chain ends at the first
 * instruction that no kernel has, or whose result something else reads.
 *
 * Does not: run programs (kernels/fused/fused_loops.c), or ask a kernel to take posts
 * (kernels/fused/fused_kernel.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fused/fused_program.h"

#include <math.h>

#include "core/base/check.h"

const struct td_shape *td_program_shape(const struct td_program *p, const struct td_shape *in, int reg)
{
    return reg < p->n_in ? &in[reg] : reg == p->head ? &p->head_shape : &p->instr[reg - p->head - 1].shape;
}

/* ------------------------------------------------------------------ instructions */

static enum td_code add(struct td_program *p, const struct td_shape *in, struct td_instr i, int *reg,
                        struct td_err *err)
{
    TD_FAIL_IF(p->n_instr == TD_PROGRAM_INSTRS, err, INTERNAL, "a fused node has more than %d instructions",
               TD_PROGRAM_INSTRS);
    i.shape = *td_program_shape(p, in, i.a);
    if (i.b >= 0) {
        TD_TRY(td_shape_broadcast(&i.shape, td_program_shape(p, in, i.b), &i.shape, err));
    }
    p->instr[p->n_instr] = i;
    *reg = p->head + 1 + p->n_instr++;
    return TD_OK;
}

/* y = x * s + (offset - mean * s), s = scale / sqrt(variance + epsilon). r: registers of x, scale, offset,
 * mean, variance */
static enum td_code add_norm(struct td_program *p, const struct td_shape *in, const struct td_node *n,
                             const int *r, int *reg, struct td_err *err)
{
    int scale, shift, y;
    float epsilon = (float)td_attr_float(n, "epsilon");
    TD_TRY(add(p, in, (struct td_instr){.stage = &td_stage_norm, .a = r[1], .b = r[4], .parameter = epsilon},
               &scale, err));
    TD_TRY(add(p, in, (struct td_instr){.stage = &td_stage_mul, .a = r[3], .b = scale}, &shift, err));
    TD_TRY(add(p, in, (struct td_instr){.stage = &td_stage_sub, .a = r[2], .b = shift}, &shift, err));
    TD_TRY(add(p, in, (struct td_instr){.stage = &td_stage_mul, .a = r[0], .b = scale}, &y, err));
    return add(p, in, (struct td_instr){.stage = &td_stage_add, .a = y, .b = shift}, reg, err);
}

static enum td_code add_part(struct td_program *p, const struct td_shape *in, const struct td_part *part,
                             const int *result, int *reg, struct td_err *err)
{
    int r[5] = {0, -1};
    for (int i = 0; i < part->node->n_in && i < 5; i++) {
        r[i] = part->from[i] < p->n_in ? part->from[i] : result[part->from[i] - p->n_in];
    }
    if (part->stage == &td_stage_norm) {
        return add_norm(p, in, part->node, r, reg, err);
    }
    const char *attr = part->stage->parameter;
    const float parameter = attr == NULL ? 0 : (float)td_attr_float(part->node, attr);
    return add(p, in, (struct td_instr){.stage = part->stage, .a = r[0], .b = r[1], .parameter = parameter},
               reg, err);
}

enum td_code td_program_make(const struct td_node *n, const struct td_shape *in,
                             const struct td_tensor *const *value, struct td_program *p, struct td_err *err)
{
    const struct td_fused *f = n->fused;
    struct td_shape shapes[TD_FUSED_PARTS];
    int result[TD_FUSED_PARTS], before = f->has_head ? 1 + f->has_view : 0;
    TD_TRY(td_fused_shapes(n, in, value, shapes, err));
    p->n_in = p->head = n->n_in;
    p->n_instr = p->n_post = p->start = p->post_end[0] = 0;
    p->post_from[0] = p->head;
    p->out = shapes[f->n_parts - 1];
    p->bare = shapes[0];
    p->head_shape = before > 0 ? shapes[before - 1] : p->out;
    for (int k = 0; k < f->n_parts; k++) {
        result[k] = p->head;
        if (k >= before) {
            TD_TRY(add_part(p, in, &f->parts[k], result, &result[k], err));
        }
    }
    int64_t count = td_shape_count(&p->out);
    p->head_apart = f->has_head && td_shape_count(&p->head_shape) != count;
    for (int i = 0; i < p->n_instr; i++) {
        p->instr[i].small = td_shape_count(&p->instr[i].shape) != count;
    }
    p->result = result[f->n_parts - 1];
    p->from = p->head;
    TD_HOLDS(td_program_check, p);
    return TD_OK;
}

enum td_code td_program_check(const struct td_program *p, struct td_err *err)
{
    TD_WANT(p->head == p->n_in && p->n_instr >= 0 && p->n_instr <= TD_PROGRAM_INSTRS, err,
            "a program of %d inputs and %d instructions has its head in register %d", p->n_in, p->n_instr,
            p->head);
    for (int i = 0; i < p->n_instr; i++) {
        const int own = p->head + 1 + i, a = p->instr[i].a, b = p->instr[i].b;
        TD_WANT(a >= 0 && a < own && b >= -1 && b < own, err,
                "instruction %d reads registers %d and %d and makes %d", i, a, b, own);
    }
    TD_WANT(p->result >= p->head && p->result <= p->head + p->n_instr, err, "the result is register %d of %d",
            p->result, p->head + 1 + p->n_instr);
    return TD_OK;
}

/* ------------------------------------------------------------------ what a kernel could take over */

struct finder {
    struct td_program *p;
    const struct td_shape *in;
    const struct td_tensor *const *value;
    int64_t channels;
};

static const struct td_instr *made_by(const struct td_program *p, int reg)
{
    return reg > p->head ? &p->instr[reg - p->head - 1] : NULL;
}

/* How operand reg meets the output; false when by no way a kernel knows. */
static bool operand_of(const struct finder *x, int reg, enum td_post_operand *how)
{
    const struct td_instr *made = made_by(x->p, reg);
    const struct td_shape *s = td_program_shape(x->p, x->in, reg), *out = &x->p->out;
    int64_t n = td_shape_count(s), tail = 1;
    if ((made != NULL && !made->small) || reg == x->p->head) {
        return false;
    }
    *how = n == 1 ? TD_POST_SCALAR : n == td_shape_count(out) ? TD_POST_ELEMENT : TD_POST_CHANNEL;
    for (int i = 1; *how == TD_POST_CHANNEL && i <= s->rank && tail < n; i++) {
        if (s->dim[s->rank - i] != out->dim[out->rank - i]) {
            return false;
        }
        tail *= s->dim[s->rank - i];
    }
    return *how != TD_POST_CHANNEL || n == x->channels;
}

static bool read_between(const struct td_program *p, int reg, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (p->instr[i].a == reg || p->instr[i].b == reg) {
            return true;
        }
    }
    return false;
}

/* The constant float that reg is; NAN when it is none. */
static float constant(const struct finder *x, int reg)
{
    const struct td_tensor *t = reg < x->p->n_in ? x->value[reg] : NULL;
    return t != NULL && t->dtype == TD_FLOAT && td_tensor_count(t) == 1 && t->data != NULL
               ? TD_DATA(t, float)[0]
               : NAN;
}

static bool is_close(float a, double b)
{
    return fabs((double)a - b) < 1e-6;
}

/* reg = factor * x, by multiplications with constants and changes of sign. */
static bool is_scaled(const struct finder *f, int reg, int x, double *factor)
{
    *factor = 1;
    while (reg != x) {
        const struct td_instr *i = made_by(f->p, reg);
        if (i == NULL ||
            (i->stage != &td_stage_mul && i->stage != &td_stage_div && i->stage != &td_stage_neg)) {
            return false;
        }
        float a = i->b < 0 ? -1 : constant(f, i->a), b = i->b < 0 ? -1 : constant(f, i->b);
        bool left = i->stage == &td_stage_mul && !isnan(a);
        if (i->b >= 0 && !left && isnan(b)) {
            return false;
        }
        *factor = i->stage == &td_stage_div ? *factor / (double)b : *factor * (double)(left ? a : b);
        reg = left && i->b >= 0 ? i->b : i->a;
    }
    return true;
}

/* reg = erfc(-x / sqrt 2), or 1 + erf(x / sqrt 2): twice the normal distribution function. */
static bool is_twice_cdf(const struct finder *f, int reg, int x)
{
    const struct td_instr *i = made_by(f->p, reg);
    double factor;
    if (i != NULL && i->stage == &td_stage_erfc) {
        return is_scaled(f, i->a, x, &factor) && is_close((float)factor, -M_SQRT1_2);
    }
    if (i == NULL || i->stage != &td_stage_add) {
        return false;
    }
    int inner = constant(f, i->a) == 1.0f ? i->b : constant(f, i->b) == 1.0f ? i->a : -1;
    const struct td_instr *e = inner < 0 ? NULL : made_by(f->p, inner);
    return e != NULL && e->stage == &td_stage_erf && is_scaled(f, e->a, x, &factor) &&
           is_close((float)factor, M_SQRT1_2);
}

/* Instruction i = GELU(x): (x / 2) * twice cdf, multiplied in any order. */
static bool is_gelu(const struct finder *f, int i, int x)
{
    const struct td_instr *m = &f->p->instr[i];
    double factor;
    for (int swap = 0; m->stage == &td_stage_mul && swap < 2; swap++) {
        int left = swap ? m->b : m->a, right = swap ? m->a : m->b;
        const struct td_instr *r = made_by(f->p, right);
        if (is_scaled(f, left, x, &factor) && is_close((float)factor, 0.5) && is_twice_cdf(f, right, x)) {
            return true;
        }
        if (constant(f, left) == 0.5f && r != NULL && r->stage == &td_stage_mul &&
            ((r->a == x && is_twice_cdf(f, r->b, x)) || (r->b == x && is_twice_cdf(f, r->a, x)))) {
            return true;
        }
        if (left == x && r != NULL && r->stage == &td_stage_mul &&
            ((constant(f, r->a) == 0.5f && is_twice_cdf(f, r->b, x)) ||
             (constant(f, r->b) == 0.5f && is_twice_cdf(f, r->a, x)))) {
            return true;
        }
    }
    return false;
}

static void push(struct finder *f, struct td_post post, int operand, int last)
{
    struct td_program *p = f->p;
    p->post[p->n_post] = post;
    p->post_reg[p->n_post++] = operand;
    p->post_end[p->n_post] = last + 1;
    p->post_from[p->n_post] = p->head + 1 + last;
}

/* One instruction on cur; false when no kernel has it. */
static bool push_simple(struct finder *f, int i, int cur)
{
    const struct td_instr *in = &f->p->instr[i];
    struct td_post post = {.kind = in->stage->post, .alpha = in->parameter};
    const bool swapped = in->b == cur && in->a != cur && in->stage != &td_stage_sub;
    const int x = swapped ? in->b : in->a, other = swapped ? in->a : in->b;
    if (post.kind == TD_POST_NONE || x != cur ||
        (other >= 0 && (other == cur || !operand_of(f, other, &post.operand)))) {
        return false;
    }
    push(f, post, other, i);
    return true;
}

/* The end of a longer pattern that begins at cur, within the next few instructions; -1. */
static int pattern_end(struct finder *f, int i, int cur, struct td_post *post)
{
    const struct td_program *p = f->p;
    const struct td_instr *in = &p->instr[i];
    if (in->stage == &td_stage_sigmoid && in->a == cur && i + 1 < p->n_instr &&
        p->instr[i + 1].stage == &td_stage_mul) {
        int s = p->head + 1 + i, a = p->instr[i + 1].a, b = p->instr[i + 1].b;
        if ((a == cur && b == s) || (a == s && b == cur)) {
            *post = (struct td_post){.kind = TD_POST_SWISH};
            return i + 1;
        }
    }
    for (int end = i + 3; end < i + 7 && end < p->n_instr; end++) {
        if (is_gelu(f, end, cur)) {
            *post = (struct td_post){.kind = TD_POST_GELU_ERF};
            return end;
        }
    }
    return -1;
}

/* Whether results of instructions before `end`, from cur on, are read behind it: a kernel would leave them
 * behind. */
static bool needed_later(const struct td_program *p, int cur, int begin, int end)
{
    bool later = read_between(p, cur, end, p->n_instr);
    for (int k = begin; k + 1 < end && !later; k++) {
        later = !p->instr[k].small && read_between(p, p->head + 1 + k, end, p->n_instr);
    }
    return later;
}

/* Instruction i adds, subtracts or multiplies a number or a vector of channels: *other is its register. */
static bool is_affine(const struct finder *f, int i, int cur, int *other)
{
    const struct td_instr *in = &f->p->instr[i];
    enum td_post_operand how;
    bool swapped = in->b == cur && in->a != cur && in->stage != &td_stage_sub;
    *other = swapped ? in->a : in->b;
    return (in->stage == &td_stage_add || in->stage == &td_stage_sub || in->stage == &td_stage_mul) &&
           (swapped ? in->b : in->a) == cur && *other != cur && operand_of(f, *other, &how) &&
           how != TD_POST_ELEMENT;
}

/* The affine instructions right behind the head as one post. Returns the instruction behind them. */
static int push_affine(struct finder *f)
{
    struct td_program *p = f->p;
    int cur = p->head, end = 0, other;
    bool scaled = false;
    for (int i = 0; i < p->n_instr; i++) {
        if (p->instr[i].small) {
            continue;
        }
        if (!is_affine(f, i, cur, &other) || needed_later(p, cur, end, i + 1)) {
            break;
        }
        scaled |= p->instr[i].stage == &td_stage_mul;
        cur = p->head + 1 + i;
        end = i + 1;
    }
    if (end > 0) {
        push(f, (struct td_post){.kind = scaled ? TD_POST_AFFINE : TD_POST_BIAS}, -1, end - 1);
    }
    return end;
}

void td_program_affine(const struct td_program *p, const struct td_shape *in, const float *const *reg,
                       int64_t channels, float *scale, float *shift)
{
    int cur = p->head;
    for (int64_t k = 0; k < channels; k++) {
        shift[k] = 0;
        if (scale != NULL) {
            scale[k] = 1;
        }
    }
    for (int i = 0; i < p->post_end[1]; i++) {
        const struct td_instr *op = &p->instr[i];
        if (op->small) {
            continue;
        }
        int other = op->a == cur ? op->b : op->a;
        const float *v = reg[other];
        int64_t step = td_shape_count(td_program_shape(p, in, other)) != 1;
        float sign = op->stage == &td_stage_sub ? -1 : 1;
        for (int64_t k = 0; k < channels; k++) {
            if (op->stage == &td_stage_mul) {
                scale[k] *= v[k * step];
                shift[k] *= v[k * step];
            } else {
                shift[k] += sign * v[k * step];
            }
        }
        cur = p->head + 1 + i;
    }
}

void td_program_find_posts(struct td_program *p, const struct td_shape *in,
                           const struct td_tensor *const *value, int64_t channels)
{
    struct finder f = {p, in, value, channels};
    if (p->head_apart) {
        return;
    }
    int i = push_affine(&f), cur = p->post_from[p->n_post];
    while (i < p->n_instr && p->n_post < TD_PROGRAM_POSTS) {
        if (p->instr[i].small) {
            i++;
            continue;
        }
        struct td_post post;
        int end = pattern_end(&f, i, cur, &post), before = p->n_post;
        if (end >= 0) {
            push(&f, post, -1, end);
        } else if (!push_simple(&f, i, cur)) {
            break;
        }
        end = p->post_end[p->n_post];
        if (needed_later(p, cur, i, end)) {
            p->n_post = before;
            break;
        }
        cur = p->head + end;
        i = end;
    }
}

void td_program_take_posts(struct td_program *p, int n)
{
    p->n_post = n;
    p->start = p->post_end[n];
    p->from = p->post_from[n];
}
