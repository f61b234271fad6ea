/* kernels/media/image_grad.h - gradients of the ops in image.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_IMAGE_GRAD_H
#define TD_KERNELS_MEDIA_IMAGE_GRAD_H

#include "core/grad/grad.h"

void td_rgb_to_hsv_grad(struct td_grad *g);
void td_project_grad(struct td_grad *g); /* ImageProjectiveTransformV2, V3 */

#endif
