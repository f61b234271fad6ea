/* server/train/mpi_module.c - tensord_mpi.so.
 *
 * A process's thread that sums has the core of those that compute, and MPI's blocking calls poll while they
 * wait. So it sleeps until all have come to the sum; then they call, and nobody waits long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/mpi_module.h"

#include <mpi.h>
#include <time.h>

enum { MOST = 1 << 28 }; /* elements a call: MPI counts in int */
enum { LOOK_NS = 20000 };

static int init(int *rank, int *size)
{
    int have;
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &have);
    if (rc == MPI_SUCCESS && have < MPI_THREAD_SERIALIZED) {
        return MPI_ERR_OTHER;
    }
    rc = rc == MPI_SUCCESS ? MPI_Comm_rank(MPI_COMM_WORLD, rank) : rc;
    return rc == MPI_SUCCESS ? MPI_Comm_size(MPI_COMM_WORLD, size) : rc;
}

/* Until all processes are here. */
static int meet(void)
{
    MPI_Request all;
    int here = 0;
    int rc = MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (rc == MPI_SUCCESS && !here) {
        rc = MPI_Test(&all, &here, MPI_STATUS_IGNORE);
        if (!here) {
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        }
    }
    return rc;
}

static int sum(char *v, int64_t n, size_t size, MPI_Datatype type)
{
    int rc = meet();
    for (int64_t at = 0; at < n && rc == MPI_SUCCESS; at += MOST) {
        const int64_t count = n - at < MOST ? n - at : MOST;
        rc = MPI_Allreduce(MPI_IN_PLACE, v + (size_t)at * size, (int)count, type, MPI_SUM, MPI_COMM_WORLD);
    }
    return rc;
}

static int sum_floats(float *v, int64_t n)
{
    return sum((char *)v, n, sizeof *v, MPI_FLOAT);
}

static int sum_doubles(double *v, int64_t n)
{
    return sum((char *)v, n, sizeof *v, MPI_DOUBLE);
}

static int share(void *bytes, size_t n)
{
    int rc = MPI_SUCCESS;
    for (size_t at = 0; at < n && rc == MPI_SUCCESS; at += MOST) {
        rc = MPI_Bcast((char *)bytes + at, (int)(n - at < MOST ? n - at : MOST), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    return rc;
}

static int finish(void)
{
    return MPI_Finalize();
}

static void abort_all(int exit_code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
}

__attribute__((visibility("default"))) const struct td_mpi_module td_mpi_module = {
    TD_MPI_MODULE_VERSION, init, sum_floats, sum_doubles, share, finish, abort_all};
