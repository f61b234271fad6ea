/* core/run/device_run.h - runs that use a device: which steps go there, and the copies and waits between the
 * two memories.
 *
 * A step goes to the model's device when that has a kernel for its node, the op is pure, or draws from a
 * generator (TD_OP_DRAWS), and its values are numbers (core/compile/placer.h), and the bound plan knows
 * every output shape and a row serves it (modes DEVICE, DEVICE_CHECK), or the shape function tells the
 * shapes from the run's own input shapes (DEVICE_INFER), or a kernel is to find them
 * (core/run/device_sized.c). All other steps run on the host; variables and constants live there, and what
 * of them the device has read stays on it for further runs (core/run/device_weights.h).
 *
 * Each value of a run may have bytes on the host (its slot), on the device (td_device_run.at), or on both.
 * The executor queues a device step on the run's one stream and goes on; td_device_run_step copies its inputs
 * over that are not there yet. td_device_run_fetch copies values back that a step on the host (or a
 * fetch) needs, and waits for them: the only point where the host waits for the device. A value is copied at
 * most once in each direction. Device bytes are freed in the order of the stream, so a release needs no wait.
 * Where the device is short of memory, the weights that no run uses are dropped, once, before a run fails.
 *
 * Copies to and from the host go by pinned memory while the device has some left (core/base/buffer.h): what
 * is there already goes as it is, else it is copied there first. Stretches of steps are recorded, and
 * launched as one, where the device can do that (core/run/device_graph.h).
 *
 * Invariants (td_device_run_check): host bytes that a queued copy reads are held (a counted reference,
 * which also keeps anybody from writing them in place) or planned to stay until the run's end; and no run
 * ends before its stream has. An error on the device is reported at the next wait; work queued behind it is
 * not done. Data that a kernel refuses is, too (core/run/device_faults.h); what comes behind it is dropped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_RUN_H
#define TD_CORE_RUN_DEVICE_RUN_H

#include "core/run/bound_plan.h"

struct td_device_run;
struct td_frame;

/* What a device is asked to run: a kernel as its row's prepare left it for these shapes and this device.
 * Everything is borrowed until launch returns, and state and the bytes of device tensors and workspace in the
 * stream's order. Inputs whose device is NULL lie on the host: those that the op's row marks (host_in). */
struct td_launch {
    struct td_model *model; /* valid until the stream's work is done, as are node and kernel */
    const struct td_node *node;
    const struct td_kernel *kernel;
    const void *state;
    void *workspace; /* on the device; NULL: the kernel wants none */
    size_t workspace_bytes;
    const float *const
        *post_in; /* operands of the epilogues that prepare took, on the device; NULL: none were wanted */
    struct td_stream *stream;
    /* a word on the device, of a kernel that judges inputs (core/run/device_faults.h) */
    int32_t *fault;
    void *drawn;      /* as struct td_call has it */
    int64_t *counts;  /* on the device: the first part of a sized kernel is to run; NULL: run is */
    uint32_t swapped; /* bit i: input i is (struct td_kernel_offer) */
    const struct td_tensor *in, *out; /* out: allocated, of the inferred shapes */
    int n_in, n_out;
};

/* A frame's side on the device of p's model. */
TD_MUST enum td_code td_device_run_open(const struct td_plan *p, struct td_device_run **out,
                                        struct td_err *err);
void td_device_run_close(struct td_device_run *dev); /* accepts NULL */
/* Queues a step of mode DEVICE, DEVICE_CHECK or DEVICE_INFER; *kernel: what it was queued to, for reports;
 * NULL: the host is to run it. */
TD_MUST enum td_code td_device_run_step(struct td_frame *f, const struct td_bound_plan *l, int step,
                                        const char **kernel, struct td_err *err);
/* Value v as it lies on the device alone, borrowed; NULL: it has bytes on the host. */
const struct td_tensor *td_device_run_at(const struct td_device_run *dev, int v);
/* Value v is *takes, which the run holds. */
void td_device_run_put(struct td_frame *f, int v, struct td_tensor *takes);
/* Gives these values host bytes where they only have device bytes. */
TD_MUST enum td_code td_device_run_fetch(struct td_frame *f, const int *values, int n, struct td_err *err);
/* A frame's side between runs: nothing is queued, held, or on the device. */
TD_MUST enum td_code td_device_run_check(const struct td_device_run *dev, struct td_err *err);
/* ---- tensors on the device that come from before the run, or outlive it (core/run/variable.h) */
/* The device that the run of c uses; NULL: none. */
const struct td_device *td_call_device(const struct td_call *c);
/* From here to the run's end its device is given no other context: what is there now, stays. */
TD_MUST enum td_code td_call_enter(const struct td_call *c, struct td_err *err);
/* t's bytes are kept until the run's work is done, and after that belong to no stream. */
TD_MUST enum td_code td_call_hold(const struct td_call *c, const struct td_tensor *t, struct td_err *err);
/* A point behind all that the run has queued: *out is new, of the device. */
TD_MUST enum td_code td_call_event(const struct td_call *c, struct td_event **out, struct td_err *err);
/* How many references to b a run has. */
int td_device_run_holds(const struct td_device_run *dev, const struct td_buffer *b);
/* The same of the run of c; -1: some value that lies there is used yet. */
int td_call_holds(const struct td_call *c, const struct td_buffer *b);
/* Which run that is, among those on their way. */
const void *td_call_run_there(const struct td_call *c);
/* The run's stream, of one that has a device: for work that the caller queues behind the run's. */
TD_MUST enum td_code td_call_stream(const struct td_call *c, struct td_stream **out, struct td_err *err);
/* Input i of an op flagged TD_OP_ANYWHERE, brought to the host; *out is borrowed. */
TD_MUST enum td_code td_call_bring(const struct td_call *c, int i, const struct td_tensor **out,
                                   struct td_err *err);
/* All that the run has queued is done: before another run's work reads it. */
TD_MUST enum td_code td_call_wait(const struct td_call *c, struct td_err *err);
/* Value v is what a caller fed, which lies on the device: *takes when that is given, else borrowed. Brought
 * to the host where the run uses no device. */
TD_MUST enum td_code td_device_run_feed(struct td_frame *f, int v, const struct td_tensor *t,
                                        struct td_tensor *takes, struct td_err *err);
/* Brings a tensor to the host: *here is new. made: a point to wait for first, or NULL. DATA_LOSS: its bytes
 * are gone (td_buffer_is_gone). */
TD_MUST enum td_code td_device_bring(const struct td_tensor *there, struct td_event *made,
                                     struct td_tensor *here, struct td_err *err);

/* Whether a sized kernel (core/graph/kernel.h) may serve the step there, as it does where the device alone
 * has one of the inputs (core/run/device_sized.c). */
bool td_device_sized_may(const struct td_step *s);
/* Frees value v's bytes on the device. */
void td_device_run_release(struct td_frame *f, int v);
/* A run that came to rc: brings the fetches, but for floats where they may stay there, and waits. An error of
 * the device came before the host's own. Then its outputs are taken, and device bytes freed. */
TD_MUST enum td_code td_device_run_finish(struct td_frame *f, const struct td_plan *p, bool anywhere,
                                          enum td_code rc, struct td_err *err);
/* Of a finished run, value v where it stayed on the device, to outlive the run; NULL: it is on the host. */
const struct td_tensor *td_device_run_result(struct td_frame *f, int v);
void td_device_run_clear(struct td_frame *f);

#endif
