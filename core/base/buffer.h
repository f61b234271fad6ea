/* core/base/buffer.h - counted blocks of bytes: the memory of tensors.
 *
 * Host blocks come from size-classed free lists of the calling thread, so that a warmed run asks the C
 * library for nothing; they are 64-byte aligned. A block may instead be borrowed from a mapped file (a parent
 * that is released with it) or live on a device. A block of objects holds `struct td_obj *` elements, zeroed
 * at birth, and drops one reference of each when it goes.
 *
 * Invariant (td_buffer_write_check): bytes of a buffer with more than one reference are never written (copy
 * on write); td_buffer_unique tells.
 *
 * Host blocks that a device copies from or to may be pinned: the device has them, and as many as it allows.
 *
 * Host bytes are charged to the account of the thread's work (core/base/work.h) and, with all that is
 * allocated, to the process's budget (core/base/budget.h): past either, RESOURCE_EXHAUSTED.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_BUFFER_H
#define TD_CORE_BASE_BUFFER_H

#include <stdatomic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/device.h"
#include "core/base/status.h"

struct td_buffer {
    atomic_int refs;
    bool objects;   /* data is an array of bytes/8 td_obj pointers */
    bool read_only; /* mapped: never unique */
    bool pinned;    /* host bytes of `pinner` */
    size_t bytes;   /* usable bytes */
    void *data;
    const struct td_device *device; /* NULL: host */
    void (*release)(void *owner);   /* for borrowed bytes: called with owner when the last reference goes */
    union {
        void *owner;                /* of borrowed bytes */
        struct td_account *account; /* of own host bytes: they are charged to it; NULL: none */
    };
    union {
        /* of device bytes: work queued on it so far may still use them when they are freed */
        struct td_stream *stream;
        const struct td_device *pinner; /* of pinned bytes */
    };
    int size_class; /* of the free list it returns to; -1 none */
    union {
        uint32_t crc;     /* of a mapped file's bytes (core/base/file_pages.h) */
        unsigned context; /* of device bytes: the device's (core/base/device.h) */
    };
};

/* What Debug and sanitizer builds put where Release leaves what was there before: no number that an op would
 * make (1.3e36 as a float), so that outputs which are not written whole show in every test of values. */
enum { TD_BUFFER_UNWRITTEN = 0x7b };
#ifdef NDEBUG
#define TD_UNWRITTEN(p, n) ((void)0)
#else
#define TD_UNWRITTEN(p, n) ((void)memset((p), TD_BUFFER_UNWRITTEN, (n)))
#endif

/* Returns new: bytes uninitialised (objects: zeroed). bytes may be 0. */
TD_MUST enum td_code td_buffer_new(size_t bytes, bool objects, struct td_buffer **out, struct td_err *err);
/* Wraps read-only bytes that somebody else owns until release(owner) is called. Returns new. */
TD_MUST enum td_code td_buffer_wrap(const void *data, size_t bytes, void (*release)(void *), void *owner,
                                    struct td_buffer **out, struct td_err *err);
/* Returns new bytes on d, freed in the order of stream, which must outlive them. d NULL: on the host. */
TD_MUST enum td_code td_buffer_new_on(const struct td_device *d, struct td_stream *stream, size_t bytes,
                                      struct td_buffer **out, struct td_err *err);
/* Device bytes of a context that the device has no more. False: they are there, or b has none. */
static inline bool td_buffer_is_gone(const struct td_buffer *b)
{
    return b != NULL && b->device != NULL && b->device->context != NULL &&
           b->device->context(b->device) != b->context;
}
/* Of device bytes: whoever frees them has waited for all that uses them, so that they are freed in no
 * stream's order. Several threads may say so at once of what they share: then it is so already, and none
 * writes. */
static inline void td_buffer_off_stream(struct td_buffer *b)
{
    if (b->stream != NULL) {
        b->stream = NULL;
    }
}
/* Returns new bytes on the host that d copies to and from by itself, pinned where d has some left, else as
 * td_buffer_new makes them. d NULL: of no device. */
TD_MUST enum td_code td_buffer_new_pinned(const struct td_device *d, size_t bytes, struct td_buffer **out,
                                          struct td_err *err);
/* Returns new pinned bytes, filled with those at `from` unless that is NULL; NULL: d has none left, or the
 * work at hand may not have so many. */
struct td_buffer *td_buffer_pin(const struct td_device *d, size_t bytes, const void *from);
struct td_buffer *td_buffer_ref(struct td_buffer *b); /* accepts NULL; returns b */
void td_buffer_unref(struct td_buffer *b);            /* accepts NULL */
bool td_buffer_unique(const struct td_buffer *b);     /* one reference and writable */

/* Of a buffer that is about to be written: it has one reference. NULL: bytes of a plan, which nobody
 * counts. */
TD_MUST enum td_code td_buffer_write_check(const struct td_buffer *b, struct td_err *err);
/* Of a buffer alive: counted, with bytes of its own behind its header, or borrowed, or on a device; what it
 * has is part of what td_buffer_live_bytes says. */
TD_MUST enum td_code td_buffer_check(const struct td_buffer *b, struct td_err *err);

uint64_t td_buffer_live_bytes(void);
/* The calling thread may allocate so many bytes more (UINT64_MAX: any), then RESOURCE_EXHAUSTED. Returns what
 * it had left. For work that nobody asked for, like evaluating constants ahead of a run. */
uint64_t td_buffer_allow(uint64_t bytes);
/* Gives the calling thread's cached blocks back to the C library (a worker calls it when it has been
 * idle). */
void td_buffer_trim(void);
/* pthread_cond_wait, of a thread that waits for work: when TD_BUFFER_IDLE_S have passed it trims, and returns
 * as if it had been woken. */
enum { TD_BUFFER_IDLE_S = 2 };
void td_buffer_idle_wait(pthread_cond_t *cond, pthread_mutex_t *mu);

#endif
