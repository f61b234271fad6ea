/* core/base/shape.h - tensor shapes, known or partly known.
 *
 * rank -1 means unknown rank, dim -1 unknown size. Shapes of tensors that exist are fully known. Plain data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_SHAPE_H
#define TD_CORE_BASE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#define TD_MAX_RANK 12

struct td_shape {
    int rank;
    int64_t dim[TD_MAX_RANK]; /* dim[rank..] are not read */
};

struct td_shape td_shape_scalar(void);
struct td_shape td_shape_unknown(void);     /* unknown rank */
struct td_shape td_shape_of_rank(int rank); /* all dims -1 */
struct td_shape td_shape_vector(int64_t n);
struct td_shape td_shape_matrix(int64_t rows, int64_t cols);
/* Rank and dims from an array; INVALID_ARGUMENT when the rank exceeds TD_MAX_RANK, a dim is below -1, or the
 * product of the known dims overflows int64. */
TD_MUST enum td_code td_shape_make(struct td_shape *s, const int64_t *dims, int rank, struct td_err *err);
bool td_shape_known(const struct td_shape *s); /* rank and every dim */
/* Number of elements; -1 when not known or when the product overflows. */
int64_t td_shape_count(const struct td_shape *s);
/* Product of dim[from..to), 1 for none. Requires known dims; never overflows on a shape whose count fits. */
int64_t td_shape_range(const struct td_shape *s, int from, int to);
bool td_shape_equal(const struct td_shape *a, const struct td_shape *b);
/* Could describe the same tensor: unknown matches anything. */
bool td_shape_compatible(const struct td_shape *a, const struct td_shape *b);
/* Dims known in either; INVALID_ARGUMENT when they contradict. out may be a or b. */
TD_MUST enum td_code td_shape_merge(const struct td_shape *a, const struct td_shape *b, struct td_shape *out,
                                    struct td_err *err);
/* NumPy broadcasting of two shapes, -1 where it cannot be told yet.
 * INVALID_ARGUMENT "Incompatible shapes: [2,3] vs. [4]" when they never broadcast. */
TD_MUST enum td_code td_shape_broadcast(const struct td_shape *a, const struct td_shape *b,
                                        struct td_shape *out, struct td_err *err);
/* a's dims followed by b's; INVALID_ARGUMENT past TD_MAX_RANK. Unknown rank in either gives unknown rank. */
TD_MUST enum td_code td_shape_concat(const struct td_shape *a, const struct td_shape *b, struct td_shape *out,
                                     struct td_err *err);
/* Where element `at` of a tensor of shape `all` lies in one of shape `own` that broadcasts to it; known. */
int64_t td_shape_spread_index(const struct td_shape *own, const struct td_shape *all, int64_t at);
/* Axis in [-rank, rank) to [0, rank); false outside. */
bool td_shape_axis(int rank, int64_t axis, int *out);

#define TD_SHAPE_TEXT 200
/* "[2,3]", "[?,10]", "<unknown>" as TensorFlow prints them; returns buf (at least TD_SHAPE_TEXT bytes). */
char *td_shape_text(const struct td_shape *s, char *buf);
struct td_shape_str {
    char s[TD_SHAPE_TEXT];
};
struct td_shape_str td_shape_str(const struct td_shape *s);
/* The text as a temporary, for error messages:  TD_FAIL(err, INVALID_ARGUMENT, "... %s",
 * TD_SHAPE_STR(&t->shape)) */
#define TD_SHAPE_STR(shape) (td_shape_str(shape).s)

#endif
