/* tests/unit/core/test_file_pages.c - pages of a mapped file go and come again; other bytes stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/file_pages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

enum { SIZE = 1 << 20, PAGE = 4096 };

static void keep(void *unused)
{
    (void)unused;
}

/* Pages of [p, p + SIZE) that this process has: a mapping of its own is made to look through. */
static int resident(const unsigned char *p)
{
    const int map = open("/proc/self/pagemap", O_RDONLY);
    int n = 0;
    for (int i = 0; i < SIZE / PAGE; i++) {
        uint64_t word = 0;
        CHECK(pread(map, &word, sizeof word, (off_t)(((uintptr_t)p / PAGE + (uintptr_t)i) * sizeof word)) ==
              sizeof word);
        n += word >> 63 != 0;
    }
    close(map);
    return n;
}

static unsigned sum_of(const unsigned char *p)
{
    unsigned sum = 0;
    for (int i = 0; i < SIZE; i++) {
        sum = sum * 31 + p[i];
    }
    return sum;
}

TEST(marked_bytes_go_and_come_again)
{
    struct td_err err = {0};
    char path[] = "/tmp/tensord-pages.XXXXXX";
    unsigned char *bytes = malloc(SIZE);
    for (int i = 0; i < SIZE; i++) {
        bytes[i] = (unsigned char)((unsigned)i * 7919 >> 5);
    }
    const int file = mkstemp(path);
    CHECK(file >= 0 && write(file, bytes, SIZE) == SIZE && unlink(path) == 0);
    unsigned char *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(p != MAP_FAILED && sum_of(p) == sum_of(bytes));
    struct td_buffer *b;
    CHECK_OK(td_buffer_wrap(p, SIZE, keep, NULL, &b, &err));
    td_file_pages_drop_of(b); /* not marked */
    CHECK_INT(resident(p), SIZE / PAGE);
    uint32_t crc;
    CHECK(!td_file_pages_crc(b, &crc));
    td_file_pages_mark(b, 77);
    CHECK(td_file_pages_crc(b, &crc) && crc == 77);
    td_file_pages_drop_of(b);
    CHECK_INT(resident(p), 0);
    CHECK_INT(sum_of(p), sum_of(bytes));
    td_buffer_unref(b);
    munmap(p, SIZE);
    close(file);
    free(bytes);
}

TEST(own_bytes_and_parts_of_pages_stay)
{
    struct td_err err = {0};
    struct td_buffer *b;
    CHECK_OK(td_buffer_new(SIZE, false, &b, &err));
    memset(b->data, 5, SIZE);
    td_file_pages_drop_of(b);
    CHECK(((char *)b->data)[SIZE / 2] == 5);
    td_buffer_unref(b);
}

TEST_MAIN(RUN(marked_bytes_go_and_come_again) RUN(own_bytes_and_parts_of_pages_stay))
