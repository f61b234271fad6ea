/* proto/checkpoint/slice.c - boxes of a tensor: parsed from RestoreV2's text, coded as keys, intersected,
 * copied.
 *
 * Keys of slices are ordered codes: 0, the tensor's name, the rank, then start and length of each dimension
 * (0 and -1 for a whole one).
 *
 *   number   its length in one byte, then its bytes, big-endian
 *   signed   big-endian two's complement; as many leading bits as it has bytes are flipped
 *   text     its bytes, FF as FF 00 (a name holds no 00), then the end 00 01
 *
 * Copying joins the innermost dimensions that both boxes hold whole into one run of elements, and counts the
 * outer ones up like an odometer. Where in each box a run begins is computed anew from its coordinates.
 *
 * Boxes are compared in a sweep along one axis: sorted by where they begin, each with those that begin before
 * it ends.
 *
 * Does not: read or check tensors; td_slice_copy trusts that both tensors have the shapes of their boxes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/slice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_box td_box_whole(const struct td_shape *s)
{
    struct td_box b = {.rank = s->rank};
    for (int d = 0; d < s->rank; d++) {
        b.len[d] = s->dim[d];
        b.full[d] = true;
    }
    return b;
}

bool td_box_is_whole(const struct td_box *b, const struct td_shape *s)
{
    for (int d = 0; d < b->rank; d++) {
        if (b->start[d] != 0 || b->len[d] != s->dim[d]) {
            return false;
        }
    }
    return b->rank == s->rank;
}

struct td_shape td_box_shape(const struct td_box *b)
{
    struct td_shape s = {.rank = b->rank};
    memcpy(s.dim, b->len, (size_t)b->rank * sizeof s.dim[0]);
    return s;
}

bool td_box_intersect(const struct td_box *a, const struct td_box *b, struct td_box *out)
{
    *out = (struct td_box){.rank = a->rank};
    for (int d = 0; d < a->rank; d++) {
        int64_t end_a = a->start[d] + a->len[d], end_b = b->start[d] + b->len[d];
        int64_t end = end_a < end_b ? end_a : end_b;
        out->start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
        out->len[d] = end - out->start[d];
        if (out->len[d] <= 0) {
            return false;
        }
    }
    return a->rank == b->rank;
}

static int by_start(const void *a, const void *b)
{
    const struct td_box_side *p = a, *q = b;
    return (p->start > q->start) - (p->start < q->start);
}

/* The boxes' extents along axis d, by where they begin; returns at how many places they begin. */
static int sort_sides(const struct td_box *boxes, int n, int d, struct td_box_side *sort)
{
    int starts = n > 0;
    for (int k = 0; k < n; k++) {
        sort[k] = (struct td_box_side){boxes[k].start[d], boxes[k].start[d] + boxes[k].len[d], k};
    }
    qsort(sort, (size_t)n, sizeof *sort, by_start);
    for (int k = 1; k < n; k++) {
        starts += sort[k].start != sort[k - 1].start;
    }
    return starts;
}

/* Sweeps along the axis on which the boxes begin at the most places: of a variable that is cut along one axis
 * each box is compared with its neighbour alone. */
