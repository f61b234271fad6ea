/* core/run/device_weights.c - a hash table of host bytes and their copies, for each model; and the list of
 * all tables, for when memory is short.
 *
 * Threads: mu of the list is taken before that of a table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_weights.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/mem.h"

enum { BUCKETS = 256 };

struct weight {
    struct weight *next;
    struct td_buffer *here, *there; /* a reference to each */
    const void *data;               /* the bytes in `here` */
    size_t bytes;
    int64_t columns; /* of the matrix that was swapped, its last axis; 0: it lies as it is */
    size_t element;  /* bytes of a number of that; else 0 */
};

struct td_device_weights {
    const struct td_device *device;
    pthread_mutex_t mu; /* guards what follows */
    struct weight *buckets[BUCKETS];
    atomic_size_t bytes;
    struct td_device_weights *next; /* under all_mu */
};

static pthread_mutex_t all_mu = PTHREAD_MUTEX_INITIALIZER;
static struct td_device_weights *all;

enum td_code td_device_weights_new(const struct td_device *d, struct td_device_weights **out,
                                   struct td_err *err)
{
    struct td_device_weights *w = td_calloc(1, sizeof *w);
    if (w == NULL || pthread_mutex_init(&w->mu, NULL) != 0) {
        td_free(w);
        return td_no_memory(err, sizeof *w, "a model's weights on a device");
    }
    w->device = d;
    pthread_mutex_lock(&all_mu);
    w->next = all;
    all = w;
    pthread_mutex_unlock(&all_mu);
    *out = w;
    return TD_OK;
}

static bool in_use(const struct td_buffer *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) > 1;
}

/* Under mu: drops the weights that nobody holds, here or there, and those that are gone. Returns their
 * bytes. */
static size_t drop(struct td_device_weights *w, bool unread)
{
    size_t bytes = 0;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct weight **p = &w->buckets[i]; *p != NULL;) {
            struct weight *x = *p;
            if (!td_buffer_is_gone(x->there) && (in_use(x->there) || (!unread && in_use(x->here)))) {
                p = &x->next;
                continue;
            }
            *p = x->next;
            bytes += x->bytes;
            td_buffer_unref(x->there);
            td_buffer_unref(x->here);
            td_free(x);
        }
    }
    atomic_fetch_sub(&w->bytes, bytes);
    return bytes;
}

void td_device_weights_free(struct td_device_weights *w)
{
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&all_mu);
    for (struct td_device_weights **p = &all; *p != NULL; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            break;
        }
    }
    pthread_mutex_unlock(&all_mu);
    (void)drop(w, true);
    pthread_mutex_destroy(&w->mu);
    td_free(w);
}

size_t td_device_weights_trim(const struct td_device *d)
{
    size_t bytes = 0;
    pthread_mutex_lock(&all_mu);
    for (struct td_device_weights *w = all; w != NULL; w = w->next) {
        if (w->device == d) {
            pthread_mutex_lock(&w->mu);
            bytes += drop(w, true);
            pthread_mutex_unlock(&w->mu);
        }
    }
    pthread_mutex_unlock(&all_mu);
    return bytes;
}

size_t td_device_weights_bytes(const struct td_device_weights *w)
{
    return w == NULL ? 0 : atomic_load(&w->bytes);
}

/* ------------------------------------------------------------------ one tensor */

