/* kernels/nn/conv_panels.c - which convolutions panels are for, and their patches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/conv_panels.h"

#include "kernels/dense/gemm_panels.h"
#include "kernels/cpu/spread.h"

enum {
    FEW_CELLS = 128,  /* of windows of several taps: oneDNN reads each cell of x once, patches a time a tap */
    PATCHES = 4 << 20 /* floats at most */
};

/* a and c are left out. */
static struct td_gemm product_of(const struct td_conv *g)
{
    const int64_t k = td_conv_taps(g) * g->ic;
    return (struct td_gemm){
        .m = g->batch * td_conv_out_cells(g), .n = g->oc, .k = k, .lda = k, .ldb = g->oc, .ldc = g->oc};
}

static const char *refusal(const struct td_conv *g, const struct td_kernel_query *q)
{
    const struct td_gemm m = product_of(g);
    const bool pays = td_gemm_panels_are_faster(&m, q) && (td_conv_taps(g) == 1 || m.m <= FEW_CELLS);
    return g->groups != 1                                    ? "there are groups of channels"
           : !td_conv_is_pointwise(g) && m.m > PATCHES / m.k ? "its patches are large"
           : !pays && q->target.trial_ns == 0                ? "oneDNN is as fast"
                                                             : NULL;
}

enum td_code td_conv_panels_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                  struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_gemm m = product_of(g);
    o->refusal = refusal(g, q);
    return o->refusal != NULL ? TD_OK : td_gemm_panels_offer(&m, q, o, err);
}

struct job {
    const struct td_conv *g;
    const float *x;
    float *patches;
};

static void gather(void *arg, int64_t from, int64_t to, int who)
{
    const struct job *j = arg;
    (void)who;
    td_conv_patches(j->g, j->x, from, to - from, j->patches + from * td_conv_taps(j->g) * j->g->ic);
}

enum td_code td_conv_panels_run(const void *state, struct td_call *c, const struct td_conv *g, const float *x,
                                const struct td_tensor *weights, float *y, struct td_err *err)
{
    struct td_gemm m = product_of(g);
    m.a = x;
    m.c = y;
    if (!td_conv_is_pointwise(g)) {
        void *room;
        TD_TRY(td_scratch(c, (size_t)(m.m * m.k) * sizeof(float), &room, err));
        struct job j = {g, x, room};
        td_spread(c, m.m, 1, TD_SPREAD_PASS_NS * (double)m.k, gather, &j);
        m.a = room;
    }
    return td_gemm_panels_run(state, c, &m, weights, err);
}
