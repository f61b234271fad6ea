/* kernels/linalg/attention_pack.h - a block of attention's keys, and of its values, as panels
 * (kernels/dense/gemm_panels.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_ATTENTION_PACK_H
#define TD_KERNELS_LINALG_ATTENTION_PACK_H

#include <stdint.h>

/* Of both: step[0] elements from one entry of a row to the next, step[1] from row to row; columns behind the
 * last one are zeros.
 * n keys of `depth` entries, each a column: n rounded up to whole panels times depth floats. */
void td_attention_pack_keys(const float *k, const int64_t *step, int64_t n, int64_t depth, float *to);
/* n values of `width` entries, each a row: n times width, rounded up to whole panels, floats. */
void td_attention_pack_values(const float *v, const int64_t *step, int64_t n, int64_t width, float *to);

#endif
