/* server/train_run.h - one job as a process: an engine, the version that is trained, threads, signals; then
 * td_train.
 *
 *   SIGTERM, SIGINT, SIGHUP    saves after the step in hand and ends with TD_TRAIN_PAUSED
 *   one of them again          ends the process at once: what was saved last is what it goes on from
 *
 * Kernels are chosen without trials, so that a job that goes on computes with the same ones.
 *
 * Threads: td_train_run is called once, on the main thread, before any other thread is made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_RUN_H
#define TD_SERVER_TRAIN_RUN_H

#include "server/models/devices.h"
#include "server/train/trainer.h"

struct td_train_run_opts {
    const char *model; /* its name */
    int64_t version;
    const char *dir;                /* the version's folder */
    const char *serving_dir;        /* of the version that serves now, for the gate; NULL: dir */
    int threads;                    /* 0: as many as processors */
    const char *tags, *op_library;  /* as the daemon's flags; NULL: their defaults */
    struct td_devices_opts devices; /* zeroed: the CPU */
    bool log_placement;             /* of each node, when it is compiled */
    struct td_train_opts train;     /* but servable, serving, pause and pool, which are filled in */
};
TD_MUST enum td_code td_train_run(const struct td_train_run_opts *o, struct td_train_outcome *out,
                                  struct td_fault *f);

/* Exit statuses of a job's process: done; its own fault or the machine's; the job cannot be done as it is
 * asked for; stopped by a signal with its progress saved. */
enum {
    TD_TRAIN_EXIT_DONE = 0,
    TD_TRAIN_EXIT_OTHER = 1,
    TD_TRAIN_EXIT_BAD_JOB = 2,
    TD_TRAIN_EXIT_PAUSED = 75
};
int td_train_exit_status(enum td_code rc, const struct td_train_outcome *out, const struct td_fault *f);

#endif
