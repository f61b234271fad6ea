/* kernels/cuda/fused/fused.c - rows of the nodes that core/compile/pass_fuse.c makes of several.
 *
 *   _Fused              a matrix product or convolution, then element-wise steps on its result
 *   _FusedElementwise   element-wise steps alone
 *
 * The head runs by its own op's row, chosen for its shapes as for a node of its own, and writes the fused
 * node's output; it is asked to do the first steps in registers (fused_posts.h). If any are left, one kernel
 * then goes over the output in place: one that was made for the node (made.h), or where
 * none can be, one that looks the steps up. Where the head's result is smaller than the
 * output, because a later operand is broadcast against it, it lies in the workspace behind the head's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "core/run/lone.h"
#include "core/run/select.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/fused/fused_posts.h"
#include "kernels/cuda/fused/fused_source.h"
#include "kernels/cuda/base/made.h"
#include "kernels/cuda/rows.h"

struct state {
    struct td_choice head;                /* no kernel: there is no head */
    const struct td_cuda_made *made;      /* NULL: the steps are looked up */
    short post_from[TD_CUDA_FUSED_POSTS]; /* inputs of the node; -1: a post without one */
    int n_posts;
    size_t apart_at;         /* in the workspace */
    char how[32], name[128]; /* in reports */
    struct td_cuda_fused_plan plan;
};

static enum td_code prepare_head(const struct td_kernel_query *q, struct state *s, struct td_err *err)
{
    const struct td_node *head = q->node->fused->parts[0].node;
    const struct td_kernel *rows[TD_KERNEL_MOST];
    int n_rows;
    struct td_kernel_query inner = *q;
    inner.node = head;
    inner.n_in = head->n_in;
    inner.n_out = 1;
    inner.out = &s->plan.bare;
    struct td_cuda_fused_posts posts = {0};
    if (!s->plan.apart) {
        posts = td_cuda_fused_find_posts(&s->plan);
    }
    inner.post = posts.post;
    inner.n_post = posts.n;
    inner.leaves = s->plan.apart || posts.last[posts.n] < s->plan.program.n_instr - 1;
    TD_TRY(td_select_rows(head, &q->target, rows, &n_rows, NULL, 0, err));
    TD_TRY(td_select_bind(&inner, rows, n_rows, &s->head, err));
    s->n_posts = s->head.offer.n_posts;
    for (int i = 0; i < s->n_posts; i++) {
        s->post_from[i] = (short)(posts.operand[i] < 0 ? -1 : s->plan.from[posts.operand[i]]);
    }
    td_cuda_fused_take_posts(&s->plan, &posts, s->n_posts);
    return TD_OK;
}

/* A kernel of the node's own for the steps that the head has left, where one can be made. */
static void make_kernel(const struct td_kernel_query *q, struct state *s)
{
    const char *why = "its text is too long";
    char *source = td_cuda_fused_source(td_cuda_type_of(q->node->out_type[0]), &s->plan.program);
    if (source != NULL) {
        s->made = td_cuda_made_get(td_cuda_device_makers(q->target.device), source, &why);
    }
    td_free(source);
    (void)snprintf(s->how, sizeof s->how, "%s", s->made != NULL ? "compiled" : why);
}

/* "fused(matmul.cuda + 2 of 3 steps, compiled)": the head, what it does itself, and how the rest is done. */
static void name_it(struct state *s, int steps)
{
    const int left = s->plan.program.n_instr;
    char head[80] = "";
    if (s->head.kernel != NULL) {
        (void)snprintf(head, sizeof head, "%.40s + %d of %d steps%s", td_choice_name(&s->head), steps - left,
                       steps, left > 0 ? ", " : "");
    }
    (void)snprintf(s->name, sizeof s->name, "fused(%s%s)", head, left > 0 ? s->how : "");
}

