/* core/base/file_pages.c - a mark in the place of the free list that wrapped bytes never return to, and
 * advice to the system.
 *
 * Small ranges keep their pages: they are not worth a system call, and those who share them would miss them.
 *
 * Threads: any; readers of pages that go meanwhile get them again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/file_pages.h"

#include <sys/mman.h>

enum { OF_FILE = -2 /* as size_class */, PAGE = 4096, LEAST = 1 << 18 };

void td_file_pages_mark(struct td_buffer *b, uint32_t crc)
{
    b->size_class = OF_FILE;
    b->crc = crc;
}

bool td_file_pages_crc(const struct td_buffer *b, uint32_t *crc)
{
    *crc = b->crc;
    return b->size_class == OF_FILE && b->read_only;
}

void td_file_pages_drop(const void *p, size_t n)
{
    const uintptr_t from = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE, to = ((uintptr_t)p + n) / PAGE * PAGE;
    if (n >= LEAST && to > from) {
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
    }
}

void td_file_pages_drop_of(const struct td_buffer *b)
{
    if (b->size_class == OF_FILE && b->read_only) {
        td_file_pages_drop(b->data, b->bytes);
    }
}
