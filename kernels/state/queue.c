/* kernels/state/queue.c - queues of tensor tuples: first in first out, padded, by priority, and shuffled; and
 * stacks.
 *
 *   queue resource: one for each (container, shared_name or node name) of a model version, kept between runs
 *
 * The four kinds differ in which element leaves next and in what DequeueMany does with unequal shapes.
 * Waiting for elements or for room polls the stop word, so that a run which is to end does end. An element
 * that a failed DequeueMany had taken goes back to the front. Threads: mu guards all fields below it.
 *
 * Not here: barriers, staging areas, and the reference-typed handles of the first queue ops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/state/queue.h"

#include <time.h>

#include "core/base/mem.h"

static void element_clear(const struct td_queue *q, struct td_queue_element *e)
{
    for (int k = 0; e->parts && k < q->n_types; k++) {
        td_tensor_clear(&e->parts[k]);
    }
    td_free(e->parts);
    e->parts = NULL;
}

static void queue_destroy(struct td_obj *o)
{
    struct td_queue *q = (struct td_queue *)o;
    for (int64_t i = 0; i < q->n; i++) {
        element_clear(q, &q->items[(q->head + i) % q->cap]);
    }
    td_free(q->items);
    td_free(q->types);
    td_free(q->shapes);
    td_free(q->name);
    pthread_mutex_destroy(&q->mu);
    td_free(q);
}

const struct td_obj_type td_queue_type = {.name = "Queue", .destroy = queue_destroy};

static const char *const kind_names[] = {"FIFOQueue", "PaddingFIFOQueue", "PriorityQueue",
                                         "RandomShuffleQueue"};

/* ------------------------------------------------------------------ making */

static enum td_code set_component(struct td_queue *q, int k, enum td_dtype type, const struct td_shape *shape,
                                  struct td_err *err)
{
    TD_FAIL_IF(q->kind == TD_QUEUE_PADDING && shape->rank < 0, err, INVALID_ARGUMENT,
               "PaddingFIFOQueue '%s': component %d has unknown rank, want a known one", q->name, k);
    q->types[k] = type;
    q->shapes[k] = *shape;
    return TD_OK;
}

static enum td_code set_components(struct td_queue *q, const struct td_node *n, struct td_err *err)
{
    int n_types, n_shapes, first = q->kind == TD_QUEUE_PRIORITY;
    const enum td_dtype *types = td_attr_types(n, "component_types", &n_types);
    const struct td_shape *shapes = td_attr_shapes(n, "shapes", &n_shapes);
    struct td_shape scalar = td_shape_scalar(), unknown = td_shape_unknown();
    bool optional = q->kind == TD_QUEUE_FIFO || q->kind == TD_QUEUE_SHUFFLE;
    TD_FAIL_IF(n_shapes != n_types && !(optional && n_shapes == 0), err, INVALID_ARGUMENT,
               "%s: Shapes must be provided for all components, but received %d dtypes and %d shapes.",
               TD_NODE_STR(n), n_types, n_shapes);
    q->n_types = n_types + first;
    q->has_shapes = n_shapes > 0 || n_types == 0;
    q->types = td_calloc((size_t)q->n_types + 1, sizeof *q->types);
    q->shapes = td_calloc((size_t)q->n_types + 1, sizeof *q->shapes);
    if (!q->types || !q->shapes) {
        return td_no_memory(err, (size_t)q->n_types * sizeof *q->shapes, "queue components");
    }
    if (first) {
        TD_TRY(set_component(q, 0, TD_INT64, &scalar, err));
    }
    for (int k = 0; k < n_types; k++) {
        TD_TRY(set_component(q, k + first, types[k], n_shapes ? &shapes[k] : &unknown, err));
    }
    return TD_OK;
}

