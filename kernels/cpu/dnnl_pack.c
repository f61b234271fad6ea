/* kernels/cpu/dnnl_pack.c - a list of packed weights that primitives share, and what each primitive has seen
 * last.
 *
 *   td_dnnl_weights (one a primitive)  seen -> td_buffer          mu guards what it has seen
 *                                      pack -> td_dnnl_pack {source, layout, scale, packed bytes}
 *   packs (the process)                list of all td_dnnl_pack   packs_mu guards the list; it is a leaf
 *
 * A packed copy is found by source buffer, address, layout and scale. It holds a reference to its source, so
 * that address cannot come to mean other weights while it is listed. Users are counted with an atomic; who
 * drops the last one looks again under packs_mu before it frees, because another may have found the copy in
 * between. A copy is made under packs_mu: two primitives that want the same never pack it twice.
 *
 * A scale is multiplied into the plain weights first; then the reorder, where the layouts differ. Without a
 * packer the product goes straight to its place.
 *
 * Does not: choose the layout (the primitive's description does, kernels/cpu/dnnl.c), limit the bytes that
 * are kept: a copy lives as long as a primitive that uses it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/dnnl_pack.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/dnnl_base.h"

struct td_dnnl_pack {
    struct td_dnnl_pack *next;
    atomic_int users;
    struct td_buffer *source; /* counted */
    const void *source_data;
    dnnl_memory_desc_t from, layout; /* how the source lies: a square matrix may be transposed; and this */
    int64_t columns;
    float *scale; /* columns of them, or of steps; NULL: plain weights */
    int levels;
    struct td_buffer *packed;
};
static pthread_mutex_t packs_mu = PTHREAD_MUTEX_INITIALIZER;
static struct td_dnnl_pack *packs; /* guarded by packs_mu; short: one a weight and layout */

enum {
    MOST_MOVES = 4
}; /* weights met that were others each time: after so many they are taken to be trained */

/* ------------------------------------------------------------------ packing */

/* Weights end in their columns, or begin with them when transposed. */
static void multiply(const struct td_dnnl_weights *w, const float *from, const float *scale, float *to)
{
    int64_t total = (int64_t)(dnnl_memory_desc_get_size(&w->plain) / sizeof(float)),
            rows = total / w->columns;
    for (int64_t i = 0; i < (w->transposed ? w->columns : rows); i++) {
        const float *x = from + i * (w->transposed ? rows : w->columns);
        float *y = to + i * (w->transposed ? rows : w->columns);
        for (int64_t k = 0; k < (w->transposed ? rows : w->columns); k++) {
            y[k] = x[k] * scale[w->transposed ? i : k];
        }
    }
}

/* The largest of each column, by the number of levels; 1 of a column of zeros. */
static void find_steps(const struct td_dnnl_weights *w, const float *x, float *step)
{
    const int64_t rows = (int64_t)(dnnl_memory_desc_get_size(&w->plain) / sizeof(float)) / w->columns;
    memset(step, 0, (size_t)w->columns * sizeof *step);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < w->columns; k++) {
            const float v = fabsf(x[w->transposed ? k * rows + r : r * w->columns + k]);
            step[k] = v > step[k] ? v : step[k];
        }
    }
    for (int64_t k = 0; k < w->columns; k++) {
        step[k] /= (float)w->levels;
        step[k] = isnormal(step[k]) ? step[k] : 1.0f;
    }
}

/* The steps of rounded weights, and what to multiply by so that one is 1: columns of each. */
static void steps_of(const struct td_dnnl_weights *w, const void *data, float *step, float *per_step)
{
    find_steps(w, data, step);
    for (int64_t k = 0; k < w->columns; k++) {
        per_step[k] = 1.0f / step[k];
    }
}

/* room: for scaled weights in the plain layout, where there is a scale; may be `to` when there is no packer.
 */
static bool pack_into(const struct td_dnnl_weights *w, const void *data, const float *scale, void *room,
                      void *to)
{
    if (w->columns > 0) {
        multiply(w, data, scale, w->packer == NULL ? to : room);
        data = room;
    }
    return w->packer == NULL || td_dnnl_base_reorder(w->packer, &w->plain, data, &w->used, to);
}

static size_t room_bytes(const struct td_dnnl_weights *w)
{
    return w->columns > 0 && w->packer != NULL ? dnnl_memory_desc_get_size(&w->plain) : 1;
}

