/* proto/stablehlo/mlir_bytes.h - the primitives of MLIR's bytecode: a bounded place in the artifact's bytes,
 * varints, counts and sections.
 *
 * Plain data: a place and an end; copying one remembers a place. Every function that fails says at which
 * byte of the artifact, counted from its magic number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MLIR_BYTES_H
#define TD_PROTO_STABLEHLO_MLIR_BYTES_H

#include <stdint.h>

#include "core/base/status.h"

struct td_mlir_bytes {
    const uint8_t *start; /* of the artifact */
    const uint8_t *p, *end;
};

static inline size_t td_mlir_at(const struct td_mlir_bytes *b)
{
    return (size_t)(b->p - b->start);
}
static inline size_t td_mlir_left(const struct td_mlir_bytes *b)
{
    return (size_t)(b->end - b->p);
}

TD_MUST enum td_code td_mlir_byte(struct td_mlir_bytes *b, uint8_t *v, struct td_err *err);
/* One to nine bytes: as many zeros below the lowest one of the first byte as bytes follow it;
 * little-endian. */
TD_MUST enum td_code td_mlir_varint(struct td_mlir_bytes *b, uint64_t *v, struct td_err *err);
/* The same, zigzag. */
TD_MUST enum td_code td_mlir_signed(struct td_mlir_bytes *b, int64_t *v, struct td_err *err);
/* A varint whose lowest bit is a flag. */
TD_MUST enum td_code td_mlir_flagged(struct td_mlir_bytes *b, uint64_t *v, bool *flag, struct td_err *err);
/* n, read as varint, must be at most the bytes left, for each of what is counted takes at least one. */
TD_MUST enum td_code td_mlir_count(struct td_mlir_bytes *b, const char *what, int *n, struct td_err *err);
/* The same for an n that was read already. */
TD_MUST enum td_code td_mlir_count_is(const struct td_mlir_bytes *b, const char *what, uint64_t v, int *n,
                                      struct td_err *err);
/* An index below n. */
TD_MUST enum td_code td_mlir_index(struct td_mlir_bytes *b, const char *what, int n, int *i,
                                   struct td_err *err);
TD_MUST enum td_code td_mlir_index_is(const struct td_mlir_bytes *b, const char *what, uint64_t v, int n,
                                      int *i, struct td_err *err);
/* The next n bytes, which *out then covers. */
TD_MUST enum td_code td_mlir_take(struct td_mlir_bytes *b, const char *what, uint64_t n,
                                  struct td_mlir_bytes *out, struct td_err *err);
/* A length, and as many bytes. */
TD_MUST enum td_code td_mlir_blob(struct td_mlir_bytes *b, const char *what, struct td_mlir_bytes *out,
                                  struct td_err *err);
/* A section's number and its bytes, behind their padding. */
TD_MUST enum td_code td_mlir_section(struct td_mlir_bytes *b, int *id, struct td_mlir_bytes *out,
                                     struct td_err *err);
/* Nothing is left. */
TD_MUST enum td_code td_mlir_end(const struct td_mlir_bytes *b, const char *what, struct td_err *err);

#endif
