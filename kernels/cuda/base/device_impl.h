/* kernels/cuda/base/device_impl.h - a GPU's state, as device.c runs on it, device_graph.c records
 * on it, and device_restart.c makes it anew.
 *
 * What is of a context carries its number: streams and events are made again in the next one when somebody
 * wants them, memory and recordings are gone, and nobody asks CUDA about these. The number changes under mu,
 * while no stream has a user and calls is 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_DEVICE_IMPL_H
#define TD_KERNELS_CUDA_BASE_DEVICE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/base/made.h"
#include "kernels/cuda/base/pinned.h"

struct td_stream {
    struct td_cuda_stream *at; /* NULL: none in this context, which nobody has used it in yet */
    struct cuda_device *device;
    bool records;      /* it is a graph's, and on no list */
    uint64_t recorded; /* kernels of that */
    /* of a conditional node's body: CUDA's number of what decides on it, and the stream that the node is in
     * */
    uint64_t condition;
    struct td_stream *around;
    int users;
    uint64_t freed, gone; /* gone <= freed */
    struct td_stream *next;
};

struct td_recording {
    struct td_cuda_graph *at;
    uint64_t kernels;
    unsigned context;
};

struct td_event {
    struct td_cuda_event *at;
    unsigned context;         /* that it is of; in another one it is made again */
    struct td_stream *stream; /* where it was recorded last, and what that had been told to free */
    uint64_t freed;
    struct td_event *next;
};

struct cuda_device {
    struct td_device base;
    char name[32], machine[200];
    struct td_cuda_libraries libraries;
    int number, most_streams; /* 0: any number */
    unsigned nodes;           /* conditional nodes that graphs may have: bits by enum td_cuda_node */
    uint64_t limit;
    struct td_cuda_makers *makers;
    struct td_cuda_pinned *pinned;
    atomic_int lost; /* CUDA's error number; 0: it works */
    atomic_uint_fast64_t graphs, graphs_made, graph_launches, graph_kernels;
    atomic_uint_fast64_t launches, copies[TD_COPY_KINDS], copied[TD_COPY_KINDS];
    atomic_uint context;
    pthread_mutex_t mu; /* guards what follows */
    bool restarting;
    int calls; /* of CUDA's under way by those who have no stream open */
    uint64_t held, most;
    struct td_stream *streams;
    int n_streams;
    struct td_event *events; /* idle */
};

/* Of a call on the device: an error that stays is remembered. */
enum td_code td_cuda_device_checked(struct cuda_device *d, int error, const char *what, struct td_err *err);
enum td_code td_cuda_device_alive(struct cuda_device *d, struct td_err *err);
/* Before a call of CUDA's by somebody who may have no stream open, about what is of this context. False: it
 * is gone, or of no use to this process, and CUDA need not be asked. */
bool td_cuda_device_enter(struct cuda_device *d, unsigned context);
void td_cuda_device_leave(struct cuda_device *d);
/* Gives it the functions that record. (device_graph.c) */
void td_cuda_device_record(struct td_device *d);

#endif
