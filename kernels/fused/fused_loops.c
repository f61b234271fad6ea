/* kernels/fused/fused_loops.c - runs the instructions of a fused node over tiles that stay in the first-level
 * cache.
 *
 *   for each tile of the output:   instruction 0 over the tile, instruction 1 over the tile, ..
 *
 * An operand of the output's size is read where it lies; a scalar stays one; any other is spread into the
 * tile by its strides, once for all tiles when it is a row that fits a tile (tiles are then whole rows). A
 * register's tile is used again once its last reader has run.
 *
 * The last instruction writes the output itself, which may be the memory of an input of the same size:
 * element i is written after the last read of element i.
 *
 * A long loop is cut into ranges of tiles for threads that idle; each has tiles of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/elementwise.h"
#include "kernels/fused/fused_program.h"
#include "kernels/cpu/spread.h"

enum { TILE = 2048, LONGEST_ROW = 8192, LOOK_EVERY = 128, FEW = 512 /* floats on the stack */ };

/* ------------------------------------------------------------------ operands */

enum access { WHOLE, ONE, ROWS, SPREAD };

/* How a register is read in a loop over a domain of some shape. */
struct operand {
    const float *base;
    enum access access;
    int tile; /* number of the tile it lies in; -1 for WHOLE and ONE inputs */
    int rank; /* of the domain with neighbours merged, innermost dim first */
    int64_t dim[TD_MAX_RANK], stride[TD_MAX_RANK];
};

struct loop {
    const struct td_program *p;
    struct operand *operand;      /* by register */
    int at[TD_PROGRAM_INSTRS], n; /* the instructions that run */
    int64_t count, tile;          /* elements of the domain, of a tile */
    int n_tiles;
    float *room; /* n_tiles tiles for each thread */
};

/* Strides of s in the domain; neighbours that step alike become one dim. Returns its number of elements. */
static int64_t set_strides(struct operand *o, const struct td_shape *s, const struct td_shape *domain)
{
    int64_t elements = 1;
    for (int i = 1; i <= domain->rank; i++) {
        int64_t d = domain->dim[domain->rank - i], mine = i <= s->rank ? s->dim[s->rank - i] : 1;
        int64_t stride = mine == d ? elements : 0;
        int last = o->rank - 1;
        if (d == 1) {
            continue;
        }
        if (last >= 0 && stride == (o->stride[last] == 0 ? 0 : o->stride[last] * o->dim[last])) {
            o->dim[last] *= d;
        } else {
            o->dim[o->rank] = d;
            o->stride[o->rank++] = stride;
        }
        elements *= mine;
    }
    return elements;
}

static void set_operand(struct operand *o, const float *base, const struct td_shape *s,
                        const struct td_shape *domain)
{
    o->base = base;
    o->tile = -1;
    o->rank = 0;
    int64_t n = set_strides(o, s, domain);
    bool row = o->rank == 2 && o->stride[0] == 1 && o->stride[1] == 0 && o->dim[0] <= LONGEST_ROW;
    o->access = n == td_shape_count(domain) ? WHOLE : n == 1 ? ONE : row ? ROWS : SPREAD;
}

/* n elements `stride` apart: one for all, neighbours, or neither. */
static void spread_run(const float *from, int64_t stride, int64_t n, float *restrict to)
{
    if (stride == 0) {
        const float v = *from;
        for (int64_t i = 0; i < n; i++) {
            to[i] = v;
        }
    } else if (stride == 1) {
        memcpy(to, from, (size_t)n * sizeof *to);
    } else {
        for (int64_t i = 0; i < n; i++) {
            to[i] = from[i * stride];
        }
    }
}

/* Copies elements [at, at + n) of the domain to `to`. */
static void spread(const struct operand *o, int64_t at, int64_t n, float *to)
{
    int64_t index[TD_MAX_RANK] = {0}, from = 0, rest = at;
    for (int d = 0; d < o->rank; d++) {
        index[d] = rest % o->dim[d];
        rest /= o->dim[d];
        from += index[d] * o->stride[d];
    }
    while (n > 0) {
        int64_t run = o->dim[0] - index[0] < n ? o->dim[0] - index[0] : n;
        spread_run(o->base + from, o->stride[0], run, to);
        to += run;
        n -= run;
        from += run * o->stride[0];
        index[0] += run;
        for (int d = 0; d + 1 < o->rank && index[d] == o->dim[d]; d++) {
            from += o->stride[d + 1] - o->dim[d] * o->stride[d];
            index[d] = 0;
            index[d + 1]++;
        }
    }
}

