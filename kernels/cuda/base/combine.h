/* kernels/cuda/base/combine.h - launchers of combine.cu; each returns CUDA's error number.
 *
 * A key says which slice of y something goes to. Keys are made from indices, sorted (sort.h), and then each
 * slice takes what goes to it, in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_COMBINE_H
#define TD_KERNELS_CUDA_BASE_COMBINE_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/sort.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ keys */

/* keys[i] for n of them, in [0, most): `most` where nothing goes. Those are refused where fault is not NULL,
 * but for TD_CUDA_IDS below zero. */
enum td_cuda_key_kind {
    TD_CUDA_TUPLES, /* the slice that a tuple names */
    TD_CUDA_AXIS,   /* indices [batches, n / batches] along an axis of `dim`, by batch */
    TD_CUDA_IDS,    /* of segments, in any order */
    TD_CUDA_SORTED, /* of segments; refused where one is below the one before it */
    TD_CUDA_ROUND   /* rows modulo `dim` */
};
struct td_cuda_keys {
    enum td_cuda_key_kind kind;
    struct td_cuda_indices indices;
    struct td_cuda_tuples tuples;
    int64_t n, batches, dim;
    int32_t most;
    int32_t *fault;
};
int td_cuda_keys_make(const struct td_cuda_keys *s, int32_t *keys, struct td_cuda_stream *stream);
/* The same, sorted: *out, in workspace, of td_cuda_sort_bytes(s->n). */
int td_cuda_keys_sort(const struct td_cuda_keys *s, void *workspace, struct td_cuda_sort *out,
                      struct td_cuda_stream *stream);

/* Refuses n ids outside of [0, rows), and as many indices outside of [0, limit). counts [rows]: how many
 * there were of each is added; NULL: nobody asks. */
struct td_cuda_counting {
    struct td_cuda_indices ids, indices;
    int64_t n, rows, limit;
    int32_t *counts, *fault;
};
int td_cuda_count_ids(const struct td_cuda_counting *s, struct td_cuda_stream *stream);

/* ------------------------------------------------------------------ what goes there */

/* LEAST and MOST are MIN and MAX where NaN gives way to what comes after it. */
enum td_cuda_combine_op {
    TD_CUDA_ADD,
    TD_CUDA_SUBTRACT,
    TD_CUDA_MULTIPLY,
    TD_CUDA_LESSER,
    TD_CUDA_GREATER,
    TD_CUDA_LEAST_LATER,
    TD_CUDA_MOST_LATER
};
enum td_cuda_scale { TD_CUDA_AS_IT_IS, TD_CUDA_BY_COUNT, TD_CUDA_BY_ROOT };

/* Key k is slice [k / dim, :, k % dim, :] of y [.., outer, dim, inner]; source j likewise one of x, which has
 * `per` in place of dim. Position p is source p, order[p], or what `rows` says of that. */
struct td_cuda_combining {
    const int32_t *keys, *order; /* keys ascend; order NULL: as they stand */
    struct td_cuda_indices rows; /* at NULL: none */
    int64_t n, outer, dim, per, inner;
    int64_t sources;          /* that x has, where rows name them; others are zeros */
    int32_t most;             /* keys from here on are nobody's */
    bool from_y;              /* y has what comes first; else the first source is */
    bool rounds;              /* to y's type after each step; else at the end */
    bool divides;             /* by how many there were */
    enum td_cuda_scale scale; /* multiplies by 1 / count, 1 / sqrt(count) of them */
    const int32_t *counts;    /* of each source: `scale` multiplies sources by theirs; NULL: the sum */
    const int32_t *fault;     /* once it is set keys may not ascend, and nothing is done; NULL: they do */
};

int td_cuda_combine(enum td_cuda_combine_op op, enum td_cuda_type type, const struct td_cuda_combining *s,
                    const void *x, void *y, struct td_cuda_stream *stream);
/* The last of each key stays; of plain bytes, outer and per being 1, and a slice `bytes`. */
int td_cuda_put(const struct td_cuda_combining *s, size_t bytes, const void *x, void *y,
                struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
