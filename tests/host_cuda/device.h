/* tests/host_cuda/device.h - the runtime's state: devices, streams and the work in their queues.
 *
 * One lock guards all of it (`mu`). A stream is a thread that does its queue's work in order; a piece of work
 * may wait for others first, and that is all there is of events, of the legacy stream's rule and of the
 * host's waiting: each is a dependency on a piece of work.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_DEVICE_H
#define TD_TESTS_HOST_CUDA_DEVICE_H

#include "tests/host_cuda/order.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/sanitizers.h"

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace host_cuda
{

/* What is to be done, in a queue or in a graph. */
struct op {
    std::string what;
    std::function<void()> run; /* on a stream's thread, loud, without the lock; empty: nothing */
    std::vector<use> uses;
    bool hosts = false; /* the host has a part in it: a function, or memory of its own */
};

struct work {
    std::shared_ptr<const op> todo;
    std::vector<std::shared_ptr<work>> after;
    moment at;
    vector_clock before;                /* what it comes after */
    bool done = false, awaited = false; /* under mu; somebody waits for it */
    std::chrono::steady_clock::time_point when;
};

struct capture;

extern std::mutex mu;
typedef std::unique_lock<std::mutex> locked;

int current_device();
unsigned context_of(int device);              /* how often it was reset; with or without mu */
cudaError_t used_when_gone(const char *what); /* reports it */
bool in_callback();                           /* on a stream's thread: no call of CUDA's is permitted */

/* The calls below: the caller holds mu. */

/* NULL and cudaStreamLegacy are the current device's legacy stream. NULL: no such stream. */
CUstream_st *find_stream(cudaStream_t stream);
/* Queues it, or captures it. */
cudaError_t submit(CUstream_st *s, const std::shared_ptr<const op> &todo);
/* Queues it, after others if so said. */
std::shared_ptr<work> queue_work(CUstream_st *s, const std::shared_ptr<const op> &todo,
                                 std::vector<std::shared_ptr<work>> after = {});
cudaError_t capture_op(CUstream_st *s, const std::shared_ptr<const op> &todo);
cudaError_t spoil_capture(CUstream_st *s); /* for what no captured stream permits */
bool device_is_capturing(int device);      /* a blocking stream of it */
void end_streams(locked &l, int device);   /* of a device that is reset; what is queued comes to nothing */
void end_events(int device);
void end_graphs(int device);
void end_capture_of(const CUstream_st *s); /* that goes: on a lost device no call has ended its capture */
void fail_later(int device, cudaError_t error);
/* The host waits, and knows then what w knew. w is the call's own: meanwhile its stream may go on, or go. */
void wait_for(locked &l, std::shared_ptr<work> w);
void wait_for_device(locked &l, int device);
void host_learns(const std::shared_ptr<work> &w); /* w is done, and the host has seen it */
cudaError_t unsafe_in_capture();                  /* not what a capture permits: that is spoilt then */

/* What every call of the API does around its own part: the lock, quiet, the device's error, the thread's. */
template <class F> cudaError_t call(F own)
{
    const quiet q;
    if (in_callback()) {
        return note(cudaErrorNotPermitted);
    }
    const int device = current_device();
    if (sticky(device) != cudaSuccess) {
        return sticky(device);
    }
    locked l(mu);
    const cudaError_t e = note(own(l));
    return sticky(device) != cudaSuccess ? sticky(device) : e;
}

} // namespace host_cuda

struct CUstream_st {
    int device = 0, number = 0; /* number: its place in clocks */
    bool blocking = true, legacy = false, stopping = false;
    std::deque<std::shared_ptr<host_cuda::work>> queue;
    std::condition_variable more;          /* in the queue, or stopping */
    std::shared_ptr<host_cuda::work> last; /* NULL: nothing yet */
    host_cuda::vector_clock clock;
    std::thread thread;
    std::shared_ptr<host_cuda::capture> capturing;
    std::vector<int> frontier; /* the capture's nodes that the next one comes after */
};

struct CUevent_st {
    unsigned flags = 0;
    int device = 0;
    bool gone = false;                            /* with the context that it was of */
    std::shared_ptr<host_cuda::work> at;          /* NULL: not recorded */
    std::shared_ptr<host_cuda::capture> captured; /* recorded in one, with what was its frontier */
    std::vector<int> frontier;
};

#endif
