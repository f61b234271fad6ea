/* kernels/state/queue.h - the queue object behind the queue ops (queue_ops.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_STATE_QUEUE_H
#define TD_KERNELS_STATE_QUEUE_H

#include <pthread.h>

#include "core/graph/graph.h"
#include "kernels/math/philox.h"

enum td_queue_kind { TD_QUEUE_FIFO, TD_QUEUE_PADDING, TD_QUEUE_PRIORITY, TD_QUEUE_SHUFFLE };

struct td_queue_element {
    struct td_tensor *parts;
}; /* as many as the queue has components; owned */

struct td_queue {
    struct td_obj obj;
    /* constant */
    enum td_queue_kind kind;
    char *name;
    int n_types;
    enum td_dtype *types;
    struct td_shape *shapes; /* unknown rank where has_shapes is false */
    bool has_shapes;
    int64_t capacity;
    int64_t keep; /* elements that stay while the queue is open (min_after_dequeue) */
    /* guarded by mu */
    pthread_mutex_t mu;
    bool closed, cancelled;
    int putting;                    /* enqueue calls under way */
    struct td_queue_element *items; /* ring of cap, n used from head on */
    int64_t head, n, cap;
    struct td_philox generator;
    struct td_philox_words words;
};
extern const struct td_obj_type td_queue_type;

/* As the attributes of node n say. Returns new. */
TD_MUST enum td_code td_queue_new(enum td_queue_kind kind, const struct td_node *n, const char *name,
                                  struct td_queue **out, struct td_err *err);
/* Adds n elements (their parts are taken, also on failure), waiting for room. CANCELLED once closed. */
TD_MUST enum td_code td_queue_put(struct td_call *c, struct td_queue *q, struct td_queue_element *items,
                                  int64_t n, struct td_err *err);
/* Takes n elements (with up_to: at least one once closed), waiting for them; they are the caller's
 * (td_queue_clear). OUT_OF_RANGE when the queue is closed and will never have them. */
TD_MUST enum td_code td_queue_take(struct td_call *c, struct td_queue *q, struct td_queue_element *out,
                                   int64_t n, bool up_to, int64_t *got, struct td_err *err);
TD_MUST enum td_code td_queue_close(struct td_call *c, struct td_queue *q, bool cancel_pending,
                                    struct td_err *err);
int64_t td_queue_size(struct td_queue *q, bool *closed);
void td_queue_clear(const struct td_queue *q, struct td_queue_element *items, int64_t n);

#endif
