/* kernels/dense/dnnl_parts.h - what primitives share that fall into parts for several threads: whether to,
 * and that the parts are made once, when workers idle for the first time and the whole takes long enough.
 *
 * The parts themselves are their owner's: struct td_dnnl_parts says how many there are.
 *
 * Threads: any; parts are immutable once made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_PARTS_H
#define TD_KERNELS_CPU_DNNL_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/thread_pool.h"
#include "core/graph/op.h"

struct td_dnnl_parts {
    struct td_parallel_cost cost;
    pthread_mutex_t mu; /* guards the making */
    atomic_bool made;
    int n; /* 0: it cannot be split */
};

bool td_dnnl_parts_init(struct td_dnnl_parts *p); /* false: no lock is to be had */
void td_dnnl_parts_fini(struct td_dnnl_parts *p);

/* Makes as many as are wanted, or as there may be, and sets p->n; on failure it is 0 again. */
typedef void td_dnnl_parts_make(void *whole, int wanted);
/* Whether there are parts: make(whole, wanted) is called once in p's life. */
bool td_dnnl_parts_are_made(struct td_dnnl_parts *p, td_dnnl_parts_make *make, void *whole, int wanted);

struct td_dnnl_whole {
    double work, least; /* multiplications; with fewer it is over before a helper comes */
    td_dnnl_parts_make *make;
    void *whole;
    int most; /* threads that may share it */
};
/* How to run it this time. */
enum td_parallel_way td_dnnl_parts_way(struct td_dnnl_parts *p, const struct td_call *c,
                                       const struct td_dnnl_whole *w);

#endif
