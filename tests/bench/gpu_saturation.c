/* tests/bench/gpu_saturation.c - what the daemon's scheduler makes of a GPU, simulated: throughput and
 * latency of a model by streams and clients, as Markdown.
 *
 *   gpu_saturation [--quick] [--pageable] NAME DIR [NAME DIR]...
 *
 * --quick: 1 and 8 streams, 1 and 256 clients; --pageable: no host memory is pinned.
 *
 * The scheduler, its threads and kernels/cuda/base/device.c are the daemon's, the clock and the GPU are
 * simulated (tests/sim/sim_gpu.h, with the costs of an H100); nothing is computed. Each client asks for a
 * row, and for the next when that is answered. A cell is a process of its own: what it says depends on
 * nothing but the model and the seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/sim_load.h"

enum { MOST_CLIENTS = 256, PROCESSORS = 16, ENCODE_NS = 10000 };
/* Both parts of a cell end after so much of the simulated time, or so many requests. */
enum { PART_NS = 1000000000, WARM_REQUESTS = 2000, REQUESTS = 4000 };

static struct sim_load load;
static struct td_servable *model;
static struct td_tensor row;
static bool quick, pageable;

/* Shared by the clients, under the clock's lock. */
static enum { WARM, MEASURED, OVER } part;
static int64_t part_ns, times[REQUESTS]; /* when the part began */
static int n_warm, n_times;

/* With the lock. */
static void next_part(void)
{
    part++;
    part_ns = sim_now_ns();
    sim_wake(&part);
}

/* True: there is more to ask. */
static bool note(int64_t took_ns)
{
    sim_enter();
    const bool full = sim_now_ns() >= part_ns + PART_NS;
    if (part == WARM && (++n_warm == WARM_REQUESTS || full)) {
        next_part();
    } else if (part == MEASURED) {
        times[n_times++] = took_ns;
        if (n_times == REQUESTS || full) {
            next_part();
        }
    }
    const bool more = part != OVER;
    sim_leave();
    return more;
}

static void await_part(int which)
{
    sim_enter();
    while ((int)part < which) {
        sim_wait(&part);
    }
    sim_leave();
}

/* Returns how long it took. */
static int64_t ask(void)
{
    struct sim_ask a;
    sim_ask_make(&a, model, &row, TD_RUN_BRIEF_NS);
    a.encode_ns = ENCODE_NS;
    if (sim_ask_run(&load, &a) != TD_OK) {
        fprintf(stderr, "%s\n", a.err.msg);
        exit(1);
    }
    sim_ask_drop(&a);
    return a.took_ns;
}

static void *client(void *arg)
{
    (void)arg;
    while (note(ask())) {
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* A row of the signature's only input, zeros; dims that it leaves open are 1. */
static void make_row(void)
{
    struct td_err err = {0};
    const struct td_signature *sig = td_servable_signature(model, "");
    struct td_shape shape = sig->in[0].shape;
    if (sig->n_in != 1 || shape.rank < 1) {
        fprintf(stderr, "%s has %d inputs, want one with rows\n", td_servable_dir(model), sig->n_in);
        exit(1);
    }
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = i == 0 || shape.dim[i] < 0 ? 1 : shape.dim[i];
    }
    if (td_tensor_new(&row, sig->in[0].dtype, &shape, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    memset(row.data, 0, td_tensor_bytes(&row));
}

static void print_cell(const char *name, int streams, int clients, double ns,
                       const struct sim_gpu_counts *gpu, const struct td_workers_counts *runs)
{
    qsort(times, (size_t)n_times, sizeof *times, by_size);
    const int middle = n_times / 2, late = n_times - 1 - n_times / 100;
    printf("| %s | %d | %d | %.0f | %.2f | %.2f | %.1f | %.0f%% | %.0f%% | %.0f%% |\n", name, streams,
           clients, n_times / (ns / 1e9), n_times > 0 ? (double)times[middle] / 1e6 : 0,
           n_times > 0 ? (double)times[late] / 1e6 : 0,
           runs->batches > 0 ? (double)runs->rows / (double)runs->batches : 0, 100 * gpu->kernels / ns,
           100 * gpu->processors / ns, 100 * gpu->copied_meanwhile / (gpu->to_device + gpu->to_host + 1));
    fflush(stdout);
}

static void subtract(struct sim_gpu_counts *a, const struct sim_gpu_counts *b)
{
    a->kernels -= b->kernels;
    a->processors -= b->processors;
    a->to_device -= b->to_device;
    a->to_host -= b->to_host;
    a->copied_meanwhile -= b->copied_meanwhile;
}

static void measure(const char *name, const char *dir, int streams, int clients)
{
    struct sim_load_opts o = {.seed = 11,
                              .processors = PROCESSORS,
                              .streams = streams,
                              .costs = sim_gpu_h100,
                              .kernels = TD_KERNELS_REFERENCE};
    o.costs.blind = true;
    o.costs.pinned = pageable ? 0 : o.costs.pinned;
    pthread_t threads[MOST_CLIENTS];
    struct td_workers_counts before, after;
    sim_load_start(&load, &o);
    model = sim_load_model(&load, name, dir);
    make_row();
    for (int i = 0; i < 3; i++) { /* what a warm-up proves of rows */
        ask();
    }
    part_ns = sim_now_ns();
    for (int i = 0; i < clients; i++) {
        if (pthread_create(&threads[i], NULL, client, NULL) != 0) {
            exit(1);
        }
    }
    await_part(MEASURED);
    const int64_t from_ns = sim_now_ns();
    const struct sim_gpu_counts gpu_before = sim_gpu_count();
    td_workers_count(load.workers, &before);
    await_part(OVER);
    const double ns = (double)(sim_now_ns() - from_ns);
    struct sim_gpu_counts gpu = sim_gpu_count();
    td_workers_count(load.workers, &after);
    subtract(&gpu, &gpu_before);
    after.batches -= before.batches;
    after.rows -= before.rows;
    for (int i = 0; i < clients; i++) {
        pthread_join(threads[i], NULL);
    }
    print_cell(name, streams, clients, ns, &gpu, &after);
    td_tensor_clear(&row);
    td_servable_unref(model);
    sim_load_stop(&load);
}

/* In a process of its own. */
static int cell(const char *name, const char *dir, int streams, int clients)
{
    int status = 0;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        measure(name, dir, streams, clients);
        exit(0);
    }
    waitpid(pid, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int main(int argc, char **argv)
{
    int bad = 0, first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        quick = quick || strcmp(argv[first], "--quick") == 0;
        pageable = pageable || strcmp(argv[first], "--pageable") == 0;
    }
    if (argc <= first || (argc - first) % 2 != 0) {
        fprintf(stderr, "usage: gpu_saturation [--quick] [--pageable] NAME DIR [NAME DIR]...\n");
        return 2;
    }
    printf("| model | streams | clients | requests/s | p50 ms | p99 ms | rows a run | kernels run | "
           "processors | "
           "copies meanwhile |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = first; i < argc; i += 2) {
        for (int streams = 1; streams <= 8; streams *= quick ? 8 : 2) {
            for (int clients = 1; clients <= MOST_CLIENTS; clients *= quick ? 256 : 4) {
                bad |= cell(argv[i], argv[i + 1], streams, clients);
            }
        }
    }
    return bad;
}
