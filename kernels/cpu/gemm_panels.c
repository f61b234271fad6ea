/* kernels/cpu/gemm_panels.c - the product for each instruction set (gemm_panels.inc), and the weights of a
 * kernel's row.
 *
 * Threads take whole panels each (kernels/cpu/gemm_split.c).
 *
 * The sum of an element is added up in the order of k, by fused multiplications where there are
 * any, as in kernels/cpu/gemm_few.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/gemm_panels.h"

#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/dnnl_pack.h"
#include "kernels/cpu/vecmath.h"

enum { MOST_HIGH = 6 }; /* rows of any tile at most */

struct rows { /* row i begins at + i * ld */
    const float *at;
    int64_t ld;
};

/* What a tile fetches for those behind it: so many cache lines a step. */
struct ahead {
    const char *at;
    int lines;
};

enum { LINE = 64, LINES = TD_PANEL * 4 / LINE /* a row of a panel */ };

/* So that so many tiles fetch a panel. */
static int64_t lines_of_tile(int64_t tiles)
{
    return (LINES + tiles - 1) / tiles;
}

#define PANELS panels_plain
#define LANES 8
#define TARGET
#include "kernels/cpu/gemm_panels.inc"

#ifdef TD_HAS_CLONES /* and the same sums as gemm_few.c's clones */
#define PANELS panels_v3
#define LANES 8
#define TARGET __attribute__((target("arch=x86-64-v3")))
#include "kernels/cpu/gemm_panels.inc"

#define PANELS panels_v4
#define LANES 16
#define TARGET __attribute__((target("arch=x86-64-v4")))
#include "kernels/cpu/gemm_panels.inc"
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
};

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
    if (!td_dnnl_weights_in_panels(&s->weights, g->k, g->n, g->tb != TD_PLAIN, &s->depth)) {
        td_gemm_panels_free(s);
        o->refusal = "oneDNN does not pack weights of these shapes";
        return TD_OK;
    }
    const enum td_code rc = td_dnnl_weights_known(&s->weights, q->value[1], err);
    if (rc) {
        td_gemm_panels_free(s);
        return rc;
    }
    o->state = s;
    o->state_bytes = sizeof *s;
    return TD_OK;
}

enum td_code td_gemm_panels_run(const void *state, struct td_call *c, const struct td_gemm *g,
                                const struct td_tensor *weights, struct td_err *err)
{
    struct state *s = (struct state *)state; /* the weights guard themselves */
    struct td_gemm packed = *g;
    struct td_dnnl_pack *pack;
    packed.b = weights->data;
    TD_TRY(td_dnnl_weights_meet(&s->weights, weights, NULL, &pack, err));
    if (pack == NULL) {
        return td_gemm_spread(c, &packed, TD_GEMM_SMALL, err);
    }
    packed.b = td_dnnl_pack_data(pack);
    packed.ldb = s->depth;
    packed.tb = TD_PLAIN;
    const enum td_code rc = td_gemm_spread(c, &packed, TD_GEMM_PANELS, err);
    td_dnnl_pack_drop(pack);
    return rc;
}