static struct weight **bucket_of(struct td_device_weights *w, const void *data)
{
    return &w->buckets[((uintptr_t)data >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> 56];
}

enum { SIDE = 32 };

/* to [columns, rows] = from [rows, columns], by squares that fit into a cache. */
#define SWAP(name, type)                                                                                     \
    static void name(const type *restrict from, type *restrict to, int64_t rows, int64_t columns)            \
    {                                                                                                        \
        for (int64_t top = 0; top < rows; top += SIDE) {                                                     \
            const int64_t bottom = top + SIDE < rows ? top + SIDE : rows;                                    \
            for (int64_t left = 0; left < columns; left += SIDE) {                                           \
                const int64_t right = left + SIDE < columns ? left + SIDE : columns;                         \
                for (int64_t c = left; c < right; c++) {                                                     \
                    for (int64_t r = top; r < bottom; r++) {                                                 \
                        to[c * rows + r] = from[r * columns + c];                                            \
                    }                                                                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
SWAP(swap_2, uint16_t)
SWAP(swap_4, uint32_t)
SWAP(swap_8, uint64_t)

static bool can_swap(const struct td_tensor *t)
{
    const size_t element = td_dtype_size(t->dtype);
    return t->shape.rank > 0 && (element == 2 || element == 4 || element == 8);
}

/* The bytes of `here` as x is to have them: *room, new, where they are swapped. */
static enum td_code arrange(const struct weight *x, const struct td_tensor *here, void **room,
                            struct td_err *err)
{
    *room = NULL;
    if (x->columns == 0) {
        return TD_OK;
    }
    const int64_t rows = td_tensor_count(here) / x->columns;
    *room = td_alloc_aligned(64, (x->bytes + 63) / 64 * 64);
    if (*room == NULL) {
        return td_no_memory(err, x->bytes, "a weight that is swapped");
    }
    switch (x->element) {
    case 2:
        swap_2(here->data, *room, rows, x->columns);
        break;
    case 4:
        swap_4(here->data, *room, rows, x->columns);
        break;
    default:
        swap_8(here->data, *room, rows, x->columns);
        break;
    }
    return TD_OK;
}

/* Copies the bytes to where x->there will be, and waits. */
static enum td_code send(const struct td_device *d, struct weight *x, const void *from, struct td_err *err)
{
    struct td_stream *stream = NULL;
    struct td_event *event = NULL;
    enum td_code rc = d->stream_open(d, &stream, err);
    rc = rc ? rc : d->event_open(d, &event, err);
    rc = rc ? rc : td_buffer_new_on(d, stream, x->bytes, &x->there, err);
    rc = rc ? rc : d->copy(d, stream, TD_COPY_TO_DEVICE, x->there->data, from, x->bytes, err);
    if (event != NULL && x->there != NULL) { /* also behind an error: nothing may be queued at its end */
        rc = rc ? rc : d->event_record(d, stream, event, err);
        rc = rc ? rc : d->event_wait(d, event, err);
    }
    if (rc) {
        td_buffer_unref(x->there);
        x->there = NULL;
    } else {
        td_buffer_off_stream(x->there); /* whoever gives it back has waited for all that used it */
    }
    if (event != NULL) {
        d->event_close(d, event);
    }
    if (stream != NULL) {
        d->stream_close(d, stream);
    }
    return rc;
}

/* Under mu. */
static enum td_code add(struct td_device_weights *w, const struct td_tensor *here, bool swapped,
                        struct weight **out, struct td_err *err)
{
    void *room;
    struct weight *x = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "a weight on a device");
    }
    (void)drop(w, false);
    *x = (struct weight){.here = here->buf, .data = here->data, .bytes = td_tensor_bytes(here)};
    if (swapped) {
        x->columns = here->shape.dim[here->shape.rank - 1];
        x->element = td_dtype_size(here->dtype);
    }
    enum td_code rc = arrange(x, here, &room, err);
    rc = rc ? rc : send(w->device, x, room != NULL ? room : x->data, err);
    td_free(room);
    if (rc) {
        td_free(x);
        return rc;
    }
    td_buffer_ref(x->here);
    struct weight **bucket = bucket_of(w, x->data);
    x->next = *bucket;
    *bucket = x;
    atomic_fetch_add(&w->bytes, x->bytes);
    *out = x;
    return TD_OK;
}

static bool is_of(const struct weight *x, const struct td_tensor *here, bool swapped)
{
    return x->data == here->data && x->bytes == td_tensor_bytes(here) && !td_buffer_is_gone(x->there) &&
           (swapped ? x->columns == here->shape.dim[here->shape.rank - 1] &&
                          x->element == td_dtype_size(here->dtype)
                    : x->columns == 0);
}

enum td_code td_device_weights_get(struct td_device_weights *w, const struct td_tensor *here, bool swapped,
                                   struct td_tensor *there, struct td_err *err)
{
    enum td_code rc = TD_OK;
    TD_FAIL_IF(swapped && !can_swap(here), err, UNIMPLEMENTED, "a weight cannot be swapped");
    pthread_mutex_lock(&w->mu);
    struct weight *x = *bucket_of(w, here->data);
    while (x != NULL && !is_of(x, here, swapped)) {
        x = x->next;
    }
    rc = x == NULL ? add(w, here, swapped, &x, err) : TD_OK;
    if (rc == TD_OK) {
        *there = (struct td_tensor){.buf = td_buffer_ref(x->there),
                                    .data = x->there->data,
                                    .dtype = here->dtype,
                                    .device = w->device,
                                    .shape = here->shape};
    }
    pthread_mutex_unlock(&w->mu);
    return rc;
}
