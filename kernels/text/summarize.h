/* kernels/text/summarize.h - tensors as text, the way Print, PrintV2, StringFormat and Assert show them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_SUMMARIZE_H
#define TD_KERNELS_TEXT_SUMMARIZE_H

#include "kernels/text/strbuf.h"

/* Appends element i: integers in decimal, bool 0/1, floats with the digits that read back, strings as they
 * are, "?" for what has no text. */
TD_MUST enum td_code td_summarize_element(struct td_strbuf *b, const struct td_tensor *t, int64_t i,
                                          struct td_err *err);
/* PrintV2, StringFormat: "[[1 2 ... 8 9]\n ...\n [..]]" with `ends` items shown at both ends of each axis
 * (negative: all), strings quoted and escaped. */
TD_MUST enum td_code td_summarize_v2(struct td_strbuf *b, const struct td_tensor *t, int64_t ends,
                                     struct td_err *err);
/* Print, Assert: "[1 2 3][4 5...]..." of the first max_entries elements (negative: all), strings escaped. */
TD_MUST enum td_code td_summarize_v1(struct td_strbuf *b, const struct td_tensor *t, int64_t max_entries,
                                     struct td_err *err);

#endif
