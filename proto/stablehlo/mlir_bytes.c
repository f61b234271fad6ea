/* proto/stablehlo/mlir_bytes.c - reads the primitives of MLIR's bytecode.
 *
 *   varint    xxxxxxx1 | xxxxxx10 byte | xxxxx100 byte byte | ... | 00000000 and eight bytes
 *   section   id (bit 7: aligned), length, [alignment, padding of 0xCB], bytes
 *
 * A count is believed up to the number of bytes that are left: nothing is made in advance that the bytes
 * cannot fill. Alignment counts from the artifact's first byte, as its writer did.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/mlir_bytes.h"

#include <limits.h>

enum { PADDING = 0xCB, ALIGNED = 0x80, MAX_ALIGNMENT = 1 << 20 };

enum td_code td_mlir_byte(struct td_mlir_bytes *b, uint8_t *v, struct td_err *err)
{
    TD_FAIL_IF(b->p == b->end, err, DATA_LOSS, "StableHLO module, byte %zu: ends within a value",
               td_mlir_at(b));
    *v = *b->p++;
    return TD_OK;
}

enum td_code td_mlir_varint(struct td_mlir_bytes *b, uint64_t *v, struct td_err *err)
{
    uint8_t first;
    TD_TRY(td_mlir_byte(b, &first, err));
    unsigned more = first == 0 ? 8 : (unsigned)__builtin_ctz(first);
    TD_FAIL_IF(more > td_mlir_left(b), err, DATA_LOSS,
               "StableHLO module, byte %zu: a number of %u bytes, %zu left", td_mlir_at(b) - 1, more + 1,
               td_mlir_left(b) + 1);
    uint64_t value = 0;
    for (unsigned i = 0; i < more; i++) {
        value |= (uint64_t)*b->p++ << (8 * i);
    }
    *v = first == 0 ? value : value << (7 - more) | (unsigned)first >> (more + 1);
    return TD_OK;
}

enum td_code td_mlir_signed(struct td_mlir_bytes *b, int64_t *v, struct td_err *err)
{
    uint64_t u;
    TD_TRY(td_mlir_varint(b, &u, err));
    *v = (int64_t)(u >> 1 ^ (~(u & 1) + 1));
    return TD_OK;
}

enum td_code td_mlir_flagged(struct td_mlir_bytes *b, uint64_t *v, bool *flag, struct td_err *err)
{
    uint64_t u;
    TD_TRY(td_mlir_varint(b, &u, err));
    *flag = (u & 1) != 0;
    *v = u >> 1;
    return TD_OK;
}

enum td_code td_mlir_count_is(const struct td_mlir_bytes *b, const char *what, uint64_t v, int *n,
                              struct td_err *err)
{
    TD_FAIL_IF(v > td_mlir_left(b) || v > INT_MAX, err, DATA_LOSS,
               "StableHLO module, byte %zu: %llu %s, but only %zu bytes are left", td_mlir_at(b),
               (unsigned long long)v, what, td_mlir_left(b));
    *n = (int)v;
    return TD_OK;
}

enum td_code td_mlir_count(struct td_mlir_bytes *b, const char *what, int *n, struct td_err *err)
{
    uint64_t v;
    TD_TRY(td_mlir_varint(b, &v, err));
    return td_mlir_count_is(b, what, v, n, err);
}

enum td_code td_mlir_index_is(const struct td_mlir_bytes *b, const char *what, uint64_t v, int n, int *i,
                              struct td_err *err)
{
    TD_FAIL_IF(v >= (uint64_t)n, err, INVALID_ARGUMENT, "StableHLO module, byte %zu: %s %llu of %d",
               td_mlir_at(b), what, (unsigned long long)v, n);
    *i = (int)v;
    return TD_OK;
}

enum td_code td_mlir_index(struct td_mlir_bytes *b, const char *what, int n, int *i, struct td_err *err)
{
    uint64_t v;
    TD_TRY(td_mlir_varint(b, &v, err));
    return td_mlir_index_is(b, what, v, n, i, err);
}

enum td_code td_mlir_take(struct td_mlir_bytes *b, const char *what, uint64_t n, struct td_mlir_bytes *out,
                          struct td_err *err)
{
    TD_FAIL_IF(n > td_mlir_left(b), err, DATA_LOSS,
               "StableHLO module, byte %zu: %s of %llu bytes, %zu are left", td_mlir_at(b), what,
               (unsigned long long)n, td_mlir_left(b));
    *out = (struct td_mlir_bytes){b->start, b->p, b->p + n};
    b->p += n;
    return TD_OK;
}

enum td_code td_mlir_blob(struct td_mlir_bytes *b, const char *what, struct td_mlir_bytes *out,
                          struct td_err *err)
{
    uint64_t n;
    TD_TRY(td_mlir_varint(b, &n, err));
    return td_mlir_take(b, what, n, out, err);
}

static enum td_code align(struct td_mlir_bytes *b, struct td_err *err)
{
    uint64_t to;
    TD_TRY(td_mlir_varint(b, &to, err));
    TD_FAIL_IF(to == 0 || (to & (to - 1)) != 0 || to > MAX_ALIGNMENT, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: alignment %llu, want a power of two up to %d", td_mlir_at(b),
               (unsigned long long)to, MAX_ALIGNMENT);
    while (td_mlir_at(b) % to != 0) {
        uint8_t padding;
        TD_TRY(td_mlir_byte(b, &padding, err));
        TD_FAIL_IF(padding != PADDING, err, INVALID_ARGUMENT, "StableHLO module, byte %zu: padding of 0x%02x",
                   td_mlir_at(b) - 1, padding);
    }
    return TD_OK;
}

enum td_code td_mlir_section(struct td_mlir_bytes *b, int *id, struct td_mlir_bytes *out, struct td_err *err)
{
    uint8_t head;
    uint64_t n;
    TD_TRY(td_mlir_byte(b, &head, err));
    TD_TRY(td_mlir_varint(b, &n, err));
    if (head & ALIGNED) {
        TD_TRY(align(b, err));
    }
    *id = head & ~ALIGNED;
    return td_mlir_take(b, "a section", n, out, err);
}

enum td_code td_mlir_end(const struct td_mlir_bytes *b, const char *what, struct td_err *err)
{
    TD_FAIL_IF(b->p != b->end, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: %zu bytes more than %s has", td_mlir_at(b), td_mlir_left(b),
               what);
    return TD_OK;
}