/* A copy no larger than its program needs. */
static enum td_code keep(const struct state *full, struct td_kernel_offer *o, struct td_err *err)
{
    const size_t bytes = offsetof(struct state, plan.program) + td_cuda_fused_bytes(&full->plan.program);
    struct state *s = td_calloc(1, bytes);
    if (s == NULL) {
        return td_no_memory(err, bytes, "a fused node");
    }
    memcpy(s, full, bytes);
    o->state = s;
    o->state_bytes = bytes + s->head.offer.state_bytes;
    o->swapped = s->head.offer.swapped; /* its inputs are the node's first */
    o->name = s->name;
    return TD_OK;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    struct state full;
    memset(&full, 0, offsetof(struct state, plan));
    TD_TRY(td_cuda_fused_make(q, &full.plan, &o->refusal, err));
    if (o->refusal != NULL) {
        return TD_OK;
    }
    const int steps = full.plan.program.n_instr;
    if (q->node->fused->has_head) {
        TD_TRY(prepare_head(q, &full, err));
    }
    full.apart_at = (full.head.offer.workspace_bytes + 63) / 64 * 64;
    o->workspace_bytes = full.head.offer.workspace_bytes;
    if (full.plan.apart) {
        o->workspace_bytes =
            full.apart_at + (size_t)td_shape_count(&full.plan.bare) * td_dtype_size(q->node->out_type[0]);
    }
    if (full.plan.program.n_instr > 0) {
        make_kernel(q, &full);
    }
    name_it(&full, steps);
    const enum td_code rc = keep(&full, o, err);
    if (rc) {
        td_cuda_made_put(full.made);
        td_choice_fini(&full.head);
    }
    return rc;
}

static void release(void *state)
{
    struct state *s = state;
    td_cuda_made_put(s->made);
    td_choice_fini(&s->head);
    td_free(s);
}

/* ------------------------------------------------------------------ running */

static enum td_code run_head(const struct td_call *c, const struct state *s, struct td_tensor *y,
                             struct td_err *err)
{
    const struct td_node *head = c->node->fused->parts[0].node;
    struct td_tensor in[TD_FUSED_INPUTS];
    const float *operands[TD_CUDA_FUSED_POSTS];
    for (int i = 0; i < head->n_in; i++) {
        in[i] = *c->in[i];
    }
    for (int i = 0; i < s->n_posts; i++) {
        operands[i] = s->post_from[i] < 0 ? NULL : c->in[s->post_from[i]]->data;
    }
    const struct td_launch l = {.model = c->run->model,
                                .node = head,
                                .kernel = s->head.kernel,
                                .state = s->head.offer.state,
                                .workspace = c->workspace,
                                .workspace_bytes = s->head.offer.workspace_bytes,
                                .post_in = operands,
                                .stream = c->stream,
                                .swapped = c->swapped & s->head.offer.swapped,
                                .in = in,
                                .out = y,
                                .n_in = head->n_in,
                                .n_out = 1};
    return td_lone_launch(&l, err);
}

/* Returns CUDA's error number. */
static int launch(const struct state *s, enum td_cuda_type type, const struct td_cuda_operands *a, void *y,
                  struct td_cuda_stream *stream)
{
    const struct td_cuda_fused *p = &s->plan.program;
    return s->made != NULL ? td_cuda_fused_launch(s->made, type, p, a, y, stream)
                           : td_cuda_fused_interpret(type, p, a, y, stream);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct state *s = c->state;
    struct td_tensor *y;
    struct td_cuda_operands operands = {0};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_tensor head = {.data = y->data, .dtype = y->dtype, .device = y->device, .shape = s->plan.bare};
    if (s->plan.apart) {
        head.data = (char *)c->workspace + s->apart_at;
    }
    if (s->head.kernel != NULL) {
        TD_TRY(run_head(c, s, &head, err));
    }
    if (s->plan.program.n_instr == 0) {
        return TD_OK;
    }
    for (int k = 0; k < s->plan.program.n_operands; k++) {
        operands.at[k] = s->plan.from[k] < 0 ? head.data : c->in[s->plan.from[k]]->data;
    }
    return td_cuda_launched(c, launch(s, td_cuda_type_of(y->dtype), &operands, y->data, td_cuda_stream_of(c)),
                            err);
}

TD_CUDA_ROWS(rows, "fused.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .refuse = td_cuda_fused_refuses,
             .prepare = prepare, .release = release, .run = run);

const struct td_op_rows td_cuda_rows_fused[] = {{"_Fused", rows}, {"_FusedElementwise", rows}, {NULL, NULL}};
