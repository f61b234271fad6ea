/* kernels/train/adam.c - the update of adam and adamw in one pass.
 *
 *   m' = m + (g - m) rest_1     v' = v + (g g - v) rest_2     w' = w - m' rate / (sqrt(v') + epsilon)
 *
 * As nodes (kernels/train/optimizers.c) each result is a chain that reads all it depends on anew; a large
 * variable's update only waits for memory, and here w, m, v are read and written once and g is read. What
 * the step took from its variables is written over. Rounded as the nodes round: no fused multiply-add.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/cpu/spread.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

enum { W, M, V, G, RATE, STATES = 3 };
enum { GRAIN = 4096, CHUNK = 1 << 16 /* elements between two looks at the stop word */, OPS = 16 };

struct adam {
    const struct td_call *c;
    float *w, *m, *v;
    const float *g;
    float rate, rest_1, rest_2, epsilon;
};

TD_CLONES static void move(float *restrict w, float *restrict m, float *restrict v, const float *restrict g,
                           int64_t n, const struct adam *a)
{
    const float rate = a->rate, rest_1 = a->rest_1, rest_2 = a->rest_2, epsilon = a->epsilon;
    for (int64_t i = 0; i < n; i++) {
        const float to_m = m[i] + (g[i] - m[i]) * rest_1, to_v = v[i] + (g[i] * g[i] - v[i]) * rest_2;
        m[i] = to_m;
        v[i] = to_v;
        w[i] -= to_m * rate / (sqrtf(to_v) + epsilon);
    }
}

/* Ends early when the run is to stop, which fails it: what was taken is gone. */
static void move_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct adam *a = arg;
    (void)who;
    for (int64_t i = from; i < to && !td_stopped(a->c); i += CHUNK) {
        move(a->w + i, a->m + i, a->v + i, a->g + i, to - i < CHUNK ? to - i : CHUNK, a);
    }
}

static enum td_code adam_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, RATE, 0, err));
    for (int i = 0; i < STATES; i++) {
        TD_FAIL_IF(!td_shape_compatible(&c->in[i], &c->in[G]), err, INVALID_ARGUMENT,
                   "%s: input %d is of shape %s, the gradient of %s", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&c->in[i]), TD_SHAPE_STR(&c->in[G]));
        TD_TRY(td_shape_merge(&c->in[i], &c->in[G], &c->out[i], err));
    }
    return TD_OK;
}

static enum td_code adam_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor t[STATES] = {{0}};
    enum td_code rc = TD_OK;
    for (int i = 0; i < STATES && rc == TD_OK; i++) {
        rc = td_take(c, i, &t[i], err);
    }
    if (rc == TD_OK) {
        const int64_t n = td_tensor_count(c->in[G]);
        struct adam a = {.c = c,
                         .w = t[W].data,
                         .m = t[M].data,
                         .v = t[V].data,
                         .g = c->in[G]->data,
                         .rate = TD_DATA(c->in[RATE], float)[0],
                         .rest_1 = (float)td_attr_float(c->node, "rest_1"),
                         .rest_2 = (float)td_attr_float(c->node, "rest_2"),
                         .epsilon = (float)td_attr_float(c->node, "epsilon")};
        td_spread(c, n, GRAIN, 7 * TD_SPREAD_PASS_NS + OPS * TD_SPREAD_OP_NS, move_range, &a);
        rc = td_stopped(c) ? td_stop_error(c, err) : TD_OK;
    }
    for (int i = 0; i < STATES; i++) {
        if (rc == TD_OK) {
            td_out_move(c, i, &t[i]);
        } else {
            td_tensor_clear(&t[i]);
        }
    }
    return rc;
}

const struct td_op td_ops_adam[] = {
    {.name = "_Adam",
     .sig = "(w:float, m:float, v:float, g:float, rate:float) -> (new_w:float, new_m:float, new_v:float) "
            "{rest_1:float; rest_2:float; epsilon:float}",
     .infer = adam_infer,
     .kernels = TD_KERNEL("adam.cpu", adam_run),
     .grad = td_not_differentiable},
    {.name = NULL},
};
