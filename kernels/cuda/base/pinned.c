/* kernels/cuda/base/pinned.c - blocks by size class, those that idle in a list for each.
 *
 * Classes are powers of two from 4 KiB (a page) on, and the halfway points. A block that idles holds the
 * address of the next one. Sizes are charged to `held` under the lock, and CUDA is asked outside of it.
 *
 * Threads: mu guards everything but CUDA's calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/pinned.h"

#include <pthread.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "kernels/cuda/base/runtime.h"

enum { LEAST_SHIFT = 12, CLASSES = 64 };

struct td_cuda_pinned {
    int device;
    pthread_mutex_t mu; /* guards what follows */
    struct td_cuda_pinned_counts counts;
    void *idle[CLASSES];
    uint64_t out;       /* blocks that somebody has; and one more while it is being closed */
    unsigned shortages; /* td_budget_shortages() when it was last looked at */
    int calls;          /* of CUDA's under way */
    bool closed, stopped;
    void (*gone)(void *ctx); /* closed: to be called by the last */
    void *ctx;
};

static uint64_t class_bytes(int c)
{
    const uint64_t base = UINT64_C(1) << (LEAST_SHIFT + c / 2);
    return c % 2 ? base + base / 2 : base;
}

static int class_of(size_t bytes)
{
    int c = 0;
    while (c < CLASSES && class_bytes(c) < bytes) {
        c++;
    }
    return c;
}

enum td_code td_cuda_pinned_new(int device, uint64_t limit, struct td_cuda_pinned **out, struct td_err *err)
{
    struct td_cuda_pinned *p = td_calloc(1, sizeof *p);
    if (p == NULL || pthread_mutex_init(&p->mu, NULL) != 0) {
        td_free(p);
        return td_no_memory(err, sizeof *p, "pinned memory");
    }
    p->device = device;
    p->counts.limit = limit;
    p->shortages = td_budget_shortages();
    *out = p;
    return TD_OK;
}

static void *pop(struct td_cuda_pinned *p, int c)
{
    void *block = p->idle[c];
    if (block != NULL) {
        memcpy(&p->idle[c], block, sizeof p->idle[c]);
    }
    return block;
}

static void unpin(struct td_cuda_pinned *p, void *block, uint64_t bytes)
{
    (void)td_cuda_host_free(p->device, block);
    td_budget_give(bytes);
}

/* Under mu, which is released meanwhile: frees idle blocks, the largest first, until so few are held. */
static void shrink(struct td_cuda_pinned *p, uint64_t most)
{
    for (int c = CLASSES - 1; c >= 0 && p->counts.held > most;) {
        void *block = pop(p, c);
        if (block == NULL) {
            c--;
            continue;
        }
        p->counts.held -= class_bytes(c);
        p->calls++;
        pthread_mutex_unlock(&p->mu);
        unpin(p, block, class_bytes(c));
        pthread_mutex_lock(&p->mu);
        p->calls--;
    }
}

/* Under mu: the process's memory was short since the last look. */
static void look_at_shortages(struct td_cuda_pinned *p)
{
    const unsigned now = td_budget_shortages();
    if (now != p->shortages) {
        p->shortages = now;
        shrink(p, 0);
    }
}

/* Under mu, which is released meanwhile. NULL: not within the limit, or CUDA has none. */
static void *make(struct td_cuda_pinned *p, uint64_t bytes)
{
    void *block = NULL;
    if (bytes > p->counts.limit) {
        return NULL;
    }
    shrink(p, p->counts.limit - bytes);
    if (p->counts.held > p->counts.limit - bytes) {
        return NULL;
    }
    p->counts.held += bytes;
    p->calls++;
    pthread_mutex_unlock(&p->mu);
    const bool may = td_budget_take(bytes);
    if (may && td_cuda_host_allocate(p->device, bytes, &block) != 0) {
        td_budget_give(bytes);
        block = NULL;
    }
    pthread_mutex_lock(&p->mu);
    p->calls--;
    p->counts.held -= block == NULL ? bytes : 0;
    return block;
}

void *td_cuda_pinned_take(struct td_cuda_pinned *p, size_t bytes)
{
    const int c = class_of(bytes);
    void *block = NULL;
    pthread_mutex_lock(&p->mu);
    if (c < CLASSES && !p->stopped) {
        look_at_shortages(p);
        block = pop(p, c);
        block = block != NULL ? block : make(p, class_bytes(c));
    }
    if (block != NULL) {
        p->counts.used += class_bytes(c);
        p->counts.given++;
        p->out++;
    } else {
        p->counts.refused++;
    }
    pthread_mutex_unlock(&p->mu);
    return block;
}

static void end(struct td_cuda_pinned *p)
{
    void (*gone)(void *ctx) = p->gone;
    void *ctx = p->ctx;
    (void)pthread_mutex_destroy(&p->mu);
    td_free(p);
    gone(ctx);
}

void td_cuda_pinned_give(struct td_cuda_pinned *p, void *block, size_t bytes, bool lost)
{
    const int c = class_of(bytes);
    pthread_mutex_lock(&p->mu);
    if (!lost) {
        memcpy(block, &p->idle[c], sizeof p->idle[c]);
        p->idle[c] = block;
    }
    if (p->closed) {
        shrink(p, 0);
    } else if (!lost) {
        look_at_shortages(p);
    }
    p->counts.used -= class_bytes(c); /* behind CUDA's calls: till then no restart takes the context away */
    const bool last = --p->out == 0 && p->closed;
    pthread_mutex_unlock(&p->mu);
    if (last) {
        end(p);
    }
}

void td_cuda_pinned_close(struct td_cuda_pinned *p, void (*gone)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&p->mu);
    p->gone = gone;
    p->ctx = ctx;
    p->closed = true; /* what is given back meanwhile is freed by who gives it */
    p->out++;
    shrink(p, 0);
    const bool last = --p->out == 0;
    pthread_mutex_unlock(&p->mu);
    if (last) {
        end(p);
    }
}

bool td_cuda_pinned_stop(struct td_cuda_pinned *p)
{
    pthread_mutex_lock(&p->mu);
    const bool idle = p->counts.used == 0 && p->calls == 0;
    p->stopped = p->stopped || idle;
    pthread_mutex_unlock(&p->mu);
    return idle;
}

void td_cuda_pinned_forget(struct td_cuda_pinned *p)
{
    pthread_mutex_lock(&p->mu);
    p->stopped = false;
    memset(p->idle, 0, sizeof p->idle);
    const uint64_t held = p->counts.held;
    p->counts.held = 0;
    pthread_mutex_unlock(&p->mu);
    td_budget_give(held);
}

struct td_cuda_pinned_counts td_cuda_pinned_count(struct td_cuda_pinned *p)
{
    pthread_mutex_lock(&p->mu);
    const struct td_cuda_pinned_counts counts = p->counts;
    pthread_mutex_unlock(&p->mu);
    return counts;
}
