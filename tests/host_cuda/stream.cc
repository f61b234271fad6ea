/* tests/host_cuda/stream.cc - streams: a queue and a thread each.
 *
 * The legacy stream's rule, as dependencies: its work comes after the last work of every blocking stream, and
 * theirs after its last. A device that has failed does nothing more, but its queues go on, so that nobody
 * waits for ever.
 *
 * Order as told to ThreadSanitizer: queueing -> the work (the address of the work); the work -> who depends
 * on it or waits for it (the address of its `done`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/memory.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/settings.h"

#include <algorithm>
#include <unistd.h>

namespace host_cuda
{

std::mutex mu;

namespace
{

/* All under mu. */
auto &ended = *new std::condition_variable; /* work that is awaited; threads wait when main ends */
auto &streams = *new std::vector<CUstream_st *>;
auto &gone = *new std::vector<CUstream_st *>; /* of contexts that were reset */
CUstream_st *legacy[MAX_DEVICES];
cudaError_t failure_to_come[MAX_DEVICES];
unsigned long n_work; /* so far, on the first device */
int n_streams;

thread_local bool stream_thread;

void delay(draws *d)
{
    if (config().debug && config().delay_us > 0 && d->below(2) == 0) {
        usleep(static_cast<useconds_t>(d->below(config().delay_us)));
    }
}

/* The caller holds the lock; it is released meanwhile. */
void do_work(locked &l, CUstream_st *s, work *w, draws *d)
{
    cudaError_t &to_come = failure_to_come[s->device];
    bool run = static_cast<bool>(w->todo->run);
    if (run && s->device == 0 && ++n_work == config().fail_at) {
        to_come = cudaErrorLaunchFailure;
    }
    if (to_come != cudaSuccess && run) {
        set_sticky(s->device, to_come);
        to_come = cudaSuccess;
        run = false; /* also when the error is taken away during the delay */
    }
    auto todo = std::move(w->todo);
    l.unlock();
    delay(d);
    {
        const loud at_work;
        tell_acquire(w);
        for (const auto &a : w->after) {
            tell_acquire(&a->done);
        }
        if (run && sticky(s->device) == cudaSuccess) {
            todo->run();
        }
        tell_release(&w->done);
        todo = nullptr; /* with what it holds, which others may let go of after us */
    }
    l.lock();
    w->done = true;
    w->when = std::chrono::steady_clock::now();
    w->after.clear();
    if (w->awaited) {
        ended.notify_all();
    }
}

void await_end(locked &l, const std::shared_ptr<work> &w)
{
    while (!w->done) {
        w->awaited = true;
        ended.wait(l);
    }
}

void stream_main(CUstream_st *s)
{
    hush();
    open_device_memory();
    stream_thread = true;
    locked l(mu);
    draws d(0, static_cast<uint64_t>(s->number));
    for (;;) {
        while (s->queue.empty() && !s->stopping) {
            s->more.wait(l);
        }
        if (s->queue.empty()) {
            break;
        }
        const auto w = s->queue.front();
        for (const auto &a : w->after) {
            await_end(l, a);
        }
        s->queue.pop_front();
        do_work(l, s, w.get(), &d);
    }
    l.unlock();
    speak();
}

CUstream_st *start_stream(int device, bool blocking)
{
    auto *const s = new CUstream_st;
    s->device = device;
    s->number = n_streams++;
    s->blocking = blocking;
    s->thread = std::thread(stream_main, s);
    streams.push_back(s);
    return s;
}

CUstream_st *legacy_stream(int device)
{
    if (legacy[device] == nullptr) {
        legacy[device] = start_stream(device, true);
        legacy[device]->legacy = true;
    }
    return legacy[device];
}

/* What the legacy stream's rule puts before s's next work. */
void add_legacy_order(const CUstream_st *s, std::vector<std::shared_ptr<work>> *after)
{
    for (const auto *const t : streams) {
        if (t != s && s->blocking && t->blocking && (s->legacy || t->legacy) && t->device == s->device &&
            t->last != nullptr) {
            after->push_back(t->last);
        }
    }
}

} // namespace

bool in_callback()
{
    return stream_thread;
}

CUstream_st *find_stream(cudaStream_t stream)
{
    if (stream == nullptr || stream == cudaStreamLegacy) {
        return legacy_stream(current_device());
    }
    if (std::find(gone.begin(), gone.end(), stream) != gone.end()) {
        used_when_gone("a stream");
        return nullptr;
    }
    return std::find(streams.begin(), streams.end(), stream) != streams.end() ? stream : nullptr;
}

