/* tests/bench/peaks.h - what this machine's core and memory give at most, measured.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_BENCH_PEAKS_H
#define TD_TESTS_BENCH_PEAKS_H

/* On one thread, the best of some tries, a tenth of a second in all: floating-point operations of float
 * (a fused multiply-add is two), and bytes read from `bytes` of memory over and over, a nanosecond. */
double bench_peak_flops(void);
double bench_peak_read(long bytes);

#endif
