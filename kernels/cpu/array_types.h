/* kernels/cpu/array_types.h - dtype sets that the array families' kernel rows share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_ARRAY_TYPES_H
#define TD_KERNELS_CPU_ARRAY_TYPES_H

#include "core/base/dtype.h"

#define TD_SET_NUM_BOOL (TD_SET_NUMBERS | TD_BIT(TD_BOOL))
#define TD_SET_COPYABLE (TD_SET_NUM_BOOL | TD_BIT(TD_STRING))
#define TD_SET_ALL_TYPES (TD_SET_NUM_BOOL | TD_SET_OBJECTS) /* TF_CALL_ALL_TYPES */
#define TD_SET_Q8_32 (TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT32))

#endif
