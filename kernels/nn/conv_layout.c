/* kernels/nn/conv_layout.c
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/conv_layout.h"

#include "kernels/cpu/upcast.h"
#include "kernels/nn/conv_spec.h"

enum td_code td_conv_bring(struct td_call *c, enum td_dtype type, const struct td_tensor *t,
                           struct td_conv_image im, const void **out, struct td_err *err)
{
    const void *data = t->data;
    if (type != t->dtype) {
        const float *f;
        TD_TRY(td_upcast(c, t, &f, err));
        data = f;
    }
    if (td_conv_layout(c->node).channels_first && td_tensor_count(t) > 0) {
        void *transposed;
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &transposed, err));
        td_layout_swap(transposed, data, im.batch, im.channels, im.cells, td_dtype_size(type));
        data = transposed;
    }
    *out = data;
    return TD_OK;
}

enum td_code td_conv_room(struct td_call *c, enum td_dtype type, const struct td_tensor *t, void **out,
                          struct td_err *err)
{
    *out = t->data;
    if (type == t->dtype && !td_conv_layout(c->node).channels_first) {
        return TD_OK;
    }
    return td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), out, err);
}

enum td_code td_conv_deliver(struct td_call *c, enum td_dtype type, struct td_tensor *t,
                             struct td_conv_image im, void *from, struct td_err *err)
{
    if (from == t->data || td_tensor_count(t) == 0) {
        return TD_OK;
    }
    void *transposed = from;
    if (td_conv_layout(c->node).channels_first) {
        transposed = t->data;
        if (type != t->dtype) {
            TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * td_dtype_size(type), &transposed, err));
        }
        td_layout_swap(transposed, from, im.batch, im.cells, im.channels, td_dtype_size(type));
    }
    if (type != t->dtype) {
        td_downcast(t, transposed);
    }
    return TD_OK;
}

enum td_code td_conv_filter_as(struct td_call *c, enum td_dtype type, const struct td_tensor *t,
                               const void **out, struct td_err *err)
{
    *out = t->data;
    if (type == t->dtype) {
        return TD_OK;
    }
    const float *f;
    TD_TRY(td_upcast(c, t, &f, err));
    *out = f;
    return TD_OK;
}
