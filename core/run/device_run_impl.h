/* core/run/device_run_impl.h - a run's side on its device, as device_run.c, device_call.c, device_graph.c
 * and device_record.c share it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_RUN_IMPL_H
#define TD_CORE_RUN_DEVICE_RUN_IMPL_H

#include "core/run/device_faults.h"
#include "core/run/frame.h"

struct td_held {
    struct td_buffer **list;
    int n, room;
};

struct td_device_graphs;
struct td_device_recorder;

struct td_device_run {
    const struct td_device *device;
    struct td_model *model;
    struct td_stream *stream; /* the run's; NULL: none yet */
    struct td_event *event;
    struct td_tensor *at;              /* n_values: where a value lies on the device; buf NULL: nowhere */
    bool *only_there;                  /* n_values: and its slot has no bytes */
    bool *lasts;                       /* n_values: a constant, a variable's value, or a view of one */
    struct td_tensor *args;            /* max_in: inputs of the step being launched */
    const struct td_tensor **here;     /* max_in: and where the host has them, in buffers of their own */
    struct td_held pins;               /* host bytes that queued copies read: until the next wait */
    struct td_held weights;            /* of the model's, that kernels read: until the run's end */
    struct td_device_faults *faults;   /* what kernels of the run may refuse; NULL: nothing */
    struct td_choice *late;            /* kernels chosen in this run, whose queued work uses their state */
    struct td_device_graphs *graphs;   /* what was recorded of the plan; NULL: nothing yet */
    struct td_device_recorder *record; /* steps are being recorded; NULL: they are queued */
    int n_values, n_late, late_room;
    bool queued;   /* work was queued since the last wait */
    bool is_short; /* the run is finished, and had too little memory */
    bool anywhere; /* the run is finished, and what it came to may stay here */
};

/* Whoever is the first to queue something opens the run's stream: values from elsewhere may be fetched before
 * any step of the run has gone to the device. From there to the run's end the device is not restarted, so
 * what may have gone with a context (td_buffer_is_gone) is looked at behind this call. */
TD_MUST enum td_code td_device_run_stream(struct td_device_run *dev, struct td_err *err);
/* Keeps b, which may be NULL: planned bytes stay as they are until the run's end. */
TD_MUST enum td_code td_device_run_hold(struct td_held *h, struct td_buffer *b, struct td_err *err);
TD_MUST enum td_code td_device_run_wait(struct td_device_run *dev, struct td_err *err);
/* Bytes in the order of the run's stream. */
TD_MUST enum td_code td_device_run_allocate(const struct td_device_run *dev, size_t bytes,
                                            struct td_buffer **out, struct td_err *err);
/* A tensor in such bytes. */
TD_MUST enum td_code td_device_run_make(const struct td_device_run *dev, enum td_dtype dtype,
                                        const struct td_shape *shape, struct td_tensor *t,
                                        struct td_err *err);
/* Queues a copy of a host tensor, from pinned bytes where there are some left. */
TD_MUST enum td_code td_device_run_send(struct td_device_run *dev, const struct td_tensor *here, void *there,
                                        struct td_err *err);
/* Value v's bytes on the device: its own, or those that last. */
TD_MUST enum td_code td_device_run_bring(struct td_device_run *dev, const struct td_tensor *here, int v,
                                         struct td_err *err);
/* Whether input i of the chosen kernel, value v of the run, is to come swapped (struct td_kernel_offer): it
 * may, and the host has it as a weight. */
bool td_device_run_swaps(const struct td_frame *f, const struct td_choice *c, int i, int v);
/* That weight as it lies on the device then, a reference, and held until the run's end. */
TD_MUST enum td_code td_device_run_swap(struct td_device_run *dev, const struct td_tensor *here,
                                        struct td_tensor *there, struct td_err *err);
/* args[i] = input i as the kernel gets it, a reference; *swapped: gets bit i where it is. */
TD_MUST enum td_code td_device_run_place(struct td_frame *f, const struct td_step *s,
                                         const struct td_choice *c, int i, uint32_t *swapped,
                                         struct td_err *err);
/* Queues s, of mode DEVICE, or records it, its outputs having these shapes. */
TD_MUST enum td_code td_device_run_launch(struct td_frame *f, const struct td_plan *p,
                                          const struct td_step *s, const struct td_choice *c,
                                          const struct td_shape *shapes, struct td_err *err);

/* Queues l, whose inputs are in place. */
TD_MUST enum td_code td_device_run_queue(struct td_frame *f, const struct td_launch *l, struct td_err *err);
/* ---- sized kernels (device_sized.c) */
/* Whether what was chosen is worth launching, the shapes of the outputs being known or not. */
bool td_device_sized_goes(const struct td_device_run *dev, const struct td_step *s, const struct td_choice *c,
                          bool known);
/* Runs the first part of l, a launch of a sized kernel whose inputs are in place, and waits: out[i] is the
 * shape of output i. */
TD_MUST enum td_code td_device_sized_find(struct td_frame *f, const struct td_launch *l, struct td_shape *out,
                                          struct td_err *err);

#endif
