/* core/run/device_run.h - runs that use a device: which steps go there, and the copies and waits between the
 * two memories.
 *
 * A step goes to the model's device when that has a kernel for its node, the op is pure and its values are
 * numbers (core/compile/placer.h), and the bound plan knows every output shape and a row serves it (modes
 * DEVICE, DEVICE_CHECK), or the shape function tells the shapes from the run's own input shapes
 * (DEVICE_INFER). All other steps run on the host; variables and constants live there, and what of them the
 * device has read stays on it for further runs (core/run/device_weights.h).
 *
 * Each value of a run may have bytes on the host (its slot), on the device (td_device_run.at), or on both.
 * The executor queues a device step on the run's one stream and goes on; td_device_run_step copies its inputs
 * over that are not there yet. td_device_run_fetch copies values back that a step on the host (or a
 * fetch) needs, and waits for them: the only point where the host waits for the device. A value is copied at
 * most once in each direction. Device bytes are freed in the order of the stream, so a release needs no wait.
 * Where the device is short of memory, the weights that no run uses are dropped, once, before a run fails.
 *
 * Invariants (td_device_run_check): host bytes that a queued copy reads are pinned (a counted reference,
 * which also keeps anybody from writing them in place) or planned to stay until the run's end; and no run
 * ends before its stream has. An error on the device is reported at the next wait; work queued behind it is
 * not done.
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
/* Gives these values host bytes where they only have device bytes. */
TD_MUST enum td_code td_device_run_fetch(struct td_frame *f, const int *values, int n, struct td_err *err);
/* A frame's side between runs: nothing is queued, pinned, or on the device. */
TD_MUST enum td_code td_device_run_check(const struct td_device_run *dev, struct td_err *err);
/* Frees value v's bytes on the device. */
void td_device_run_release(struct td_frame *f, int v);
/* Ends a run that came to rc: brings the fetches, waits, frees all device bytes. An error of the device came
 * before the host's own. */
TD_MUST enum td_code td_device_run_finish(struct td_frame *f, const struct td_plan *p, enum td_code rc,
                                          struct td_err *err);

#endif
