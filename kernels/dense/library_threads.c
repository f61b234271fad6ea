/* kernels/dense/library_threads.c - one number of the process, written before anything runs and only read
 * after that.
 *
 * It needs no lock for that reason. kernels/dense/dnnl_base.c hands it to OpenMP and kernels/dense/blas.c to
 * OpenBLAS, each when it starts. Does not: count threads, or limit those of our own
 * (core/base/thread_pool.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/library_threads.h"

static int threads = 1;

void td_threads_set(int n)
{
    threads = n > 0 ? n : 1;
}

int td_threads(void)
{
    return threads;
}
