/* kernels/cuda/base/made_files.h - code of kernels, kept in files below the state directory for the next
 * process.
 *
 *   DIR/cuda-kernels/0123456789abcdef     head, key, code
 *
 * A file is written aside, synced and renamed. It is taken when its sum and its whole key are right, and as
 * good as none otherwise: it is written anew. Those read the longest ago go when all together are more than
 * TD_CUDA_MADE_BYTES.
 *
 * Threads: any, and several processes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_MADE_FILES_H
#define TD_KERNELS_CUDA_BASE_MADE_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { TD_CUDA_MADE_BYTES = 64 << 20, TD_CUDA_MADE_FILE = 4 << 20 /* of one at most */ };

/* key: a text that says all that code depends on. *code is new; false: it is not there. dir NULL: nowhere. */
bool td_cuda_made_read(const char *dir, const char *key, char **code, size_t *bytes);
/* What cannot be written is left out. */
void td_cuda_made_write(const char *dir, const char *key, const char *code, size_t bytes);

#endif
