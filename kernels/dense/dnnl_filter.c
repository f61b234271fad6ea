/* kernels/dense/dnnl_filter.c - the primitive that gathers a filter's gradient, whole or in parts of the
 * batch.
 *
 *   part: images [from, to) of x and dy  ->  a filter's gradient; the parts' sum is the whole's
 *
 * A primitive takes activations channels-last where oneDNN is fast so, else in a layout of its own, with
 * reorders before it; the filter's gradient is always its own layout's, reordered into rows behind it. On
 * several threads each part has a primitive, scratch and result of its own, which this thread adds up:
 * parts are made once, when workers idle for the first time and the whole takes long enough.
 *
 * Threads: any; what is made is immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_filter.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/dense/dnnl_base.h"
#include "kernels/dense/dnnl_parts.h"
#include "kernels/dense/dnnl_dims.h"

enum { MOST_PARTS = 4, MIN_WORK = 2000000 /* multiplications: less is over before a helper comes */ };

/* One primitive with the reorders around it, and where its memory lies in a workspace. */
struct unit {
    dnnl_primitive_t primitive, x_in, dy_in, dw_out;
    dnnl_memory_desc_t x, x_used, dy, dy_used, dw, dw_used;
    size_t scratch_bytes, x_at, dy_at, dw_at, bytes;
};

struct part {
    struct unit unit;
    int64_t x_at, dy_at; /* elements */
};

struct state {
    dnnl_data_type_t type; /* of x and dy; dw is of floats */
    struct unit whole;
    struct td_conv conv;
    struct td_dnnl_parts parts;
    struct part part[MOST_PARTS];
};

/* ------------------------------------------------------------------ making */

static void unit_fini(struct unit *u)
{
    (void)dnnl_primitive_destroy(u->primitive);
    (void)dnnl_primitive_destroy(u->x_in);
    (void)dnnl_primitive_destroy(u->dy_in);
    (void)dnnl_primitive_destroy(u->dw_out);
    *u = (struct unit){0};
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void place(struct unit *u)
{
    u->x_at = aligned(u->scratch_bytes + 64);
    u->dy_at = u->x_at + (u->x_in == NULL ? 0 : aligned(dnnl_memory_desc_get_size(&u->x_used)));
    u->dw_at = u->dy_at + (u->dy_in == NULL ? 0 : aligned(dnnl_memory_desc_get_size(&u->dy_used)));
    u->bytes = u->dw_at + (u->dw_out == NULL ? 0 : aligned(dnnl_memory_desc_get_size(&u->dw_used)));
}

/* w: of the forward convolution that it belongs to, whose weights are of the type of its input. */
static bool describe(dnnl_primitive_desc_t *pd, const struct td_dnnl_dims *s, const dnnl_memory_desc_t *x,
                     const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *dw, const dnnl_memory_desc_t *dy)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_attr_t attr = td_dnnl_base_user_scratch();
    const bool ok =
        dnnl_dilated_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct,
                                                   x, w, NULL, dy, s->strides, s->dilates, s->before,
                                                   s->after) == dnnl_success &&
        dnnl_primitive_desc_create(&hint, &forward, attr, td_dnnl_base_engine(), NULL) == dnnl_success &&
        dnnl_dilated_convolution_backward_weights_desc_init(&backward, dnnl_convolution_direct, x, dw, NULL,
                                                            dy, s->strides, s->dilates, s->before,
                                                            s->after) == dnnl_success &&
        dnnl_primitive_desc_create(pd, &backward, attr, td_dnnl_base_engine(), hint) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(hint);
    (void)dnnl_primitive_attr_destroy(attr);
    return ok;
}

