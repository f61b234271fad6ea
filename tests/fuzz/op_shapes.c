/* tests/fuzz/op_shapes.c - shapes of inputs by what their names and the op's name promise.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_draw.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Is name, or its end, among the words? A word that starts with '=' is the whole name. */
static bool named(const char *name, const char *const *words)
{
    for (; *words != NULL; words++) {
        if ((*words)[0] == '=' ? strcmp(name, *words + 1) == 0 : ends_with(name, *words)) {
            return true;
        }
    }
    return false;
}

static const char *const scalars[] = {"=lr",
                                      "=l1",
                                      "=l2",
                                      "=alpha",
                                      "=beta",
                                      "beta1",
                                      "beta2",
                                      "_power",
                                      "=epsilon",
                                      "=rho",
                                      "=momentum",
                                      "=lr_power",
                                      "=logbase",
                                      "=sign_decay",
                                      "l2_shrinkage",
                                      "num_segments",
                                      "=num",
                                      "=limit",
                                      "=start",
                                      "=stop",
                                      "=delta",
                                      "contents",
                                      "=minval",
                                      "=maxval",
                                      "min_range",
                                      "max_range",
                                      "=min",
                                      "=max",
                                      "axis",
                                      "_dim",
                                      "=dim",
                                      "=dimension",
                                      "num_bits",
                                      "=method",
                                      "=index",
                                      "num_elements",
                                      "global_step",
                                      "max_output_size",
                                      "_threshold",
                                      "=buffer_size",
                                      "=seed2",
                                      "=count",
                                      "=batch_size",
                                      "=size_scalar",
                                      "=depth",
                                      "on_value",
                                      "off_value",
                                      "=diagonal_index",
                                      "padding_value",
                                      "num_rows",
                                      "num_cols",
                                      "=n",
                                      "=k",
                                      "=lower",
                                      "=upper",
                                      "num_shards",
                                      "=tag",
                                      "num_classes",
                                      "=alg",
                                      "=nbins",
                                      "=sample_rate",
                                      "drop_remainder",
                                      "=quality",
                                      "=pred",
                                      "=seed",
                                      "=frame_length",
                                      "=input_rate",
                                      NULL};
static const char *const vectors[] = {"=begin",  "=end",    "=strides",        "=shape",   "_shape",
                                      "_sizes",  "=perm",   "=multiples",      "=dims",    "=output_size",
                                      "_splits", "=seqlen", "sequence_length", "sp_shape", NULL};
static const char *const pairs[] = {"=paddings", "=crops", NULL};

/* Sparse tensors: indices [n, rank], values [n], shape [rank], the same n and rank mostly. */
static bool sparse_shape(struct op_maker *m, const char *name, struct td_shape *s)
{
    const char *op = m->def->name;
    if (strstr(op, "Sparse") == NULL && strstr(op, "Set") == NULL && strncmp(op, "CTC", 3) != 0 &&
        strcmp(op, "EditDistance") != 0) {
        return false;
    }
    if (strstr(op, "Segment") != NULL || strncmp(op, "SparseApply", 11) == 0 ||
        strncmp(op, "ResourceSparse", 14) == 0) {
        *s = td_shape_vector(m->numbers);
        return strstr(name, "indices") != NULL || strstr(name, "segment_ids") != NULL;
    }
    const int64_t rank = m->base.rank > 0 ? m->base.rank : 2;
    if (ends_with(name, "indices")) {
        *s = td_shape_matrix(m->numbers, rank);
    } else if (ends_with(name, "values")) {
        *s = td_shape_vector(m->numbers);
    } else if (ends_with(name, "shape") || ends_with(name, "shapes")) {
        *s = td_shape_vector(rank);
    } else {
        return false;
    }
    return true;
}

/* Keys, counters and seeds of the stateless generators. */
static bool random_shape(const struct op_maker *m, const char *name, struct td_shape *s)
{
    if (strncmp(m->def->name, "Stateless", 9) != 0) {
        return false;
    }
    const int64_t n = strcmp(name, "counter") == 0 || strcmp(name, "seed") == 0 ? 2
                      : strcmp(name, "key") == 0                                ? 1
                                                                                : 0;
    *s = td_shape_vector(n);
    return n > 0;
}

/* Shape of an input, by what its name promises; arguments of a fixed integer type are mostly axes, sizes,
 * lists. */
struct td_shape op_draw_input_shape(struct op_maker *m, const struct td_arg_def *a)
{
    struct td_shape s;
    if (!op_one_in(m, 6)) {
        if (random_shape(m, a->name, &s) || sparse_shape(m, a->name, &s)) {
            return s;
        }
        if (named(a->name, scalars)) {
            return td_shape_scalar();
        }
        if (named(a->name, vectors)) {
            return td_shape_vector(m->base.rank);
        }
        if (named(a->name, pairs)) {
            return td_shape_matrix(strstr(m->def->name, "Batch") != NULL ? 2 : m->base.rank, 2);
        }
    }
    if (a->type != TD_INT32 && a->type != TD_INT64 && a->type != TD_BOOL) {
        return op_draw_shape(m);
    }
    switch (op_draw(m, 8)) {
    case 0:
    case 1:
    case 2:
        return td_shape_scalar();
    case 3:
        return td_shape_vector((int64_t)op_draw(m, 5));
    case 4:
        return td_shape_vector(m->base.rank);
    case 5:
        return td_shape_matrix((int64_t)op_draw(m, 4), (int64_t)op_draw(m, 4));
    default:
        return op_draw_shape(m);
    }
}

/* Ops on images and volumes want a rank; others take any. */
int op_draw_rank(struct op_maker *m)
{
    static const char *const four[] = {
        "Conv2D", "Conv2d", "Pool", "FusedBatchNorm", "Image",      "Resize", "ToDepth", "DepthTo",
        "LRN",    "Boxes",  "Crop", "Patches",        "Dilation2D", "Adjust", "Draw",    NULL};
    static const char *const five[] = {"3D", "Volume", NULL};
    static const char *const three[] = {"CTC", "BlockLSTM", "EncodeJpeg",  "EncodePng",
                                        "RGB", "HSV",       "BatchMatMul", NULL};
    static const char *const two[] = {
        "MatMul", "Matrix",   "CrossEntropy", "BlockCell",         "Sampler", "Multinomial",
        "TopK",   "Cholesky", "Gather",       "NonMaxSuppression", NULL};
    static const char *const *const lists[] = {five, four, three, two};
    static const int ranks[] = {5, 4, 3, 2};
    for (int i = 0; i < 4 && !op_one_in(m, 8); i++) {
        for (int k = 0; lists[i][k] != NULL; k++) {
            if (strstr(m->def->name, lists[i][k]) != NULL) {
                return ranks[i];
            }
        }
    }
    return (int)op_draw(m, 6);
}
