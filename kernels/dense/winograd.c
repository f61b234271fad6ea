/* kernels/dense/winograd.c - tiles in blocks, for each instruction set (winograd.inc), and the weights of a
 * kernel's row.
 *
 *   weights   G w G^T, made once (kernels/dense/dnnl_pack.h):  U [36][panels][ic][width of a panel]
 *   a block   so many tiles, in the order of the result's rows, that V and M stay near the processor;
 *             with few tiles and several threads a block has some of the panels only
 *
 * A number of the result is computed by the same operations in the same order whatever block it falls in, so
 * that rows of a batch are bit for bit what they are alone.
 *
 * Does not: strides, dilation, groups, channels that are no whole vectors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/winograd.h"

#include <string.h>

#include "core/base/mem.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/cpu/spread.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/dense/tile_posts.h"
#include "kernels/cpu/vecmath.h"

enum { FOUR = 4, SIX = 6, FEW = 12 /* tiles: so many rows fill the registers of any set whole times */ };
enum { LINE = 16 /* floats of a cache line */, PAGE = 1024 /* floats: rows so far apart share cache sets */ };
#define ROOT_HALF 0.70710678118654752f
#define ROOT_TWO 1.41421356237309505f

struct state {
    struct td_dnnl_weights weights;
    struct td_conv g;
    struct td_tile_posts posts;
};

/* A block under way: where its operands lie. Steps and rows are floats. */
struct tiles {
    const struct td_conv *g;
    const float *x, *w, *u;
    float *v, *m;
    int64_t v_row, v_step, m_row, m_step, panels;
    struct td_tile_posts posts;
};

/* A tile: where its input begins in x (before it, where padding lies there) and its result in y; the cells of
 * its 6x6 that are there, and of its 4x4. */
struct tile_at {
    int64_t x, y;
    int h0, h1, w0, w1, rows, columns;
};

static int64_t tiles_along(const struct td_window *w)
{
    return (w->out + FOUR - 1) / FOUR;
}

/* The cells of six from `start` on that are below `in` and not below 0. */
static void inside(int64_t start, int64_t in, int *from, int *to)
{
    *from = start < 0 ? (int)-start : 0;
    *to = in - start < SIX ? (int)(in - start) : SIX;
}

static struct tile_at tile_of(const struct td_conv *g, int64_t tile)
{
    const struct td_window *h = &g->axis[1], *w = &g->axis[2];
    const int64_t wide = tiles_along(w), high = tiles_along(h);
    const int64_t column = tile % wide * FOUR, row = tile / wide % high * FOUR, image = tile / wide / high;
    struct tile_at at = {.rows = (int)(h->out - row < FOUR ? h->out - row : FOUR),
                         .columns = (int)(w->out - column < FOUR ? w->out - column : FOUR)};
    inside(row - h->before, h->in, &at.h0, &at.h1);
    inside(column - w->before, w->in, &at.w0, &at.w1);
    at.x = ((image * h->in + row - h->before) * w->in + column - w->before) * g->ic;
    at.y = ((image * h->out + row) * w->out + column) * g->oc;
    return at;
}

#define NAMED(x) x##_plain
#define LANES 8
#define HIGH 6
#define TARGET
#include "kernels/dense/winograd.inc"

#ifdef TD_HAS_CLONES
#define NAMED(x) x##_v3
#define LANES 8
#define HIGH 6
#define TARGET __attribute__((target("arch=x86-64-v3")))
#include "kernels/dense/winograd.inc"

#define NAMED(x) x##_v4
#define LANES 16
#define HIGH 12
#define TARGET __attribute__((target("arch=x86-64-v4")))
#include "kernels/dense/winograd.inc"
#endif

/* Floats of a vector. */
static int lanes(void)
{
#ifdef TD_HAS_CLONES
    return __builtin_cpu_supports("x86-64-v4") ? 16 : 8;
#else
    return 8;
#endif
}

static void run_tiles(const struct tiles *t, int64_t first, int64_t n, int64_t from, int64_t to)
{
#ifdef TD_HAS_CLONES
    if (__builtin_cpu_supports("x86-64-v4")) {
        tiles_v4(t, first, n, from, to);
        return;
    }
    if (__builtin_cpu_supports("x86-64-v3")) {
        tiles_v3(t, first, n, from, to);
        return;
    }
#endif
    tiles_plain(t, first, n, from, to);
}

/* ------------------------------------------------------------------ weights */

static int64_t panels_of(int64_t oc)
{
    return (oc + 2 * lanes() - 1) / (2 * lanes());
}

