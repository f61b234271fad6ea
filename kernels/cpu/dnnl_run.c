/* kernels/cpu/dnnl_run.c - running a primitive: its weights packed, its activations as it wants them.
 *
 *   td_dnnl_run        meets the weights (kernels/cpu/dnnl_pack.c): packed already, or packed for this run
 *     run_packed       rounds activations where the product is a low one; alone, or in chunks (dnnl_split.c)
 *       run_whole      reorders activations where the primitive wants another layout
 *         td_dnnl_execute   the primitive, its operands told one by one
 *
 * Threads: any; a primitive is immutable but for what guards itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/cpu/dnnl_base.h"
#include "kernels/cpu/dnnl_impl.h"

enum { MOST_ARGS = 6 + TD_DNNL_POSTS };

/* Of post i. A bias stands behind the scale that comes with it. */
static const float *post_operand(const struct td_dnnl *d, const float *const *post_in, int i)
{
    const bool behind = i == 0 && d->posts.scaled;
    return post_in[i] + (behind ? d->y.dims[1] : 0);
}

bool td_dnnl_execute(const struct td_dnnl *d, const float *const *post_in, const struct td_dnnl_operands *at,
                     void *scratch)
{
    dnnl_stream_t stream = td_dnnl_base_stream();
    dnnl_memory_desc_t scratch_md;
    dnnl_dims_t bytes = {(dnnl_dim_t)d->scratch_bytes};
    if (stream == NULL ||
        dnnl_memory_desc_init_by_tag(&scratch_md, 1, bytes, dnnl_u8, dnnl_a) != dnnl_success) {
        return false;
    }
    dnnl_memory_t m[MOST_ARGS] = {
        td_dnnl_base_memory(&d->x_used, at->x), td_dnnl_base_memory(&d->weights.used, at->w),
        td_dnnl_base_memory(&d->y_used, at->y), td_dnnl_base_memory(&scratch_md, scratch)};
    dnnl_exec_arg_t args[MOST_ARGS] = {{d->backward ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, m[0]},
                                       {DNNL_ARG_WEIGHTS, m[1]},
                                       {d->backward ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, m[2]},
                                       {DNNL_ARG_SCRATCHPAD, m[3]}};
    int n = 4;
    if (d->posts.bias) {
        m[n] = td_dnnl_base_memory(&d->bias, post_operand(d, post_in, 0));
        args[n] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, m[n]};
        n++;
    }
    if (d->posts.stepped) {
        m[n] = td_dnnl_base_memory(&d->posts.steps, at->steps);
        args[n] = (dnnl_exec_arg_t){td_dnnl_steps_arg(), m[n]};
        n++;
    }
    for (int i = d->posts.bias; i < d->posts.n; i++) {
        if (d->posts.has_operand[i]) {
            m[n] = td_dnnl_base_memory(&d->posts.operand[i], post_operand(d, post_in, i));
            args[n] = (dnnl_exec_arg_t){td_dnnl_post_arg(&d->posts, i), m[n]};
            n++;
        }
    }
    bool ok = true;
    for (int i = 0; i < n; i++) {
        ok = ok && m[i] != NULL;
    }
    ok = ok && dnnl_primitive_execute(d->primitive, stream, n, args) == dnnl_success &&
         dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < n; i++) {
        (void)dnnl_memory_destroy(m[i]);
    }
    return ok;
}

static enum td_code run_whole(const struct td_dnnl *d, struct td_call *c, const struct td_dnnl_operands *at,
                              struct td_err *err)
{
    char *room = c->workspace;
    struct td_dnnl_operands used = *at;
    used.x = d->x_in == NULL ? at->x : room + d->x_at;
    used.y = d->y_out == NULL ? at->y : room + d->y_at;
    bool ok = (d->x_in == NULL || td_dnnl_base_reorder(d->x_in, &d->x, at->x, &d->x_used, room + d->x_at)) &&
              td_dnnl_execute(d, c->post_in, &used, room) &&
              (d->y_out == NULL || td_dnnl_base_reorder(d->y_out, &d->y_used, used.y, &d->y, at->y));
    TD_FAIL_IF(!ok, err, INTERNAL, "oneDNN could not run its primitive");
    return TD_OK;
}

