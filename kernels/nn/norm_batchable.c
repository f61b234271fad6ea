/* kernels/nn/norm_batchable.c - where rows go through FusedBatchNorm and its gradient.
 *
 * In inference each element is scaled by numbers of its channel, so rows at axis 0 stay apart. In training
 * mean and variance are taken over what a channel has: rows would be mixed, but where each row is channels of
 * its own. The statistics that it also gives are MIX then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/norm_batchable.h"

/* Mean and variance are of a channel: where the rows are channels, as those of Keras's LayerNormalization
 * (a row and its place in a sequence make one channel of NCHW), training keeps them apart. */
static bool norm_of_channels(struct td_batchable_step *s)
{
    for (int i = 1; i < s->n_in; i++) {
        const bool none = s->in[i].kind == TD_VALUE_CONST && td_shape_count(&s->in_shape[0][i]) == 0;
        if (!none && (!td_batchable_same_rows(s, 0, i) || s->in[i].axis != 0)) {
            return td_batchable_no(s, "its channels are the rows, and its input %d is not by row", i);
        }
    }
    for (int o = 1; o < s->n_out; o++) {
        s->out[o].kind = TD_VALUE_MIX;
        s->out[o].why = "statistics of a batch normalization";
    }
    return td_batchable_as_input(s, 0, 0, 1);
}

/* Outputs past the first are the moving statistics as given, or what only training reads. */
bool td_batchable_norm(struct td_batchable_step *s)
{
    const char *format = td_attr_str(s->node, "data_format");
    if (td_attr_bool(s->node, "is_training")) {
        return format[0] == 'N' && format[1] == 'C' && s->in[0].kind == TD_VALUE_ROW && s->in[0].axis == 1
                   ? norm_of_channels(s)
                   : td_batchable_no(s, "it takes mean and variance over the rows");
    }
    for (int o = 1; o < s->n_out; o++) {
        s->out[o].kind = TD_VALUE_CONST;
    }
    return td_batchable_alone(s, 0) &&
           (s->in[0].axis == 0 || td_batchable_no(s, "the rows are not its axis 0")) &&
           td_batchable_as_input(s, 0, 0, 0);
}

/* dx of inference follows from dy alone; the gradients of scale and offset are sums over the rows. */
bool td_batchable_norm_grad(struct td_batchable_step *s)
{
    if (td_attr_bool(s->node, "is_training")) {
        return td_batchable_no(s, "it takes sums over the rows");
    }
    for (int i = 2; i < s->n_in; i++) {
        if (s->in[i].kind != TD_VALUE_CONST) {
            return td_batchable_no(s, "its input %d is not the same for every row", i);
        }
    }
    for (int o = 1; o < s->n_out; o++) {
        s->out[o].kind = TD_VALUE_MIX;
        s->out[o].why = "sums over the rows of a batch normalization's gradient";
    }
    if (s->in[0].kind != TD_VALUE_ROW || s->in[0].axis != 0) {
        return td_batchable_no(s, "the rows are not axis 0 of its input 0");
    }
    return td_batchable_as_input(s, 0, 0, 0);
}
