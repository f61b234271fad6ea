/* kernels/cpu/library_threads.c - see library_threads.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/library_threads.h"

static int threads = 1;

void td_threads_set(int n)
{
    threads = n > 0 ? n : 1;
}

int td_threads(void)
{
    return threads;
}
