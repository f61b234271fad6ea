/* kernels/dense/dnnl_pack.c - a list of packed weights that primitives share, and what each primitive has
 * seen last.
 *
 *   td_dnnl_weights (one a primitive)  seen -> td_buffer          mu guards what it has seen
 *                                      pack -> td_dnnl_pack {source, layout, scale, packed bytes}
 *   packs (the process)                list of all td_dnnl_pack   packs_mu guards the list
 *
 * A packed copy is found by source buffer, address, layout and scale. It holds a reference to its source, so
 * that address cannot come to mean other weights while it is listed. Users are counted with an atomic; who
 * drops the last one looks again under packs_mu before it frees, because another may have found the copy in
 * between. A copy is made under packs_mu: two primitives that want the same never pack it twice.
 *
 * A scale is multiplied by the reorder, where oneDNN has a fast one that does, else into the plain weights
 * first: each weight is rounded once in either way. Without a packer the product goes straight to its place.
 *
 * Copies of middling size lie one behind the other in slabs of huge pages, because such are much cheaper to
 * get than small ones (core/base/buffer.h). A slab goes with the last copy in it: what was packed together,
 * a model's weights, mostly goes together.
 *
 * Where files are kept, what another process has packed of the same weights is mapped and shared with it;
 * such pages are the system's memory, not charged to the process.
 *
 * Does not: choose the layout (the primitive's description does, kernels/dense/dnnl.c), limit the bytes that
 * are kept: a copy lives as long as a primitive that uses it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_pack.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file_pages.h"
#include "core/base/mem.h"
#include "kernels/dense/dnnl_base.h"
#include "kernels/dense/pack_keeper.h"
#include "proto/bytes/mapping.h"

struct td_dnnl_pack {
    struct td_dnnl_pack *next;
    atomic_int users;
    struct td_buffer *source; /* counted */
    const void *source_data;
    dnnl_memory_desc_t from, layout; /* how the source lies: a square matrix may be transposed; and this */
    const struct td_dnnl_transform *transform;
    int64_t columns;
    float *scale; /* columns of them, or of steps; NULL: plain weights */
    int levels;
    struct td_buffer *packed;
    bool mapped;               /* packed is a file's, of another process */
    struct td_pack_kept *kept; /* it shall be one; NULL: it is not worth it, or mapped */
};
static pthread_mutex_t packs_mu = PTHREAD_MUTEX_INITIALIZER;
static struct td_dnnl_pack *packs; /* guarded by packs_mu, as what follows; short: one a weight and layout */
static struct td_buffer *slab;     /* counted: where the next packs are put */
static size_t slab_used;

enum {
    MOST_MOVES = 4, /* weights met that were others each time: after so many they are taken to be trained */
    SMALLEST_SLABBED = 32 << 10,
    SMALLEST_KEPT = 128 << 10,
    SLAB_BYTES = 2 * TD_HUGE_PAGE
};

static void drop_slab(void *buffer)
{
    td_buffer_unref(buffer);
}

/* ------------------------------------------------------------------ packing */

/* y = x * scale of n: apart, so that the compiler makes vectors of it. */
static void multiply_each(const float *restrict x, const float *restrict scale, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * scale[i];
    }
}

static void multiply_all(const float *restrict x, float scale, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * scale;
    }
}

