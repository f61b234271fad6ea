/* core/run/device_draws.c - random numbers of a recording: its kernels are told where the generators stand by
 * bytes in the arena, which the host fills in for each launch.
 *
 *   generators of the host   --draw, in the order of the steps-->   bytes   --copy-->   arena   --> kernels
 *
 * So a generator is moved on as often, and by as much, as where its step is queued by itself. That is done
 * when the recording is sure to be launched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/device_graph_impl.h"
#include "core/run/lone.h"

int td_recorded_count_draws(const struct td_bound_plan *l, const struct td_recorded *r)
{
    int n = 0;
    for (int k = r->of.first; k < r->of.end; k++) {
        n += td_stretch_draws(l, k);
    }
    return n;
}

/* Step k draws, of what it reads, which is known with the shapes. */
static enum td_code draw(struct td_frame *f, const struct td_bound_plan *l, int k, void *drawn,
                         struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[k];
    struct td_tensor *in = f->dev->args, out = {.dtype = l->plan->dtype[s->out0], .shape = l->shape[s->out0]};
    for (int i = 0; i < s->n_in; i++) {
        in[i] = l->known[s->in[i]]; /* no reference is taken */
    }
    const enum td_code rc = td_lone_launch(&(struct td_launch){.model = f->dev->model,
                                                               .node = s->node,
                                                               .kernel = l->choice[k].kernel,
                                                               .drawn = drawn,
                                                               .in = in,
                                                               .out = &out,
                                                               .n_in = s->n_in,
                                                               .n_out = 1},
                                           err);
    memset(in, 0, (size_t)s->n_in * sizeof *in);
    return rc;
}

enum td_code td_recorded_draw(struct td_frame *f, const struct td_bound_plan *l, const struct td_recorded *r,
                              struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const struct td_shape bytes = td_shape_vector((int64_t)r->n_draws * TD_DRAWN_BYTES);
    struct td_tensor here;
    if (r->n_draws == 0) {
        return TD_OK;
    }
    TD_TRY(td_tensor_new_pinned(&here, dev->device, TD_UINT8, &bytes, err));
    char *at = here.data;
    enum td_code rc = TD_OK;
    memset(at, 0, td_tensor_bytes(&here));
    for (int k = r->of.first; k < r->of.end && rc == TD_OK; k++) {
        if (td_stretch_draws(l, k)) {
            rc = draw(f, l, k, at, err);
            at += TD_DRAWN_BYTES;
        }
    }
    dev->queued = true;
    rc = rc ? rc : td_device_run_hold(&dev->pins, here.buf, err);
    rc = rc ? rc
            : dev->device->copy(dev->device, dev->stream, TD_COPY_TO_DEVICE, r->drawn, here.data,
                                td_tensor_bytes(&here), err);
    td_tensor_clear(&here);
    return rc;
}
