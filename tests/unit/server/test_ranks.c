/* tests/unit/server/test_ranks.c - sums over processes. Started by mpirun, as three of them; alone it makes
 * the others itself, and in the end one of those is killed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/train/ranks.h"
#include "tests/test.h"

enum { RUNS = 6, SUMS = 40, LARGE = 3 << 20 };

static struct td_ranks *ranks;

/* What process `rank` adds to sum `number` at element i of run `run`: whole numbers, exact in float. */
static double part(int rank, int run, int number, int64_t i)
{
    return (double)((rank + 1) * (number + run + 1) + (int)(i % 7));
}

static double whole(int run, int number, int64_t i)
{
    double sum = 0;
    for (int rank = 0; rank < td_ranks_size(ranks); rank++) {
        sum += part(rank, run, number, i);
    }
    return sum;
}

/* Small ones, empty ones, one that fills buckets, and doubles between. */
static struct td_sum sum_of(int number)
{
    return (struct td_sum){.number = number,
                           .at_once = number == 0 || number == SUMS - 1,
                           .dtype = number % 11 == 5 ? TD_DOUBLE : TD_FLOAT,
                           .n = number == 20       ? LARGE
                                : number % 13 == 7 ? 0
                                                   : 1 + number * 37};
}

static void add(int run, int number)
{
    const struct td_collective *all = td_collective();
    const struct td_sum s = sum_of(number);
    struct td_err err = {0};
    double *d = td_calloc((size_t)s.n + 1, sizeof *d);
    float *f = (float *)d;
    for (int64_t i = 0; i < s.n; i++) {
        const double v = part(all->rank, run, number, i);
        if (s.dtype == TD_DOUBLE) {
            d[i] = v;
        } else {
            f[i] = (float)v;
        }
    }
    CHECK_INT(all->add(all->ctx, &s, d, &err), TD_OK);
    td_free(d);
}

static void take(int run, int number)
{
    const struct td_collective *all = td_collective();
    const struct td_sum s = sum_of(number);
    struct td_err err = {0};
    double *d = td_calloc((size_t)s.n + 1, sizeof *d);
    const float *f = (const float *)d;
    CHECK_INT(all->take(all->ctx, &s, d, &err), TD_OK);
    for (int64_t i = 0; i < s.n; i++) {
        const double got = s.dtype == TD_DOUBLE ? d[i] : (double)f[i];
        if (got != whole(run, number, i)) {
            fprintf(stderr, "run %d, sum %d, element %lld: %g, want %g\n", run, number, (long long)i, got,
                    whole(run, number, i));
            exit(1);
        }
    }
    td_free(d);
}

struct adder {
    int run, from, step;
};

static void *add_some(void *arg)
{
    const struct adder *a = arg;
    for (int number = a->from; number < SUMS; number += a->step) {
        add(a->run, number);
    }
    return NULL;
}

/* A ticket that no sum gave, as a node of a file may have it. */
TEST(sums_of_no_number_are_refused)
{
    static const int numbers[] = {-1, 1 << 16, 1 << 30, SUMS};
    const struct td_collective *all = td_collective();
    all->begin(all->ctx);
    for (int i = 0; i < 4; i++) {
        const struct td_sum s = {.number = numbers[i], .dtype = TD_FLOAT, .n = 1};
        struct td_err err = {0};
        float v;
        CHECK_INT(all->take(all->ctx, &s, &v, &err), TD_INTERNAL);
    }
}

/* Each process adds in an order of its own, from two threads. */
TEST(sums_by_number_whatever_the_order)
{
    for (int run = 0; run < RUNS; run++) {
        struct adder a = {run, 2 - (td_ranks_rank(ranks) + run) % 2, 2}, b = {run, 3 - a.from, 2};
        pthread_t other;
        td_collective()->begin(td_collective()->ctx);
        add(run, 0); /* needed before anything else, as the number of rows is */
        take(run, 0);
        CHECK(pthread_create(&other, NULL, add_some, &a) == 0);
        (void)add_some(&b);
        CHECK(pthread_join(other, NULL) == 0);
        for (int number = 1; number < SUMS; number++) {
            take(run, number);
        }
    }
}

TEST(sums_and_shares_between_runs)
{
    struct td_err err = {0};
    const int rank = td_ranks_rank(ranks), size = td_ranks_size(ranks);
    double v[3] = {rank, 1, 0.25 * rank};
    CHECK_INT(td_ranks_sum(ranks, v, 3, &err), TD_OK);
    CHECK(v[0] == size * (size - 1) / 2.0 && v[1] == size && v[2] == v[0] / 4);
    char word[8] = "nothing";
    if (rank == 0) {
        snprintf(word, sizeof word, "shared");
    }
    CHECK_INT(td_ranks_share(ranks, word, sizeof word, &err), TD_OK);
    CHECK(strcmp(word, "shared") == 0);
}

static atomic_int told;

static void count(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* The last one kills itself; nobody waits for it. */
static void one_is_gone(void)
{
    struct td_err err = {0};
    char how[200];
    const struct td_sum s = {.number = 0, .at_once = true, .dtype = TD_FLOAT, .n = 1};
    const struct td_collective *all = td_collective();
    float v = 1;
    double d = 1;
    CHECK(!td_ranks_lost(ranks, how, sizeof how));
    td_ranks_on_loss(ranks, count, &told);
    if (td_ranks_rank(ranks) == 2) {
        (void)raise(SIGKILL);
    }
    all->begin(all->ctx);
    CHECK_INT(all->add(all->ctx, &s, &v, &err), TD_OK);
    CHECK_INT(all->take(all->ctx, &s, &v, &err), TD_UNAVAILABLE); /* process 1 is killed about here */
    CHECK_STR(err.msg, "process 2 of 3 of the job was ended by signal 9 (Killed)");
    err = (struct td_err){0};
    CHECK_INT(td_ranks_sum(ranks, &d, 1, &err), TD_UNAVAILABLE);
    for (int i = 0; i < 5000 && td_ranks_rank(ranks) == 0 && atomic_load(&told) == 0; i++) {
        (void)usleep(1000);
    }
    CHECK_INT(atomic_load(&told), td_ranks_rank(ranks) == 0); /* the first one watches */
    td_ranks_on_loss(ranks, count, &told);                    /* who asks now is told now */
    CHECK_INT(atomic_load(&told), 2 * (td_ranks_rank(ranks) == 0));
}

int main(void)
{
    struct td_err err = {0};
    const bool mpi = td_ranks_wanted();
    if (td_ranks_open(3, &ranks, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    CHECK(td_ranks_size(ranks) == 3);
    sums_by_number_whatever_the_order();
    sums_and_shares_between_runs();
    sums_of_no_number_are_refused();
    if (!mpi) {
        one_is_gone();
    }
    td_ranks_close(ranks);
    printf("ok\n");
    return 0;
}
