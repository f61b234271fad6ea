/* tests/host_cuda/reports.cc - errors: one sticky one for each device, the last one of each thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/reports.h"

#include "tests/host_cuda/device.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/sanitizers.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace host_cuda
{
namespace
{

std::atomic<int> stuck[MAX_DEVICES];
std::mutex report_mu; /* guards the two below; taken last */
std::string last_report;
int n_reports;

thread_local cudaError_t last_error;

} // namespace

std::string text(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return line;
}

void report(int device, cudaError_t error, const std::string &what)
{
    const quiet q;
    set_sticky(device, error);
    const std::lock_guard<std::mutex> l(report_mu);
    last_report = what;
    n_reports++;
    fprintf(stderr, "host_cuda: %s\n", what.c_str());
}

cudaError_t sticky(int device)
{
    return static_cast<cudaError_t>(stuck[device].load());
}

void set_sticky(int device, cudaError_t error)
{
    int none = cudaSuccess;
    if (error == cudaSuccess) {
        stuck[device] = cudaSuccess;
    } else {
        stuck[device].compare_exchange_strong(none, error);
    }
}

cudaError_t note(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        last_error = error;
    }
    return error;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
#define ERROR(name, number, text)                                                                            \
    case cudaError##name:                                                                                    \
        return "cudaError" #name;
#include "host_cuda/cuda_errors.def"
#undef ERROR
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
#define ERROR(name, number, text)                                                                            \
    case cudaError##name:                                                                                    \
        return text;
#include "host_cuda/cuda_errors.def"
#undef ERROR
    }
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void)
{
    const cudaError_t now = sticky(current_device());
    return now != cudaSuccess ? now : last_error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return e;
}

int host_cuda_reports(void)
{
    const quiet q;
    const std::lock_guard<std::mutex> l(report_mu);
    return n_reports;
}

const char *host_cuda_last_report(void)
{
    const quiet q;
    const std::lock_guard<std::mutex> l(report_mu);
    return last_report.c_str();
}
}
