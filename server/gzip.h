/* server/gzip.h - inflates gzip and zlib (HTTP's deflate) bodies within a limit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GZIP_H
#define TD_SERVER_GZIP_H

#include "proto/sink.h"

/* Appends the inflated bytes to out, whose limit bounds them: memory grows with what is really there, not with what
 * the gzip trailer claims. INVALID_ARGUMENT for bytes that are neither. */
TD_MUST enum td_code td_gzip_inflate(const void *bytes, size_t n, struct td_sink *out, struct td_err *err);

#endif
