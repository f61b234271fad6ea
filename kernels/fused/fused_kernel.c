/* kernels/fused/fused_kernel.c - runs the nodes that core/compile/pass_fuse.c makes of several.
 *
 *   _Fused              a matrix product or convolution, then element-wise instructions on its result
 *   _FusedElementwise   element-wise instructions alone
 *
 * The head runs by its own op's kernel, chosen for its shapes and device as for a node of its own
 * (core/run/select.h), and writes the fused node's output; when that kernel takes epilogues
 * (core/graph/kernel.h), the first instructions are done in registers there. The rest runs over the output in
 * place, tile by tile (fused_loops.c). Where the head's result is smaller than the output, because a later
 * operand is broadcast against it, it gets memory of its own.
 *
 *   workspace   | the head's | scale and shift of a BIAS or AFFINE epilogue |
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fused/fused_program.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/lone.h"
#include "kernels/ops.h"

struct state {
    struct td_choice head; /* no kernel: there is no head, or it runs apart */
    enum td_kernel_choice kernels;
    char name[64];       /* in reports */
    size_t operands_at;  /* in the workspace */
    struct td_shape *in; /* of the node's inputs */
    struct td_program program;
};

static int64_t channels_of(const struct td_shape *s)
{
    return s->rank > 0 ? s->dim[s->rank - 1] : 1;
}

static size_t operand_bytes(const struct td_program *p)
{
    return ((size_t)channels_of(&p->bare) * 2 * sizeof(float) + 63) / 64 * 64;
}

/* Chooses the head's kernel, which is asked to take over what it can. */
static enum td_code prepare_head(const struct td_kernel_query *q, struct state *s, struct td_err *err)
{
    const struct td_node *head = q->node->fused->parts[0].node;
    const struct td_kernel *rows[TD_KERNEL_MOST];
    int n_rows;
    struct td_kernel_query inner = *q;
    td_program_find_posts(&s->program, q->in, q->value, channels_of(&s->program.bare));
    inner.node = head;
    inner.n_in = head->n_in;
    inner.n_out = 1;
    inner.out = &s->program.bare;
    inner.post = s->program.post;
    inner.n_post = s->program.n_post;
    TD_TRY(td_select_rows(head, &q->target, rows, &n_rows, NULL, 0, err));
    TD_TRY(td_select_bind(&inner, rows, n_rows, &s->head, err));
    td_program_take_posts(&s->program, s->head.offer.n_posts);
    snprintf(s->name, sizeof s->name, "fused(%s)", td_choice_name(&s->head));
    return TD_OK;
}

static void release(void *state)
{
    struct state *s = state;
    td_choice_fini(&s->head);
    td_free(s->in);
    td_free(s);
}

/* Of the call: the head's, and what its epilogues' operands are worked out in. */
static size_t workspace_of(struct state *s)
{
    const struct td_program *p = &s->program;
    s->operands_at = (s->head.offer.workspace_bytes + 63) / 64 * 64;
    size_t bytes = s->operands_at;
    for (int i = 0; i < p->n_post; i++) {
        bytes += p->post[i].kind >= TD_POST_BIAS ? operand_bytes(p) : 0;
    }
    return bytes;
}

/* A copy no larger than its program needs. */
static enum td_code keep(const struct td_kernel_query *q, const struct state *full, struct td_kernel_offer *o,
                         struct td_err *err)
{
    const size_t bytes =
        offsetof(struct state, program.instr) + (size_t)full->program.n_instr * sizeof(struct td_instr);
    struct state *s = td_calloc(1, bytes);
    struct td_shape *in = td_calloc((size_t)q->n_in + 1, sizeof *in);
    if (s == NULL || in == NULL) {
        td_free(s);
        td_free(in);
        return td_no_memory(err, bytes, "a fused node");
    }
    memcpy(in, q->in, (size_t)q->n_in * sizeof *in);
    memcpy(s, full, bytes);
    s->in = in;
    o->workspace_bytes = workspace_of(s);
    o->state = s;
    o->state_bytes = bytes + (size_t)q->n_in * sizeof *in + s->head.offer.state_bytes;
    o->name = s->name[0] != '\0' ? s->name : NULL;
    return TD_OK;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct state full;
    memset(&full, 0, offsetof(struct state, program));
    full.kernels = q->target.kernels;
    TD_TRY(td_program_make(q->node, q->in, q->value, &full.program, err));
    if (q->node->fused->has_head && !full.program.head_apart) {
        TD_TRY(prepare_head(q, &full, err));
    } else {
        td_program_take_posts(&full.program, 0);
    }
    const enum td_code rc = keep(q, &full, o, err);
    if (rc) {
        td_choice_fini(&full.head);
    }
    return rc;
}

/* ------------------------------------------------------------------ running */