enum td_code td_queue_new(enum td_queue_kind kind, const struct td_node *n, const char *name,
                          struct td_queue **out, struct td_err *err)
{
    struct td_queue *q = td_calloc(1, sizeof *q);
    if (!q) {
        return td_no_memory(err, sizeof *q, "queue");
    }
    td_obj_init(&q->obj, &td_queue_type);
    pthread_mutex_init(&q->mu, NULL);
    q->kind = kind;
    q->name = td_strdup(name);
    q->capacity = td_attr_int(n, "capacity") < 0 ? INT32_MAX : td_attr_int(n, "capacity");
    q->keep = kind == TD_QUEUE_SHUFFLE ? td_attr_int(n, "min_after_dequeue") : 0;
    enum td_code rc = q->name ? set_components(q, n, err) : td_no_memory(err, strlen(name), "queue");
    if (!rc && (q->keep < 0 || q->keep > q->capacity)) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: min_after_dequeue is %lld, want 0 to the capacity %lld",
                     TD_NODE_STR(n), (long long)q->keep, (long long)q->capacity);
    }
    if (rc) {
        td_obj_unref(&q->obj);
        return rc;
    }
    *out = q;
    return TD_OK;
}

/* ------------------------------------------------------------------ the ring, q locked */

static struct td_queue_element *at(const struct td_queue *q, int64_t i)
{
    return &q->items[(q->head + i) % q->cap];
}

static enum td_code ring_grow(struct td_queue *q, struct td_err *err)
{
    if (q->n < q->cap) {
        return TD_OK;
    }
    int64_t cap = q->cap ? q->cap * 2 : 16;
    struct td_queue_element *items = td_calloc((size_t)cap, sizeof *items);
    if (!items) {
        return td_no_memory(err, (size_t)cap * sizeof *items, "queue elements");
    }
    for (int64_t i = 0; i < q->n; i++) {
        items[i] = *at(q, i);
    }
    td_free(q->items);
    q->items = items;
    q->head = 0;
    q->cap = cap;
    return TD_OK;
}

static int64_t priority(const struct td_queue_element *e)
{
    return TD_DATA(&e->parts[0], int64_t)[0];
}

/* By priority the ring is kept sorted, equal ones in order of arrival. */
static enum td_code push_back(struct td_queue *q, struct td_queue_element *takes, struct td_err *err)
{
    TD_TRY(ring_grow(q, err));
    int64_t i = q->n++;
    if (q->kind == TD_QUEUE_PRIORITY) {
        for (; i > 0 && priority(at(q, i - 1)) > priority(takes); i--) {
            *at(q, i) = *at(q, i - 1);
        }
    }
    *at(q, i) = *takes;
    takes->parts = NULL;
    return TD_OK;
}

/* Room for it is certain: it was taken from this ring. */
static void push_front(struct td_queue *q, struct td_queue_element *takes, struct td_err *err)
{
    if (ring_grow(q, err)) {
        element_clear(q, takes);
        return;
    }
    q->head = (q->head + q->cap - 1) % q->cap;
    q->n++;
    *at(q, 0) = *takes;
    takes->parts = NULL;
}

static void pop(struct td_queue *q, struct td_queue_element *out)
{
    if (q->kind == TD_QUEUE_SHUFFLE) {
        struct td_queue_element *e = at(q, td_philox_word(&q->words) % (uint64_t)q->n);
        *out = *e;
        *e = *at(q, --q->n);
        return;
    }
    *out = *at(q, 0);
    q->head = (q->head + 1) % q->cap;
    q->n--;
}

/* ------------------------------------------------------------------ waiting */

