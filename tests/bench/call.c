/* tests/bench/call.c - times one signature call on one core: load, first call, then median and least of many.
 *
 *   call_tensord DIR CASE [SECONDS [CPU]]       prints "load first p50 min calls cpu", times in microseconds
 *   call_tensorflow DIR CASE [SECONDS [CPU]]       CPU -1: wherever the system likes
 *
 * cpu is what load and first call took of the processor, which other programs on the machine disturb less.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/call.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SAMPLES 1000000

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

int main(int argc, char **argv)
{
    static struct bench_case c;
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIR CASE [SECONDS [CPU]]\n", argv[0]);
        return 1;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    const int cpu_wanted = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0;
    if (cpu_wanted >= 0) {
        CPU_SET(cpu_wanted, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
    }
    read_case(argv[2], &c);
    const double from = now_us(), cpu_from = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    check("load", bench_load(argv[1], &c));
    const double loaded = now_us();
    check("run", bench_run());
    const double first = now_us(), cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_from;
    const double stop = first + (argc > 3 ? strtod(argv[3], NULL) : 1) * 1e6;
    for (int i = 0; i < 20; i++) {
        check("run", bench_run());
    }
    long n = 0;
    for (double t = now_us(); n < MAX_SAMPLES && (t < stop || n < 20);) {
        check("run", bench_run());
        const double end = now_us();
        samples[n++] = end - t;
        t = end;
    }
    qsort(samples, (size_t)n, sizeof *samples, compare);
    printf("%.1f %.1f %.2f %.2f %ld %.1f\n", loaded - from, first - loaded, samples[n / 2], samples[0], n,
           cpu);
    return 0;
}