static bool adopt(struct unit *u, const_dnnl_primitive_desc_t pd)
{
    u->x_used = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    u->dy_used = *dnnl_primitive_desc_query_md(pd, dnnl_query_diff_dst_md, 0);
    u->dw_used = *dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    u->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    return td_dnnl_base_reorder_new(&u->x_in, &u->x, &u->x_used) &&
           td_dnnl_base_reorder_new(&u->dy_in, &u->dy, &u->dy_used) &&
           td_dnnl_base_reorder_new(&u->dw_out, &u->dw_used, &u->dw) &&
           dnnl_primitive_create(&u->primitive, pd) == dnnl_success;
}

/* Tries activations channels last, then in any layout. */
static bool unit_make(struct unit *u, const struct td_conv *g, dnnl_data_type_t type)
{
    struct td_dnnl_dims s;
    td_dnnl_dims_of(g, &s);
    const dnnl_format_tag_t last = s.n_axes == 2 ? dnnl_nhwc : dnnl_ndhwc;
    const int rank = s.n_axes + 2;
    dnnl_memory_desc_t x, dy, x_any, dy_any, w_any, dw, dw_any;
    bool ok =
        dnnl_memory_desc_init_by_tag(&x, rank, s.x, type, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&dy, rank, s.y, type, last) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&x_any, rank, s.x, type, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&dy_any, rank, s.y, type, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&w_any, s.w_rank, s.w, type, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_tag(&dw_any, s.w_rank, s.w, dnnl_f32, dnnl_format_tag_any) == dnnl_success &&
        dnnl_memory_desc_init_by_strides(&dw, s.w_rank, s.w, dnnl_f32, s.w_strides) == dnnl_success;
    for (int attempt = 0; ok && attempt < 2; attempt++) {
        dnnl_primitive_desc_t pd = NULL;
        unit_fini(u); /* of an attempt that failed half way */
        u->x = x;
        u->dy = dy;
        u->dw = dw;
        const bool done =
            describe(&pd, &s, attempt == 0 ? &x : &x_any, &w_any, &dw_any, attempt == 0 ? &dy : &dy_any) &&
            td_dnnl_base_is_fast(pd, "ref") && adopt(u, pd);
        (void)dnnl_primitive_desc_destroy(pd);
        if (done) {
            place(u);
            return true;
        }
    }
    return false;
}

void td_dnnl_filter_free(void *state)
{
    struct state *s = state;
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < s->parts.n; i++) {
        unit_fini(&s->part[i].unit);
    }
    unit_fini(&s->whole);
    td_dnnl_parts_fini(&s->parts);
    td_free(s);
}

/* Each tap of the filter meets the input in some window. */
static bool all_taps_meet(const struct td_window *w)
{
    bool all = true;
    for (int64_t k = 0; k < w->k && all; k++) {
        const int64_t short_of = w->before - k * w->dilation; /* in the first window: of the first cell */
        const int64_t o = short_of <= 0 ? 0 : (short_of + w->stride - 1) / w->stride;
        all = o < w->out && o * w->stride - short_of < w->in;
    }
    return all;
}

/* Where oneDNN 2.6 gathers wrong gradients from bfloat16, with AMX or AVX512_BF16. */
static bool is_wrong_in_bfloat16(const struct td_conv *g)
{
    struct td_dnnl_dims s;
    td_dnnl_dims_of(g, &s);
    bool wrong = s.n_axes == 3;
    for (int i = 0; i < 3; i++) {
        wrong = wrong || g->axis[i].dilation > 1 || !all_taps_meet(&g->axis[i]);
    }
    return wrong;
}

