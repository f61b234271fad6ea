/* proto/json/json_parts.c - a large value cut behind commas, its parts read side by side.
 *
 *   [[[1, 2], [3,| 4]], [[5, 6], |[7, 8]]]        shape [2, 2, 2]: three parts of 3, 3 and 2 numbers
 *
 * Each comma is followed by one number more, after brackets that may open first: where no list is empty, the
 * numbers before a part are as many as the commas before it. So its commas are counted first, and each part
 * then writes its numbers where they belong.
 *
 * A part does not know which lists it is in. It counts levels from the one that it begins at, and for a list
 * that was open before how many elements ended in it. When all are read, their counts are joined in order
 * (join): a list that two parts share has the elements of both, and must be as long as the others of its
 * level. Each part ended at its last comma, so the next one began where a value must. What does not fit, or
 * was not as expected, is no error here: the value is read again as a whole.
 *
 * Threads: each part is read by one, into elements of its own, with the caller's floats (those that helpers
 * have know no denormals).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_parts.h"

#include <string.h>

#include "core/base/float_mode.h"
#include "core/base/thread_pool.h"
#include "proto/json/json_list.h"

enum { MOST_PARTS = 16, PART = TD_JSON_LARGE / 2 /* bytes of text, or more */ };

struct part {
    struct td_json text;
    size_t commas, first; /* elements before it, of this value's */
    struct td_json_nest nest;
    bool fits, more; /* more: the value goes on behind it */
};

struct value {
    struct td_gather *g;
    unsigned long float_mode;
    int n;
    struct part part[MOST_PARTS];
};

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Cuts the text into parts of about the same length. False: it has too few commas. */
static bool cut(struct value *v, const struct td_json *j, const char *end)
{
    const char *at = j->at;
    const int64_t all = end - at;
    const int most = 4 * j->pool->most; /* so that who comes late finds work */
    v->n = least(least(all / PART, most), MOST_PARTS);
    for (int i = 0; i < v->n; i++) {
        const char *to = i + 1 < v->n ? memchr(j->at + all * (i + 1) / v->n, ',',
                                               (size_t)(end - j->at - all * (i + 1) / v->n))
                                      : end - 1;
        if (to == NULL || to < at) {
            return false;
        }
        v->part[i] = (struct part){.text = {.text = j->text, .at = at, .end = to + 1}};
        at = to + 1;
    }
    return true;
}

static void count_part(void *arg, int i, int who)
{
    (void)who;
    struct part *p = &((struct value *)arg)->part[i];
    p->commas = td_json_commas(p->text.at, p->text.end);
}

static void begin_nest(struct td_json_nest *nest, int level)
{
    memset(nest, 0, sizeof *nest);
    nest->level = nest->seen = nest->before = nest->held = level;
    nest->rank = -1;
    nest->is_part = true;
    for (int i = 0; i < TD_JSON_LEVELS; i++) {
        nest->dim[i] = -1;
    }
}

static void read_part(void *arg, int i, int who)
{
    (void)who;
    struct value *v = arg;
    struct part *p = &v->part[i];
    const size_t n = p->commas + (i + 1 == v->n); /* the last number has no comma behind it */
    struct td_gather g = {.dtype = v->g->dtype, .elem = v->g->elem, .cap = n, .is_view = true};
    struct td_err ignored = {0};
    g.data = v->g->data + (v->g->n + p->first) * g.elem;
    begin_nest(&p->nest, i == 0 ? 0 : TD_MAX_RANK);
    const unsigned long mode = td_float_mode_get();
    td_float_mode_set(v->float_mode);
    p->fits = td_gather_lists(&g, &p->nest, &p->text, &p->more, &ignored) == TD_OK && g.n == n &&
              p->text.at == p->text.end;
    td_float_mode_set(mode);
}

/* All lists of a level have as many elements. */
static bool is_dim(int64_t *dim, int64_t n)
{
    *dim = *dim < 0 ? n : *dim;
    return *dim == n;
}