/* Puts rounded x, and the steps of sums, in the place of those that came. */
static enum td_code lower(const struct td_dnnl *d, struct td_call *c, struct td_dnnl_operands *at,
                          struct td_err *err)
{
    void *rounded = (char *)c->workspace + d->low_at, *room;
    const int64_t n = (int64_t)(dnnl_memory_desc_get_size(&d->x) / td_low_bytes(&d->low));
    td_low_round(c, &d->low, at->x, n, rounded);
    at->x = rounded;
    if (d->posts.stepped) {
        const int64_t columns = d->y.dims[1];
        TD_TRY(td_scratch(c, (size_t)columns * sizeof(float), &room, err));
        for (int64_t k = 0; k < columns; k++) {
            ((float *)room)[k] = at->steps[k] * d->low.step * (d->posts.scaled ? c->post_in[0][k] : 1.0f);
        }
        at->steps = room;
    }
    return TD_OK;
}

static enum td_code run_packed(const struct td_dnnl *d, struct td_call *c, struct td_dnnl_operands at,
                               struct td_err *err)
{
    struct td_dnnl *mine = (struct td_dnnl *)d; /* its split guards itself */
    if (d->low.kind != TD_LOW_NONE) {
        TD_TRY(lower(d, c, &at, err));
    }
    const enum td_parallel_way way = td_dnnl_split_way(mine, c);
    if (way == TD_PARALLEL_TOGETHER) {
        return td_dnnl_split_run(mine, c, &at, err);
    }
    const int64_t from_ns = way == TD_PARALLEL_ALONE_TIMED ? td_now_ns() : 0;
    TD_TRY(run_whole(d, c, &at, err));
    if (way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(&mine->split.parts.cost.alone_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}

static const float *scale_of(const struct td_dnnl *d, const struct td_call *c)
{
    return d->posts.scaled && !d->posts.stepped ? c->post_in[0] : NULL;
}

/* Weights not met before. */
static enum td_code run_unpacked(const struct td_dnnl *d, struct td_call *c, const void *x, const void *w,
                                 void *y, struct td_err *err)
{
    if (d->plain_gemm && d->posts.n == 0 && d->low.kind == TD_LOW_NONE) {
        struct td_gemm g = {.tb = d->transposed ? TD_TRANSPOSED : TD_PLAIN,
                            .m = d->m,
                            .n = d->n,
                            .k = d->k,
                            .a = x,
                            .b = w,
                            .c = y,
                            .lda = d->k,
                            .ldb = d->transposed ? d->k : d->n,
                            .ldc = d->n};
        TD_FAIL_IF(!td_dnnl_gemm(&g), err, INTERNAL, "oneDNN could not multiply");
        return TD_OK;
    }
    struct td_dnnl_packed packed = {0};
    TD_TRY(td_dnnl_weights_scratch(&d->weights, c, w, scale_of(d, c), &packed, err));
    return run_packed(d, c, (struct td_dnnl_operands){x, packed.data, packed.steps, y}, err);
}

enum td_code td_dnnl_run(const struct td_dnnl *d, struct td_call *c, const void *x, const struct td_tensor *w,
                         void *y, struct td_err *err)
{
    struct td_dnnl_weights *weights = (struct td_dnnl_weights *)&d->weights; /* guards itself */
    struct td_dnnl_pack *p;
    if (!weights->must_pack) {
        return run_packed(d, c, (struct td_dnnl_operands){x, w->data, NULL, y}, err);
    }
    TD_TRY(td_dnnl_weights_meet(weights, w, scale_of(d, c), &p, err));
    if (p == NULL) {
        return run_unpacked(d, c, x, w->data, y, err);
    }
    const struct td_dnnl_operands at = {x, td_dnnl_pack_data(p), td_dnnl_pack_steps(p), y};
    enum td_code rc = run_packed(d, c, at, err);
    td_dnnl_pack_drop(p);
    return rc;
}
