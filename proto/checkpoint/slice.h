/* proto/checkpoint/slice.h - boxes of a tensor: slice specifications of checkpoints, and copying what two
 * boxes share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_SLICE_H
#define TD_PROTO_CHECKPOINT_SLICE_H

#include "core/base/tensor.h"
#include "proto/bytes/sink.h"

/* The elements start[d] <= i[d] < start[d] + len[d] of a tensor. */
struct td_box {
    int rank;
    int64_t start[TD_MAX_RANK], len[TD_MAX_RANK];
    bool full[TD_MAX_RANK]; /* the extent was given as "-": all of the dimension */
};

struct td_box td_box_whole(const struct td_shape *s);
bool td_box_is_whole(const struct td_box *b, const struct td_shape *s);
struct td_shape td_box_shape(const struct td_box *b);
/* False when they share no element. */
bool td_box_intersect(const struct td_box *a, const struct td_box *b, struct td_box *out);

/* "4 5 0,2:-" : the dims of the whole tensor, then start,length or - a dimension. INVALID_ARGUMENT names the
 * text. */
TD_MUST enum td_code td_slice_parse(const char *spec, struct td_shape *whole, struct td_box *box,
                                    struct td_err *err);
/* Appends that text. */
TD_MUST enum td_code td_slice_text(const struct td_shape *whole, const struct td_box *box,
                                   struct td_sink *out, struct td_err *err);
/* Appends the key under which a checkpoint stores that slice of the tensor called name. */
TD_MUST enum td_code td_slice_key(const char *name, const struct td_box *box, struct td_sink *out,
                                  struct td_err *err);
/* Copies the elements that src (which covers box a of some tensor) and dst (box b of it) share. Same dtype.
 */
void td_slice_copy(const struct td_tensor *src, const struct td_box *a, struct td_tensor *dst,
                   const struct td_box *b);

/* Whether no element lies in two of the n boxes, which have one rank. No: *i and *j are two that share one.
 * sort: n entries of room, which are written. */
struct td_box_side {
    int64_t start, end;
    int box;
};
bool td_boxes_disjoint(const struct td_box *boxes, int n, struct td_box_side *sort, int *i, int *j);

#endif
