/* kernels/nn/xla_dims.c - reads lists of axes from the wire format: numbers one by one, or packed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/xla_dims.h"

#include "kernels/ops.h"
#include "proto/pb/scan.h"

static bool add(struct td_axes *a, uint64_t axis)
{
    if (a->n == TD_MAX_RANK) {
        return false;
    }
    a->axis[a->n++] = axis < TD_MAX_RANK ? (int)axis : TD_MAX_RANK;
    return true;
}

static bool add_packed(struct td_axes *a, const struct td_scan_field *f)
{
    uint64_t v = 0;
    int shift = 0;
    for (size_t i = 0; i < f->len; i++) {
        v |= shift < 64 ? (uint64_t)(f->p[i] & 127) << shift : 0;
        shift += 7;
        if ((f->p[i] & 128) == 0) {
            if (!add(a, v)) {
                return false;
            }
            v = 0;
            shift = 0;
        }
    }
    return shift == 0;
}

enum td_code td_axes_read(const struct td_node *n, int fields, struct td_axes *to, struct td_err *err)
{
    const struct td_bytes text = td_attr_bytes(n, "dimension_numbers");
    struct td_scan s = td_scan_make(text.p, text.len);
    struct td_scan_field f;
    bool fine = true;
    for (int i = 0; i < fields; i++) {
        to[i].n = 0;
    }
    while (fine && td_scan_next(&s, &f)) {
        if (f.number >= 1 && f.number <= (uint32_t)fields) {
            struct td_axes *a = &to[f.number - 1];
            fine = f.type == TD_WIRE_VARINT ? add(a, f.u64) : f.type == TD_WIRE_BYTES && add_packed(a, &f);
        }
    }
    TD_FAIL_IF(s.bad || !fine, err, INVALID_ARGUMENT, "%s: Error parsing dimension numbers", TD_NODE_STR(n));
    return TD_OK;
}

enum td_code td_axes_check(const struct td_node *n, const struct td_axes *a, const char *what, int rank,
                           struct td_err *err)
{
    uint32_t seen = 0;
    for (int i = 0; i < a->n; i++) {
        TD_FAIL_IF(a->axis[i] >= rank || (seen >> a->axis[i] & 1), err, INVALID_ARGUMENT,
                   "%s: %s: axis %d is none of rank %d, or is there twice", TD_NODE_STR(n), what, a->axis[i],
                   rank);
        seen |= (uint32_t)1 << a->axis[i];
    }
    return TD_OK;
}
