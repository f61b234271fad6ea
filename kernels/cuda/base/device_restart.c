/* kernels/cuda/base/device_restart.c - a device that an error has made unusable is given another context.
 *
 *   lost      runs end with errors, and none begins; blocks of pinned memory come back
 *   idle      no stream has a user, nobody calls CUDA, no pinned block is out
 *   reset     handles of the libraries go, then cudaDeviceReset: all else of the context is gone with it, and
 *             what the engine holds of it is forgotten without a call. Code that was made at run time stays:
 *             it is loaded as a library, which belongs to no context
 *   tried     a few bytes go there and come back; handles are made again
 *   serving   in the next context
 *
 * CUDA promises no process its GPU back: where it says no at any point, the device stays lost.
 *
 * Threads: any; one restart at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "kernels/cuda/base/device_impl.h"

enum { LOOK_MS = 5, TRIED_BYTES = 4096 };

/* ------------------------------------------------------------------ who has something of it */

struct holders {
    int runs, calls;
    uint64_t pinned;
};

static struct holders holders_of(struct cuda_device *d)
{
    struct holders h = {.pinned = td_cuda_pinned_count(d->pinned).used};
    pthread_mutex_lock(&d->mu);
    h.calls = d->calls;
    for (const struct td_stream *s = d->streams; s != NULL; s = s->next) {
        h.runs += s->users;
    }
    pthread_mutex_unlock(&d->mu);
    return h;
}

static enum td_code wait_till_idle(struct cuda_device *d, unsigned wait_ms, struct td_err *err)
{
    for (unsigned waited = 0;; waited += LOOK_MS) {
        const struct holders h = holders_of(d);
        if (h.runs == 0 && h.calls == 0 && td_cuda_pinned_stop(d->pinned)) {
            return TD_OK;
        }
        TD_FAIL_IF(
            waited >= wait_ms, err, UNAVAILABLE,
            "%s is not restarted, as %d runs and %llu bytes of pinned memory (answers that clients have "
            "not read) are in use after %u ms: try again",
            d->name, h.runs + h.calls, (unsigned long long)h.pinned, wait_ms);
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
}

/* ------------------------------------------------------------------ the next context */

/* All that was of the last one is gone. */
static void forget(struct cuda_device *d)
{
    td_cuda_pinned_forget(d->pinned);
    pthread_mutex_lock(&d->mu);
    for (struct td_stream *s = d->streams; s != NULL; s = s->next) {
        s->at = NULL;
        s->freed = s->gone = 0;
    }
    d->held = 0;
    atomic_fetch_add(&d->context, 1);
    pthread_mutex_unlock(&d->mu);
}

/* Bytes there and back. Returns CUDA's error; what was allocated for it by then stays. */
static int copy_both_ways(int number, struct td_cuda_stream *s)
{
    unsigned char out[TRIED_BYTES], back[TRIED_BYTES];
    void *there;
    for (int i = 0; i < TRIED_BYTES; i++) {
        out[i] = (unsigned char)(i * 7);
        back[i] = 0;
    }
    int error = td_cuda_allocate(number, s, TRIED_BYTES, &there);
    error = error ? error : td_cuda_copy(number, s, TD_CUDA_TO_DEVICE, there, out, TRIED_BYTES);
    error = error ? error : td_cuda_copy(number, s, TD_CUDA_TO_HOST, back, there, TRIED_BYTES);
    error = error ? error : td_cuda_stream_wait(number, s);
    error = error ? error : td_cuda_free(number, s, there);
    return error != 0 || memcmp(out, back, TRIED_BYTES) == 0 ? error : TD_CUDA_UNKNOWN;
}

static int try_it(int number)
{
    struct td_cuda_stream *s;
    int error = td_cuda_stream_new(number, &s);
    if (error == 0) {
        error = copy_both_ways(number, s);
        const int freed = td_cuda_stream_free(s);
        error = error ? error : freed;
    }
    return error;
}

static enum td_code renew(struct cuda_device *d, struct td_err *err)
{
    td_cuda_libraries_stop(&d->libraries);
    int error = td_cuda_reset(d->number);
    if (error == 0) {
        forget(d);
        error = td_cuda_wait_asleep(d->number);
        error = error ? error : td_cuda_keep(d->number, d->limit);
        error = error ? error : try_it(d->number);
    }
    const bool there = error == 0 && td_cuda_libraries_start(&d->libraries);
    TD_FAIL_IF(error != 0, err, UNAVAILABLE,
               "%s stays out of service: CUDA does not give it back to this process, which must be started "
               "again: %s (%s)",
               d->name, td_cuda_error_text(error), td_cuda_error_name(error));
    TD_FAIL_IF(!there, err, UNAVAILABLE,
               "%s stays out of service: a library that was there when the process began makes no handle: "
               "start it again",
               d->name);
    return TD_OK;
}

static enum td_code begin(struct cuda_device *d, struct td_err *err)
{
    pthread_mutex_lock(&d->mu);
    const bool works = atomic_load(&d->lost) == 0, restarting = d->restarting;
    d->restarting = restarting || !works;
    pthread_mutex_unlock(&d->mu);
    TD_FAIL_IF(restarting, err, FAILED_PRECONDITION, "%s is being restarted", d->name);
    TD_FAIL_IF(works, err, FAILED_PRECONDITION, "%s is in service: there is nothing to restart", d->name);
    return TD_OK;
}

enum td_code td_cuda_device_restart(struct td_device *dev, unsigned wait_ms, struct td_err *err)
{
    struct cuda_device *d = dev->impl;
    TD_TRY(begin(d, err));
    enum td_code rc = wait_till_idle(d, wait_ms, err);
    rc = rc ? rc : renew(d, err);
    if (rc == TD_OK) {
        td_cuda_makers_retry(d->makers);
    }
    pthread_mutex_lock(&d->mu);
    if (rc == TD_OK) {
        atomic_store(&d->lost, 0);
    }
    d->restarting = false;
    pthread_mutex_unlock(&d->mu);
    return rc;
}
