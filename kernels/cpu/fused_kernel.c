/* kernels/cpu/fused_kernel.c - runs the nodes that core/compile/pass_fuse.c makes of several.
 *
 *   _Fused              a matrix product or convolution, then element-wise instructions on its result
 *   _FusedElementwise   element-wise instructions alone
 *
 * The head runs by its own op's kernel, chosen as for a node of its own, and writes the fused node's output;
 * when its kernel has a prepare that takes over posts (core/graph/op.h), the first instructions are done in
 * registers there. The rest runs over the output in place, tile by tile (fused_loops.c). Where the head's
 * result is smaller than the output, because a later operand is broadcast against it, it gets memory of its
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/fused_program.h"

#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "core/run/select.h"
#include "kernels/ops.h"

struct state {
    const struct td_kernel *head; /* NULL: no head */
    void *head_state;
    struct td_shape *in; /* of the node's inputs */
    struct td_program program;
};

static enum td_code choose_head(const struct td_node *n, enum td_kernel_choice choice,
                                const struct td_kernel **out, struct td_err *err)
{
    *out = NULL;
    return n->fused->has_head ? td_select_kernel(n->fused->parts[0].node, TD_CPU, choice, out, NULL, 0, err)
                              : TD_OK;
}

static int64_t channels_of(const struct td_shape *s)
{
    return s->rank > 0 ? s->dim[s->rank - 1] : 1;
}

/* The head's own prepare, asked to take over what it can. */
static enum td_code prepare_head(const struct td_prepare *p, struct state *s, struct td_err *err)
{
    const struct td_node *head = p->node->fused->parts[0].node;
    struct td_shape *out = &s->program.bare;
    int taken = 0;
    td_program_find_posts(&s->program, p->in, p->value, channels_of(out));
    struct td_prepare inner = {.node = head,
                               .n_in = head->n_in,
                               .n_out = 1,
                               .in = p->in,
                               .out = out,
                               .value = p->value,
                               .post = s->program.post,
                               .n_post = s->program.n_post,
                               .n_taken = &taken};
    if (s->head->prepare != NULL && !s->program.head_apart) {
        TD_TRY(s->head->prepare(&inner, &s->head_state, err));
    }
    td_program_take_posts(&s->program, taken);
    return TD_OK;
}

static void release(void *state)
{
    struct state *s = state;
    if (s != NULL) {
        if (s->head_state != NULL && s->head->release != NULL) {
            s->head->release(s->head_state);
        }
        td_free(s->in);
        td_free(s);
    }
}

static enum td_code fill(const struct td_prepare *p, enum td_kernel_choice choice, struct state *s,
                         struct td_err *err)
{
    TD_TRY(td_program_make(p->node, p->in, p->value, &s->program, err));
    TD_TRY(choose_head(p->node, choice, &s->head, err));
    return s->head != NULL ? prepare_head(p, s, err) : TD_OK;
}

