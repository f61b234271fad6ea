/* kernels/dense/dnnl_run.c - running a primitive: its weights packed, its activations as it wants them.
 *
 *   td_dnnl_run        meets the weights (kernels/dense/dnnl_pack.c): packed already, or packed for this run
 *     run_packed       rounds activations where the product is a low one; alone, or in chunks (dnnl_split.c)
 *       run_whole      reorders activations where the primitive wants another layout
 *         td_dnnl_execute   the primitive; the objects that tell it of its operands are kept between runs
 *
 * Threads: any; a primitive is immutable but for what guards itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "core/base/mem.h"
#include "kernels/dense/dnnl_base.h"
#include "kernels/dense/dnnl_impl.h"

enum { MOST_ARGS = 6 + TD_DNNL_POSTS };

/* Of post i. A bias stands behind the scale that comes with it. */
static const float *post_operand(const struct td_dnnl *d, const float *const *post_in, int i)
{
    const bool behind = i == 0 && d->posts.scaled;
    return post_in[i] + (behind ? d->y.dims[1] : 0);
}

/* What a primitive is told of a run: descriptions, which are always the same, and pointers. */
struct td_dnnl_args {
    dnnl_exec_arg_t at[MOST_ARGS];
    int n;
};

static bool add(struct td_dnnl_args *a, int arg, const dnnl_memory_desc_t *md)
{
    dnnl_memory_t m = td_dnnl_base_memory(md, DNNL_MEMORY_NONE);
    if (m != NULL) {
        a->at[a->n++] = (dnnl_exec_arg_t){arg, m};
    }
    return m != NULL;
}

void td_dnnl_args_free(struct td_dnnl_args *a)
{
    for (int i = 0; a != NULL && i < a->n; i++) {
        (void)dnnl_memory_destroy(a->at[i].memory);
    }
    td_free(a);
}

static struct td_dnnl_args *make_args(const struct td_dnnl *d)
{
    dnnl_memory_desc_t scratch_md;
    const dnnl_dims_t bytes = {(dnnl_dim_t)d->scratch_bytes};
    struct td_dnnl_args *a = td_calloc(1, sizeof *a);
    bool ok =
        a != NULL && dnnl_memory_desc_init_by_tag(&scratch_md, 1, bytes, dnnl_u8, dnnl_a) == dnnl_success &&
        add(a, d->backward ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, &d->x_used) &&
        add(a, DNNL_ARG_WEIGHTS, &d->weights.used) &&
        add(a, d->backward ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, &d->y_used) &&
        add(a, DNNL_ARG_SCRATCHPAD, &scratch_md) && (!d->posts.bias || add(a, DNNL_ARG_BIAS, &d->bias)) &&
        (!d->posts.stepped || add(a, td_dnnl_steps_arg(), &d->posts.steps));
    for (int i = d->posts.bias; ok && i < d->posts.n; i++) {
        ok = !d->posts.has_operand[i] || add(a, td_dnnl_post_arg(&d->posts, i), &d->posts.operand[i]);
    }
    if (!ok) {
        td_dnnl_args_free(a);
        a = NULL;
    }
    return a;
}

/* In the order of make_args. */
static bool point(const struct td_dnnl *d, struct td_dnnl_args *a, const float *const *post_in,
                  const struct td_dnnl_operands *at, void *scratch)
{
    const void *data[MOST_ARGS] = {at->x, at->w, at->y, scratch};
    int n = 4;
    if (d->posts.bias) {
        data[n++] = post_operand(d, post_in, 0);
    }
    if (d->posts.stepped) {
        data[n++] = at->steps;
    }
    for (int i = d->posts.bias; i < d->posts.n; i++) {
        if (d->posts.has_operand[i]) {
            data[n++] = post_operand(d, post_in, i);
        }
    }
    bool ok = n == a->n;
    for (int i = 0; ok && i < n; i++) {
        ok = dnnl_memory_set_data_handle(a->at[i].memory, (void *)data[i]) == dnnl_success;
    }
    return ok;
}

