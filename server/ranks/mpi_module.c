/* server/ranks/mpi_module.c - tensord_mpi.so.
 *
 * A process's thread that sums has the core of those that compute, and MPI's blocking calls poll while they
 * wait. So it sleeps until all have come to the sum; then they call, and nobody waits long.
 *
 * On one host a message would be copied twice, and each process would sum all. There, floats lie in rooms:
 * memory that all processes have mapped, a part of each. Process r sums the r-th piece of all parts and
 * writes it to all of them:
 *
 *   part 0  [a0 b0 c0]             [a0+a1+a2 ........ ........]
 *   part 1  [a1 b1 c1]  meet  r=0: [a0+a1+a2 ........ ........]  meet
 *   part 2  [a2 b2 c2]             [a0+a1+a2 ........ ........]
 *
 * Between the two meetings of a sum nobody else touches its elements; the messages of a meeting, which go
 * through memory as well, order what was written before it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/ranks/mpi_module.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 28 }; /* elements a call: MPI counts in int */
enum { LOOK_NS = 20000, MOST_ROOMS = 64, STRIP = 2048, PAGE = 4096 };

struct room {
    char *parts; /* of each process, one behind the other */
    size_t part; /* bytes of one: pages */
};

static struct {
    int rank, size;
    struct room room[MOST_ROOMS];
    int n_rooms;
} self;

static int init(int *rank, int *size)
{
    int have;
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &have);
    if (rc == MPI_SUCCESS && have < MPI_THREAD_SERIALIZED) {
        return MPI_ERR_OTHER;
    }
    rc = rc == MPI_SUCCESS ? MPI_Comm_rank(MPI_COMM_WORLD, &self.rank) : rc;
    rc = rc == MPI_SUCCESS ? MPI_Comm_size(MPI_COMM_WORLD, &self.size) : rc;
    *rank = self.rank;
    *size = self.size;
    return rc;
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

/* ------------------------------------------------------------------ rooms */

static bool all_say(int yes)
{
    return MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS && yes;
}

/* That memory as all may open it: a file without a name, of process 0. False: it cannot be had. */
static bool map_room(struct room *m)
{
    const size_t bytes = m->part * (size_t)self.size;
    int at[2] = {getpid(), -1};
    int fd = -1;
    if (self.rank == 0) {
        fd = memfd_create("tensord_sums", MFD_CLOEXEC);
        at[1] = fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0 ? fd : -1;
    }
    if (MPI_Bcast(at, 2, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS && at[1] >= 0 && self.rank != 0) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", at[0], at[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    void *parts =
        fd >= 0 && at[1] >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    m->parts = parts == MAP_FAILED ? NULL : parts;
    const bool all = all_say(m->parts != NULL); /* also tells process 0 that its file was opened */
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!all && m->parts != NULL) {
        (void)munmap(m->parts, bytes);
    }
    return all;
}

static bool one_host(void)
{
    MPI_Comm host;
    int size = 0;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS) {
        (void)MPI_Comm_size(host, &size);
        (void)MPI_Comm_free(&host);
    }
    return all_say(size == self.size);
}

static void *room(size_t bytes)
{
    if (self.n_rooms == MOST_ROOMS || (self.n_rooms == 0 && !one_host())) {
        return NULL;
    }
    struct room *m = &self.room[self.n_rooms];
    m->part = (bytes + PAGE - 1) / PAGE * PAGE;
    if (!map_room(m)) {
        return NULL;
    }
    self.n_rooms++;
    return m->parts + (size_t)self.rank * m->part;
}

/* The room in whose part of mine v is. */
static const struct room *room_of(const void *v)
{
    for (int i = 0; i < self.n_rooms; i++) {
        const struct room *m = &self.room[i];
        const char *mine = m->parts + (size_t)self.rank * m->part;
        if ((const char *)v >= mine && (const char *)v < mine + m->part) {
            return m;
        }
    }
    return NULL;
}

/* n <= STRIP elements that lie at bytes `at` of each part. */
static void sum_strip(const struct room *m, size_t at, int n)
{
    float total[STRIP];
    memcpy(total, m->parts + at, (size_t)n * sizeof *total);
    for (int r = 1; r < self.size; r++) {
        const float *v = (const float *)(const void *)(m->parts + (size_t)r * m->part + at);
        for (int i = 0; i < n; i++) {
            total[i] += v[i];
        }
    }
    for (int r = 0; r < self.size; r++) {
        memcpy(m->parts + (size_t)r * m->part + at, total, (size_t)n * sizeof *total);
    }
}

static int sum_room(const struct room *m, size_t at, int64_t n)
{
    int rc = meet();
    const int64_t end = n * (self.rank + 1) / self.size;
    for (int64_t i = n * self.rank / self.size; i < end && rc == MPI_SUCCESS; i += STRIP) {
        sum_strip(m, at + (size_t)i * sizeof(float), (int)(end - i < STRIP ? end - i : STRIP));
    }
    return rc == MPI_SUCCESS ? meet() : rc;
}

/* ------------------------------------------------------------------ sums */

static int sum_floats(float *v, int64_t n)
{
    const struct room *m = room_of(v);
    return m == NULL ? sum((char *)v, n, sizeof *v, MPI_FLOAT)
                     : sum_room(m, (size_t)((char *)v - m->parts) - (size_t)self.rank * m->part, n);
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
    for (; self.n_rooms > 0; self.n_rooms--) {
        const struct room *m = &self.room[self.n_rooms - 1];
        (void)munmap(m->parts, m->part * (size_t)self.size);
    }
    return MPI_Finalize();
}

static void abort_all(int exit_code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
}

__attribute__((visibility("default"))) const struct td_mpi_module td_mpi_module = {
    TD_MPI_MODULE_VERSION, init, sum_floats, sum_doubles, room, share, finish, abort_all, NULL, NULL};
