/* core/base/device.h - where bytes live and kernels run: the vtable that a CPU, a GPU and the tests' second
 * device fill in.
 *
 * Streams are ordered queues of work; events mark a point in one. On the host every stream operation is
 * immediate. A NULL `const struct td_device *` in a tensor or buffer means the host. core/run/device_run.h
 * says how runs use a device.
 *
 * What is allocated is of the device's context, which may be lost, and replaced: bytes that are gone are
 * neither used nor given back (td_buffer_is_gone).
 *
 * A failing copy or kernel fails the work queued behind it on its stream, until event_wait has reported it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_DEVICE_H
#define TD_CORE_BASE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/device_nodes.h"
#include "core/base/status.h"

enum td_copy { TD_COPY_TO_DEVICE, TD_COPY_TO_HOST, TD_COPY_ON_DEVICE, TD_COPY_KINDS };
enum td_device_kind { TD_CPU = 0, TD_CUDA = 1, TD_TEST_DEVICE = 2 };

struct td_stream; /* opaque; NULL is the host's immediate stream */
struct td_event;
struct td_recording;
struct td_launch; /* core/run/device_run.h: one kernel with its tensors */

struct td_device {
    enum td_device_kind kind;
    const char *name; /* "/device:GPU:0" */
    /* what times measured there hold for: printable ASCII; NULL: for nothing else */
    const char *machine;
    void *impl;
    /* whose kernel rows it runs: its own kind; the tests' device runs the host's */
    enum td_device_kind kernels;

    /* For work that is queued on stream behind this call. */
    TD_MUST enum td_code (*allocate)(const struct td_device *d, struct td_stream *stream, size_t bytes,
                                     void **out, struct td_err *err);
    /* Stream-ordered: the bytes, as many as were allocated, may be reused once the work queued on stream
     * before this call is done. stream NULL: all that used them is done. context: that they are of; nothing
     * is done where that is gone. */
    void (*release)(const struct td_device *d, void *p, size_t bytes, struct td_stream *stream,
                    unsigned context);
    /* Counts its contexts, from 0: a device that an error has made unusable may be given another, and all
     * that was allocated before is gone. It changes while no stream is open. NULL: there is one alone. */
    unsigned (*context)(const struct td_device *d);
    /* Returns when queued; the host side, if there is one, must stay valid until an event recorded after it
     * has been waited for. */
    TD_MUST enum td_code (*copy)(const struct td_device *d, struct td_stream *stream, enum td_copy which,
                                 void *dst, const void *src, size_t bytes, struct td_err *err);
    /* Returns when queued. Inputs and outputs that lie on the device need not be there yet and may be
     * released right after; inputs on the host stay as they are until the queued work is done. */
    TD_MUST enum td_code (*launch)(const struct td_device *d, struct td_stream *stream,
                                   const struct td_launch *l, struct td_err *err);
    /* For one run, or one copy: it may be a stream that others queue on, too. Whoever closes it has waited
     * for what it has queued. */
    TD_MUST enum td_code (*stream_open)(const struct td_device *d, struct td_stream **out,
                                        struct td_err *err);
    void (*stream_close)(const struct td_device *d, struct td_stream *stream);
    TD_MUST enum td_code (*event_open)(const struct td_device *d, struct td_event **out, struct td_err *err);
    void (*event_close)(const struct td_device *d, struct td_event *event);
    /* Failing, it has waited for all that is queued on stream, as nobody else can. */
    TD_MUST enum td_code (*event_record)(const struct td_device *d, struct td_stream *stream,
                                         struct td_event *event, struct td_err *err);
    /* Blocks the calling thread until the recorded point is reached; reports the first error of the work
     * before it. Its stream may have been closed since. */
    TD_MUST enum td_code (*event_wait)(const struct td_device *d, struct td_event *event, struct td_err *err);

    /* Pinned memory of the host: the device copies to and from it while the caller goes on. Returns so many
     * bytes, filled with those at `from` unless that is NULL; NULL: no more may be had. Both functions are
     * NULL where a device has none. Whoever unpins has waited for what uses them. */
    void *(*pin)(const struct td_device *d, size_t bytes, const void *from);
    void (*unpin)(const struct td_device *d, void *p, size_t bytes);

    /* Work that is recorded once and launched as one piece (core/run/device_graph.h). graph_begin: *stream is
     * new, and what is queued on it is recorded instead of done, at the same addresses in every launch;
     * allocations, and copies from or to the host, fail. graph_end closes it, whatever was queued: on failure
     * nothing is recorded. Whoever frees a graph has waited for its launches. All four are NULL where a
     * device has no graphs. */
    TD_MUST enum td_code (*graph_begin)(const struct td_device *d, struct td_stream **stream,
                                        struct td_err *err);
    TD_MUST enum td_code (*graph_end)(const struct td_device *d, struct td_stream *stream,
                                      struct td_recording **out, struct td_err *err);
    TD_MUST enum td_code (*graph_launch)(const struct td_device *d, struct td_stream *stream,
                                         struct td_recording *r, struct td_err *err);
    void (*graph_free)(const struct td_device *d, struct td_recording *r);
    /* Conditional nodes in recorded work (core/run/device_inner.c has what they are for); all are NULL
     * where a device has none. What is queued on a body, a new stream, is run as its node says, and what
     * stream gets behind the call that has begun it comes behind the node. body_end closes one, whatever
     * was queued; l: of a loop's, else NULL.
     * loop_begin: body is a round; l is looked at where the loop begins in stream, and at each round's end.
     * loop_carry: in a round, bytes for the next one, unless a fault is set, whose launch is to find its
     * inputs, or a loop in the round has no rounds left: the round is not over.
     * branch_begin: one of bodies [n] is run, as b says. pass_begin: body is run, or not, as p says;
     * pass_copy: in it, where *fresh is not 0. */
    TD_MUST enum td_code (*loop_begin)(const struct td_device *d, struct td_stream *stream,
                                       const struct td_device_loop *l, struct td_stream **body,
                                       struct td_err *err);
    TD_MUST enum td_code (*loop_carry)(const struct td_device *d, struct td_stream *body,
                                       const struct td_device_loop *l, void *to, const void *from,
                                       size_t bytes, struct td_err *err);
    TD_MUST enum td_code (*branch_begin)(const struct td_device *d, struct td_stream *stream,
                                         const struct td_device_branch *b, struct td_stream **bodies,
                                         struct td_err *err);
    TD_MUST enum td_code (*pass_begin)(const struct td_device *d, struct td_stream *stream,
                                       const struct td_device_pass *p, struct td_stream **body,
                                       struct td_err *err);
    TD_MUST enum td_code (*pass_copy)(const struct td_device *d, struct td_stream *body,
                                      const uint32_t *fresh, void *to, const void *from, size_t bytes,
                                      struct td_err *err);
    TD_MUST enum td_code (*body_end)(const struct td_device *d, struct td_stream *body,
                                     const struct td_device_loop *l, struct td_err *err);
    /* which run of a plan at the same shapes is the first to be recorded, from 1; 0: none ever is */
    int graph_run;
};

#endif
