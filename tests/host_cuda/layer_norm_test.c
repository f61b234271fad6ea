/* tests/host_cuda/layer_norm_test.c - rows normalised by kernels/cuda/nn/layer_norm.cu, against the formula
 * in double: of each pair of types, lengths that each kernel has, rows that begin where 16 bytes do not, with
 * and without vectors, whose type is a third one, and nothing written behind the last row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/dtype.h"
#include "kernels/cuda/nn/layer_norm.h"
#include "tests/test.h"

enum { GUARD = 16, MOST = 1 << 17 };
static const float untouched = 17;

static uint64_t drawn = 5;
static struct td_cuda_stream *stream;

static double draw(void)
{
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(drawn >> 40) / (double)(1 << 23) - 1;
}

static size_t size_of(enum td_cuda_type type)
{
    return type == TD_CUDA_FLOAT ? 4 : 2;
}

static void put(enum td_cuda_type type, void *at, int64_t i, float x)
{
    if (type == TD_CUDA_FLOAT) {
        ((float *)at)[i] = x;
    } else if (type == TD_CUDA_HALF) {
        ((td_half *)at)[i] = td_float_to_half(x);
    } else {
        ((td_bf16 *)at)[i] = td_float_to_bf16(x);
    }
}

static float get(enum td_cuda_type type, const void *at, int64_t i)
{
    return type == TD_CUDA_FLOAT  ? ((const float *)at)[i]
           : type == TD_CUDA_HALF ? td_half_to_float(((const td_half *)at)[i])
                                  : td_bf16_to_float(((const td_bf16 *)at)[i]);
}

/* n numbers of a type, here as the device has them; the first `apart` of the block are no part of them. */
struct numbers {
    enum td_cuda_type type;
    int64_t n, apart;
    float *here;
    char *block; /* on the device */
};

static void *first(const struct numbers *v)
{
    return v->block + (size_t)v->apart * size_of(v->type);
}

static void copy(struct numbers *v, bool to_device)
{
    static char typed[(MOST + GUARD) * sizeof(float)];
    const size_t bytes = (size_t)(v->n + v->apart) * size_of(v->type);
    for (int64_t i = 0; to_device && i < v->n; i++) {
        put(v->type, typed, v->apart + i, v->here[i]);
    }
    CHECK_INT(td_cuda_copy(0, stream, to_device ? TD_CUDA_TO_DEVICE : TD_CUDA_TO_HOST,
                           to_device ? (void *)v->block : (void *)typed,
                           to_device ? (void *)typed : (void *)v->block, bytes),
              0);
    CHECK_INT(td_cuda_stream_wait(0, stream), 0);
    for (int64_t i = 0; i < v->n; i++) {
        v->here[i] = get(v->type, typed, v->apart + i);
    }
}

/* Numbers about `middle`, or that one alone. */
static struct numbers make(enum td_cuda_type type, int64_t n, int64_t apart, double middle, bool alike)
{
    struct numbers v = {.type = type, .n = n, .apart = apart, .here = malloc((size_t)n * sizeof(float))};
    void *block;
    CHECK(v.here != NULL && n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        v.here[i] = (float)(alike ? middle : middle + draw());
    }
    CHECK_INT(td_cuda_allocate(0, stream, (size_t)(n + apart) * size_of(type), &block), 0);
    v.block = block;
    copy(&v, true);
    return v;
}

static void drop(struct numbers *v)
{
    free(v->here);
    CHECK_INT(td_cuda_free(0, stream, v->block), 0);
}

struct how {
    enum td_cuda_type from, to, vectors;
    int64_t rows, n, apart;
    bool scale, offset, centred;
};

static double want(const struct how *h, const float *x, const float *scale, const float *offset, int64_t i)
{
    double mean = 0, squares = 0;
    for (int64_t k = 0; h->centred && k < h->n; k++) {
        mean += (double)x[k] / (double)h->n;
    }
    for (int64_t k = 0; k < h->n; k++) {
        squares += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)h->n;
    }
    return ((double)x[i] - mean) / sqrt(squares + 1e-3) * (h->scale ? (double)scale[i] : 1) +
           (h->offset ? (double)offset[i] : 0);
}

