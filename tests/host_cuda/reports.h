/* tests/host_cuda/reports.h - what went wrong on a device: the sticky error, and the text of a report.
 *
 * Threads: any, with or without the device's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_REPORTS_H
#define TD_TESTS_HOST_CUDA_REPORTS_H

#include <cuda_runtime.h>

#include <string>

namespace host_cuda
{

constexpr int MAX_DEVICES = 16;

void report(int device, cudaError_t error, const std::string &what); /* to stderr; the error stays */
cudaError_t sticky(int device);
void set_sticky(int device, cudaError_t error); /* the first one stays; cudaSuccess: none any more */
cudaError_t note(cudaError_t error);            /* returned; and this thread's last one */
std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace host_cuda

#endif
