/* core/run/device_input.c - the inputs of a step come to where its kernel reads them: on the host, on the
 * device, or there swapped, where the kernel may have it so and the host has a weight
 * (core/run/device_weights.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_graph.h"
#include "core/run/device_run_impl.h"
#include "core/run/device_weights.h"
#include "core/run/model.h"

bool td_device_run_swaps(const struct td_frame *f, const struct td_choice *c, int i, int v)
{
    const struct td_tensor *slot = &f->slots[v];
    return i < 32 && (c->offer.swapped >> i & 1) != 0 && f->dev->lasts[v] && !f->dev->only_there[v] &&
           slot->buf != NULL && td_tensor_bytes(slot) > 0;
}

enum td_code td_device_run_swap(struct td_device_run *dev, const struct td_tensor *here,
                                struct td_tensor *there, struct td_err *err)
{
    struct td_device_weights *w = td_model_device_weights(dev->model);
    TD_FAIL_IF(w == NULL, err, RESOURCE_EXHAUSTED, "the model keeps no weights");
    TD_TRY(td_device_weights_get(w, here, true, there, err));
    const enum td_code rc = td_device_run_hold(&dev->weights, there->buf, err);
    if (rc) {
        td_tensor_clear(there);
    }
    return rc;
}

/* args[i] = input i, swapped; false: it comes as it is. */
static bool place_swapped(struct td_frame *f, const struct td_choice *c, int i, int v)
{
    struct td_device_run *dev = f->dev;
    struct td_err ignored = {0}; /* as it is it may find room */
    if (!td_device_run_swaps(f, c, i, v)) {
        return false;
    }
    if (dev->record != NULL) {
        const struct td_tensor *there = td_device_recorder_swapped(dev->record, v);
        if (there != NULL) {
            td_tensor_ref(&dev->args[i], there);
        }
        return there != NULL;
    }
    return td_device_run_swap(dev, &f->slots[v], &dev->args[i], &ignored) == TD_OK;
}

enum td_code td_device_run_place(struct td_frame *f, const struct td_step *s, const struct td_choice *c,
                                 int i, uint32_t *swapped, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    int v = s->in[i];
    if (td_step_reads_here(s, c->kernel, i)) {
        TD_TRY(td_device_run_fetch(f, &v, 1, err));
        dev->args[i] = f->slots[v];
        td_buffer_ref(dev->args[i].buf);
        return TD_OK;
    }
    if (place_swapped(f, c, i, v)) {
        *swapped |= UINT32_C(1) << i;
        return TD_OK;
    }
    if (dev->at[v].buf == NULL) {
        TD_TRY(td_device_run_bring(dev, &f->slots[v], v, err));
    }
    td_tensor_ref(&dev->args[i], &dev->at[v]);
    return TD_OK;
}