/* Weights end in their columns, or begin with them when transposed. */
static void multiply(const struct td_dnnl_weights *w, const float *from, const float *scale, float *to)
{
    const int64_t total = (int64_t)(dnnl_memory_desc_get_size(&w->plain) / sizeof(float)),
                  columns = w->columns, rows = total / columns;
    for (int64_t i = 0; i < (w->transposed ? columns : rows); i++) {
        if (w->transposed) {
            multiply_all(from + i * rows, scale[i], to + i * rows, rows);
        } else {
            multiply_each(from + i * columns, scale, to + i * columns, columns);
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
    if (w->transform != NULL) {
        w->transform->run(data, w->plain.dims[0], w->plain.dims[1], to);
        return true;
    }
    if (w->scales) {
        return td_dnnl_base_scaling(w->packer, &w->plain, data, &w->used, to, scale, w->columns);
    }
    if (w->columns > 0) {
        multiply(w, data, scale, w->packer == NULL ? to : room);
        data = room;
    }
    return w->packer == NULL || td_dnnl_base_reorder(w->packer, &w->plain, data, &w->used, to);
}

static size_t room_bytes(const struct td_dnnl_weights *w)
{
    return w->columns > 0 && w->packer != NULL && !w->scales ? dnnl_memory_desc_get_size(&w->plain) : 1;
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

/* Its file was cut short: it reads as zeros now. */
static bool is_lost(const struct td_dnnl_pack *p)
{
    return p->mapped && td_mapping_damaged(p->packed->data);
}

static struct td_dnnl_pack *pack_find(const struct td_dnnl_weights *w, const struct td_tensor *t,
                                      const float *scale)
{
    for (struct td_dnnl_pack *p = packs; p != NULL; p = p->next) {
        if (p->source == t->buf && p->source_data == t->data && p->columns == w->columns &&
            p->levels == w->levels && p->transform == w->transform &&
            dnnl_memory_desc_equal(&p->from, &w->plain) && dnnl_memory_desc_equal(&p->layout, &w->used) &&
            same_scale(w, p->scale, scale) && !is_lost(p)) {
            return p;
        }
    }
    return NULL;
}

static void pack_free(struct td_dnnl_pack *p)
{
    if (p->packed != NULL && !p->mapped) {
        td_budget_note(TD_MEMORY_PACKED, -(int64_t)p->packed->bytes);
    }
    td_pack_wish_drop(p->kept);
    td_buffer_unref(p->source);
    td_buffer_unref(p->packed);
    td_free(p->scale);
    td_free(p);
}

/* An empty slab goes. */
static void leave_slab(void)
{
    (void)pthread_mutex_lock(&packs_mu);
    struct td_buffer *empty = slab != NULL && td_buffer_unique(slab) ? slab : NULL;
    slab = empty != NULL ? NULL : slab;
    (void)pthread_mutex_unlock(&packs_mu);
    td_buffer_unref(empty);
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
        leave_slab();
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

/* Packed bytes, from the slab where they are of middling size. Caller holds packs_mu. */
static enum td_code packed_room(size_t bytes, struct td_buffer **out, struct td_err *err)
{
    if (bytes < SMALLEST_SLABBED || bytes >= TD_HUGE_PAGE) {
        return td_buffer_new(bytes, false, out, err);
    }
    if (slab == NULL || slab_used + bytes > slab->bytes) {
        drop_slab(slab);
        slab = NULL;
        TD_TRY(td_buffer_new(SLAB_BYTES, false, &slab, err));
        slab_used = 0;
    }
    const enum td_code rc =
        td_buffer_wrap((char *)slab->data + slab_used, bytes, drop_slab, td_buffer_ref(slab), out, err);
    if (rc) {
        drop_slab(slab);
        return rc;
    }
    slab_used += (bytes + 63) / 64 * 64;
    return TD_OK;
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
    TD_TRY(packed_room(dnnl_memory_desc_get_size(&w->used), &p->packed, err));
    td_budget_note(TD_MEMORY_PACKED, (int64_t)p->packed->bytes);
    TD_TRY(td_buffer_new(room_bytes(w), false, &room, err));
    bool ok = pack_into(w, t->data, scale, room->data, p->packed->data);
    td_buffer_unref(room);
    TD_FAIL_IF(!ok, err, INTERNAL, "oneDNN could not pack weights of %zu bytes", td_tensor_bytes(t));
    return TD_OK;
}

/* ------------------------------------------------------------------ files */

/* All that the packed bytes follow from (kernels/dense/pack_keeper.h); what is not set is zeros. */
struct key {
    struct td_content_hash origin, plain, scale;
    dnnl_memory_desc_t from, used;
    int64_t columns;
    int32_t levels, scales, transposed, unused;
    char transform[32];
};
_Static_assert(sizeof(struct key) <= TD_PACKED_KEY, "a key fits into the head of a file");

static void make_key(const struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale,
                     struct key *k)
{
    memset(k, 0, sizeof *k); /* with what lies between its fields */
    k->origin = td_pack_keeper_origin();
    k->plain = td_pack_keeper_plain(t->buf, t->data, td_tensor_bytes(t));
    if (scale != NULL) {
        k->scale = td_pack_keeper_hash(scale, (size_t)w->columns * sizeof *scale);
    }
    memcpy(&k->from, &w->plain, sizeof k->from);
    memcpy(&k->used, &w->used, sizeof k->used);
    k->columns = w->columns;
    k->levels = w->levels;
    k->scales = w->scales;
    k->transposed = w->transposed;
    if (w->transform != NULL) {
        (void)snprintf(k->transform, sizeof k->transform, "%s", w->transform->name);
    }
}

/* Small ones are packed sooner than a file is opened. */
static bool is_worth_a_file(const struct td_dnnl_weights *w)
{
    return td_pack_keeper_is_on() && dnnl_memory_desc_get_size(&w->used) >= SMALLEST_KEPT;
}

/* Steps of rounded weights stand behind the packed bytes. */
static size_t tail_bytes(const struct td_dnnl_weights *w)
{
    return w->levels > 0 ? 2 * (size_t)w->columns * sizeof(float) : 0;
}

/* p->packed stays NULL where there is no file of that key. */
static enum td_code map_file(const struct td_dnnl_weights *w, const struct key *k, const float *scale,
                             struct td_dnnl_pack *p, struct td_err *err)
{
    const size_t bytes = dnnl_memory_desc_get_size(&w->used), tail = tail_bytes(w);
    struct td_packed_file *file = td_pack_keeper_find(k, sizeof *k, bytes + tail);
    if (file == NULL) {
        return TD_OK;
    }
    const char *data = td_packed_file_data(file);
    const size_t n = tail > 0 ? tail : (size_t)w->columns * sizeof *scale;
    p->scale = n > 0 ? td_calloc(1, n) : NULL;
    enum td_code rc = n > 0 && p->scale == NULL ? td_no_memory(err, n, "packed weights") : TD_OK;
    rc = rc ? rc : td_buffer_wrap(data, bytes, td_packed_file_drop, file, &p->packed, err);
    if (rc) {
        td_packed_file_drop(file);
        return rc;
    }
    p->mapped = true;
    if (n > 0) {
        memcpy(p->scale, tail > 0 ? (const void *)(data + bytes) : scale, n);
    }
    return TD_OK;
}

/* From a file, else packed now, to be one. */
static enum td_code map_or_fill(const struct td_dnnl_weights *w, const struct td_tensor *t,
                                const float *scale, struct td_dnnl_pack *p, struct td_err *err)
{
    struct key k;
    const bool worth = is_worth_a_file(w);
    if (worth) {
        make_key(w, t, scale, &k);
        TD_TRY(map_file(w, &k, scale, p, err));
    }
    if (p->packed == NULL) {
        TD_TRY(fill(w, t, scale, p, err));
    }
    td_file_pages_drop_of(t->buf); /* who reads them as they are gets them again */
    if (worth && !p->mapped) {
        p->kept = td_pack_keeper_wish(&(struct td_pack_wish){.key = &k,
                                                             .n_key = sizeof k,
                                                             .source = p->source,
                                                             .plain = t->data,
                                                             .n_plain = td_tensor_bytes(t),
                                                             .hash = k.plain,
                                                             .packed = p->packed,
                                                             .tail = p->scale,
                                                             .n_tail = tail_bytes(w)});
    }
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
    p->transform = w->transform;
    p->columns = w->columns;
    p->levels = w->levels;
    enum td_code rc = map_or_fill(w, t, scale, p, err);
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

/* The dimensions of the plain weights that a column's number counts through, the last one fastest; 0: they do
 * not lie so. */
static int columns_mask(const struct td_dnnl_weights *w)
{
    const dnnl_memory_desc_t *md = &w->plain;
    int64_t columns = 1,
            step = w->transposed ? (int64_t)(dnnl_memory_desc_get_size(md) / sizeof(float)) / w->columns : 1;
    int n = 0;
    while (n < md->ndims && columns != w->columns) {
        columns *= md->dims[n++];
    }
    bool lie = columns == w->columns && n > 0 && md->format_kind == dnnl_blocked && md->data_type == dnnl_f32;
    for (int d = n - 1; lie && d >= 0; d--) {
        lie = md->dims[d] == 1 || md->format_desc.blocking.strides[d] == step;
        step *= md->dims[d];
    }
    return lie ? (1 << n) - 1 : 0;
}

/* A packer, from plain to used, that multiplies; false: there is none. */
static bool set_scaling(struct td_dnnl_weights *w)
{
    const int mask = columns_mask(w);
    return mask != 0 && w->used.data_type == dnnl_f32 && !dnnl_memory_desc_equal(&w->plain, &w->used) &&
           td_dnnl_base_scaling_new(&w->packer, &w->plain, &w->used, mask);
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
    w->scales = scaled && set_scaling(w);
    return (!scaled || w->seen_scale != NULL) &&
           (w->scales || td_dnnl_base_reorder_new(&w->packer, &w->plain, used));
}

enum td_code td_dnnl_weights_transformed(struct td_dnnl_weights *w, const struct td_dnnl_transform *transform,
                                         int64_t rows, int64_t columns, int64_t floats, struct td_err *err)
{
    dnnl_dims_t dims = {rows, columns}, all = {floats};
    w->transform = transform;
    w->must_pack = true;
    TD_FAIL_IF(dnnl_memory_desc_init_by_tag(&w->plain, 2, dims, dnnl_f32, dnnl_ab) != dnnl_success ||
                   dnnl_memory_desc_init_by_tag(&w->used, 1, all, dnnl_f32, dnnl_a) != dnnl_success,
               err, INTERNAL, "oneDNN could not describe weights");
    return TD_OK;
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
    if (w->pack != NULL && is_lost(w->pack)) {
        td_dnnl_pack_drop(w->pack);
        w->pack = NULL;
    }
    if (w->moves == MOST_MOVES) { /* trained: nothing is held, so that they may be written in place */
    } else if (w->seen != t->buf || !same_scale(w, w->seen_scale, scale)) {
        const bool first = w->seen == NULL && w->moves == 0;
        w->moves++;
        td_buffer_unref(w->seen);
        w->seen = td_buffer_ref(t->buf);
        if (w->seen_scale != NULL) {
            memcpy(w->seen_scale, scale, (size_t)w->columns * sizeof *scale);
        }
        td_dnnl_pack_drop(w->pack);
        rc = pack_get(w, t, scale, first, &w->pack, err); /* another primitive may have packed them */
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
