/* proto/pb/scan.c - the general half of the reader; the common half, short fields of small numbers, is inline
 * in scan.h.
 *
 * A field is its tag, then a varint, 4 or 8 bytes, or a length and that many bytes. Each is taken only when
 * it fits between p and end; what does not fit, field number 0, tags above 32 bits and groups set bad, and
 * from then on nothing more is read. Bits of a varint beyond the 64th are dropped. Fixed fields are read as
 * little-endian on a little-endian host.
 *
 * Does not: allocate, recurse, check that a field has the type that a message gives it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/scan.h"

#include <string.h>

bool td_scan_varint_rest(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    uint64_t sum = 0;
    const uint8_t *q = *p;
    for (int shift = 0; shift < 70 && q < end; shift += 7) {
        uint8_t byte = *q++;
        if (shift < 63 || byte <= 1) {
            sum |= (uint64_t)(byte & 0x7f) << shift;
        }
        if (byte < 0x80) {
            *p = q;
            *v = sum;
            return true;
        }
    }
    return false;
}

static bool read_fixed(struct td_scan *s, size_t size, uint64_t *v)
{
    if ((size_t)(s->end - s->p) < size) {
        return false;
    }
    *v = 0;
    memcpy(v, s->p, size); /* little-endian host */
    s->p += size;
    return true;
}

static bool read_value(struct td_scan *s, struct td_scan_field *f)
{
    switch (f->type) {
    case TD_WIRE_VARINT:
        return td_scan_varint(&s->p, s->end, &f->u64);
    case TD_WIRE_FIXED64:
        return read_fixed(s, 8, &f->u64);
    case TD_WIRE_FIXED32:
        return read_fixed(s, 4, &f->u64);
    case TD_WIRE_BYTES:
        if (!td_scan_varint(&s->p, s->end, &f->u64) || f->u64 > (uint64_t)(s->end - s->p)) {
            return false;
        }
        f->p = s->p;
        f->len = (size_t)f->u64;
        s->p += f->len;
        return true;
    }
    return false;
}

bool td_scan_any(struct td_scan *s, struct td_scan_field *f)
{
    uint64_t tag;
    if (s->bad || s->p == s->end) {
        return false;
    }
    f->u64 = 0;
    f->p = (const uint8_t *)"";
    f->len = 0;
    s->bad = !td_scan_varint(&s->p, s->end, &tag) || tag > UINT32_MAX || tag >> 3 == 0;
    if (s->bad) {
        return false;
    }
    f->number = (uint32_t)(tag >> 3);
    f->type = (enum td_wire_type)(tag & 7);
    s->bad = !read_value(s, f);
    return !s->bad;
}
