/* kernels/data/files.h - reading a file that a graph names, inside the directories a model may touch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_FILES_H
#define TD_KERNELS_DATA_FILES_H

#include "kernels/text/strbuf.h"

/* Appends the file's bytes. PERMISSION_DENIED for a path outside, NOT_FOUND for no such file. */
TD_MUST enum td_code td_files_read(struct td_call *c, const char *path, size_t len, struct td_strbuf *out,
                                   struct td_err *err);

#endif
