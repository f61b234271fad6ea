/* server/train_processes.h - tensord train as one of several processes that mpirun started
 * (server/train/ranks.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_PROCESSES_H
#define TD_SERVER_TRAIN_PROCESSES_H

#include "server/train/trainer.h"

/* Of the processes but rank 0: what happens is not theirs to tell. */
struct td_train_sink td_train_silence(void);
/* Threads for each process: the processors that it may use, divided among those of this machine unless mpirun
 * has given each its own. At least 1. */
int td_train_threads(void);

#endif
