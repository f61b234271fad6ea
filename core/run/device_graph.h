/* core/run/device_graph.h - what a device has recorded of a plan: a stretch of its steps
 * (core/run/stretch.h) is queued by one launch, instead of one for each kernel.
 *
 *   runs 1 .. graph_run - 1   the steps are queued one by one
 *   run graph_run             they are recorded, at addresses that stay, and the recording is launched
 *   later runs                inputs are copied to where it reads them; it is launched
 *
 * A recording belongs to a frame, and so to one run at a time: as many runs of a bound plan as there are at
 * once have one each. It holds an arena on the device, with places for what goes in, and a reference to each
 * weight that it reads. What comes out lies in the arena until the run's end; what may outlive the run is
 * copied. A recording is dropped when a weight that it reads has other bytes now, when somebody kept a piece
 * of its arena, when its run was short of memory, and, of frames that no run has, when any run is: it is made
 * again after some more runs, more each time. A stretch that the device cannot record is not tried again.
 *
 * Kernels and their arguments are the same as without, so results are, to the bit.
 *
 * Threads: a frame's recordings are its run's; td_device_graphs_trim any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_GRAPH_H
#define TD_CORE_RUN_DEVICE_GRAPH_H

#include "core/run/device_run.h"

struct td_device_graphs;
struct td_device_recorder;
struct td_run;

/* The stretch that begins at step, where it is recorded, or to be in this run: then what its steps read or
 * take of variables is next, and td_device_graph_run. Else *of is NULL. */
TD_MUST enum td_code td_device_graph_due(struct td_frame *f, const struct td_bound_plan *l, int step,
                                         const struct td_stretch **of, struct td_err *err);
/* Queues it by its recording: *next is the step behind it, and what it assigns to variables is next. *next is
 * its first step where it cannot be recorded now: nothing was queued. */
TD_MUST enum td_code td_device_graph_run(struct td_frame *f, const struct td_bound_plan *l,
                                         const struct td_stretch *of, const struct td_run *run, int *next,
                                         struct td_err *err);
/* The run is over, its work done and its values released; is_short: it had too little memory. */
void td_device_graphs_leave(struct td_device_graphs *g, bool is_short); /* accepts NULL */
void td_device_graphs_free(struct td_device_graphs *g);                 /* accepts NULL */
/* Drops all recordings of a device that no run has. Returns the bytes of their arenas. */
size_t td_device_graphs_trim(const struct td_device *d);

/* ---- of steps that are being recorded (core/run/device_run.c) */
struct td_stream *td_device_recorder_stream(const struct td_device_recorder *r);
/* Weight v as it lies there swapped (core/run/device_weights.h); NULL: the recording has it as it is. */
const struct td_tensor *td_device_recorder_swapped(const struct td_device_recorder *r, int v);
/* The next piece of the arena: *buffer is a new reference. */
void td_device_recorder_take(struct td_device_recorder *r, struct td_buffer **buffer, void **data);
/* Where a launch that draws finds what was drawn. */
void *td_device_recorder_drawn(struct td_device_recorder *r);
/* Gives a launch that judges inputs its word, and notes it for the launches of the recording. */
TD_MUST enum td_code td_device_recorder_judge(struct td_device_recorder *r, const struct td_step *s,
                                              struct td_launch *l, struct td_err *err);

#endif
