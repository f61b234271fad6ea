/* tests/bench/call.c - times one signature call: load, first call, then median and least of many.
 *
 *   call_tensord DIR CASE [SECONDS [CPU [THREADS [ANSWER]]]]
 *   call_tensorflow DIR CASE [SECONDS [CPU [THREADS [ANSWER]]]]
 *
 * Prints "load first p50 min calls cpu", times in microseconds. It runs on so many cores from CPU on, one
 * unless THREADS says otherwise (CPU -1: wherever the system likes), and writes the outputs to ANSWER.
 * cpu is what load and first call took of the processor, which other programs on the machine disturb less.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/call.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_SAMPLES 1000000
#define MOST_WARM_S 8
#define LEAST_SAMPLES 3 /* of calls that take longer than they are given */

static double samples[MAX_SAMPLES];

static double clock_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double now_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

static void need(FILE *f, void *to, size_t n)
{
    if (n > 0 && fread(to, n, 1, f) != 1) {
        fprintf(stderr, "the case ends too early\n");
        exit(1);
    }
}

static int read_int(FILE *f)
{
    int v;
    need(f, &v, sizeof v);
    return v;
}

static char *read_bytes(FILE *f, size_t *length)
{
    const size_t n = (size_t)read_int(f);
    char *s = calloc(1, n + 1);
    need(f, s, n);
    *length = n;
    return s;
}

static void read_tensor(FILE *f, struct bench_tensor *t)
{
    size_t n;
    t->name = read_bytes(f, &n);
    t->node = read_bytes(f, &n);
    t->dtype = read_int(f);
    t->rank = read_int(f);
    need(f, t->dims, sizeof *t->dims * (size_t)t->rank);
    t->count = (size_t)read_int(f);
    if (t->dtype != BENCH_STRING) {
        t->data = read_bytes(f, &t->bytes);
        return;
    }
    tensord_bytes *rows = calloc(t->count + 1, sizeof *rows);
    for (size_t i = 0; i < t->count; i++) {
        rows[i].bytes = read_bytes(f, &rows[i].length);
    }
    t->bytes = t->count * sizeof *rows;
    t->data = rows;
}

static void read_case(const char *path, struct bench_case *c)
{
    FILE *f = fopen(path, "rb");
    size_t n;
    if (f == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    c->signature = read_bytes(f, &n);
    c->n_in = read_int(f);
    for (int i = 0; i < c->n_in; i++) {
        read_tensor(f, &c->in[i]);
    }
    c->n_out = read_int(f);
    for (int i = 0; i < c->n_out; i++) {
        c->out[i].name = read_bytes(f, &n);
        c->out[i].node = read_bytes(f, &n);
    }
    fclose(f);
}

void bench_write(FILE *to, const char *name, int dtype, int rank, const int64_t *dims, const void *data,
                 size_t bytes)
{
    const int length = (int)strlen(name), size = (int)bytes;
    for (int i = 0; i < 2; i++) {
        (void)fwrite(&length, sizeof length, 1, to);
        (void)fwrite(name, 1, (size_t)length, to);
    }
    (void)fwrite(&dtype, sizeof dtype, 1, to);
    (void)fwrite(&rank, sizeof rank, 1, to);
    (void)fwrite(dims, sizeof *dims, (size_t)rank, to);
    (void)fwrite(&size, sizeof size, 1, to);
    (void)fwrite(data, 1, bytes, to);
}

static void check(const char *what, const char *problem)
{
    if (problem != NULL) {
        fprintf(stderr, "%s: %s\n", what, problem);
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* To so many cores, `first` and those behind it; below 0: not at all. */
static void pin(int first, int cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; first >= 0 && i < cores; i++) {
        CPU_SET(first + i, &set);
    }
    if (first >= 0) {
        (void)sched_setaffinity(0, sizeof set, &set);
    }
}

static void write_answer(const char *path)
{
    FILE *f = fopen(path, "wb");
    check("answer", f == NULL ? "cannot be written" : bench_run(f));
    check("answer", fclose(f) != 0 ? "cannot be written" : NULL);
}

int main(int argc, char **argv)
{
    static struct bench_case c;
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIR CASE [SECONDS [CPU [THREADS [ANSWER]]]]\n", argv[0]);
        return 1;
    }
    c.threads = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 1;
    pin(argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0, c.threads);
    read_case(argv[2], &c);
    const double from = now_us(), cpu_from = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    check("load", bench_load(argv[1], &c));
    const double loaded = now_us();
    check("run", bench_run(NULL));
    const double first = now_us(), cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_from;
    if (argc > 6) {
        write_answer(argv[6]);
    }
    const double warm = now_us() + MOST_WARM_S * 1e6;
    for (int i = 0; i < 20 && now_us() < warm; i++) { /* engines choose kernels by what first calls take */
        check("run", bench_run(NULL));
    }
    const double stop = now_us() + (argc > 3 ? strtod(argv[3], NULL) : 1) * 1e6;
    const char *pause = getenv("BENCH_PAUSE_US");
    const unsigned pause_us = pause != NULL ? (unsigned)strtoul(pause, NULL, 10) : 0;
    long n = 0;
    for (double t = now_us(); n < MAX_SAMPLES && (t < stop || n < LEAST_SAMPLES);) {
        check("run", bench_run(NULL));
        const double end = now_us();
        samples[n++] = end - t;
        if (pause_us > 0) { /* as between the requests of a client that waits for each answer */
            usleep(pause_us);
        }
        t = pause_us > 0 ? now_us() : end;
    }
    qsort(samples, (size_t)n, sizeof *samples, compare);
    printf("%.1f %.1f %.2f %.2f %ld %.1f\n", loaded - from, first - loaded, samples[n / 2], samples[0], n,
           cpu);
    return 0;
}
