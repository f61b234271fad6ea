/* tests/host_cuda/same_bits.h - results of the host-run device that are the host's to the bit, and where
 * their steps ran, told by how many launches there were. A case makes its values by steps on the device,
 * since sized steps (struct td_kernel_sized) stay on the host where their inputs do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_SAME_BITS_H
#define TD_TESTS_HOST_CUDA_SAME_BITS_H

#include "tests/host_cuda/both_sides.h"

/* ------------------------------------------------------------------ comparing */

/* r is the same on both sides, to the bit, and so many kernels were launched for it. */
static inline void same(const char *text, const struct td_tensor *in, int launched)
{
    struct outcome want, got;
    compute(text, NULL, in, &want);
    const uint64_t before = launches();
    compute(text, device, in, &got);
    if (want.rc != TD_OK || got.rc != TD_OK || launches() - before != (uint64_t)launched) {
        fprintf(stderr, "%s\non the host: %s\nthere: %s\n%d launches\n", text, want.msg, got.msg,
                (int)(launches() - before));
        exit(1);
    }
    CHECK_INT(got.r.dtype, want.r.dtype);
    if (!td_shape_equal(&want.r.shape, &got.r.shape) ||
        memcmp(want.r.data, got.r.data, td_tensor_bytes(&want.r)) != 0) {
        fprintf(stderr, "%s\nof %s, is of %s, or differs\n", text, TD_SHAPE_STR(&want.r.shape),
                TD_SHAPE_STR(&got.r.shape));
        exit(1);
    }
    td_tensor_clear(&want.r);
    td_tensor_clear(&got.r);
}

/* ------------------------------------------------------------------ inputs */

static inline struct td_tensor floats(struct td_shape s)
{
    struct td_err err = {0};
    struct td_tensor x;
    CHECK_OK(td_tensor_new(&x, TD_FLOAT, &s, &err));
    return x;
}

/* Whole numbers in [low, low + levels). */
static inline struct td_tensor whole(struct td_shape s, int low, int levels)
{
    struct td_tensor x = floats(s);
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        TD_DATA(&x, float)[i] = (float)low + floorf((float)((number() + 1) / 2 * levels));
    }
    return x;
}

static inline struct td_shape shape_of(int rank, const int64_t *dim)
{
    struct td_shape s = {.rank = rank};
    memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    return s;
}

/* The value as that type, reversed on the device, which does not cast to all types. */
#define MADE(name, from)                                                                                     \
    name "c = Cast {SrcT:type=float; DstT:type=%s} (" from ")\n" name                                        \
         " = ReverseV2 {Tidx:type=int32; T:type=%s} (" name "c, int32[1] 0)\n"
#define NEGATED(name, from) name " = Neg {T:type=float} (" from ")\n"

/* ------------------------------------------------------------------ cases */

/* Launches: of a step that makes a value; of a sized one. */
enum { MAKES = 1, SIZED = 2 };
/* Of MADE. */
static inline int makes(enum td_dtype t)
{
    const uint32_t there = TD_BIT(TD_DOUBLE) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16) | TD_BIT(TD_INT32) |
                           TD_BIT(TD_INT64) | TD_BIT(TD_BOOL);
    return td_dtype_in(t, there) ? 2 * MAKES : MAKES;
}

static inline void same_of_one(const char *text, struct td_tensor x, int launched)
{
    same(text, &x, launched);
    td_tensor_clear(&x);
}
static inline void same_of_two(const char *text, struct td_tensor x, struct td_tensor y, int launched)
{
    const struct td_tensor in[2] = {x, y};
    same(text, in, launched);
    td_tensor_clear(&x);
    td_tensor_clear(&y);
}
static inline void refused(const char *text, struct td_tensor x, struct td_tensor y)
{
    const struct td_tensor in[2] = {x, y};
    compare_refusals(text, in);
    td_tensor_clear(&x);
    td_tensor_clear(&y);
}

#endif
