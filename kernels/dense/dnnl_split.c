/* kernels/dense/dnnl_split.c - one large product or convolution on several threads: its output in chunks.
 *
 *   product       rows of x and y          +------+   chunk 0: x rows 0..7  * w -> y rows 0..7
 *                                          | x    |   chunk 1: x rows 8..15 * w -> y rows 8..15
 *                                          +------+
 *   convolution   images of the batch, or, of one image, rows of y: the rows of x below them, which overlap,
 *                 with the padding that is theirs (backwards, from y to x: images only). Where every cell of
 *                 y looks at its own of x alone, all cells of all images are one row of cells, cut anywhere
 *
 * Each chunk is a primitive of its own on the weights as they are packed for the whole, made when workers
 * idle for the first time and the whole takes long enough. Where oneDNN wants other weights for other numbers
 * of cells, the chunks are those of the same product as an inner product, whose packed weights serve any
 * number of rows. Rows lie one after the other in x and y, so nothing is copied. An element is computed as in
 * the whole but for the blocking that oneDNN chooses for other sizes: rounding may differ.
 *
 * What takes longer than a run should go on after it is stopped is computed in chunks in any case.
 *
 * Threads: any; the chunks are immutable once made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_impl.h"

enum { MIN_WORK = 500000 /* multiplications: less is over before a helper comes that looks out */ };
#define LONG_WORK 0x1p33 /* multiplications: a few tenths of a second */

bool td_dnnl_split_init(struct td_dnnl_split *s)
{
    return td_dnnl_parts_init(&s->parts);
}

void td_dnnl_split_fini(struct td_dnnl_split *s)
{
    for (int i = 0; i < s->parts.n; i++) {
        td_dnnl_free(s->chunk[i].d);
    }
    if (s->product != NULL) {
        td_dnnl_free(s->product);
    }
    td_dnnl_parts_fini(&s->parts);
}

/* ------------------------------------------------------------------ making chunks */

static double work_of(const struct td_dnnl *d)
{
    const struct td_conv *g = &d->conv;
    if (d->plain_gemm) {
        return (double)d->m * (double)d->k * (double)d->n;
    }
    const int64_t channels = g->ic / g->groups;
    return (double)g->batch * (double)td_conv_out_cells(g) * (double)td_conv_taps(g) * (double)channels *
           (double)g->oc;
}

/* Of one image: the spatial axis whose rows lie one after the other; those before it have one cell. */
static int row_axis(const struct td_conv *g)
{
    int a = 0;
    while (a < 2 && g->axis[a].out == 1 && g->axis[a].in == 1) {
        a++;
    }
    return a;
}

/* Every cell of y looks at its own of x alone. */
static bool looks_at_cells(const struct td_dnnl *d)
{
    bool own = !d->plain_gemm && !d->backward && row_axis(&d->conv) > 0;
    for (int a = 0; a < 3; a++) {
        const struct td_window *w = &d->conv.axis[a];
        own = own && w->k == 1 && w->stride == 1 && w->before == 0 && w->after == 0;
    }
    return own;
}

/* As chunks are cut from it. */
static struct td_conv cells_in_a_row(const struct td_dnnl *d)
{
    struct td_conv g = d->conv;
    const int64_t cells = g.batch * td_conv_out_cells(&g);
    if (looks_at_cells(d)) {
        g.batch = 1;
        g.axis[0] = g.axis[1] = (struct td_window){.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1};
        g.axis[2] = (struct td_window){.in = cells, .k = 1, .stride = 1, .dilation = 1, .out = cells};
    }
    return g;
}

static int64_t rows_of(const struct td_dnnl *d)
{
    const struct td_conv g = cells_in_a_row(d);
    return d->plain_gemm ? d->m : g.batch > 1 ? g.batch : g.axis[row_axis(&g)].out;
}

/* What the rows [from, to) of y need: rows of x from *x_row on, and of the padding what lies there. */
static bool crop(struct td_window *w, int64_t from, int64_t to, int64_t *x_row)
{
    const int64_t start = from * w->stride - w->before;
    const int64_t end = (to - 1) * w->stride - w->before + (w->k - 1) * w->dilation + 1;
    *x_row = start > 0 ? start : 0;
    w->before = start < 0 ? -start : 0;
    w->after = end > w->in ? end - w->in : 0;
    w->in = (end < w->in ? end : w->in) - *x_row;
    w->out = to - from;
    return w->in > 0;
}

static bool make_chunk(const struct td_dnnl *d, int64_t from, int64_t to, struct td_dnnl_chunk *p)
{
    struct td_conv g = cells_in_a_row(d);
    int64_t x_row = from;
    if (d->plain_gemm) {
        *p = (struct td_dnnl_chunk){td_dnnl_chunk_matmul(d, to - from), from * d->k, from * d->n};
    } else if (g.batch > 1) {
        const int64_t below = from * td_conv_in_cells(&g) * g.ic, above = from * td_conv_out_cells(&g) * g.oc;
        g.batch = to - from;
        *p = (struct td_dnnl_chunk){td_dnnl_chunk_conv(d, &g), d->backward ? above : below,
                                    d->backward ? below : above};
    } else {
        struct td_window *w = &g.axis[row_axis(&g)];
        const int64_t x_floats = td_conv_in_cells(&g) / w->in * g.ic,
                      y_floats = td_conv_out_cells(&g) / w->out * g.oc;
        const bool some = crop(w, from, to, &x_row);
        *p = (struct td_dnnl_chunk){some ? td_dnnl_chunk_conv(d, &g) : NULL, x_row * x_floats,
                                    from * y_floats};
    }
    return p->d != NULL;
}

