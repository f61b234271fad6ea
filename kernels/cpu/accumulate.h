/* kernels/cpu/accumulate.h - adds or subtracts an array in place, for every numeric dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_ACCUMULATE_H
#define TD_KERNELS_CPU_ACCUMULATE_H

#include "core/base/dtype.h"

/* dst[i] += src[i] (sub: -=) for n elements. false, with nothing done, for a dtype that has no addition.
 * Integers wrap around. */
bool td_accumulate(enum td_dtype dtype, bool sub, void *dst, const void *src, int64_t n);

#endif
