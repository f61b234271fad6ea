/* proto/bytes/crc32c.c - see crc32c.h.
 *
 * The SSE4.2 instruction takes 8 bytes and answers three cycles later, so three streams run side by side.
 * Their CRCs are joined by moving the earlier ones over the bytes of the later ones: a CRC over n zero bytes
 * is linear in the CRC it starts from, so four tables of 256 words (one a byte of it) do that for a fixed n.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { STREAM = 4096 }; /* bytes of one stream */
static const uint32_t POLYNOMIAL = 0x82f63b78u;

static uint32_t byte_table[256];
static uint32_t shift_table[4][256]; /* a CRC moved over STREAM zero bytes */
static bool has_instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Without the inversions at both ends. */
static uint32_t raw_reference(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n > 0; n--) {
        crc = byte_table[(crc ^ *p++) & 0xff] ^ (crc >> 8);
    }
    return crc;
}

static uint32_t zeros(uint32_t crc, size_t n)
{
    for (; n > 0; n--) {
        crc = byte_table[crc & 0xff] ^ (crc >> 8);
    }
    return crc;
}

static void init_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = c & 1 ? (c >> 1) ^ POLYNOMIAL : c >> 1;
        }
        byte_table[i] = c;
    }
    uint32_t basis[32]; /* what each bit of a CRC becomes */
    for (int bit = 0; bit < 32; bit++) {
        basis[bit] = zeros(UINT32_C(1) << bit, STREAM);
    }
    for (int b = 0; b < 4; b++) {
        for (int v = 0; v < 256; v++) {
            for (int bit = 0; bit < 8; bit++) {
                shift_table[b][v] ^= v >> bit & 1 ? basis[8 * b + bit] : 0;
            }
        }
    }
#if defined(__x86_64__)
    has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

uint32_t td_crc32c_reference(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&once, init_tables);
    return ~raw_reference(~crc, bytes, n);
}

#if defined(__x86_64__)
static uint32_t shift(uint32_t crc)
{
    return shift_table[0][crc & 0xff] ^ shift_table[1][crc >> 8 & 0xff] ^ shift_table[2][crc >> 16 & 0xff] ^
           shift_table[3][crc >> 24];
}

static uint64_t word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

__attribute__((target("sse4.2"))) static uint32_t raw_fast(uint32_t crc, const uint8_t *p, size_t n)
{
    while (n >= 3 * STREAM) {
        uint64_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < STREAM; i += 8) {
            a = __builtin_ia32_crc32di(a, word(p + i));
            b = __builtin_ia32_crc32di(b, word(p + STREAM + i));
            c = __builtin_ia32_crc32di(c, word(p + 2 * STREAM + i));
        }
        crc = shift(shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
        p += 3 * STREAM;
        n -= 3 * STREAM;
    }
    uint64_t a = crc;
    for (; n >= 8; n -= 8, p += 8) {
        a = __builtin_ia32_crc32di(a, word(p));
    }
    crc = (uint32_t)a;
    for (; n > 0; n--) {
        crc = __builtin_ia32_crc32qi(crc, *p++);
    }
    return crc;
}
#else
static uint32_t raw_fast(uint32_t crc, const uint8_t *p, size_t n)
{
    return raw_reference(crc, p, n);
}
#endif

uint32_t td_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    pthread_once(&once, init_tables);
    return has_instruction ? ~raw_fast(~crc, bytes, n) : ~raw_reference(~crc, bytes, n);
}
