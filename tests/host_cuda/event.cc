/* tests/host_cuda/event.cc - events: each stands for a piece of work that does nothing, queued where it was
 * recorded; to wait for the event is to depend on that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/graph.h"
#include "tests/host_cuda/host_cuda.h"

#include <algorithm>

using namespace host_cuda;

namespace
{

bool next_fails;                               /* cudaEventRecord; mu guards it */
auto &events = *new std::vector<CUevent_st *>; /* likewise */

/* NULL event, one that is gone, and one that stands for captured work. */
cudaError_t refused(cudaEvent_t event)
{
    return event == nullptr             ? cudaErrorInvalidResourceHandle
           : event->gone                ? used_when_gone("an event")
           : event->captured != nullptr ? cudaErrorCapturedEvent
                                        : cudaSuccess;
}

std::shared_ptr<op> marker(const char *what)
{
    auto o = std::make_shared<op>();
    o->what = what;
    return o;
}

bool is_none(cudaEvent_t event)
{
    return event == nullptr || (event->gone && used_when_gone("an event") != cudaSuccess);
}

} // namespace

void host_cuda::end_events(int device)
{
    for (CUevent_st *const e : events) {
        if (e->device == device) {
            e->gone = true;
            e->at = nullptr;
            e->captured = nullptr;
        }
    }
}

extern "C" {

void host_cuda_fail_record(void)
{
    const quiet q;
    const locked l(mu);
    next_fails = true;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    return call([&](locked &) {
        if (event == nullptr) {
            return cudaErrorInvalidValue;
        }
        *event = new CUevent_st;
        (*event)->flags = flags;
        (*event)->device = current_device();
        events.push_back(*event);
        return cudaSuccess;
    });
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || is_none(event)) {
            return cudaErrorInvalidResourceHandle;
        }
        if (next_fails) {
            next_fails = false;
            return cudaErrorMemoryAllocation;
        }
        event->captured = s->capturing;
        event->frontier = s->frontier;
        event->at = s->capturing == nullptr ? queue_work(s, marker("cudaEventRecord")) : nullptr;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || is_none(event)) {
            return cudaErrorInvalidResourceHandle;
        }
        if (event->captured != nullptr || s->capturing != nullptr) {
            return capture_wait(s, event);
        }
        if (event->at != nullptr) {
            queue_work(s, marker("cudaStreamWaitEvent"), {event->at});
        }
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return call([&](locked &) {
        const cudaError_t no = refused(event);
        if (no != cudaSuccess || event->at == nullptr) {
            return no;
        }
        if (!event->at->done) {
            return cudaErrorNotReady;
        }
        host_learns(event->at);
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return call([&](locked &l) {
        const cudaError_t no = refused(event);
        if (no == cudaSuccess) {
            const auto at = event->at; /* it may be recorded again meanwhile */
            wait_for(l, at);
        }
        return no;
    });
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return call([&](locked &) {
        if (is_none(start) || is_none(end) || start->at == nullptr || end->at == nullptr ||
            ((start->flags | end->flags) & cudaEventDisableTiming) != 0) {
            return cudaErrorInvalidResourceHandle;
        }
        if (!start->at->done || !end->at->done) {
            return cudaErrorNotReady;
        }
        *ms = std::chrono::duration<float, std::milli>(end->at->when - start->at->when).count();
        return cudaSuccess;
    });
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const quiet q;
    const locked l(mu);
    if (is_none(event)) {
        return note(cudaErrorInvalidResourceHandle);
    }
    events.erase(std::find(events.begin(), events.end(), event));
    delete event;
    return cudaSuccess;
}
}
