/* kernels/text/unicode.h - what other string ops need of Unicode.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_UNICODE_H
#define TD_KERNELS_TEXT_UNICODE_H

#include "kernels/text/strbuf.h"

/* Appends the UTF-8 string s in upper or lower case (full mapping, root locale); bad bytes become U+FFFD. */
TD_MUST enum td_code td_unicode_case(const char *s, size_t n, bool upper, struct td_strbuf *out,
                                     struct td_err *err);

#endif
