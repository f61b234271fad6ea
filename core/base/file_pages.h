/* core/base/file_pages.h - wrapped bytes that lie in a mapping of a file: their pages can be given back, and
 * come again from the file when somebody reads them.
 *
 * Weights that kernels have a packed copy of are read no more by most models: they need not be in memory
 * twice.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_FILE_PAGES_H
#define TD_CORE_BASE_FILE_PAGES_H

#include "core/base/buffer.h"

/* b, of td_buffer_wrap, lies in a shared mapping of a file that nobody writes through. crc: its bytes'
 * CRC-32C, which they have been held against. */
void td_file_pages_mark(struct td_buffer *b, uint32_t crc);
/* *crc of b where it is marked; false: it is not. */
bool td_file_pages_crc(const struct td_buffer *b, uint32_t *crc);
/* Gives back the whole pages of [p, p + n), which is read for now. */
void td_file_pages_drop(const void *p, size_t n);
/* Those of b where it is marked; of others nothing. */
void td_file_pages_drop_of(const struct td_buffer *b);

#endif