/* The lists that were open before a part, behind it; shift: of its levels, to all's. */
static bool join_held(struct td_json_nest *all, const struct td_json_nest *p, int shift)
{
    for (int i = p->before - 1; i >= p->held; i--) {
        if (i + shift < 0 || !is_dim(&all->dim[i + shift], all->count[i + shift] + p->ended[i])) {
            return false;
        }
    }
    for (int i = p->held - 1; i + shift >= 0; i--) {
        all->count[i + shift] += p->count[i];
    }
    return true;
}

/* Goes on in all's lists behind a part; false: it does not fit them. */
static bool join(struct td_json_nest *all, const struct td_json_nest *p)
{
    const int shift = all->level - p->before;
    if (!join_held(all, p, shift)) {
        return false;
    }
    for (int i = 0; i < TD_JSON_LEVELS; i++) {
        const int at = i + shift;
        const bool known = p->dim[i] >= 0, open = i >= p->held && i < p->level;
        if ((known || open) && (at < 0 || at >= TD_MAX_RANK)) {
            return false;
        }
        if (known && !is_dim(&all->dim[at], p->dim[i])) {
            return false;
        }
        if (open) {
            all->count[at] = p->count[i];
        }
    }
    if (p->rank >= 0) {
        all->rank = all->rank < 0 ? p->rank + shift : all->rank;
    }
    all->level = p->level + shift;
    return all->level >= 0 && (p->rank < 0 || all->rank == p->rank + shift);
}

static bool join_all(struct value *v, struct td_shape *shape)
{
    struct td_json_nest all;
    struct td_err ignored = {0};
    begin_nest(&all, 0);
    for (int i = 0; i < v->n; i++) {
        const bool goes_on = i + 1 < v->n;
        const struct part *p = &v->part[i];
        if (!p->fits || p->more != goes_on || !join(&all, &p->nest) || (all.level > 0) != goes_on) {
            return false;
        }
    }
    return all.rank > 0 && td_shape_make(shape, all.dim, all.rank, &ignored) == TD_OK;
}

/* Whether so many bytes may be worth it. */
static bool is_large(const struct td_gather *g, const struct td_json *j, int64_t bytes)
{
    return j->pool != NULL && j->pool->most >= 2 && bytes >= TD_JSON_LARGE && g->dtype != TD_STRING &&
           g->dtype != TD_BOOL;
}

/* From j to the value's end. */
static bool gather(struct td_gather *g, const struct td_json *j, const char *end, struct td_shape *shape)
{
    struct value v = {.g = g, .float_mode = td_float_mode_get()};
    struct td_err ignored = {0};
    if (!cut(&v, j, end)) {
        return false;
    }
    td_parallel_for(j->pool, v.n, count_part, &v);
    size_t n = 1;
    for (int i = 0; i < v.n; i++) {
        v.part[i].first = n - 1;
        n += v.part[i].commas;
    }
    if (n > (size_t)(end - j->at) / 2 || td_gather_reserve(g, n, &ignored)) {
        return false;
    }
    td_parallel_for(j->pool, v.n, read_part, &v);
    if (!join_all(&v, shape)) {
        return false;
    }
    g->n += n;
    return true;
}

bool td_gather_to(struct td_gather *g, struct td_json *j, const char *end, struct td_shape *shape)
{
    if (!is_large(g, j, end - j->at) || !td_parallel_is_worth(j->pool, (end - j->at) / 2 /* 1 ns a byte */) ||
        !gather(g, j, end, shape)) {
        return false;
    }
    j->at = end;
    return true;
}

bool td_gather_by_parts(struct td_gather *g, struct td_json *j, struct td_shape *shape)
{
    struct td_json at = *j;
    struct td_err ignored = {0};
    return is_large(g, j, j->end - j->at) && td_json_peek(&at) == '[' &&
           td_json_leap(&at, &ignored) == TD_OK && td_gather_to(g, j, at.at, shape);
}
