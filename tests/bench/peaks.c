/* tests/bench/peaks.c - loops that do nothing else: multiply and add in registers; add up what is read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/peaks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/timings.h"
#include "kernels/cpu/vecmath.h"

enum { SUMS = 12, TRIES = 20, WIDEST = 16 };
typedef float vec __attribute__((vector_size(WIDEST * 4), aligned(64)));

static volatile float sink;

/* As wide as a register, of which all sums and both factors have one each. No clones: gcc 12 cuts wide
 * vectors up before it makes them. */
#define MULTIPLY_ADD(name, width, target)                                                                    \
    target static void name(long n, float *sum)                                                              \
    {                                                                                                        \
        typedef float v __attribute__((vector_size((width)*4)));                                             \
        v s[SUMS], x, y;                                                                                     \
        memcpy(s, sum, sizeof s);                                                                            \
        memcpy(&x, sum, sizeof x);                                                                           \
        memcpy(&y, sum, sizeof y);                                                                           \
        for (long i = 0; i < n; i++) {                                                                       \
            for (int k = 0; k < SUMS; k++) {                                                                 \
                s[k] = s[k] * x + y;                                                                         \
            }                                                                                                \
        }                                                                                                    \
        memcpy(sum, s, sizeof s);                                                                            \
    }
MULTIPLY_ADD(multiply_add_plain, 4, )
#ifdef TD_HAS_CLONES
MULTIPLY_ADD(multiply_add_v3, 8, __attribute__((target("arch=x86-64-v3"))))
MULTIPLY_ADD(multiply_add_v4, 16, __attribute__((target("arch=x86-64-v4"))))
#endif

/* Adds to all sums n times; how many floats a register has. */
static int multiply_add(long n, float *sum)
{
#ifdef TD_HAS_CLONES
    if (__builtin_cpu_supports("x86-64-v4")) {
        multiply_add_v4(n, sum);
        return 16;
    }
    if (__builtin_cpu_supports("x86-64-v3")) {
        multiply_add_v3(n, sum);
        return 8;
    }
#endif
    multiply_add_plain(n, sum);
    return 4;
}

double bench_peak_flops(void)
{
    enum { N = 100000 };
    float sum[SUMS * WIDEST] = {0};
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const int64_t from_ns = td_now_ns();
        const int width = multiply_add(N, sum);
        const double flops = 2.0 * N * SUMS * width / (double)(td_now_ns() - from_ns);
        best = flops > best ? flops : best;
    }
    sink = sum[0];
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