/* Every element of the first and the last row, and one of each other. */
static void check_all(const struct how *h, const struct numbers v[4])
{
    const double off = h->to == TD_CUDA_FLOAT ? 2e-5 : h->to == TD_CUDA_HALF ? 1e-3 : 8e-3;
    for (int64_t r = 0; r < h->rows; r++) {
        const bool whole = r == 0 || r == h->rows - 1;
        for (int64_t i = whole ? 0 : r % h->n;
             i<(whole ? h->n : r % h->n + 1); i += h->n> 1024 && whole ? 37 : 1) {
            const double y = want(h, v[0].here + r * h->n, v[1].here, v[2].here, i);
            const float got = v[3].here[r * h->n + i];
            if (!(fabs((double)got - y) <= off * (1 + fabs(y)))) {
                fprintf(stderr, "%d to %d, row %lld of %lld, element %lld of %lld: %g, wanted %g\n", h->from,
                        h->to, (long long)r, (long long)h->rows, (long long)i, (long long)h->n, (double)got,
                        y);
                CHECK(false);
            }
        }
    }
    for (int64_t i = h->rows * h->n; i < v[3].n; i++) {
        CHECK(v[3].here[i] == untouched);
    }
}

static void one(const struct how *h)
{
    struct numbers v[4] = {make(h->from, h->rows * h->n, h->apart, 3, false),
                           make(h->vectors, h->n, h->apart, 1, false),
                           make(h->vectors, h->n, h->apart, 0, false),
                           make(h->to, h->rows * h->n + GUARD, h->apart, (double)untouched, true)};
    const struct td_cuda_layer_norm l = {.from = h->from,
                                         .to = h->to,
                                         .vectors = h->vectors,
                                         .x = first(&v[0]),
                                         .scale = h->scale ? first(&v[1]) : NULL,
                                         .offset = h->offset ? first(&v[2]) : NULL,
                                         .y = first(&v[3]),
                                         .rows = h->rows,
                                         .n = h->n,
                                         .inner = 1,
                                         .last = h->n,
                                         .width = h->n,
                                         .epsilon = 1e-3F,
                                         .centred = h->centred};
    CHECK_INT(td_cuda_normalize_rows(&l, stream), 0);
    copy(&v[3], false);
    check_all(h, v);
    for (int i = 0; i < 4; i++) {
        drop(&v[i]);
    }
}

