/* tests/bench/peaks.c - loops that do nothing else: multiply and add in registers; add up what is read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/peaks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/timings.h"
#include "kernels/cpu/vecmath.h"

enum { WIDTH = 16, SUMS = 12, TRIES = 20 };
typedef float vec __attribute__((vector_size(WIDTH * 4), aligned(64)));

static volatile float sink;

TD_CLONES static void multiply_add(long n, vec *sum)
{
    vec s[SUMS];
    const vec x = sum[0], y = sum[1];
    memcpy(s, sum, sizeof s);
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < SUMS; k++) {
            s[k] = s[k] * x + y;
        }
    }
    memcpy(sum, s, sizeof s);
}

double bench_peak_flops(void)
{
    enum { N = 100000 };
    vec sum[SUMS];
    double best = 0;
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < TRIES; i++) {
        const int64_t from_ns = td_now_ns();
        multiply_add(N, sum);
        const double flops = 2.0 * N * SUMS * WIDTH / (double)(td_now_ns() - from_ns);
        best = flops > best ? flops : best;
    }
    sink = sum[0][0];
    return best;
}

TD_CLONES static float add_up(const vec *v, long n)
{
    enum { AT_ONCE = 8 };
    vec s[AT_ONCE];
    float all = 0;
    memset(s, 0, sizeof s);
    for (long i = 0; i + AT_ONCE <= n; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            s[k] += v[i + k];
        }
    }
    for (int k = 0; k < AT_ONCE; k++) {
        all += s[k][0];
    }
    return all;
}

double bench_peak_read(long bytes)
{
    enum { AT_LEAST = 1 << 22 };
    vec *v = aligned_alloc(sizeof(vec), (size_t)bytes);
    double best = 0;
    if (v == NULL) {
        return 0;
    }
    memset(v, 0, (size_t)bytes);
    const long times = bytes < AT_LEAST ? AT_LEAST / bytes : 1;
    for (int i = 0; i < TRIES; i++) {
        const int64_t from_ns = td_now_ns();
        for (long k = 0; k < times; k++) {
            sink = add_up(v, bytes / (long)sizeof *v);
        }
        const double rate = (double)bytes * (double)times / (double)(td_now_ns() - from_ns);
        best = rate > best ? rate : best;
    }
    free(v);
    return best;
}