static enum td_code prepare_any(const struct td_prepare *p, enum td_kernel_choice choice, void **state,
                                struct td_err *err)
{
    struct state full = {0};
    *state = NULL;
    enum td_code rc = fill(p, choice, &full, err);
    size_t bytes =
        offsetof(struct state, program.instr) + (size_t)full.program.n_instr * sizeof(struct td_instr);
    struct state *s = rc ? NULL : td_calloc(1, bytes);
    full.in = s == NULL ? NULL : td_calloc((size_t)p->n_in + 1, sizeof *full.in);
    if (full.in == NULL) {
        if (full.head_state != NULL && full.head->release != NULL) {
            full.head->release(full.head_state);
        }
        td_free(s);
        return rc ? rc : td_no_memory(err, bytes, "a fused node");
    }
    memcpy(full.in, p->in, (size_t)p->n_in * sizeof *full.in);
    memcpy(s, &full, bytes);
    *state = s;
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

/* Operands of the posts that the head's kernel took. */
static enum td_code post_operands(struct td_call *c, const struct td_program *p, const struct td_shape *in,
                                  int64_t channels, const float *const *reg, const float **operands,
                                  struct td_err *err)
{
    for (int i = 0; i < p->n_post; i++) {
        operands[i] = p->post_reg[i] < 0 ? NULL : reg[p->post_reg[i]];
        if (p->post[i].kind >= TD_POST_BIAS) {
            bool scaled = p->post[i].kind == TD_POST_AFFINE;
            void *room;
            TD_TRY(td_scratch(c, (size_t)channels * 2 * sizeof(float) + 1, &room, err));
            operands[i] = room;
            td_program_affine(p, in, reg, channels, scaled ? room : NULL,
                              (float *)room + (scaled ? channels : 0));
        }
    }
    return TD_OK;
}

static enum td_code run_head(struct td_call *c, const struct state *s, const struct td_shape *in,
                             const float *const *reg, struct td_tensor **y, struct td_err *err)
{
    const float *operands[TD_PROGRAM_POSTS];
    struct td_call inner = *c;
    inner.node = c->node->fused->parts[0].node;
    inner.n_in = inner.node->n_in;
    inner.state = s->head_state;
    inner.post_in = operands;
    inner.seen_as = c->node->fused->has_view ? &s->program.bare : NULL;
    TD_TRY(post_operands(c, &s->program, in, channels_of(&s->program.bare), reg, operands, err));
    enum td_code rc = s->head->run(&inner, err);
    *y = td_out_made(c, 0);
    if (inner.seen_as != NULL) {
        (*y)->shape = s->program.out;
    }
    return rc;
}

static enum td_code run_program(struct td_call *c, const struct state *s, const struct td_shape *in,
                                struct td_err *err)
{
    const struct td_program *p = &s->program;
    const float *reg[TD_PROGRAM_REGS];
    struct td_tensor *y, apart = {0};
    memset(reg, 0, (size_t)(p->head + 1 + p->n_instr) * sizeof reg[0]);
    for (int i = 0; i < c->n_in; i++) {
        reg[i] = c->in[i]->dtype == TD_FLOAT ? c->in[i]->data : NULL;
    }
    if (p->head_apart) {
        TD_TRY(td_exec_head(c, s->head, &apart, err));
        reg[p->head] = apart.data;
    }
    enum td_code rc = td_program_run_small(p, c, in, reg, err);
    if (rc == TD_OK && s->head != NULL && !p->head_apart) {
        rc = run_head(c, s, in, reg, &y, err);
        reg[p->from] = rc == TD_OK ? y->data : NULL;
    } else if (rc == TD_OK) {
        rc = td_out(c, 0, NULL, &y, err);
    }
    rc = rc ? rc : td_program_run_loop(p, c, in, reg, y->data, err);
    td_tensor_clear(&apart);
    return rc;
}

static enum td_code run_any(struct td_call *c, enum td_kernel_choice choice, struct td_err *err)
{
    struct td_shape in[TD_FUSED_INPUTS];
    const struct state *made = c->state;
    if (made != NULL) {
        return run_program(c, made, made->in, err);
    }
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i]->shape;
    }
    struct state now = {0};
    TD_TRY(td_program_make(c->node, in, c->in, &now.program, err));
    TD_TRY(choose_head(c->node, choice, &now.head, err));
    return run_program(c, &now, in, err);
}

#define ROW_FUNCTIONS(name, choice)                                                                          \
    static enum td_code prepare_##name(const struct td_prepare *p, void **state, struct td_err *err)         \
    {                                                                                                        \
        return prepare_any(p, choice, state, err);                                                           \
    }                                                                                                        \
    static enum td_code run_##name(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return run_any(c, choice, err);                                                                      \
    }
ROW_FUNCTIONS(dnnl, TD_KERNELS_FAST)
ROW_FUNCTIONS(openblas, TD_KERNELS_OPENBLAS)
ROW_FUNCTIONS(reference, TD_KERNELS_REFERENCE)

static const char *refuse_made_up(const struct td_node *n)
{
    return n->fused == NULL ? "only the compiler makes nodes of this op" : NULL;
}

/* ------------------------------------------------------------------ table */

#define ROW(kname, fn)                                                                                       \
    {                                                                                                        \
        .name = kname, .refuse = refuse_made_up, .prepare = prepare_##fn, .release = release,                \
        .run = run_##fn                                                                                      \
    }
#define SIGNATURE "(inputs:N*T) -> (result:T) {N:int; T:type=float}"

static const struct td_kernel with_head[] = {
    ROW("fused.dnnl", dnnl),
    ROW("fused.openblas", openblas),
    ROW("fused.reference", reference),
    {.name = NULL},
};
static const struct td_kernel without_head[] = {
    ROW("fused.cpu", reference),
    {.name = NULL},
};

const struct td_op td_ops_fused[] = {
    {.name = "_Fused", .sig = SIGNATURE, .infer = td_fused_infer, .kernels = with_head},
    {.name = "_FusedElementwise",
     .sig = SIGNATURE,
     .flags = TD_OP_ELEMENTWISE,
     .infer = td_fused_infer,
     .kernels = without_head},
    {.name = NULL},
};
