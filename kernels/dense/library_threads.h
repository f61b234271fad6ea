/* kernels/dense/library_threads.h - how many threads one op of oneDNN or OpenBLAS may use.
 *
 * One, unless the process is told otherwise before its first run: requests are spread over workers, and more
 * threads inside an op only help where few requests are large. (A large product or convolution borrows
 * workers that idle all the same: dnnl_split.c, gemm_split.c.) The kernels of our own use the run's thread
 * alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_LIBRARY_THREADS_H
#define TD_KERNELS_CPU_LIBRARY_THREADS_H

/* At least 1. Before anything runs. */
void td_threads_set(int n);
int td_threads(void);

#endif
