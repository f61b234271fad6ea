/* server/train_processes.h - tensord train as one of several processes, which mpirun started or which a job
 * of several GPUs is made of (server/train/ranks.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_PROCESSES_H
#define TD_SERVER_TRAIN_PROCESSES_H

#include "server/models/devices.h"
#include "server/train/trainer.h"

/* Of the processes but rank 0: what happens is not theirs to tell. */
struct td_train_sink td_train_silence(void);
/* Threads for each process: the processors that it may use, divided among those of this machine unless mpirun
 * has given each its own. At least 1. */
int td_train_threads(const struct td_job_spec *spec);
/* Whether the job can have its GPUs where it is to compute: devices as td_devices_opts has them. */
TD_MUST enum td_code td_train_check_gpus(const struct td_job_spec *spec, const char *devices,
                                         struct td_fault *f);
/* The devices of this one of the processes: a GPU each. */
struct td_devices_opts td_train_devices(const struct td_devices_opts *o, const struct td_train_opts *train);

#endif
