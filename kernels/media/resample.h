/* kernels/media/resample.h - what ops that sample pictures share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_RESAMPLE_H
#define TD_KERNELS_MEDIA_RESAMPLE_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

/* Input i is a batch of pictures, none of them empty. */
TD_MUST enum td_code td_resample_check_image(const struct td_infer *c, int i, struct td_err *err);
/* ScaleAndTranslate's two scales; a shape function is not asked again when they come with a run. */
TD_MUST static inline enum td_code td_resample_check_scale(const struct td_node *n,
                                                           const struct td_tensor *scale, struct td_err *err)
{
    for (int a = 0; a < 2; a++) {
        const float v = TD_DATA(scale, float)[a];
        TD_FAIL_IF(!(v > 0), err, INVALID_ARGUMENT, "%s: Scale must be greater than zero, got %g",
                   TD_NODE_STR(n), (double)v);
    }
    return TD_OK;
}
/* to[k] += weight * from[k] for n numbers. */
void td_resample_add(float *to, const float *from, float weight, int64_t n);

#endif
