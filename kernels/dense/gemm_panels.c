/* kernels/dense/gemm_panels.c - the product for each instruction set (gemm_panels.inc), and the weights of a
 * kernel's row.
 *
 * Threads take whole panels each (kernels/dense/gemm_split.c).
 *
 * The sum of an element is added up in the order of k, by fused multiplications where there are
 * any, as in kernels/dense/gemm_few.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/gemm_panels.h"
#include "kernels/dense/panel_pack.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir.h"
#include "core/graph/graph.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/dense/tile_posts.h"

enum {
    MOST_HIGH = 6,          /* rows of any tile at most */
    BLOCK = 768,            /* of a sum: so many rows of a, and so much of them, stay in the first cache */
    IN_PLACE_ROWS = 16,     /* at most, with weights that are not packed yet */
    MANY_WEIGHTS = 1 << 19, /* a second cache does not hold them */
    DEPTH = 8,       /* nodes that are looked through for where weights come from, one behind another */
    MOST_NODES = 256 /* and in all: ways from node to node are many more than nodes */
};

struct rows { /* row i begins at + i * ld */
    const float *at;
    int64_t ld;
};

/* A block of a sum: products [from, to) of the k. */
struct block {
    int64_t from, to;
    bool first, last;
};

static struct block block_of(const struct td_gemm *g, int64_t i, int64_t blocks)
{
    return (struct block){g->k * i / blocks, g->k * (i + 1) / blocks, i == 0, i + 1 == blocks};
}

/* The posts of rows [from, to) of g's c, columns [j, j + columns). */
static void finish(const struct td_gemm *g, int64_t from, int64_t to, int64_t j, int64_t columns)
{
    const int64_t channels = g->posts->channels;
    for (int64_t i = from; i < to; i++) {
        const int64_t at = (const float *)g->c + i * g->ldc + j - g->posts->y, channel = at % channels;
        td_tile_posts_finish(g->posts, 0, at - channel, channel, channel + columns);
    }
}

#define PANELS panels_plain
#define LANES 8
#define TARGET
#include "kernels/dense/gemm_panels.inc"

#ifdef TD_HAS_CLONES /* and the same sums as gemm_few.c's clones */
#define PANELS panels_v3
#define LANES 8
#define TARGET __attribute__((target("arch=x86-64-v3")))
#include "kernels/dense/gemm_panels.inc"

#define PANELS panels_v4
#define LANES 16
#define TARGET __attribute__((target("arch=x86-64-v4")))
#include "kernels/dense/gemm_panels.inc"
#endif

void td_gemm_panels(const struct td_gemm *g, const void *ahead)
{
#ifdef TD_HAS_CLONES
    if (__builtin_cpu_supports("x86-64-v4")) {
        panels_v4(g, ahead);
        return;
    }
    if (__builtin_cpu_supports("x86-64-v3")) {
        panels_v3(g, ahead);
        return;
    }
#endif
    panels_plain(g, ahead);
}

/* ------------------------------------------------------------------ a row's state */

struct state {
    struct td_dnnl_weights weights;
    int64_t depth; /* of the panels: k, and what the layout puts behind it */
    struct td_tile_posts posts;
};

#ifdef TD_HAS_CLONES
/* Whether the value may be another in each run: it follows from what is fed. (What the body of a loop is
 * given may stay; the rows behind find out when they meet it again.) *left: nodes that may be looked at
 * yet. */
static bool is_fed(const struct td_node *n, int depth, int *left)
{
    bool fed = n->op == NULL || n->op == &td_op_feed || (n->op->flags & TD_OP_ARG) != 0;
    for (int i = 0; i < n->n_in && !fed && depth > 0 && (*left)-- > 0; i++) {
        fed = is_fed(n->in[i].node, depth - 1, left);
    }
    return fed;
}

/* The weights will be the same ones in most runs. */
static bool weights_stay(const struct td_kernel_query *q)
{
    int left = MOST_NODES;
    return q->node == NULL || q->value[1] != NULL || !is_fed(q->node->in[1].node, DEPTH, &left);
}
#endif

bool td_gemm_panels_are_faster(const struct td_gemm *g, const struct td_kernel_query *q)
{
#ifdef TD_HAS_CLONES
    return g->ta == TD_PLAIN && g->m > 1 && g->n >= TD_PANEL && g->k * g->n >= MANY_WEIGHTS &&
           __builtin_cpu_supports("x86-64-v4") && td_tile_posts_taken(q, g->n).n == q->n_post &&
           weights_stay(q);
#else
    (void)g;
    (void)q;
    return false;
#endif
}

void td_gemm_panels_free(void *state)
{
    struct state *s = state;
    td_dnnl_weights_fini(&s->weights);
    td_free(s);
}

enum td_code td_gemm_panels_offer(const struct td_gemm *g, const struct td_kernel_query *q,
                                  struct td_kernel_offer *o, struct td_err *err)
{
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL || !td_dnnl_weights_init(&s->weights)) {
        td_free(s);
        return td_no_memory(err, sizeof *s, "a product");
    }
    if (!td_panel_pack_set(&s->weights, g->k, g->n, g->tb != TD_PLAIN, &s->depth)) {
        td_gemm_panels_free(s);
        o->refusal = "oneDNN does not pack weights of these shapes";
        return TD_OK;
    }
    const enum td_code rc = td_dnnl_weights_known(&s->weights, q->value[1], err);
    if (rc) {
        td_gemm_panels_free(s);
        return rc;
    }
    s->posts = td_tile_posts_taken(q, g->n);
    o->state = s;
    o->state_bytes = sizeof *s;
    o->n_posts = s->posts.n;
    return TD_OK;
}

/* By weights that lie in their own layout. */
static enum td_code run_in_place(struct td_call *c, const struct td_gemm *g, struct td_err *err)
{
    TD_TRY(td_gemm_spread(c, g, TD_GEMM_SMALL, err));
    if (g->posts != NULL) {
        finish(g, 0, g->m, 0, g->n);
    }
    return TD_OK;
}

enum td_code td_gemm_panels_run(const void *state, struct td_call *c, const struct td_gemm *g,
                                const struct td_tensor *weights, struct td_err *err)
{
    struct state *s = (struct state *)state; /* the weights guard themselves */
    struct td_tile_posts posts = s->posts;
    posts.operand = c->post_in;
    posts.y = g->c;
    struct td_gemm packed = *g;
    packed.posts = posts.n > 0 ? &posts : NULL;
    struct td_dnnl_pack *pack;
    if (g->m > IN_PLACE_ROWS) {
        TD_TRY(td_dnnl_weights_meet_packed(&s->weights, c, weights, NULL, &pack, &packed.b, err));
    } else {
        TD_TRY(td_dnnl_weights_meet(&s->weights, weights, NULL, &pack, err));
        if (pack == NULL) {
            packed.b = weights->data;
            return run_in_place(c, &packed, err);
        }
        packed.b = td_dnnl_pack_data(pack);
    }
    packed.ldb = s->depth;
    packed.tb = TD_PLAIN;
    const enum td_code rc = td_gemm_spread(c, &packed, TD_GEMM_PANELS, err);
    td_dnnl_pack_drop(pack);
    return rc == TD_OK && td_stopped(c) ? td_stop_error(c, err) : rc; /* in the middle of it */
}