enum td_code td_dnnl_filter_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                  enum td_bfloat16_way way, struct td_kernel_offer *o, struct td_err *err)
{
    if (!q->lasting || td_dnnl_base_stream() == NULL) {
        o->refusal = "shapes are found in the run: making a primitive takes longer than it saves";
        return TD_OK;
    }
    const struct td_window *depth = &g->axis[0];
    if (depth->stride > 1 && depth->before > depth->stride) {
        o->refusal = "oneDNN 2.6 loses taps, and writes beyond its scratch, where several strided windows "
                     "begin in front of the first slice";
        return TD_OK;
    }
    if (way == TD_BFLOAT16_NATIVE && is_wrong_in_bfloat16(g)) {
        o->refusal = "oneDNN 2.6 is wrong in bfloat16 where taps never meet the input, and with dilation or "
                     "three axes";
        return TD_OK;
    }
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL || !td_dnnl_parts_init(&s->parts)) {
        td_free(s);
        return td_no_memory(err, sizeof *s, "a oneDNN primitive");
    }
    s->conv = *g;
    s->type = way == TD_BFLOAT16_NATIVE ? dnnl_bf16 : dnnl_f32;
    if (!unit_make(&s->whole, g, s->type)) {
        td_dnnl_filter_free(s);
        o->refusal = "oneDNN has no fast implementation for these shapes";
        return TD_OK;
    }
    o->state = s;
    o->state_bytes = sizeof *s;
    o->workspace_bytes = s->whole.bytes;
    return TD_OK;
}

/* ------------------------------------------------------------------ running one */

static bool execute(const struct unit *u, const void *x, const void *dy, void *dw, void *scratch)
{
    dnnl_stream_t stream = td_dnnl_base_stream();
    dnnl_memory_desc_t scratch_md;
    dnnl_dims_t bytes = {(dnnl_dim_t)u->scratch_bytes};
    if (stream == NULL ||
        dnnl_memory_desc_init_by_tag(&scratch_md, 1, bytes, dnnl_u8, dnnl_a) != dnnl_success) {
        return false;
    }
    dnnl_memory_t m[4] = {td_dnnl_base_memory(&u->x_used, x), td_dnnl_base_memory(&u->dy_used, dy),
                          td_dnnl_base_memory(&u->dw_used, dw), td_dnnl_base_memory(&scratch_md, scratch)};
    const dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, m[0]},
                                     {DNNL_ARG_DIFF_DST, m[1]},
                                     {DNNL_ARG_DIFF_WEIGHTS, m[2]},
                                     {DNNL_ARG_SCRATCHPAD, m[3]}};
    bool ok = m[0] != NULL && m[1] != NULL && m[2] != NULL && m[3] != NULL &&
              dnnl_primitive_execute(u->primitive, stream, 4, args) == dnnl_success &&
              dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < 4; i++) {
        (void)dnnl_memory_destroy(m[i]);
    }
    return ok;
}

static bool unit_run(const struct unit *u, const void *x, const void *dy, float *dw, char *workspace)
{
    const void *x_used = x, *dy_used = dy;
    void *dw_used = dw;
    bool ok = true;
    if (u->x_in != NULL) {
        ok = td_dnnl_base_reorder(u->x_in, &u->x, x, &u->x_used, workspace + u->x_at);
        x_used = workspace + u->x_at;
    }
    if (ok && u->dy_in != NULL) {
        ok = td_dnnl_base_reorder(u->dy_in, &u->dy, dy, &u->dy_used, workspace + u->dy_at);
        dy_used = workspace + u->dy_at;
    }
    if (u->dw_out != NULL) {
        dw_used = workspace + u->dw_at;
    }
    ok = ok && execute(u, x_used, dy_used, dw_used, workspace);
    return ok && (u->dw_out == NULL || td_dnnl_base_reorder(u->dw_out, &u->dw_used, dw_used, &u->dw, dw));
}

/* ------------------------------------------------------------------ in parts */

static double work_of(const struct td_conv *g)
{
    const int64_t channels = g->ic / g->groups;
    return (double)g->batch * (double)td_conv_out_cells(g) * (double)td_conv_taps(g) * (double)channels *
           (double)g->oc;
}