static const struct {
    enum td_cuda_type from, to;
} pairs[] = {{TD_CUDA_FLOAT, TD_CUDA_FLOAT},    {TD_CUDA_FLOAT, TD_CUDA_HALF},
             {TD_CUDA_FLOAT, TD_CUDA_BFLOAT16}, {TD_CUDA_HALF, TD_CUDA_HALF},
             {TD_CUDA_HALF, TD_CUDA_FLOAT},     {TD_CUDA_BFLOAT16, TD_CUDA_BFLOAT16},
             {TD_CUDA_BFLOAT16, TD_CUDA_FLOAT}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Each kernel, its shortest and longest rows, and rows that are no multiple of 16 bytes. */
static const struct {
    int64_t rows, n;
} sizes[] = {{1, 2},    {300, 8},  {9, 24},   {7, 256},  {3, 264},  {17, 768}, {5, 1000}, {2, 1001},
             {9, 1024}, {3, 1032}, {2, 1030}, {2, 4096}, {1, 8192}, {2, 8200}, {1, 20001}};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(every_length_of_every_type)
{
    CHECK_INT(td_cuda_stream_new(0, &stream), 0);
    for (int p = 0; p < PAIRS; p++) {
        for (int s = 0; s < SIZES; s++) {
            one(&(const struct how){.from = pairs[p].from,
                                    .to = pairs[p].to,
                                    .vectors = TD_CUDA_FLOAT,
                                    .rows = sizes[s].rows,
                                    .n = sizes[s].n,
                                    .scale = true,
                                    .offset = true,
                                    .centred = true});
        }
    }
}

TEST(vectors_of_every_type_or_none)
{
    static const enum td_cuda_type types[] = {TD_CUDA_FLOAT, TD_CUDA_HALF, TD_CUDA_BFLOAT16};
    CHECK_INT(td_cuda_stream_new(0, &stream), 0);
    for (int k = 0; k < 3 * 8; k++) {
        for (int64_t n = 64; n <= 2048; n *= 2) {
            one(&(const struct how){.from = TD_CUDA_BFLOAT16,
                                    .to = k % 2 ? TD_CUDA_BFLOAT16 : TD_CUDA_FLOAT,
                                    .vectors = types[k / 8],
                                    .rows = 9,
                                    .n = n,
                                    .scale = (k & 1) != 0,
                                    .offset = (k & 2) != 0,
                                    .centred = (k & 4) != 0});
        }
    }
}

TEST(rows_that_begin_elsewhere)
{
    CHECK_INT(td_cuda_stream_new(0, &stream), 0);
    for (int p = 0; p < PAIRS; p++) {
        for (int64_t n = 96; n <= 4096; n *= 3) {
            one(&(const struct how){.from = pairs[p].from,
                                    .to = pairs[p].to,
                                    .vectors = TD_CUDA_HALF,
                                    .rows = 11,
                                    .n = n,
                                    .apart = 1 + p,
                                    .scale = true,
                                    .offset = true,
                                    .centred = true});
        }
    }
}

/* Of x [outer, n, inner], whose last axis has `last`; y's has `width`. */
struct strided {
    int64_t outer, n, inner, last, width;
};

static void check_strided(const struct strided *h, const struct numbers v[4])
{
    for (int64_t r = 0; r < h->outer * h->inner; r++) {
        const int64_t from = r / h->inner * h->n * h->inner + r % h->inner;
        float row[64];
        CHECK(h->n <= 64);
        for (int64_t i = 0; i < h->n; i++) {
            row[i] = v[0].here[from + i * h->inner];
        }
        const struct how as_row = {.n = h->n, .centred = true};
        for (int64_t i = 0; i < h->n; i++) {
            const int64_t at = from + i * h->inner;
            const double y = want(&as_row, row, NULL, NULL, i);
            for (int64_t w = 0; w < h->width; w++) {
                const double all = y * (double)v[1].here[w] + (double)v[2].here[w];
                const float got = v[3].here[at / h->last * h->width + w];
                CHECK((h->last == h->width && w != at % h->last) ||
                      fabs((double)got - all) <= 2e-5 * (1 + fabs(all)));
            }
        }
    }
}

TEST(rows_along_other_axes_and_longer_vectors)
{
    static const struct strided all[] = {
        {2, 5, 6, 6, 6}, {1, 40, 300, 5, 5}, {2, 3, 5, 1, 8}, {7, 1, 1, 1, 9}, {3, 33, 1, 33, 33}};
    CHECK_INT(td_cuda_stream_new(0, &stream), 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const struct strided *h = &all[k];
        const int64_t n = h->outer * h->n * h->inner, out = n / h->last * h->width;
        struct numbers v[4] = {make(TD_CUDA_FLOAT, n, 0, 3, false),
                               make(TD_CUDA_FLOAT, h->width, 0, 1, false),
                               make(TD_CUDA_FLOAT, h->width, 0, 0, false),
                               make(TD_CUDA_FLOAT, out + GUARD, 0, (double)untouched, true)};
        const struct td_cuda_layer_norm l = {.from = TD_CUDA_FLOAT,
                                             .to = TD_CUDA_FLOAT,
                                             .vectors = TD_CUDA_FLOAT,
                                             .x = first(&v[0]),
                                             .scale = first(&v[1]),
                                             .offset = first(&v[2]),
                                             .y = first(&v[3]),
                                             .rows = h->outer * h->inner,
                                             .n = h->n,
                                             .inner = h->inner,
                                             .last = h->last,
                                             .width = h->width,
                                             .epsilon = 1e-3F,
                                             .centred = true};
        CHECK_INT(td_cuda_normalize_rows(&l, stream), 0);
        copy(&v[3], false);
        check_strided(h, v);
        for (int64_t i = out; i < out + GUARD; i++) {
            CHECK(v[3].here[i] == untouched);
        }
        for (int i = 0; i < 4; i++) {
            drop(&v[i]);
        }
    }
}

TEST_MAIN(RUN(rows_along_other_axes_and_longer_vectors) RUN(every_length_of_every_type)
              RUN(vectors_of_every_type_or_none) RUN(rows_that_begin_elsewhere))
