/* tests/sim/sim_gpu.h - a GPU on the simulated clock (sim_clock.h), beneath the module's own device.
 *
 *   kernels/cuda/base/device.c   the daemon's: streams shared, memory charged, events kept
 *   kernels/cuda/base/runtime.h  is this, in the place of CUDA: streams are queues, copies and kernels take
 *                                time
 *   kernels                      the host's, computed where they are launched, so that answers are right
 *
 * What takes how long (struct sim_gpu_costs): a kernel its floating point operations or its bytes, whichever
 * takes longer, on the part of the GPU that its blocks fill, and a fixed time. Kernels at the heads of
 * several streams run at once; where they want more than the whole GPU each gets its part of it. One engine
 * copies to the device and one to the host, in the order in which copies come to the heads of their streams.
 * Calls take the calling thread's time; a copy from or to the host's ordinary memory takes it for the
 * staging, and one to the host until it is done, as CUDA has it; so does filling pinned memory from other.
 * Nothing else of the host takes time.
 *
 * Memory is held from the call that allocates until the stream comes to the call that frees; what is queued
 * to be freed may be used again in its own stream before that.
 *
 * It knows no caches, clocks, power, or what two kernels do to each other but for their shares.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SIM_GPU_H
#define TD_TESTS_SIM_GPU_H

#include "core/base/device.h"

#include <stdint.h>

struct sim_gpu_costs {
    double flops_per_ns;       /* of the whole GPU */
    double bytes_per_ns;       /* of its memory */
    double copy_bytes_per_ns;  /* of each copy engine */
    double stage_bytes_per_ns; /* of the host, into or out of pinned memory; 0: it takes no time */
    uint64_t pinned;           /* bytes that the device may pin */
    int64_t kernel_ns;         /* a kernel's fixed time */
    int64_t copy_ns;           /* a copy's */
    int64_t launch_ns;         /* of the thread that launches, or queues a copy */
    int64_t call_ns;           /* of any other call */
    int processors;            /* SMs */
    uint64_t memory;
    bool blind; /* nothing is computed or copied: outputs are zeros */
};
extern const struct sim_gpu_costs sim_gpu_h100; /* data sheet's numbers, and times that are usual */

/* Returns new, to be closed by td_cuda_device_close. One at a time. */
struct td_device *sim_gpu_open(const struct sim_gpu_costs *costs, int streams, uint64_t limit);

/* Sums since it was opened, in ns. */
struct sim_gpu_counts {
    double kernels;          /* at least one kernel ran */
    double processors;       /* all processors' time that kernels had, in whole GPUs */
    double to_device;        /* the engine copied */
    double to_host;          /* likewise */
    double copied_meanwhile; /* one of them copied while a kernel ran */
    uint64_t held, most;     /* bytes */
    uint64_t launches;
};
struct sim_gpu_counts sim_gpu_count(void);
void sim_gpu_forget_most(void); /* `most` counts from now */
/* Streams' time that kernels of a model had, in ns. */
double sim_gpu_used_by(const void *model);
int sim_gpu_busy_streams(void); /* with work that is queued or runs; with the clock's lock */
int sim_gpu_open_streams(void); /* that a run has; likewise */

#endif
