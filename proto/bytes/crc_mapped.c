/* proto/bytes/crc_mapped.c - ranges cut into chunks, which threads take one after the other.
 *
 *   range  [---- chunk ----][---- chunk ----][- chunk -]   the CRC of each, joined in order
 *
 * The pages of a chunk come by faults, each of which brings its neighbours (measured on Zen 3, 800 MB in the
 * system's cache of files: 151 ms; asked for by MADV_POPULATE_READ first 177, copied by pread 478). They are
 * given back when the chunk has been read, and stay in that cache, from where a reader gets them without
 * waiting. Small ranges keep theirs.
 *
 * Threads: each chunk is one thread's. Does not: compare.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/crc_mapped.h"

#include "core/base/file_pages.h"
#include "core/base/mem.h"
#include "proto/bytes/crc32c.h"

enum { CHUNK = 4 << 20, WORTH_HELP = 4 << 20 };

struct chunk {
    const unsigned char *p;
    size_t n;
    uint32_t crc;
};

static void read_chunk(void *arg, int i, int who)
{
    struct chunk *c = (struct chunk *)arg + i;
    (void)who;
    c->crc = td_crc32c(0, c->p, c->n);
    td_file_pages_drop(c->p, c->n);
}

static int chunks_of(const struct td_crc_range *r)
{
    return (int)((r->n + CHUNK - 1) / CHUNK);
}

static void cut(const struct td_crc_range *r, struct chunk *c)
{
    for (size_t at = 0; at < r->n; at += CHUNK, c++) {
        *c = (struct chunk){.p = r->p + at, .n = r->n - at < CHUNK ? r->n - at : CHUNK};
    }
}

static uint32_t joined(const struct chunk *c, int n)
{
    uint32_t crc = n > 0 ? c[0].crc : 0;
    for (int i = 1; i < n; i++) {
        crc = td_crc32c_join(crc, c[i].crc, c[i].n);
    }
    return crc;
}

bool td_crc_mapped(struct td_thread_pool *pool, struct td_crc_range *ranges, int n)
{
    int n_chunks = 0;
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        n_chunks += chunks_of(&ranges[i]);
        bytes += ranges[i].n;
    }
    struct chunk *chunks = td_calloc((size_t)n_chunks + 1, sizeof *chunks), *c = chunks;
    if (chunks == NULL) {
        return false;
    }
    for (int i = 0; i < n; c += chunks_of(&ranges[i++])) {
        cut(&ranges[i], c);
    }
    td_parallel_for(bytes < WORTH_HELP ? NULL : pool, n_chunks, read_chunk, chunks);
    c = chunks;
    for (int i = 0; i < n; c += chunks_of(&ranges[i++])) {
        ranges[i].crc = joined(c, chunks_of(&ranges[i]));
    }
    td_free(chunks);
    return true;
}
