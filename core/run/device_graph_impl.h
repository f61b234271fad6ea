/* core/run/device_graph_impl.h - one stretch's recording, as device_graph.c launches it and
 * device_record.c makes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_GRAPH_IMPL_H
#define TD_CORE_RUN_DEVICE_GRAPH_IMPL_H

#include "core/run/device_graph.h"
#include "core/run/device_run_impl.h"
#include "core/run/stretch.h"

enum td_recorded_from { TD_FROM_WEIGHT, TD_FROM_FIXED, TD_FROM_GIVEN };

struct td_recorded_source {
    int v;
    enum td_recorded_from from;
    const void *here;       /* TD_FROM_WEIGHT: its bytes on the host */
    struct td_tensor there; /* as the recording reads it; TD_FROM_WEIGHT: a reference */
};

struct td_recorded_result {
    int v;
    struct td_tensor there; /* without a reference */
};

/* A launch that judges inputs. */
struct td_recorded_judge {
    const struct td_step *step;
    const struct td_kernel *kernel;
    struct td_tensor *in; /* step->n_in, without references */
};

struct td_recorded {
    struct td_stretch of;
    int runs, due,
        wait; /* so far; which of them is to be recorded (INT_MAX: none); how many more after that */
    struct td_recording *graph;
    struct td_buffer *arena; /* NULL: nothing is recorded */
    struct td_recorded_source *in;
    struct td_recorded_result *out;
    struct td_recorded_judge *judges;
    int n_in, n_out, n_judges;
};

/* Forgets the recording; how many runs there were stays. */
void td_recorded_drop(const struct td_device *d, struct td_recorded *r);
/* Records the stretch now. *made: its inputs are in their places for this run, and what comes out is noted.
 * Otherwise nothing was queued but copies; *never: and it need not be tried again. */
TD_MUST enum td_code td_recorded_make(struct td_frame *f, const struct td_bound_plan *l,
                                      struct td_recorded *r, bool *made, bool *never, struct td_err *err);
/* Queues the copy of an input's bytes to its place. */
TD_MUST enum td_code td_recorded_give(struct td_frame *f, const struct td_recorded_source *in,
                                      struct td_err *err);

#endif