std::shared_ptr<work> queue_work(CUstream_st *s, const std::shared_ptr<const op> &todo,
                                 std::vector<std::shared_ptr<work>> after)
{
    auto w = std::make_shared<work>();
    add_legacy_order(s, &after);
    s->clock.learn(host_clock());
    for (const auto &a : after) {
        s->clock.learn(a->before);
        s->clock.learn(a->at);
    }
    w->todo = todo;
    w->after = std::move(after);
    w->before = s->clock;
    w->at = {s->number, s->last != nullptr ? s->last->at.place + 1 : 1};
    s->clock.learn(w->at);
    check_uses(*todo, s->device, w->at, w->before);
    {
        const loud own;
        tell_release(w.get());
    }
    s->queue.push_back(w);
    s->last = w;
    s->more.notify_one();
    return w;
}

cudaError_t submit(CUstream_st *s, const std::shared_ptr<const op> &todo)
{
    if (s->capturing != nullptr) {
        return capture_op(s, todo);
    }
    if (s->legacy && device_is_capturing(s->device)) {
        return cudaErrorStreamCaptureImplicit;
    }
    queue_work(s, todo);
    return cudaSuccess;
}

void host_learns(const std::shared_ptr<work> &w)
{
    host_clock().learn(w->before);
    host_clock().learn(w->at);
    const loud own;
    tell_acquire(&w->done);
}

void wait_for(locked &l, const std::shared_ptr<work> w)
{
    if (w == nullptr) {
        return;
    }
    await_end(l, w);
    host_learns(w);
}

void wait_for_device(locked &l, int device)
{
    const auto all = streams; /* some may come and go meanwhile; what is queued then is not waited for */
    for (auto *const s : all) {
        if (std::find(streams.begin(), streams.end(), s) != streams.end() && s->device == device) {
            wait_for(l, s->last);
        }
    }
    check_freed(device);
}

/* It does what is queued, and is on no list any more. The caller holds the lock; it is released meanwhile. */
void end_stream(locked &l, CUstream_st *s)
{
    s->stopping = true;
    s->more.notify_one();
    l.unlock();
    s->thread.join();
    l.lock();
    streams.erase(std::find(streams.begin(), streams.end(), s));
    end_capture_of(s);
}

void end_streams(locked &l, int device)
{
    for (size_t i = 0; i < streams.size();) {
        CUstream_st *const s = streams[i];
        if (s->device != device) {
            i++;
            continue;
        }
        end_stream(l, s);
        gone.push_back(s);
        i = 0;
    }
    legacy[device] = nullptr;
    failure_to_come[device] = cudaSuccess;
}

void fail_later(int device, cudaError_t error)
{
    failure_to_come[device] = error;
}

} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return call([&](locked &) {
        if (stream == nullptr || flags > cudaStreamNonBlocking) {
            return cudaErrorInvalidValue;
        }
        if (current_device() == config().no_streams) {
            return cudaErrorMemoryAllocation;
        }
        *stream = start_stream(current_device(), (flags & cudaStreamNonBlocking) == 0);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

/* CUDA returns at once and lets the queue run dry; here the caller waits, and learns nothing of it. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const quiet q;
    locked l(mu);
    const auto at = std::find(streams.begin(), streams.end(), stream);
    if (at == streams.end() || stream->legacy) {
        (void)find_stream(stream);
        return note(cudaErrorInvalidResourceHandle);
    }
    end_stream(l, stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return call([&](locked &l) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr) {
            return cudaErrorInvalidResourceHandle;
        }
        if (s->capturing != nullptr) {
            return spoil_capture(s);
        }
        if (s->legacy) {
            queue_work(s, std::make_shared<op>());
        }
        wait_for(l, s->last);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr) {
            return cudaErrorInvalidResourceHandle;
        }
        if (s->capturing != nullptr) {
            return spoil_capture(s);
        }
        if (s->last != nullptr && !s->last->done) {
            return cudaErrorNotReady;
        }
        if (s->last != nullptr) {
            host_learns(s->last);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    return call([&](locked &) {
        CUstream_st *const s = find_stream(stream);
        if (s == nullptr || fn == nullptr) {
            return s == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
        }
        auto o = std::make_shared<op>();
        o->what = "a host function";
        o->hosts = true;
        o->run = [fn, data] { fn(data); };
        return submit(s, o);
    });
}

cudaError_t cudaDeviceSynchronize(void)
{
    return call([&](locked &l) {
        const cudaError_t unsafe = unsafe_in_capture();
        if (unsafe == cudaSuccess) {
            wait_for_device(l, current_device());
        }
        return unsafe;
    });
}
}
