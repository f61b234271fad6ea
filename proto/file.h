/* proto/file.h - reads a whole small file into memory, with a limit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_FILE_H
#define TD_PROTO_FILE_H

#include <stddef.h>

#include "core/status.h"

/* *out is td_free'd by the caller; a NUL stands behind its *n bytes. NOT_FOUND when there is no such file,
 * PERMISSION_DENIED, INVALID_ARGUMENT for what is no regular file or larger than max_bytes, DATA_LOSS when reading ends early. */
TD_MUST enum td_code td_file_read(const char *path, size_t max_bytes, char **out, size_t *n, struct td_err *err);

#endif
