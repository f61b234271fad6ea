/* server/ranks/mpi_module.h - what tensord_mpi.so exports: the calls of MPI that a job needs. On one machine
 * server/ranks/local_ranks.h has the same without MPI.
 *
 * A module of its own, so that the daemon links no MPI. All return 0, or MPI's error number; calls come from
 * one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_RANKS_MPI_MODULE_H
#define TD_SERVER_RANKS_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_MPI_MODULE_VERSION 3

struct td_mpi_module {
    int version;
    int (*init)(int *rank, int *size);
    int (*sum_floats)(float *v, int64_t n); /* in place, over all processes; so is the next */
    int (*sum_doubles)(double *v, int64_t n);
    /* Memory in which sum_floats is quicker, as the processes of one host see it of each other; all call,
     * with the same number of bytes. Owned by the module, until finish. NULL in all: there is none. */
    void *(*room)(size_t bytes);
    int (*share)(void *bytes, size_t n); /* of rank 0 */
    int (*finish)(void);
    void (*abort)(int exit_code);
    /* Whether a process is gone, and how: all sums fail then. on_loss: what is called once when that comes to
     * be, on a thread of the module's, or at once where it has been; NULL: nothing. Both NULL: who has
     * started the processes ends all. */
    bool (*lost)(char *text, size_t room);
    void (*on_loss)(void (*told)(void *ctx), void *ctx);
};
/* The name that is looked up. */
#define TD_MPI_MODULE_SYMBOL "td_mpi_module"

#endif
