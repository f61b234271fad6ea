/* tests/sim/sim_load.h - the daemon's inside without its wires, on a simulated GPU: engine, workers, models,
 * and requests to them.
 *
 * Threads: start and stop are the test's own thread's; requests are made and run on any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SIM_LOAD_H
#define TD_TESTS_SIM_LOAD_H

#include <semaphore.h>

#include "core/run/engine.h"
#include "server/sched/request.h"
#include "server/sched/workers_impl.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_gpu.h"

struct sim_load_opts {
    enum sim_threads threads;
    uint64_t seed;
    int processors, streams; /* workers of the host; streams of the GPU, each a run at a time */
    uint64_t limit;          /* bytes of the GPU; 0: all */
    struct sim_gpu_costs costs;
    bool no_batching;
    enum td_kernel_choice kernels;
};

struct sim_load {
    struct td_engine engine;
    struct td_device *device;
    struct td_workers *workers;
    enum td_kernel_choice kernels;
};

void sim_load_start(struct sim_load *l, const struct sim_load_opts *o);
void sim_load_stop(struct sim_load *l); /* its models are gone */
struct td_servable *sim_load_model(struct sim_load *l, const char *name, const char *dir);

/* A request of one input. */
struct sim_ask {
    struct td_request r; /* first */
    struct td_named in;
    sem_t ended;
    struct td_err err;
    int64_t from_ns, took_ns; /* until it ended */
    int64_t encode_ns;        /* that its answer takes the worker */
};
/* x: what the default signature's only input is; borrowed until sim_ask_drop. */
void sim_ask_make(struct sim_ask *a, struct td_servable *s, const struct td_tensor *x, int64_t thread_ns);
void sim_ask_enter(struct sim_load *l, struct sim_ask *a);
enum td_code sim_ask_wait(struct sim_ask *a);
enum td_code sim_ask_run(struct sim_load *l, struct sim_ask *a); /* both */
void sim_ask_drop(struct sim_ask *a);
int sim_load_encoding(void); /* threads that encode an answer; with the clock's lock */

#endif