/* G along one line of three. */
static void spread_line(const double w[3], double u[SIX])
{
    const double even = w[0] + 0.5 * w[2], odd = (double)ROOT_HALF * w[1];
    const double outer_even = w[0] + 2 * w[2], outer_odd = (double)ROOT_TWO * w[1];
    u[0] = w[0];
    u[1] = (even + odd) / -1.5;
    u[2] = (even - odd) / -1.5;
    u[3] = (outer_even + outer_odd) / 6;
    u[4] = (outer_even - outer_odd) / 6;
    u[5] = w[2];
}

/* 3x3 weights `step` floats apart into 36, in the order of the products. */
static void spread_window(const float *w, int64_t step, double u[SIX * SIX])
{
    double half[3][SIX], line[3], column[SIX];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            line[j] = (double)w[(i * 3 + j) * step];
        }
        spread_line(line, half[i]);
    }
    for (int j = 0; j < SIX; j++) {
        for (int i = 0; i < 3; i++) {
            line[i] = half[i][j];
        }
        spread_line(line, column);
        for (int i = 0; i < SIX; i++) {
            u[i * SIX + j] = column[i];
        }
    }
}

/* w [9*ic,oc] -> U */
static void transform_weights(const float *w, int64_t rows, int64_t oc, float *to)
{
    const int64_t ic = rows / 9, width = 2 * lanes(), panels = panels_of(oc);
    for (int64_t k = 0; k < ic; k++) {
        for (int64_t c = 0; c < panels * width; c++) {
            double u[SIX * SIX] = {0};
            if (c < oc) {
                spread_window(w + k * oc + c, ic * oc, u);
            }
            for (int e = 0; e < SIX * SIX; e++) {
                to[((e * panels + c / width) * ic + k) * width + c % width] = (float)u[e];
            }
        }
    }
}
static const struct td_dnnl_transform transform = {"winograd 4x4", transform_weights};

/* ------------------------------------------------------------------ a row's state */

static bool is_window_of_three(const struct td_window *w)
{
    return w->k == 3 && w->stride == 1 && w->dilation == 1 && w->before >= 0 && w->before < 3;
}

static int64_t tiles_in(const struct td_conv *g)
{
    return g->batch * tiles_along(&g->axis[1]) * tiles_along(&g->axis[2]);
}

/* Not where the sums to either side of the products would take more than those save; nor for few cells,
 * where it does not pay to keep four times the weights and to read them. */
static bool pays(const struct td_conv *g)
{
    enum { CHANNELS = 32, SAVED = 60 /* multiplications by a weight */ };
    const int64_t saved = g->batch * td_conv_out_cells(g) / 4 - tiles_in(g);
    return g->ic >= CHANNELS && g->oc >= CHANNELS && saved >= SAVED;
}

static const char *refusal(const struct td_conv *g, const struct td_kernel_query *q)
{
    const struct td_window *h = &g->axis[1], *w = &g->axis[2];
    if (g->axis[0].in != 1 || g->axis[0].k != 1 || g->axis[0].out != 1 || g->groups != 1 ||
        !is_window_of_three(h) || !is_window_of_three(w)) {
        return "it is no 3x3 convolution in single steps";
    }
    if (g->ic % lanes() != 0 || g->oc % lanes() != 0) {
        return "its channels are no whole vectors";
    }
    return pays(g) || q->target.trial_ns > 0 ? NULL : "it is small: multiplications are not what it takes";
}

void td_winograd_free(void *state)
{
    struct state *s = state;
    td_dnnl_weights_fini(&s->weights);
    td_free(s);
}

enum td_code td_winograd_offer(const struct td_conv *g, const struct td_kernel_query *q,
                               struct td_kernel_offer *o, struct td_err *err)
{
    o->refusal = refusal(g, q);
    if (o->refusal != NULL) {
        return TD_OK;
    }
    const int64_t floats = SIX * SIX * panels_of(g->oc) * g->ic * 2 * lanes();
    struct state *s = td_calloc(1, sizeof *s);
    if (s == NULL || !td_dnnl_weights_init(&s->weights)) {
        td_free(s);
        return td_no_memory(err, sizeof *s, "a convolution");
    }
    s->g = *g;
    s->posts = td_tile_posts_taken(q, g->oc);
    enum td_code rc = td_dnnl_weights_transformed(&s->weights, &transform, 9 * g->ic, g->oc, floats, err);
    rc = rc ? rc : td_dnnl_weights_known(&s->weights, q->value[1], err);
    if (rc) {
        td_winograd_free(s);
        return rc;
    }
    o->state = s;
    o->state_bytes = sizeof *s;
    o->n_posts = s->posts.n;
    return TD_OK;
}

/* ------------------------------------------------------------------ blocks */

struct job {
    struct tiles tiles; /* v and m: of thread 0 */
    const struct td_call *call;
    /* tiles of the whole, and of a block; parts of the panels; floats of a thread */
    int64_t n, most, slabs, own;
};

