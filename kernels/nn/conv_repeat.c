/* kernels/nn/conv_repeat.c - a copy of the input with its channels repeated, and oneDNN's depthwise primitive
 * on that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/conv_repeat.h"

#include "kernels/cpu/spread.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/dense/dnnl.h"

enum { MOST_TIMES = 4, LEAST_CHANNELS = 8, GRAIN = 64 /* cells */ };

/* Every result has a channel of its own: the filter's bytes are the same. */
static struct td_conv repeated(const struct td_conv *g)
{
    struct td_conv r = *g;
    r.ic = r.groups = g->oc;
    return r;
}

static const char *refusal(const struct td_conv *g, const struct td_kernel_query *q)
{
    const bool pays = g->ic > 0 && g->oc / g->ic <= MOST_TIMES && g->ic >= LEAST_CHANNELS;
    return g->groups != g->ic || g->oc == g->ic ? "it is no depthwise one with several results a channel"
           : g->axis[0].before < 0 || g->axis[1].before < 0 || g->axis[2].before < 0
               ? "padding below zero is not oneDNN's to do"
           : !pays && q->target.trial_ns == 0 ? "groups of channels are as fast"
                                              : NULL;
}

enum td_code td_conv_repeat_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                  struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_conv r = repeated(g);
    o->refusal = refusal(g, q);
    return o->refusal != NULL ? TD_OK : td_dnnl_conv_offer(&r, q, true, TD_BFLOAT16_AS_FLOAT, o, err);
}

struct repeat {
    const float *x;
    float *y;
    int64_t channels, times;
};

/* Each of n numbers so many times. */
#define REPEAT(name, n_times)                                                                                \
    TD_CLONES static void name(const float *restrict x, float *restrict y, int64_t n, int64_t times)         \
    {                                                                                                        \
        (void)times;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            for (int64_t k = 0; k < (n_times); k++) {                                                        \
                y[i * (n_times) + k] = x[i];                                                                 \
            }                                                                                                \
        }                                                                                                    \
    }
REPEAT(twice, 2)
REPEAT(four_times, 4)
REPEAT(often, times)

static void repeat_cells(void *arg, int64_t from, int64_t to, int who)
{
    const struct repeat *r = arg;
    const int64_t at = from * r->channels, n = (to - from) * r->channels;
    (void)who;
    (r->times == 2   ? twice
     : r->times == 4 ? four_times
                     : often)(r->x + at, r->y + at * r->times, n, r->times);
}

enum td_code td_conv_repeat_run(const void *state, struct td_call *c, const struct td_conv *g, const float *x,
                                const struct td_tensor *weights, float *y, struct td_err *err)
{
    const int64_t cells = g->batch * td_conv_in_cells(g);
    void *room;
    TD_TRY(td_scratch(c, (size_t)(cells * g->oc) * sizeof(float), &room, err));
    struct repeat r = {.x = x, .y = room, .channels = g->ic, .times = g->oc / g->ic};
    td_spread(c, cells, GRAIN, (double)g->oc * TD_SPREAD_PASS_NS, repeat_cells, &r);
    return td_dnnl_run(state, c, room, weights, y, err);
}