static void pause_a_little(void)
{
    const struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

static enum td_code put_wait(struct td_call *c, struct td_queue *q, struct td_queue_element *takes,
                             struct td_err *err)
{
    for (;;) {
        pthread_mutex_lock(&q->mu);
        enum td_code rc = TD_OK;
        bool room = q->n < q->capacity;
        if (q->cancelled) {
            rc = td_fail(err, TD_CANCELLED, "%s: Enqueue operation was cancelled", TD_NODE_STR(c->node));
        } else if (room) {
            rc = push_back(q, takes, err);
        }
        pthread_mutex_unlock(&q->mu);
        if (rc || room) {
            return rc;
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        pause_a_little();
    }
}

enum td_code td_queue_put(struct td_call *c, struct td_queue *q, struct td_queue_element *items, int64_t n,
                          struct td_err *err)
{
    pthread_mutex_lock(&q->mu);
    bool closed = q->closed;
    q->putting += !closed;
    pthread_mutex_unlock(&q->mu);
    enum td_code rc = TD_OK;
    if (closed) {
        rc = td_fail(err, TD_CANCELLED, "%s: %s '%s' is closed.", TD_NODE_STR(c->node), kind_names[q->kind],
                     q->name);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = put_wait(c, q, &items[i], err);
    }
    for (int64_t i = 0; i < n; i++) {
        element_clear(q, &items[i]);
    }
    if (!closed) {
        pthread_mutex_lock(&q->mu);
        q->putting--;
        pthread_mutex_unlock(&q->mu);
    }
    return rc;
}

/* Takes what is there, at most `want`; *over is set when no more will come. */
static int64_t take_some(struct td_queue *q, struct td_queue_element *out, int64_t want, bool *over)
{
    int64_t got = 0;
    pthread_mutex_lock(&q->mu);
    int64_t keep = q->closed ? 0 : q->keep;
    while (got < want && q->n > keep) {
        pop(q, &out[got++]);
    }
    *over = q->closed && q->putting == 0 && q->n == 0;
    pthread_mutex_unlock(&q->mu);
    return got;
}

static void give_back(struct td_queue *q, struct td_queue_element *items, int64_t n)
{
    struct td_err ignored = {0};
    pthread_mutex_lock(&q->mu);
    while (n-- > 0) {
        push_front(q, &items[n], &ignored);
    }
    pthread_mutex_unlock(&q->mu);
}

/* A closed queue holds `have` of n elements. They go back, but for those of a priority queue asked for up to
 * n: TensorFlow loses these, and its message says so. */
static enum td_code refuse_rest(struct td_call *c, struct td_queue *q, struct td_queue_element *out,
                                int64_t n, int64_t have, bool up_to, struct td_err *err)
{
    if (up_to) {
        td_queue_clear(q, out, have);
        n -= have;
        have = 0;
    } else {
        give_back(q, out, have);
    }
    return td_fail(err, TD_OUT_OF_RANGE,
                   "%s: %s '%s' is closed and has insufficient elements (requested %lld, current size %lld)",
                   TD_NODE_STR(c->node), kind_names[q->kind], q->name, (long long)n, (long long)have);
}

enum td_code td_queue_take(struct td_call *c, struct td_queue *q, struct td_queue_element *out, int64_t n,
                           bool up_to, int64_t *got, struct td_err *err)
{
    int64_t have = 0;
    for (;;) {
        bool over;
        have += take_some(q, out + have, n - have, &over);
        const bool few_will_do = up_to && q->kind != TD_QUEUE_PRIORITY;
        if (have == n || (over && few_will_do && have > 0)) {
            *got = have;
            return TD_OK;
        }
        if (over) {
            return refuse_rest(c, q, out, n, have, up_to, err);
        }
        if (td_stopped(c)) {
            give_back(q, out, have);
            return td_stop_error(c, err);
        }
        pause_a_little();
    }
}

enum td_code td_queue_close(struct td_call *c, struct td_queue *q, bool cancel_pending, struct td_err *err)
{
    pthread_mutex_lock(&q->mu);
    bool was = q->closed && !(cancel_pending && !q->cancelled);
    q->closed = true;
    q->cancelled |= cancel_pending;
    pthread_mutex_unlock(&q->mu);
    TD_FAIL_IF(was, err, CANCELLED, "%s: Queue '%s' is already closed.", TD_NODE_STR(c->node), q->name);
    return TD_OK;
}

int64_t td_queue_size(struct td_queue *q, bool *closed)
{
    pthread_mutex_lock(&q->mu);
    int64_t n = q->n;
    *closed = q->closed;
    pthread_mutex_unlock(&q->mu);
    return n;
}

void td_queue_clear(const struct td_queue *q, struct td_queue_element *items, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        element_clear(q, &items[i]);
    }
}