/* Operands of the posts that the head's kernel took. */
static void post_operands(const struct td_call *c, const struct state *s, const float *const *reg,
                          const float **operands)
{
    const struct td_program *p = &s->program;
    char *room = (char *)c->workspace + s->operands_at;
    for (int i = 0; i < p->n_post; i++) {
        operands[i] = p->post_reg[i] < 0 ? NULL : reg[p->post_reg[i]];
        if (p->post[i].kind >= TD_POST_BIAS) {
            const bool scaled = p->post[i].kind == TD_POST_AFFINE;
            const int64_t channels = channels_of(&p->bare);
            float *both = (float *)room;
            room += operand_bytes(p);
            operands[i] = both;
            td_program_affine(p, s->in, reg, channels, scaled ? both : NULL, both + (scaled ? channels : 0));
        }
    }
}

static enum td_code run_head(struct td_call *c, const struct state *s, const float *const *reg,
                             struct td_tensor **y, struct td_err *err)
{
    const float *operands[TD_PROGRAM_POSTS];
    struct td_call inner = *c;
    inner.node = c->node->fused->parts[0].node;
    inner.n_in = inner.node->n_in;
    inner.state = s->head.offer.state;
    inner.post_in = operands;
    inner.seen_as = c->node->fused->has_view ? &s->program.bare : NULL;
    post_operands(c, s, reg, operands);
    enum td_code rc = s->head.kernel->run(&inner, err);
    *y = td_out_made(c, 0);
    if (inner.seen_as != NULL) {
        (*y)->shape = s->program.out;
    }
    return rc;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct state *s = c->state;
    const struct td_program *p = &s->program;
    const float *reg[TD_PROGRAM_REGS];
    struct td_tensor *y, apart = {0};
    memset(reg, 0, (size_t)(p->head + 1 + p->n_instr) * sizeof reg[0]);
    for (int i = 0; i < c->n_in; i++) {
        reg[i] = c->in[i]->dtype == TD_FLOAT ? c->in[i]->data : NULL;
    }
    if (p->head_apart) {
        TD_TRY(td_lone_head(c, s->kernels, &apart, err));
        reg[p->head] = apart.data;
    }
    enum td_code rc = td_program_run_small(p, c, s->in, reg, err);
    if (rc == TD_OK && s->head.kernel != NULL) {
        rc = run_head(c, s, reg, &y, err);
        reg[p->from] = rc == TD_OK ? y->data : NULL;
    } else if (rc == TD_OK) {
        rc = td_out(c, 0, NULL, &y, err);
    }
    rc = rc ? rc : td_program_run_loop(p, c, s->in, reg, y->data, err);
    td_tensor_clear(&apart);
    return rc;
}

static const char *refuse_made_up(const struct td_node *n)
{
    return n->fused == NULL             ? "only the compiler makes nodes of this op"
           : n->out_type[0] != TD_FLOAT ? "of floats alone"
                                        : NULL;
}

/* ------------------------------------------------------------------ part by part */

/* Of other types, which are fused for a device: where that does not serve the shapes. */
static enum td_code run_part(struct td_call *c, int k, struct td_tensor *made, struct td_err *err)
{
    const struct td_part *part = &c->node->fused->parts[k];
    const struct td_tensor *in[TD_FUSED_INPUTS];
    for (int i = 0; i < part->node->n_in; i++) {
        const int from = part->from[i];
        in[i] = from < c->n_in ? c->in[from] : &made[from - c->n_in];
    }
    return td_lone_inside(c, part->node, in, &made[k], err);
}

static enum td_code run_parts(struct td_call *c, struct td_err *err)
{
    const int n = c->node->fused->n_parts;
    struct td_tensor made[TD_FUSED_PARTS] = {{0}};
    enum td_code rc = TD_OK;
    for (int k = 0; rc == TD_OK && k < n; k++) {
        rc = run_part(c, k, made, err);
    }
    if (rc == TD_OK) {
        td_out_move(c, 0, &made[n - 1]);
    }
    for (int k = 0; k < n; k++) {
        td_tensor_clear(&made[k]);
    }
    return rc;
}

static const char *refuse_parts(const struct td_node *n)
{
    return n->fused == NULL             ? "only the compiler makes nodes of this op"
           : n->out_type[0] == TD_FLOAT ? "of other floats"
                                        : NULL;
}

/* ------------------------------------------------------------------ table */

#define SIGNATURE "(inputs:N*T) -> (result:T) {N:int; T:type=float}"

static const struct td_kernel rows[] = {
    {.name = "fused.cpu", .refuse = refuse_made_up, .prepare = prepare, .release = release, .run = run},
    {.name = "fused.parts", .refuse = refuse_parts, .run = run_parts},
    {.name = NULL},
};

#define BEHIND "made by the compiler, after gradients"

const struct td_op td_ops_fused[] = {
    {.name = "_Fused",
     .sig = SIGNATURE,
     .role = TD_ROLE_FUSED,
     .infer = td_fused_infer,
     .kernels = rows,
     .grad_missing = BEHIND},
    {.name = "_FusedElementwise",
     .sig = SIGNATURE,
     .flags = TD_OP_ELEMENTWISE,
     .role = TD_ROLE_FUSED_ELEMENTWISE,
     .infer = td_fused_infer,
     .kernels = rows,
     .grad_missing = BEHIND},
    {.name = NULL},
};
