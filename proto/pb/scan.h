/* proto/pb/scan.h - reads protobuf's wire format field by field from one block of bytes, without building
 * anything.
 *
 *   struct td_scan s = td_scan_make(bytes, n);
 *   struct td_scan_field f;
 *   while (td_scan_next(&s, &f)) switch (f.number) { ... f.u64 (varints, fixed) or f.p, f.len (others) ... }
 *   if (s.bad) the bytes are malformed
 *
 * Field numbers may repeat and come in any order. Nested messages are read by another td_scan over (f.p,
 * f.len). proto/pb/wire.h is the same over bytes that lie scattered, for requests as they come from a socket.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_SCAN_H
#define TD_PROTO_PB_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/pb/wire.h"

struct td_scan {
    const uint8_t *p, *end;
    bool bad; /* set when td_scan_next stopped at bytes that are not protobuf */
};

struct td_scan_field {
    uint32_t number;
    enum td_wire_type type;
    uint64_t u64;     /* VARINT, FIXED64, FIXED32 */
    const uint8_t *p; /* BYTES: borrowed from the input; else empty */
    size_t len;
};

static inline struct td_scan td_scan_make(const void *bytes, size_t n)
{
    const uint8_t *p = (const uint8_t *)(n ? bytes : "");
    return (struct td_scan){.p = p, .end = p + n};
}
/* The rest of td_scan_next: any field, the end, malformed bytes. */
bool td_scan_any(struct td_scan *s, struct td_scan_field *f);
/* The next field; false at the end and at malformed bytes (s->bad then tells). Groups are malformed. */
static inline bool td_scan_next(struct td_scan *s, struct td_scan_field *f)
{
    enum { ONE_BYTE = 0x80, NUMBERED = 0x78 };
    const uint8_t *p = s->p;
    const size_t left = (size_t)(s->end - p);
    if (s->bad || left < 2 || p[0] >= ONE_BYTE || (p[0] & NUMBERED) == 0 || p[1] >= ONE_BYTE) {
        return td_scan_any(s, f);
    }
    const enum td_wire_type type = (enum td_wire_type)(p[0] & 7);
    const size_t len = type == TD_WIRE_BYTES ? p[1] : 0;
    if ((type != TD_WIRE_BYTES && type != TD_WIRE_VARINT) || len > left - 2) {
        return td_scan_any(s, f);
    }
    /* most fields are such: short, of a small number */
    *f = (struct td_scan_field){p[0] >> 3, type, p[1], p + 2, len};
    s->p = p + 2 + len;
    return true;
}
/* The rest of td_scan_varint: of any length. */
bool td_scan_varint_rest(const uint8_t **p, const uint8_t *end, uint64_t *v);
/* Reads a varint at *p, not past end; false when it is cut or longer than 10 bytes. */
static inline bool td_scan_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    if (*p < end && **p < 0x80) { /* most tags and lengths are one byte */
        *v = *(*p)++;
        return true;
    }
    return td_scan_varint_rest(p, end, v);
}

#endif