enum td_code td_dnnl_weights_scratch(const struct td_dnnl_weights *w, struct td_call *c, const void *data,
                                     const float *scale, struct td_dnnl_packed *out, struct td_err *err)
{
    void *room, *steps;
    if (w->levels > 0) {
        TD_TRY(td_scratch(c, 2 * (size_t)w->columns * sizeof(float), &steps, err));
        steps_of(w, data, steps, (float *)steps + w->columns);
        out->steps = steps;
        scale = out->steps + w->columns;
    }
    TD_TRY(td_scratch(c, room_bytes(w), &room, err));
    TD_TRY(td_scratch(c, dnnl_memory_desc_get_size(&w->used), &out->data, err));
    TD_FAIL_IF(!pack_into(w, data, scale, room, out->data), err, INTERNAL, "oneDNN could not pack weights");
    return TD_OK;
}

/* ------------------------------------------------------------------ the list of copies */

/* Steps follow from the weights: they need no comparing. */
static bool same_scale(const struct td_dnnl_weights *w, const float *a, const float *b)
{
    return w->columns == 0 || w->levels > 0 ||
           (a != NULL && b != NULL && memcmp(a, b, (size_t)w->columns * sizeof *a) == 0);
}

static struct td_dnnl_pack *pack_find(const struct td_dnnl_weights *w, const struct td_tensor *t,
                                      const float *scale)
{
    for (struct td_dnnl_pack *p = packs; p != NULL; p = p->next) {
        if (p->source == t->buf && p->source_data == t->data && p->columns == w->columns &&
            p->levels == w->levels && dnnl_memory_desc_equal(&p->from, &w->plain) &&
            dnnl_memory_desc_equal(&p->layout, &w->used) && same_scale(w, p->scale, scale)) {
            return p;
        }
    }
    return NULL;
}

static void pack_free(struct td_dnnl_pack *p)
{
    if (p->packed != NULL) {
        td_budget_note(TD_MEMORY_PACKED, -(int64_t)p->packed->bytes);
    }
    td_buffer_unref(p->source);
    td_buffer_unref(p->packed);
    td_free(p->scale);
    td_free(p);
}

/* Unlinks and frees p if it is still listed without users: somebody may have found it again, or freed it
 * already. */
static void pack_bury(struct td_dnnl_pack *p)
{
    (void)pthread_mutex_lock(&packs_mu);
    struct td_dnnl_pack **at = &packs;
    while (*at != NULL && *at != p) {
        at = &(*at)->next;
    }
    bool dead = *at == p && atomic_load(&p->users) == 0;
    if (dead) {
        *at = p->next;
    }
    (void)pthread_mutex_unlock(&packs_mu);
    if (dead) {
        pack_free(p);
    }
}

void td_dnnl_pack_drop(struct td_dnnl_pack *p)
{
    if (p != NULL && atomic_fetch_sub(&p->users, 1) == 1) {
        pack_bury(p);
    }
}

const void *td_dnnl_pack_data(const struct td_dnnl_pack *p)
{
    return p->packed->data;
}

const float *td_dnnl_pack_steps(const struct td_dnnl_pack *p)
{
    return p->scale;
}

/* *scale: what the weights are multiplied by. */
static enum td_code keep_scale(const struct td_dnnl_weights *w, const struct td_tensor *t,
                               const float **scale, struct td_dnnl_pack *p, struct td_err *err)
{
    const size_t n = (size_t)w->columns * (w->levels > 0 ? 2 : 1);
    p->scale = td_calloc(n, sizeof *p->scale);
    if (p->scale == NULL) {
        return td_no_memory(err, n, "packed weights");
    }
    if (w->levels > 0) {
        steps_of(w, t->data, p->scale, p->scale + w->columns);
        *scale = p->scale + w->columns;
    } else {
        memcpy(p->scale, *scale, n * sizeof *p->scale);
    }
    return TD_OK;
}

static enum td_code fill(const struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale,
                         struct td_dnnl_pack *p, struct td_err *err)
{
    struct td_buffer *room;
    if (w->columns > 0) {
        TD_TRY(keep_scale(w, t, &scale, p, err));
    }
    TD_TRY(td_buffer_new(dnnl_memory_desc_get_size(&w->used), false, &p->packed, err));
    td_budget_note(TD_MEMORY_PACKED, (int64_t)p->packed->bytes);
    TD_TRY(td_buffer_new(room_bytes(w), false, &room, err));
    bool ok = pack_into(w, t->data, scale, room->data, p->packed->data);
    td_buffer_unref(room);
    TD_FAIL_IF(!ok, err, INTERNAL, "oneDNN could not pack weights of %zu bytes", td_tensor_bytes(t));
    return TD_OK;
}

static enum td_code pack_make(const struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale,
                              struct td_dnnl_pack **out, struct td_err *err)
{
    struct td_dnnl_pack *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "packed weights");
    }
    atomic_init(&p->users, 1);
    p->source = td_buffer_ref(t->buf);
    p->source_data = t->data;
    p->from = w->plain;
    p->layout = w->used;
    p->columns = w->columns;
    p->levels = w->levels;
    enum td_code rc = fill(w, t, scale, p, err);
    if (rc) {
        pack_free(p);
        return rc;
    }
    *out = p;
    return TD_OK;
}

