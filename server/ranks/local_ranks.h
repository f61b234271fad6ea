/* server/ranks/local_ranks.h - the processes of a job on one machine, made by its first one: a fork each,
 * sums through memory that all have mapped. What mpirun and tensord_mpi.so are for several machines.
 *
 *   rank 0   --fork-->  rank 1 .. size - 1, which die with it
 *            watches: one that ends before it has finished is lost, and so is the job
 *
 * Nobody waits for who is gone: all calls fail from then on, the other processes are ended, and what else
 * waits for them is told (on_loss). Where that does not help within LOST_S seconds, rank 0 ends as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_RANKS_LOCAL_RANKS_H
#define TD_SERVER_RANKS_LOCAL_RANKS_H

#include "server/ranks/mpi_module.h"

enum { TD_LOCAL_RANKS_MOST = 64 };

/* Its init makes the processes, `size` in all: called by one that has a single thread. */
const struct td_mpi_module *td_local_ranks(int size);

#endif