/* Tried once: without all parts there are none. */
static void make_parts(void *whole, int wanted)
{
    struct state *s = whole;
    const int64_t batch = s->conv.batch, n = wanted < MOST_PARTS ? wanted : MOST_PARTS;
    bool ok = n > 1 && batch >= n;
    for (int64_t i = 0; ok && i < n; i++) {
        const int64_t from = batch * i / n, to = batch * (i + 1) / n;
        struct td_conv g = s->conv;
        struct part *p = &s->part[i];
        g.batch = to - from;
        p->x_at = from * td_conv_in_cells(&g) * g.ic;
        p->dy_at = from * td_conv_out_cells(&g) * g.oc;
        ok = unit_make(&p->unit, &g, s->type);
        s->parts.n += ok;
    }
    while (!ok && s->parts.n > 0) {
        unit_fini(&s->part[--s->parts.n].unit);
    }
}

static enum td_parallel_way choose(struct state *s, const struct td_call *c)
{
    return td_dnnl_parts_way(&s->parts, c,
                             &(struct td_dnnl_whole){.work = work_of(&s->conv),
                                                     .least = MIN_WORK,
                                                     .make = make_parts,
                                                     .whole = s,
                                                     .most = MOST_PARTS});
}

struct job {
    const struct state *s;
    const struct td_call *call;
    const char *x, *dy;
    float *dw[MOST_PARTS];
    char *workspace[MOST_PARTS];
    atomic_bool failed, helped;
};

static void run_part(void *arg, int i, int who)
{
    struct job *j = arg;
    const struct part *p = &j->s->part[i];
    const int64_t size = (int64_t)dnnl_data_type_size(j->s->type);
    if (td_stopped(j->call)) {
        return;
    }
    if (!unit_run(&p->unit, j->x + p->x_at * size, j->dy + p->dy_at * size, j->dw[i], j->workspace[i])) {
        atomic_store(&j->failed, true);
    }
    if (who > 0) {
        atomic_store(&j->helped, true);
    }
}

static enum td_code run_parts(struct state *s, struct td_call *c, const void *x, const void *dy, float *dw,
                              struct td_err *err)
{
    const int64_t n = td_conv_taps(&s->conv) * (s->conv.ic / s->conv.groups) * s->conv.oc;
    struct job j = {.s = s, .call = c, .x = x, .dy = dy};
    size_t bytes = 64, each = aligned((size_t)n * sizeof *dw);
    void *room;
    for (int i = 0; i < s->parts.n; i++) {
        bytes += s->part[i].unit.bytes + (i > 0 ? each : 0);
    }
    TD_TRY(td_scratch(c, bytes, &room, err));
    char *at = room;
    for (int i = 0; i < s->parts.n; i++) {
        j.dw[i] = i == 0 ? dw : (float *)(void *)at;
        at += i == 0 ? 0 : each;
        j.workspace[i] = at;
        at += s->part[i].unit.bytes;
    }
    const int64_t from_ns = td_now_ns();
    td_parallel_for(td_helpers(c), s->parts.n, run_part, &j);
    TD_FAIL_IF(atomic_load(&j.failed), err, INTERNAL, "oneDNN could not run a piece of its primitive");
    if (td_stopped(c)) {
        return td_stop_error(c, err);
    }
    for (int i = 1; i < s->parts.n; i++) {
        for (int64_t k = 0; k < n; k++) {
            dw[k] += j.dw[i][k];
        }
    }
    if (atomic_load(&j.helped)) {
        td_timing_learn(&s->parts.cost.together_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}

enum td_code td_dnnl_filter_run(const void *state, struct td_call *c, const void *x, const void *dy,
                                float *dw, struct td_err *err)
{
    struct state *s = (struct state *)state; /* parts and costs are guarded */
    const enum td_parallel_way way = choose(s, c);
    if (way == TD_PARALLEL_TOGETHER) {
        return run_parts(s, c, x, dy, dw, err);
    }
    const int64_t from_ns = td_now_ns();
    TD_FAIL_IF(!unit_run(&s->whole, x, dy, dw, c->workspace), err, INTERNAL,
               "%s: oneDNN could not run its primitive", TD_NODE_STR(c->node));
    if (way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(&s->parts.cost.alone_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}