/* One set of arguments is kept with the primitive; who runs it while another does makes a set of its own. */
bool td_dnnl_execute(const struct td_dnnl *d, const float *const *post_in, const struct td_dnnl_operands *at,
                     void *scratch)
{
    dnnl_stream_t stream = td_dnnl_base_stream();
    struct td_dnnl *mine = (struct td_dnnl *)d; /* args guards itself */
    struct td_dnnl_args *a = atomic_exchange(&mine->args, NULL);
    a = a != NULL ? a : make_args(d);
    const bool ok = stream != NULL && a != NULL && point(d, a, post_in, at, scratch) &&
                    dnnl_primitive_execute(d->primitive, stream, a->n, a->at) == dnnl_success &&
                    dnnl_stream_wait(stream) == dnnl_success;
    td_dnnl_args_free(atomic_exchange(&mine->args, a));
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

static const float *scale_of(const struct td_dnnl *d, const struct td_call *c)
{
    return d->posts.scaled && !d->posts.stepped ? c->post_in[0] : NULL;
}

/* In chunks that want w, which the call's weights are, packed in another way than `at` has them. */
static enum td_code run_product(struct td_dnnl *d, struct td_call *c, const struct td_tensor *w,
                                struct td_dnnl_operands at, struct td_err *err)
{
    struct td_dnnl_weights *weights = &d->split.product->weights;
    struct td_dnnl_pack *p;
    TD_TRY(td_dnnl_weights_meet_packed(weights, c, w, scale_of(d, c), &p, &at.w, err));
    const enum td_code rc = td_dnnl_split_run(d, c, &at, err);
    td_dnnl_pack_drop(p);
    return rc;
}

static enum td_code run_packed(const struct td_dnnl *d, struct td_call *c, const struct td_tensor *w,
                               struct td_dnnl_operands at, struct td_err *err)
{
    struct td_dnnl *mine = (struct td_dnnl *)d; /* its split guards itself */
    if (d->low.kind != TD_LOW_NONE) {
        TD_TRY(lower(d, c, &at, err));
    }
    const enum td_parallel_way way = td_dnnl_split_way(mine, c);
    if (way == TD_PARALLEL_TOGETHER) {
        return d->split.product != NULL ? run_product(mine, c, w, at, err)
                                        : td_dnnl_split_run(mine, c, &at, err);
    }
    const int64_t from_ns = way == TD_PARALLEL_ALONE_TIMED ? td_now_ns() : 0;
    TD_TRY(run_whole(d, c, &at, err));
    if (way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(&mine->split.parts.cost.alone_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}

/* Weights not met before. */
static enum td_code run_unpacked(const struct td_dnnl *d, struct td_call *c, const void *x,
                                 const struct td_tensor *w, void *y, struct td_err *err)
{
    if (d->plain_gemm && d->posts.n == 0 && d->low.kind == TD_LOW_NONE) {
        struct td_gemm g = {.tb = d->transposed ? TD_TRANSPOSED : TD_PLAIN,
                            .m = d->m,
                            .n = d->n,
                            .k = d->k,
                            .a = x,
                            .b = w->data,
                            .c = y,
                            .lda = d->k,
                            .ldb = d->transposed ? d->k : d->n,
                            .ldc = d->n};
        TD_FAIL_IF(!td_dnnl_gemm(&g), err, INTERNAL, "oneDNN could not multiply");
        return TD_OK;
    }
    struct td_dnnl_packed packed = {0};
    TD_TRY(td_dnnl_weights_scratch(&d->weights, c, w->data, scale_of(d, c), &packed, err));
    return run_packed(d, c, w, (struct td_dnnl_operands){x, packed.data, packed.steps, y}, err);
}

enum td_code td_dnnl_run(const struct td_dnnl *d, struct td_call *c, const void *x, const struct td_tensor *w,
                         void *y, struct td_err *err)
{
    struct td_dnnl_weights *weights = (struct td_dnnl_weights *)&d->weights; /* guards itself */
    struct td_dnnl_pack *p;
    if (!weights->must_pack) {
        return run_packed(d, c, w, (struct td_dnnl_operands){x, w->data, NULL, y}, err);
    }
    TD_TRY(td_dnnl_weights_meet(weights, w, scale_of(d, c), &p, err));
    if (p == NULL) {
        return run_unpacked(d, c, x, w, y, err);
    }
    const struct td_dnnl_operands at = {x, td_dnnl_pack_data(p), td_dnnl_pack_steps(p), y};
    enum td_code rc = run_packed(d, c, w, at, err);
    td_dnnl_pack_drop(p);
    return rc;
}
