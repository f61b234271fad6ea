/* kernels/nn/conv_pad.c - a convolution takes over the zeros that a Pad before it would write.
 *
 *   Pad(x, [[0,0],[1,1],[1,1],[0,0]]) -> Conv2D(VALID)          Conv2D(x, EXPLICIT, [0,0,1,1,1,1,0,0])
 *
 * Image models made by Keras pad so before each convolution of stride 2: x was read and written once more
 * than needed. A convolution that pads already gets the sum; one with SAME pads by its input's size, and
 * stays.
 *
 * As with SAME, borders are left out of the sum and not multiplied: a filter with infinite or NaN weights
 * gave NaN there.
 *
 * Does not: look at padding of batch or channels, or by values that are no constants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/attr.h"
#include "kernels/cpu/simplify.h"
#include "kernels/nn/conv_spec.h"

enum { RANK = 4, PADS = 2 * RANK };

/* What n adds before and after each axis of its input. */
static bool zeros_around(const struct td_emitter *e, const struct td_node *n, int64_t *pads)
{
    const bool plain = strcmp(n->op_name, "Pad") == 0,
               valued = strcmp(n->op_name, "PadV2") == 0 && td_is_all(e, n->in[2], 0, n->in[0]);
    const struct td_tensor *by = plain || valued ? td_known_value(n->in[1]) : NULL;
    if (by == NULL || td_tensor_count(by) != PADS || td_emit_shape(e, n->in[0])->rank != RANK) {
        return false;
    }
    bool ok = by->shape.rank == 2 && (by->dtype == TD_INT32 || by->dtype == TD_INT64);
    for (int i = 0; ok && i < PADS; i++) {
        pads[i] = by->dtype == TD_INT32 ? ((const int32_t *)by->data)[i] : ((const int64_t *)by->data)[i];
        ok = pads[i] >= 0 && pads[i] <= INT32_MAX;
    }
    return ok;
}

/* Adds those that the convolution has; false: it pads by another rule, or batch or channels would be padded.
 */
static bool add_own(const struct td_node *n, int64_t *pads)
{
    const struct td_data_layout l = td_conv_layout(n);
    const enum td_padding padding = td_window_padding(n);
    int count;
    const int64_t *own = td_attr_ints(n, "explicit_paddings", &count);
    if (padding == TD_PAD_SAME || count != (padding == TD_PAD_EXPLICIT ? PADS : 0)) {
        return false;
    }
    bool inside = true;
    for (int i = 0; i < PADS; i++) {
        const bool spatial = i / 2 >= l.spatial && i / 2 < l.spatial + l.n_spatial;
        inside = inside && (spatial || pads[i] == 0);
        inside = inside && td_i64_add(pads[i], count > 0 ? own[i] : 0, &pads[i]);
    }
    return inside;
}

struct td_value td_conv_simplify(struct td_emitter *e, const struct td_node *n)
{
    static const char *const kept[] = {"strides", "dilations", "data_format"};
    enum { N_KEPT = sizeof kept / sizeof kept[0] };
    const struct td_node *from = td_only_maker(n->in[0]);
    int64_t pads[PADS];
    if (from == NULL || td_conv_axes(n) != 2 || !zeros_around(e, from, pads) || !add_own(n, pads)) {
        return td_no_value;
    }
    struct td_attr attrs[N_KEPT + 2] = {TD_ATTR_OF_TEXT("padding", "EXPLICIT"),
                                        TD_ATTR_OF_INTS("explicit_paddings", pads, PADS)};
    int n_attrs = 2;
    for (int i = 0; i < N_KEPT; i++) { /* what is not there has its default */
        const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, kept[i]);
        if (a != NULL) {
            attrs[n_attrs++] = *a;
        }
    }
    return td_emit(e, n->op->name, TD_IN(from->in[0], n->in[1]), attrs, n_attrs);
}
