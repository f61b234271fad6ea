/* proto/bytes/file.h - whole small files into memory, and the steps by which a file is written so that it
 * survives a power cut.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_FILE_H
#define TD_PROTO_BYTES_FILE_H

#include <stddef.h>

#include "core/base/status.h"

#define TD_FILE_PATH 4096 /* bytes of a path, its NUL included */

/* *out is td_free'd by the caller; a NUL stands behind its *n bytes. NOT_FOUND when there is no such file,
 * PERMISSION_DENIED, INVALID_ARGUMENT for what is no regular file or larger than max_bytes, DATA_LOSS when
 * reading ends early. */
TD_MUST enum td_code td_file_read(const char *path, size_t max_bytes, char **out, size_t *n,
                                  struct td_err *err);
/* Likewise a file of a model: opened beneath its folder `root` (core/base/beneath.h), PERMISSION_DENIED for
 * what leads out of it. */
TD_MUST enum td_code td_file_read_beneath(const char *root, const char *path, size_t max_bytes, char **out,
                                          size_t *n, struct td_err *err);

/* A name next to path that no other writer uses, into buf (TD_FILE_PATH bytes). */
TD_MUST enum td_code td_file_temp_name(const char *path, char *buf, struct td_err *err);
/* Opens a file that does not exist yet for writing. */
TD_MUST enum td_code td_file_create(const char *path, int *fd, struct td_err *err);
/* All the bytes; RESOURCE_EXHAUSTED when the disk is full. path is for the error. */
TD_MUST enum td_code td_file_put(int fd, const char *path, const void *bytes, size_t n, struct td_err *err);
/* Creates path with these bytes, on disk when this returns. Nothing is left behind on failure. */
TD_MUST enum td_code td_file_write(const char *path, const void *bytes, size_t n, struct td_err *err);
/* Creates `to` with the bytes of `from` as they are now, on disk when this returns; their blocks are shared
 * where the file system can, and a later change of one does not show in the other. Nothing is left behind on
 * failure: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED when the disk is full. */
TD_MUST enum td_code td_file_copy(const char *from, const char *to, struct td_err *err);
/* Likewise with `from` opened beneath root; NULL: anywhere. */
TD_MUST enum td_code td_file_copy_beneath(const char *root, const char *from, const char *to,
                                          struct td_err *err);
TD_MUST enum td_code td_file_rename(const char *from, const char *to, struct td_err *err);
/* Makes renames in the directory of path survive a power cut. Some file systems cannot: that is not an error.
 */
void td_file_sync_directory(const char *path);

#endif