/* Floats of a row or matrix, of which the next does not fall upon the same sets of the cache. */
static int64_t apart(int64_t floats)
{
    const int64_t lines = (floats + LINE - 1) / LINE * LINE;
    return lines % (PAGE / 4) == 0 ? lines + LINE : lines;
}

/* Pieces [from, to) of the tiles of all slabs, one slab after the other. */
static void run_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct job *j = arg;
    struct tiles t = j->tiles;
    t.v += who * j->own;
    t.m += who * j->own;
    while (from < to && !td_stopped(j->call)) {
        const int64_t slab = from / j->n, tile = from % j->n;
        int64_t n = to - from < j->n - tile ? to - from : j->n - tile;
        n = n < j->most ? n : j->most;
        run_tiles(&t, tile, n, t.panels * slab / j->slabs, t.panels * (slab + 1) / j->slabs);
        from += n;
    }
}

/* Tiles of a block. Each block reads the weights again, so that with larger weights V and M may be larger,
 * too, up to what a core has of the third cache; equal blocks are better than a small last one. */
static int64_t block_tiles(int64_t all, int64_t tile_floats, int64_t weights)
{
    enum { LEAST_ROOM = 384 << 10, MOST_ROOM = 2 << 20 /* floats */ };
    const int64_t room = weights / 2 < LEAST_ROOM  ? LEAST_ROOM
                         : weights / 2 > MOST_ROOM ? MOST_ROOM
                                                   : weights / 2;
    const int64_t most = room / tile_floats > FEW ? room / tile_floats : FEW;
    const int64_t blocks = (all + most - 1) / most;
    return (all + blocks - 1) / blocks;
}

/* Sizes of a block, and how many floats a thread needs for it. */
static void lay_out(struct job *j, const struct td_conv *g)
{
    struct tiles *t = &j->tiles;
    const int64_t width = 2 * lanes();
    t->panels = panels_of(g->oc);
    t->v_row = apart(g->ic);
    t->m_row = apart((t->panels + j->slabs - 1) / j->slabs * width);
    j->n = tiles_in(g);
    j->most = block_tiles(j->n, SIX * SIX * (t->v_row + t->m_row), SIX * SIX * t->panels * width * g->ic);
    t->v_step = apart(j->most * t->v_row);
    t->m_step = apart(j->most * t->m_row);
    j->own = SIX * SIX * (t->v_step + t->m_step);
}

/* With few tiles threads share the panels, too. */
static int64_t slabs_of(const struct td_call *c, const struct td_conv *g)
{
    struct td_thread_pool *pool = td_helpers(c);
    const int64_t n = tiles_in(g), panels = panels_of(g->oc);
    const int64_t wanted = pool == NULL ? 1 : (FEW * pool->most + n - 1) / n;
    return wanted < panels / 2 ? wanted : panels > 1 ? panels / 2 : 1;
}

static enum td_code run_all(const struct state *s, struct td_call *c, struct tiles t, struct td_err *err)
{
    const struct td_conv *g = &s->g;
    struct job j = {.tiles = t, .call = c, .slabs = slabs_of(c, g)};
    lay_out(&j, g);
    const double tile_ns = SIX * SIX * (double)g->ic * (double)g->oc / (double)j.slabs * TD_SPREAD_OP_NS / 4;
    const int64_t grain = j.most < FEW ? j.most : FEW;
    const int ranges = td_spread_ranges(c, j.n * j.slabs, grain, tile_ns);
    if (ranges < 2 && j.slabs > 1) { /* nobody helps: each slab would gather all tiles again */
        j.slabs = 1;
        lay_out(&j, g);
    }
    const int threads = ranges < 2 ? 1 : td_helpers(c)->most;
    void *room;
    TD_TRY(td_scratch(c, (size_t)(threads * j.own) * sizeof(float), &room, err));
    j.tiles.v = room;
    j.tiles.m = j.tiles.v + SIX * SIX * j.tiles.v_step;
    td_spread_over(c, ranges, j.n * j.slabs, grain, run_range, &j);
    return td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

enum td_code td_winograd_run(const void *state, struct td_call *c, const float *x,
                             const struct td_tensor *weights, float *y, struct td_err *err)
{
    struct state *s = (struct state *)state; /* the weights guard themselves */
    struct tiles t = {.g = &s->g, .x = x, .w = weights->data};
    t.posts = s->posts;
    t.posts.operand = c->post_in;
    t.posts.y = y;
    struct td_dnnl_pack *pack;
    const void *u;
    TD_TRY(td_dnnl_weights_meet_packed(&s->weights, c, weights, NULL, &pack, &u, err));
    t.u = u;
    const enum td_code rc = run_all(s, c, t, err);
    td_dnnl_pack_drop(pack);
    return rc;
}
