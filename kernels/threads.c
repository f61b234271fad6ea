/* kernels/threads.c - see threads.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/threads.h"

static int threads = 1;

void td_threads_set(int n)
{
    threads = n > 0 ? n : 1;
}

int td_threads(void)
{
    return threads;
}