bool td_boxes_disjoint(const struct td_box *boxes, int n, struct td_box_side *sort, int *i, int *j)
{
    int best = 0, most = 0;
    struct td_box both;
    for (int d = 0; n > 1 && d < boxes[0].rank; d++) {
        const int starts = sort_sides(boxes, n, d, sort);
        best = starts > most ? d : best;
        most = starts > most ? starts : most;
    }
    if (n > 1 && boxes[0].rank > 0) {
        (void)sort_sides(boxes, n, best, sort);
    }
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n && (boxes[0].rank == 0 || sort[b].start < sort[a].end); b++) {
            *i = boxes[0].rank == 0 ? a : sort[a].box;
            *j = boxes[0].rank == 0 ? b : sort[b].box;
            if (td_box_intersect(&boxes[*i], &boxes[*j], &both)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- specifications */

static bool parse_number(const char **p, int64_t *v)
{
    char *end;
    errno = 0;
    *v = strtoll(*p, &end, 10);
    bool ok = end != *p && errno == 0 && **p >= '0' && **p <= '9';
    *p = end;
    return ok;
}

/* "start,length" or "-". */
static bool parse_extent(const char **p, int64_t dim, int64_t *start, int64_t *len, bool *full)
{
    *full = **p == '-';
    if (*full) {
        (*p)++;
        *start = 0;
        *len = dim;
        return true;
    }
    if (!parse_number(p, start) || *(*p)++ != ',' || !parse_number(p, len)) {
        return false;
    }
    return *start <= dim && *len <= dim - *start;
}

static bool parse_dims(const char **p, const char *last_space, struct td_shape *whole)
{
    whole->rank = 0;
    while (*p < last_space) {
        if (whole->rank == TD_MAX_RANK || !parse_number(p, &whole->dim[whole->rank++]) || *(*p)++ != ' ') {
            return false;
        }
    }
    return whole->rank > 0;
}

enum td_code td_slice_parse(const char *spec, struct td_shape *whole, struct td_box *box, struct td_err *err)
{
    const char *p = spec, *space = strrchr(spec, ' ');
    TD_FAIL_IF(
        space == NULL || !parse_dims(&p, space, whole), err, INVALID_ARGUMENT,
        "shape_and_slice '%.200s': want the dimensions, a space, then start,length or - joined by colons",
        spec);
    *box = (struct td_box){.rank = whole->rank};
    for (int d = 0; d < whole->rank; d++) {
        bool ok = parse_extent(&p, whole->dim[d], &box->start[d], &box->len[d], &box->full[d]);
        char after = d == whole->rank - 1 ? 0 : ':';
        TD_FAIL_IF(!ok || *p != after, err, INVALID_ARGUMENT,
                   "shape_and_slice '%.200s': extent %d is malformed or outside of its dimension", spec, d);
        p += after != 0;
    }
    return td_shape_make(whole, whole->dim, whole->rank, err);
}

enum td_code td_slice_text(const struct td_shape *whole, const struct td_box *box, struct td_sink *out,
                           struct td_err *err)
{
    char text[64];
    for (int d = 0; d < whole->rank; d++) {
        const int n = snprintf(text, sizeof text, "%lld ", (long long)whole->dim[d]);
        TD_TRY(td_sink_put(out, text, (size_t)n, err));
    }
    for (int d = 0; d < box->rank; d++) {
        const char *after = d == box->rank - 1 ? "" : ":";
        const int n = box->full[d] ? snprintf(text, sizeof text, "-%s", after)
                                   : snprintf(text, sizeof text, "%lld,%lld%s", (long long)box->start[d],
                                              (long long)box->len[d], after);
        TD_TRY(td_sink_put(out, text, (size_t)n, err));
    }
    return TD_OK;
}

/* ---- keys */

static enum td_code put_number(struct td_sink *out, uint64_t v, struct td_err *err)
{
    char b[9];
    int n = 0;
    for (uint64_t rest = v; rest > 0; rest >>= 8) {
        n++;
    }
    b[0] = (char)n;
    for (int i = 0; i < n; i++) {
        b[n - i] = (char)(v >> 8 * i);
    }
    return td_sink_put(out, b, (size_t)n + 1, err);
}

static enum td_code put_text(struct td_sink *out, const char *s, struct td_err *err)
{
    for (; *s; s++) {
        TD_TRY(td_sink_put(out, s, 1, err));
        if ((unsigned char)*s == 0xff) {
            TD_TRY(td_sink_put(out, "\0", 1, err));
        }
    }
    return td_sink_put(out, "\0\1", 2, err);
}

static enum td_code put_signed(struct td_sink *out, int64_t v, struct td_err *err)
{
    uint64_t magnitude = v < 0 ? ~(uint64_t)v : (uint64_t)v;
    unsigned char b[10];
    int bits = 0, len;
    for (uint64_t rest = magnitude; rest > 0; rest >>= 1) {
        bits++;
    }
    len = bits / 7 + 1; /* 7 bits of payload a byte, one of them the sign's */
    b[0] = b[1] = v < 0 ? 0xff : 0;
    for (int i = 0; i < 8; i++) {
        b[9 - i] = (unsigned char)((uint64_t)v >> 8 * i);
    }
    unsigned char *first = b + 10 - len;
    unsigned header = len < 9 ? (0xff00u >> len) & 0xff : 0xff; /* len ones from the left */
    first[0] ^= (unsigned char)header;
    if (len > 8) {
        first[1] ^= len == 9 ? 0x80 : 0xc0;
    }
    return td_sink_put(out, first, (size_t)len, err);
}

enum td_code td_slice_key(const char *name, const struct td_box *box, struct td_sink *out, struct td_err *err)
{
    TD_TRY(put_number(out, 0, err));
    TD_TRY(put_text(out, name, err));
    TD_TRY(put_number(out, (uint64_t)box->rank, err));
    for (int d = 0; d < box->rank; d++) {
        TD_TRY(put_signed(out, box->full[d] ? 0 : box->start[d], err));
        TD_TRY(put_signed(out, box->full[d] ? -1 : box->len[d], err));
    }
    return TD_OK;
}

/* ---- copying */

/* Element offset of the position `at` (in the whole tensor's coordinates) inside a box. */
static int64_t offset_in(const struct td_box *b, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < b->rank; d++) {
        offset = offset * b->len[d] + (at[d] - b->start[d]);
    }
    return offset;
}

void td_slice_copy(const struct td_tensor *src, const struct td_box *a, struct td_tensor *dst,
                   const struct td_box *b)
{
    struct td_box both;
    int64_t at[TD_MAX_RANK], run = 1;
    size_t size = td_dtype_size(src->dtype);
    if (!td_box_intersect(a, b, &both)) {
        return;
    }
    memcpy(at, both.start, sizeof at);
    int inner = both.rank; /* dims from here on lie together in both boxes */
    while (inner > 0) {
        inner--;
        run *= both.len[inner];
        if (both.len[inner] != a->len[inner] || both.len[inner] != b->len[inner]) {
            break;
        }
    }
    for (;;) {
        td_elems_copy(src->dtype, (char *)dst->data + (size_t)offset_in(b, at) * size,
                      (const char *)src->data + (size_t)offset_in(a, at) * size, run);
        int d = inner - 1;
        while (d >= 0 && ++at[d] == both.start[d] + both.len[d]) {
            at[d] = both.start[d];
            d--;
        }
        if (d < 0) {
            return;
        }
    }
}
