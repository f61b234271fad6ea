/* kernels/cuda/fused/fused_posts.c - from the head's result on, step by step, as long as nothing else reads
 * what is passed by.
 *
 * A step is a post when its other operand is an input of the node that is one number, one of each channel, or
 * of the result's own shape. Sigmoid, and then its product with what it was made of, is swish. Steps that do
 * not depend on the head are no concern of the chain, and stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/fused/fused_posts.h"

#include <string.h>

static int head_operand(const struct td_cuda_fused_plan *f)
{
    int k = 0;
    while (k < f->program.n_operands && f->from[k] >= 0) {
        k++;
    }
    return k;
}

static bool reads(const struct td_cuda_instr *s, int reg)
{
    return s->a == reg || s->b == reg;
}

/* Whether a step behind number `at` reads reg. */
static bool read_later(const struct td_cuda_fused *p, int reg, int at)
{
    for (int i = at + 1; i < p->n_instr; i++) {
        if (reads(&p->instr[i], reg)) {
            return true;
        }
    }
    return false;
}

static enum td_post_kind kind_of(int op)
{
    switch (op) {
    case TD_CUDA_FUSED_Relu:
        return TD_POST_RELU;
    case TD_CUDA_FUSED_Relu6:
        return TD_POST_RELU6;
    case TD_CUDA_FUSED_Leaky:
        return TD_POST_LEAKY;
    case TD_CUDA_FUSED_Elu:
        return TD_POST_ELU;
    case TD_CUDA_FUSED_Sigmoid:
        return TD_POST_SIGMOID;
    case TD_CUDA_FUSED_Tanh:
        return TD_POST_TANH;
    case TD_CUDA_FUSED_Add:
    case TD_CUDA_FUSED_AddV2:
        return TD_POST_ADD;
    case TD_CUDA_FUSED_Sub:
        return TD_POST_SUB;
    case TD_CUDA_FUSED_Mul:
        return TD_POST_MUL;
    default:
        return TD_POST_NONE;
    }
}

/* How the result meets an operand; false: in no way that posts have. */
static bool operand_of(const struct td_cuda_fused_plan *f, int reg, enum td_post_operand *how)
{
    const struct td_cuda_fused *p = &f->program;
    const struct td_shape *s = &f->bare;
    if (reg >= p->n_operands || f->from[reg] < 0) {
        return false;
    }
    const int64_t *step = p->step[p->pattern[reg]];
    bool outer = false;
    for (int d = 1; d < p->rank; d++) {
        outer = outer || step[d] != 0;
    }
    const bool whole = p->pattern[reg] == 0, inner = p->rank > 0 && step[0] != 0;
    *how = whole ? TD_POST_ELEMENT : inner ? TD_POST_CHANNEL : TD_POST_SCALAR;
    return whole || (!outer && (!inner || (s->rank > 0 && p->dim[0] == s->dim[s->rank - 1])));
}

/* Step i as a post on register cur. */
static bool simple_post(const struct td_cuda_fused_plan *f, int i, int cur, struct td_post *post,
                        short *operand)
{
    const struct td_cuda_instr *s = &f->program.instr[i];
    const bool swapped = s->b == cur && s->op != TD_CUDA_FUSED_Sub;
    *post = (struct td_post){.kind = kind_of(s->op), .alpha = s->parameter};
    *operand = s->b < 0 ? -1 : swapped ? s->a : s->b;
    return post->kind != TD_POST_NONE && (swapped || s->a == cur) && *operand != cur &&
           (*operand < 0 || operand_of(f, *operand, &post->operand));
}

/* The step behind number i that makes swish of it; -1. */
static int swish_end(const struct td_cuda_fused_plan *f, int i, int cur)
{
    const struct td_cuda_fused *p = &f->program;
    const int own = p->n_operands + i;
    if (p->instr[i].op != TD_CUDA_FUSED_Sigmoid) {
        return -1;
    }
    int k = i + 1;
    while (k < p->n_instr && !reads(&p->instr[k], own)) {
        k++;
    }
    const bool times = k < p->n_instr && p->instr[k].op == TD_CUDA_FUSED_Mul && reads(&p->instr[k], cur) &&
                       !read_later(p, own, k);
    for (int j = i + 1; times && j < k; j++) {
        if (reads(&p->instr[j], cur)) {
            return -1;
        }
    }
    return times ? k : -1;
}

static void push(struct td_cuda_fused_posts *out, struct td_post post, short operand, int last)
{
    out->post[out->n] = post;
    out->operand[out->n] = operand;
    out->last[++out->n] = (short)last;
}

struct td_cuda_fused_posts td_cuda_fused_find_posts(const struct td_cuda_fused_plan *f)
{
    const struct td_cuda_fused *p = &f->program;
    struct td_cuda_fused_posts out = {.last = {-1}};
    int cur = head_operand(f);
    for (int i = 0; i < p->n_instr && out.n < TD_CUDA_FUSED_POSTS && cur < p->n_operands + p->n_instr; i++) {
        struct td_post post;
        short operand;
        if (!reads(&p->instr[i], cur)) {
            continue;
        }
        const int swish = swish_end(f, i, cur);
        const int last = swish >= 0 ? swish : i;
        if (read_later(p, cur, last)) {
            break;
        }
        if (swish >= 0) {
            push(&out, (struct td_post){.kind = TD_POST_SWISH}, -1, swish);
        } else if (simple_post(f, i, cur, &post, &operand)) {
            push(&out, post, operand, i);
        } else {
            break;
        }
        cur = p->n_operands + last;
        i = last;
    }
    return out;
}

/* ------------------------------------------------------------------ taking them */

/* Whether step i is on the way from the head to step `last`. */
static void mark_chain(const struct td_cuda_fused *p, int head, int last, bool *taken)
{
    bool depends[TD_CUDA_FUSED_OPERANDS + TD_CUDA_FUSED_INSTRS] = {false};
    depends[head] = true;
    for (int i = 0; i <= last; i++) {
        const struct td_cuda_instr *s = &p->instr[i];
        taken[i] = depends[s->a] || (s->b >= 0 && depends[s->b]);
        depends[p->n_operands + i] = taken[i];
    }
}

void td_cuda_fused_take_posts(struct td_cuda_fused_plan *f, const struct td_cuda_fused_posts *posts, int n)
{
    struct td_cuda_fused *p = &f->program;
    short reg[TD_CUDA_FUSED_OPERANDS + TD_CUDA_FUSED_INSTRS];
    bool taken[TD_CUDA_FUSED_INSTRS] = {false};
    const int head = head_operand(f);
    int left = 0;
    if (n == 0) {
        return;
    }
    mark_chain(p, head, posts->last[n], taken);
    for (int k = 0; k < p->n_operands; k++) {
        reg[k] = (short)k;
    }
    for (int i = 0; i < p->n_instr; i++) {
        struct td_cuda_instr s = p->instr[i];
        if (taken[i]) {
            reg[p->n_operands + i] = (short)head; /* only that of the last is read by what is left */
            continue;
        }
        s.a = reg[s.a];
        s.b = (short)(s.b < 0 ? -1 : reg[s.b]);
        reg[p->n_operands + i] = (short)(p->n_operands + left);
        p->instr[left++] = s;
    }
    p->n_instr =
        posts->last[n] == p->n_instr - 1 ? 0 : left; /* what the result does not depend on is nothing */
}