/* ------------------------------------------------------------------ setting up a loop */

static int register_of(const struct loop *l, int k, int side)
{
    const struct td_instr *in = &l->p->instr[l->at[k]];
    return side == 0 ? in->a : in->b;
}

/* Operands that exist before the loop. Tiles become whole rows of the longest row there is. */
static void set_inputs(struct loop *l, const struct td_shape *in, const float *const *reg,
                       const struct td_shape *domain)
{
    int64_t row = 1;
    for (int e = 0; e < 2 * l->n; e++) {
        int r = register_of(l, e / 2, e % 2);
        struct operand *o = r < 0 ? NULL : &l->operand[r];
        if (o == NULL || reg[r] == NULL || o->base != NULL) {
            continue;
        }
        set_operand(o, reg[r], td_program_shape(l->p, in, r), domain);
        if (o->access == ROWS || o->access == SPREAD) {
            o->tile = l->n_tiles++;
            row = o->access == ROWS && o->dim[0] > row ? o->dim[0] : row;
        }
    }
    l->tile = row >= TILE ? row : TILE / row * row;
    l->tile = l->tile > l->count ? l->count : l->tile;
    for (int r = 0; r < l->p->head + 1 + l->p->n_instr;
         r++) { /* a shorter row that does not divide the tile */
        struct operand *o = &l->operand[r];
        if (o->base != NULL && o->access == ROWS && l->tile % o->dim[0] != 0) {
            o->access = SPREAD;
        }
    }
}

static bool read_after(const struct loop *l, int reg, int k)
{
    for (int e = 2 * (k + 1); e < 2 * l->n; e++) {
        if (register_of(l, e / 2, e % 2) == reg) {
            return true;
        }
    }
    return false;
}

/* Results of all instructions but the last, which writes the output: a tile each, taken over from one no
 * longer read. */
static void set_results(struct loop *l)
{
    int owner[TD_PROGRAM_REGS], first = l->n_tiles;
    for (int k = 0; k + 1 < l->n; k++) {
        int t = first;
        while (t < l->n_tiles && read_after(l, owner[t], k - 1)) {
            t++;
        }
        l->n_tiles = t == l->n_tiles ? t + 1 : l->n_tiles;
        owner[t] = l->p->head + 1 + l->at[k];
        l->operand[owner[t]].access = WHOLE;
        l->operand[owner[t]].tile = t;
    }
}

/* ------------------------------------------------------------------ running it */

/* room: the tiles of the thread that asks. */
static const float *elements(const struct loop *l, const struct operand *o, int64_t at, const float *room)
{
    return o->tile >= 0 ? room + o->tile * l->tile : o->access == ONE ? o->base : o->base + at;
}

static void run_instr(const struct loop *l, const struct td_instr *in, int64_t at, int64_t n,
                      const float *room, float *y)
{
    const struct operand *a = &l->operand[in->a], *b = in->b < 0 ? NULL : &l->operand[in->b];
    const float *pa = elements(l, a, at, room), *pb = b == NULL ? NULL : elements(l, b, at, room);
    enum td_operands how = a->access == ONE                ? TD_LEFT_SCALAR
                           : b != NULL && b->access == ONE ? TD_RIGHT_SCALAR
                                                           : TD_BOTH_ARRAYS;
    const struct td_stage *stage = in->stage;
    if (stage->with != NULL) {
        stage->with(pa, pb, y, n, how, in->parameter);
    } else if (stage->one != NULL) {
        stage->one(pa, y, n);
    } else {
        stage->two(pa, pb, y, n, how);
    }
}

struct tiles { /* a loop at work */
    const struct loop *l;
    struct td_call *c;
    float *y;
};