/* All n of d into s, or none. */
static bool make_all(const struct td_dnnl *d, int64_t n, struct td_dnnl_split *s)
{
    const int64_t rows = rows_of(d);
    bool ok = n > 1;
    for (int64_t i = 0; ok && i < n; i++) {
        ok = make_chunk(d, rows * i / n, rows * (i + 1) / n, &s->chunk[i]);
        s->parts.n += ok;
    }
    while (!ok && s->parts.n > 0) {
        td_dnnl_free(s->chunk[--s->parts.n].d);
    }
    return ok;
}

/* A convolution that multiplies floats with one matrix. */
static bool is_product(const struct td_dnnl *d)
{
    return looks_at_cells(d) && d->conv.groups == 1 && d->low.kind == TD_LOW_NONE && d->type == dnnl_f32 &&
           d->given == dnnl_f32;
}

/* Tried once: without all chunks there are none. */
static void make_chunks(void *whole, int wanted)
{
    struct td_dnnl *d = whole;
    struct td_dnnl_split *s = &d->split;
    const int64_t rows = rows_of(d), most = wanted < TD_DNNL_CHUNKS ? wanted : TD_DNNL_CHUNKS;
    const int64_t n = rows < most ? rows : most;
    if (!make_all(d, n, s) && n > 1 && is_product(d)) {
        struct td_dnnl *p = td_dnnl_product_of(d, rows);
        s->product = p != NULL && make_all(p, n, s) ? p : NULL;
        if (p != NULL && s->product == NULL) {
            td_dnnl_free(p);
        }
    }
}

/* ------------------------------------------------------------------ running */

/* Pieces of something long. */
static int parts_of(double work)
{
    return work >= TD_DNNL_CHUNKS * LONG_WORK ? TD_DNNL_CHUNKS : (int)(work / LONG_WORK) + 1;
}

enum td_parallel_way td_dnnl_split_way(struct td_dnnl *d, const struct td_call *c)
{
    const bool one_image = d->backward && d->conv.batch < 2;
    const double work = work_of(d);
    if (one_image || d->x_in != NULL || d->y_out != NULL) {
        return TD_PARALLEL_ALONE;
    }
    if (work >= LONG_WORK && td_dnnl_parts_are_made(&d->split.parts, make_chunks, d, parts_of(work))) {
        return TD_PARALLEL_TOGETHER;
    }
    return td_dnnl_parts_way(&d->split.parts, c,
                             &(struct td_dnnl_whole){.work = work,
                                                     .least = MIN_WORK,
                                                     .make = make_chunks,
                                                     .whole = d,
                                                     .most = td_parallel_parts(work, TD_DNNL_CHUNKS)});
}

struct job {
    const struct td_dnnl *d;
    const struct td_call *call;
    const struct td_dnnl_operands *at;
    char *scratch[TD_DNNL_CHUNKS];
    atomic_bool failed, helped;
};

static void run_chunk(void *arg, int i, int who)
{
    struct job *j = arg;
    const struct td_dnnl_chunk *p = &j->d->split.chunk[i];
    const struct td_dnnl_posts *posts = &j->d->posts;
    const float *operand[TD_DNNL_POSTS] = {NULL};
    if (td_stopped(j->call)) {
        return;
    }
    for (int k = 0; k < posts->n; k++) {
        const bool each = j->d->post[k].kind < TD_POST_BIAS && j->d->post[k].operand == TD_POST_ELEMENT;
        operand[k] = j->call->post_in[k];
        operand[k] += each && posts->has_operand[k] ? p->y_at : 0;
    }
    struct td_dnnl_operands at = *j->at;
    at.x = (const char *)at.x + p->x_at * (int64_t)dnnl_data_type_size(p->d->x_type);
    at.y = (char *)at.y + p->y_at * (int64_t)dnnl_data_type_size(p->d->y_type);
    if (!td_dnnl_execute(p->d, operand, &at, j->scratch[i])) {
        atomic_store(&j->failed, true);
    }
    if (who > 0) {
        atomic_store(&j->helped, true);
    }
}

enum td_code td_dnnl_split_run(struct td_dnnl *d, struct td_call *c, const struct td_dnnl_operands *at_whole,
                               struct td_err *err)
{
    enum { ALIGN = 64 };
    struct td_dnnl_split *s = &d->split;
    struct job j = {.d = d, .call = c, .at = at_whole};
    size_t bytes = ALIGN, at[TD_DNNL_CHUNKS];
    void *scratch;
    for (int i = 0; i < s->parts.n; i++) {
        at[i] = bytes;
        bytes += (s->chunk[i].d->scratch_bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    TD_TRY(td_scratch(c, bytes, &scratch, err));
    for (int i = 0; i < s->parts.n; i++) {
        j.scratch[i] = (char *)scratch + at[i];
    }
    const int64_t from_ns = td_now_ns();
    td_parallel_for(td_helpers(c), s->parts.n, run_chunk, &j);
    TD_FAIL_IF(atomic_load(&j.failed), err, INTERNAL, "oneDNN could not run a piece of its primitive");
    if (td_stopped(c)) {
        return td_stop_error(c, err);
    }
    if (atomic_load(&j.helped)) {
        td_timing_learn(&s->parts.cost.together_ns, td_now_ns() - from_ns);
    }
    return TD_OK;
}