/* The shared packed copy of t, counted for the caller; made when there is none, or left NULL. */
static enum td_code pack_get(const struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale,
                             bool make, struct td_dnnl_pack **out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    (void)pthread_mutex_lock(&packs_mu);
    struct td_dnnl_pack *p = pack_find(w, t, scale);
    if (p != NULL) {
        atomic_fetch_add(&p->users, 1);
    } else if (make) {
        rc = pack_make(w, t, scale, &p, err);
        if (rc == TD_OK) {
            p->next = packs;
            packs = p;
        }
    }
    (void)pthread_mutex_unlock(&packs_mu);
    *out = p;
    return rc;
}

/* ------------------------------------------------------------------ a primitive's weights */

bool td_dnnl_weights_init(struct td_dnnl_weights *w)
{
    return pthread_mutex_init(&w->mu, NULL) == 0;
}

void td_dnnl_weights_fini(struct td_dnnl_weights *w)
{
    (void)dnnl_primitive_destroy(w->packer);
    td_dnnl_pack_drop(w->pack);
    td_buffer_unref(w->seen);
    td_free(w->seen_scale);
    (void)pthread_mutex_destroy(&w->mu);
}

bool td_dnnl_weights_set(struct td_dnnl_weights *w, const dnnl_memory_desc_t *used, int64_t columns,
                         bool transposed)
{
    (void)dnnl_primitive_destroy(w->packer);
    td_free(w->seen_scale);
    w->packer = NULL;
    const bool scaled = columns > 0 && w->levels == 0;
    w->seen_scale = scaled ? td_calloc((size_t)columns, sizeof *w->seen_scale) : NULL;
    w->used = *used;
    w->columns = columns;
    w->transposed = transposed;
    w->must_pack = columns > 0 || !dnnl_memory_desc_equal(&w->plain, used);
    return (!scaled || w->seen_scale != NULL) && td_dnnl_base_reorder_new(&w->packer, &w->plain, used);
}

bool td_dnnl_weights_in_panels(struct td_dnnl_weights *w, int64_t k, int64_t n, bool transposed,
                               int64_t *depth)
{
    enum { DEEP = 16 }; /* rows of the layout's blocks, which lie one behind the other in a panel */
    dnnl_dims_t dims = {k, n}, steps = {transposed ? 1 : n, transposed ? k : 1};
    dnnl_memory_desc_t used;
    *depth = (k + DEEP - 1) / DEEP * DEEP;
    return dnnl_memory_desc_init_by_strides(&w->plain, 2, dims, dnnl_f32, steps) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&used, 2, dims, dnnl_f32, dnnl_BA16a64b) == dnnl_success &&
           td_dnnl_weights_set(w, &used, 0, transposed);
}

enum td_code td_dnnl_weights_known(struct td_dnnl_weights *w, const struct td_tensor *t, struct td_err *err)
{
    if (t == NULL || t->buf == NULL || !w->must_pack || (w->columns > 0 && w->levels == 0)) {
        return TD_OK;
    }
    w->seen = td_buffer_ref(t->buf);
    return pack_get(w, t, NULL, true, &w->pack, err);
}

/* Caller holds w->mu. */
static void forget(struct td_dnnl_weights *w)
{
    td_buffer_unref(w->seen);
    td_dnnl_pack_drop(w->pack);
    w->seen = NULL;
    w->pack = NULL;
}

enum td_code td_dnnl_weights_meet(struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale,
                                  struct td_dnnl_pack **out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    *out = NULL;
    if (t->buf == NULL) {
        return TD_OK;
    }
    (void)pthread_mutex_lock(&w->mu);
    if (w->moves == MOST_MOVES) { /* trained: nothing is held, so that they may be written in place */
    } else if (w->seen != t->buf || !same_scale(w, w->seen_scale, scale)) {
        w->moves++;
        td_buffer_unref(w->seen);
        w->seen = td_buffer_ref(t->buf);
        if (w->seen_scale != NULL) {
            memcpy(w->seen_scale, scale, (size_t)w->columns * sizeof *scale);
        }
        td_dnnl_pack_drop(w->pack);
        rc = pack_get(w, t, scale, false, &w->pack, err); /* another primitive may have packed them */
    } else {
        w->moves = 0;
        rc = w->pack == NULL ? pack_get(w, t, scale, true, &w->pack, err) : TD_OK;
    }
    if (w->moves == MOST_MOVES) {
        forget(w);
    }
    if (w->pack != NULL && w->pack->source_data == t->data) {
        atomic_fetch_add(&w->pack->users, 1);
        *out = w->pack;
    }
    (void)pthread_mutex_unlock(&w->mu);
    return rc;
}
