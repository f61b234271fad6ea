/* kernels/media/resample.h - what ops that sample pictures share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_RESAMPLE_H
#define TD_KERNELS_MEDIA_RESAMPLE_H

#include "core/graph/op.h"

/* Input i is a batch of pictures, none of them empty. */
TD_MUST enum td_code td_resample_check_image(const struct td_infer *c, int i, struct td_err *err);
/* to[k] += weight * from[k] for n numbers. */
void td_resample_add(float *to, const float *from, float weight, int64_t n);

#endif
