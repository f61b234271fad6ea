/* kernels/text/parse_number.h - text to a number, as StringToNumber, DecodeCSV and vocabulary files read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_PARSE_NUMBER_H
#define TD_KERNELS_TEXT_PARSE_NUMBER_H

#include "core/base/dtype.h"

/* Reads all of [s, s + n), white space around it aside, into *out of type float, double, int32, int64, uint32
 * or uint64. Floats too large give infinity, integers out of range are refused. s[n] must be readable and be
 * no part of a number: the NUL behind a string. */
bool td_parse_number(const char *s, size_t n, enum td_dtype dtype, void *out);

#endif
