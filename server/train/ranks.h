/* server/train/ranks.h - the processes of a data-parallel job: mpirun -n N tensord train JOB.json, or as
 * many as the job wants GPUs.
 *
 *   mpirun sets variables -> td_ranks_open loads tensord_mpi.so, which alone links MPI -> rank, size
 *   a job wants N GPUs    -> td_ranks_open forks (server/ranks/local_ranks.h)          -> rank, size
 *
 * All processes read the same files; each takes its share of every batch (server/train/rows.h) and sums
 * gradients, losses and sums of metrics with the others, so that the numbers are those of one process with
 * the whole batch. Rank 0 alone tells the sink, saves progress and writes the result.
 *
 * Gradients are summed while the backward pass goes on (core/base/collective.h): a thread takes them in the
 * order of their numbers, joins small ones to buckets, and calls MPI.
 *
 *   step's threads   --add-->  slots 0 1 2 3 ..  --bucket [0..2]-->  thread: MPI_Allreduce
 *                    <-take--                    <--------done-----
 *
 * What makes a bucket is the same in every process: numbers, sizes and marks, never times.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_RANKS_H
#define TD_SERVER_TRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/collective.h"
#include "server/train/fault.h"

struct td_ranks;

/* Whether mpirun (or srun) started this process. */
bool td_ranks_wanted(void);
/* wanted: how many processes, where mpirun has started none: this one, which has a single thread so far,
 * makes the others, and all return from here. Returns new; *out stays NULL when this process is alone.
 * UNAVAILABLE names what is missing (the module, the MPI library). Sets the process's collective. */
TD_MUST enum td_code td_ranks_open(int wanted, struct td_ranks **out, struct td_err *err);
void td_ranks_close(struct td_ranks *r); /* accepts NULL */
/* Of NULL: 0 and 1. */
int td_ranks_rank(const struct td_ranks *r);
int td_ranks_size(const struct td_ranks *r);
/* Its number among those of this machine. */
int td_ranks_here(const struct td_ranks *r);
/* Whether one of those that td_ranks_open made is gone, and how; from then on nothing is summed. */
bool td_ranks_lost(const struct td_ranks *r, char *text, size_t room);
/* told is called once when that comes to be, on a thread of its own; NULL: no more. */
void td_ranks_on_loss(struct td_ranks *r, void (*told)(void *ctx), void *ctx);

enum { TD_RANKS_SUMS = 1 << 16 }; /* numbered from 0, in a run */
/* INTERNAL: it has none of these numbers. Nodes say which sum they mean, and a file may have some. */
TD_MUST enum td_code td_ranks_check_sum(const struct td_sum *s, struct td_err *err);
/* Outside a run; of NULL: nothing. v[n] becomes the sum over all processes. */
TD_MUST enum td_code td_ranks_sum(struct td_ranks *r, double *v, int64_t n, struct td_err *err);
/* bytes of rank 0 to all. */
TD_MUST enum td_code td_ranks_share(struct td_ranks *r, void *bytes, size_t n, struct td_err *err);
/* All say how it went: rc, whose fault f has. All get the same: TD_OK when it is for all, else the fault of
 * the lowest process that has one of its own, ABORTED being none. */
TD_MUST enum td_code td_ranks_agree(struct td_ranks *r, enum td_code rc, struct td_fault *f);
/* This process cannot go on: ends them all, and does not return when there are others. */
void td_ranks_abort(struct td_ranks *r, int exit_code);

#endif