/* Elements [from, to), which begin with a tile. Ends early when the run is to stop. */
static void run_tiles(void *arg, int64_t from, int64_t to, int who)
{
    const struct tiles *t = arg;
    const struct loop *l = t->l;
    float *room = l->room + who * l->n_tiles * l->tile;
    const int last = l->p->head + 1 + l->p->n_instr;
    for (int64_t at = from, k = 0; at < to; at += l->tile, k++) {
        int64_t n = to - at < l->tile ? to - at : l->tile;
        if (k % LOOK_EVERY == LOOK_EVERY - 1 && td_stopped(t->c)) {
            return;
        }
        for (int r = 0; r < last && l->n_tiles > 0; r++) {
            const struct operand *o = &l->operand[r];
            if (o->base != NULL && (o->access == SPREAD || (o->access == ROWS && at == from))) {
                spread(o, at, n, room + o->tile * l->tile);
            }
        }
        for (int i = 0; i < l->n; i++) {
            const struct operand *to_reg = &l->operand[l->p->head + 1 + l->at[i]];
            run_instr(l, &l->p->instr[l->at[i]], at, n, room,
                      i == l->n - 1 ? t->y + at : room + to_reg->tile * l->tile);
        }
    }
}

/* In how many ranges the loop runs: what it reads and writes in memory, and what it computes. */
static int ranges_of(const struct loop *l, const struct td_call *c)
{
    int passes = 1;
    if (l->count < 2 * l->tile) {
        return 1;
    }
    for (int r = 0; r < l->p->head + 1 + l->p->n_instr; r++) {
        passes += l->operand[r].base != NULL && l->operand[r].access == WHOLE;
    }
    return td_spread_ranges(c, l->count, l->tile, passes * TD_SPREAD_PASS_NS + l->n * TD_SPREAD_OP_NS);
}

/* Runs the instructions listed in l over the domain. */
static enum td_code run_list(struct loop *l, struct td_call *c, const struct td_shape *in,
                             const float *const *reg, const struct td_shape *domain, float *y,
                             struct td_err *err)
{
    struct operand operand[TD_PROGRAM_REGS];
    float few[FEW];
    void *room = few;
    l->count = td_shape_count(domain);
    if (l->count == 0 || l->n == 0) {
        return TD_OK;
    }
    for (int r = 0; r < l->p->head + 1 + l->p->n_instr; r++) {
        operand[r].base = NULL;
    }
    l->operand = operand;
    set_inputs(l, in, reg, domain);
    set_results(l);
    const int ranges = ranges_of(l, c), rooms = ranges <= TD_POOL_MOST ? ranges : TD_POOL_MOST + 1;
    if (rooms * l->n_tiles * l->tile > FEW) {
        TD_TRY(td_scratch(c, (size_t)(rooms * l->n_tiles * l->tile) * sizeof(float), &room, err));
    }
    l->room = room;
    struct tiles t = {.l = l, .c = c, .y = y};
    td_spread_over(c, ranges, l->count, l->tile, run_tiles, &t);
    return l->count > LOOK_EVERY * l->tile && td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

enum td_code td_program_run_small(const struct td_program *p, struct td_call *c, const struct td_shape *in,
                                  const float **reg, struct td_err *err)
{
    int64_t total = 0;
    void *room;
    for (int i = 0; i < p->n_instr; i++) {
        total += p->instr[i].small ? td_shape_count(&p->instr[i].shape) : 0;
    }
    if (total == 0) {
        return TD_OK;
    }
    TD_TRY(td_scratch(c, (size_t)total * sizeof(float), &room, err));
    float *y = room;
    for (int i = 0; i < p->n_instr; i++) {
        if (p->instr[i].small) {
            struct loop l = {.p = p, .at = {i}, .n = 1};
            TD_TRY(run_list(&l, c, in, reg, &p->instr[i].shape, y, err));
            reg[p->head + 1 + i] = y;
            y += td_shape_count(&p->instr[i].shape);
        }
    }
    return TD_OK;
}

enum td_code td_program_run_loop(const struct td_program *p, struct td_call *c, const struct td_shape *in,
                                 const float **reg, float *y, struct td_err *err)
{
    struct loop l;
    l.p = p;
    l.n = l.n_tiles = 0;
    for (int i = p->start; i < p->n_instr; i++) {
        if (!p->instr[i].small) {
            l.at[l.n++] = i;
        }
    }
    return run_list(&l, c, in, reg, &p->out, y, err);
}
