/* kernels/dense/gemm_few.c - products of few rows of floats:  c [m,n] = a [m,k] * b [k,n],  m up to 8, and
 * small ones.
 *
 *     a      4 columns at a time          b      4 rows at a time, in chunks of STRIP columns
 *     [::::    ]  3 rows   -- 12 numbers, each in all lanes of a register  --   [========]
 *     [::::    ]                          c      3 rows of the chunk: read, 4 products added, written
 *
 * b is most of the bytes (the weights of a layer) and is read once for all rows, in runs long enough for the
 * processor to fetch ahead; libraries copy it first, or read it once a row. Three rows and four columns fill
 * the 16 registers of AVX2: twelve numbers of a, three sums, one vector of b. The sums of a chunk lie on the
 * stack, rows not a power of two apart: in c itself they and the rows of b would fall upon the same few sets
 * of the cache.
 *
 * b transposed: its rows are read once, and multiplied with all rows of a while they are in the cache.
 *
 * Invariant (last_row_check): element (i,j) is computed by the same operations in the same order whatever m
 * and the place of the row: rows of a batch are bit for bit what they are alone.
 *
 * Does not: pack, use threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/check.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/cpu/vecmath.h"

enum { WIDTH = 16, V = 8, DEEP = 4, HIGH = 3, ROWS = 8, STRIP = 1024, ROOM = STRIP + 16 };

typedef float vec __attribute__((vector_size(V * 4), aligned(4), may_alias));
typedef float half_vec __attribute__((vector_size(V * 2), aligned(4), may_alias));
#define IN_ALL_LANES(x) ((vec){(x), (x), (x), (x), (x), (x), (x), (x)})

struct strided { /* row i begins at + i * ld */
    const float *at;
    int64_t ld;
};

/* c[r][j] += sum of a[r][p] * b[p][j] for p < DEEP, r < rows, the sum in order of p. */
TD_INLINE void tile(int rows, struct strided a, struct strided b, float *c, int64_t ldc, int64_t n)
{
    vec x[HIGH][DEEP], s[HIGH];
    int64_t j = 0;
    for (int r = 0; r < rows; r++) {
        for (int p = 0; p < DEEP; p++) {
            x[r][p] = IN_ALL_LANES(a.at[r * a.ld + p]);
        }
    }
    for (; j + V <= n; j += V) {
        for (int r = 0; r < rows; r++) {
            s[r] = *(const vec *)(c + r * ldc + j);
        }
        for (int p = 0; p < DEEP; p++) {
            vec w = *(const vec *)(b.at + p * b.ld + j);
            for (int r = 0; r < rows; r++) {
                s[r] += x[r][p] * w;
            }
        }
        for (int r = 0; r < rows; r++) {
            *(vec *)(c + r * ldc + j) = s[r];
        }
    }
    for (; j < n; j++) {
        for (int r = 0; r < rows; r++) {
            float sum = c[r * ldc + j];
            for (int p = 0; p < DEEP; p++) {
                sum += a.at[r * a.ld + p] * b.at[p * b.ld + j];
            }
            c[r * ldc + j] = sum;
        }
    }
}

TD_CLONES static void add_products(int64_t m, int64_t k, int64_t n, struct strided a, struct strided b,
                                   float *c, int64_t ldc)
{
    int64_t p = 0;
    for (; p + DEEP <= k; p += DEEP) {
        struct strided row = {a.at + p, a.ld};
        const struct strided w = {b.at + p * b.ld, b.ld};
        float *to = c;
        int64_t left = m;
        for (; left >= 3; left -= 3, row.at += 3 * a.ld, to += 3 * ldc) {
            tile(3, row, w, to, ldc, n);
        }
        if (left == 2) {
            tile(2, row, w, to, ldc, n);
        } else if (left == 1) {
            tile(1, row, w, to, ldc, n);
        }
    }
    for (; p < k; p++) {
        for (int64_t i = 0; i < m; i++) {
            float x = a.at[i * a.ld + p];
            for (int64_t j = 0; j < n; j++) {
                c[i * ldc + j] += x * b.at[p * b.ld + j];
            }
        }
    }
}

TD_CLONES static float dot(const float *restrict x, const float *restrict y, int64_t n)
{
    float part[WIDTH] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        for (int l = 0; l < WIDTH; l++) {
            part[l] += x[i + l] * y[i + l];
        }
    }
    for (; i < n; i++) {
        sum += x[i] * y[i];
    }
    for (int l = 0; l < WIDTH; l++) {
        sum += part[l];
    }
    return sum;
}

static void start(const struct td_gemm *g, float *c, int64_t n)
{
    if (!g->add) {
        memset(c, 0, (size_t)n * sizeof *c);
    }
}

/* n zeros, or n of from; whole vectors of them. A call, or the instruction that gcc puts in its place, takes
 * longer than a short row. */
TD_INLINE void begin_sums(float *restrict to, const float *from, int64_t n)
{
    int64_t j = 0;
    for (; from != NULL && j + V <= n; j += V) {
        *(vec *)(to + j) = *(const vec *)(from + j);
    }
    for (; from != NULL && j < n; j++) {
        to[j] = from[j];
    }
    for (; from == NULL && j < n; j += V) {
        *(vec *)(to + j) = (vec){0};
    }
}

TD_INLINE void end_sums(float *restrict to, const float *from, int64_t n)
{
    int64_t j = 0;
    for (; j + V <= n; j += V) {
        *(vec *)(to + j) = *(const vec *)(from + j);
    }
    for (; j < n; j++) {
        to[j] = from[j];
    }
}

/* Up to ROWS rows, from row `first`. */
static void few_rows(const struct td_gemm *g, int64_t first, int64_t rows)
{
    float sums[ROWS * ROOM] __attribute__((aligned(64)));
    const float *a = (const float *)g->a + first * g->lda, *b = g->b;
    float *c = (float *)g->c + first * g->ldc;
    for (int64_t j = 0; j < g->n; j += STRIP) {
        int64_t n = g->n - j < STRIP ? g->n - j : STRIP;
        for (int64_t i = 0; i < rows; i++) {
            begin_sums(sums + i * ROOM, g->add ? c + i * g->ldc + j : NULL, n);
        }
        add_products(rows, g->k, n, (struct strided){a, g->lda}, (struct strided){b + j, g->ldb}, sums, ROOM);
        for (int64_t i = 0; i < rows; i++) {
            end_sums(c + i * g->ldc + j, sums + i * ROOM, n);
        }
    }
}

/* Rows of c of one or two vectors, which stay in registers over all of k. */
#define SLIM(name, vec, width, vectors)                                                                      \
    TD_INLINE void name##_rows(const struct td_gemm *g, int64_t i, int rows)                                 \
    {                                                                                                        \
        vec s[4][vectors];                                                                                   \
        const float *a = (const float *)g->a + i * g->lda;                                                   \
        float *c = (float *)g->c + i * g->ldc;                                                               \
        for (int r = 0; r < rows * (vectors); r++) {                                                         \
            vec *const at = (vec *)(c + r / (vectors)*g->ldc + r % (vectors) * (width));                     \
            s[r / (vectors)][r % (vectors)] = g->add ? *at : (vec){0};                                       \
        }                                                                                                    \
        for (int64_t p = 0; p < g->k; p++) {                                                                 \
            const vec *b = (const vec *)((const float *)g->b + p * g->ldb);                                  \
            for (int r = 0; r < rows; r++) {                                                                 \
                const vec x = a[r * g->lda + p] - (vec){0}; /* in all lanes; a sum would lose -0 */          \
                for (int v = 0; v < (vectors); v++) {                                                        \
                    s[r][v] += x * b[v];                                                                     \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (int r = 0; r < rows * (vectors); r++) {                                                         \
            *(vec *)(c + r / (vectors)*g->ldc + r % (vectors) * (width)) = s[r / (vectors)][r % (vectors)];  \
        }                                                                                                    \
    }                                                                                                        \
    TD_CLONES static void name(const struct td_gemm *g)                                                      \
    {                                                                                                        \
        int64_t i = 0;                                                                                       \
        for (; i + 4 <= g->m; i += 4) {                                                                      \
            name##_rows(g, i, 4);                                                                            \
        }                                                                                                    \
        for (; i < g->m; i++) {                                                                              \
            name##_rows(g, i, 1);                                                                            \
        }                                                                                                    \
    }
SLIM(slim_4, half_vec, V / 2, 1)
SLIM(slim_8, vec, V, 1)
SLIM(slim_16, vec, V, 2)

bool td_gemm_is_slim(int64_t n)
{
    return n == V / 2 || n == V || n == 2 * V;
}

/* As attention's heads have them. */
static void slim(const struct td_gemm *g)
{
    (g->n == V / 2 ? slim_4 : g->n == V ? slim_8 : slim_16)(g);
}

static void dots(const struct td_gemm *g)
{
    const float *a = g->a, *b = g->b;
    for (int64_t j = 0; j < g->n; j++) {
        for (int64_t i = 0; i < g->m; i++) {
            float *c = (float *)g->c + i * g->ldc + j;
            float sum = dot(a + i * g->lda, b + j * g->ldb, g->k);
            *c = g->add ? *c + sum : sum;
        }
    }
}

/* Bit by bit; of two NaN the bits say nothing: those of a sum are of whichever came first. */
TD_CHECK_FN bool equal_sums(const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    while (i < n && (memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])))) {
        i++;
    }
    return i == n;
}

/* The last of several rows, up to a chunk of its columns, is what it is alone. */
TD_CHECK_FN enum td_code last_row_check(const struct td_gemm *g, struct td_err *err)
{
    if (g->add || g->m == 1 || g->m > ROWS) {
        return TD_OK;
    }
    float alone[STRIP];
    struct td_gemm one = *g;
    one.a = (const float *)g->a + (g->m - 1) * g->lda;
    one.m = 1;
    one.n = g->n < STRIP ? g->n : STRIP;
    one.c = alone;
    one.ldc = STRIP;
    td_gemm_small(&one);
    TD_WANT(equal_sums(alone, (const float *)g->c + (g->m - 1) * g->ldc, one.n), err,
            "a product of %lld rows: the last is not what it is alone", (long long)g->m);
    return TD_OK;
}

void td_gemm_small(const struct td_gemm *g)
{
    if (g->tb != TD_PLAIN) {
        dots(g);
    } else if (td_gemm_is_slim(g->n)) {
        slim(g);
    } else if (g->m == 1) {
        start(g, g->c, g->n);
        add_products(1, g->k, g->n, (struct strided){g->a, g->lda}, (struct strided){g->b, g->ldb}, g->c,
                     g->ldc);
    } else {
        for (int64_t i = 0; i < g->m; i += ROWS) {
            few_rows(g, i, g->m - i < ROWS ? g->m - i : ROWS);
        }
    }
    TD_HOLDS(last_row_check, g);
}

bool td_gemm_is_small(const struct td_gemm *g)
{
    return g->ta == TD_PLAIN && (g->m == 1 || g->m * g->n * g->k <= 16 * 1024);
}

/* With 512-bit registers libraries are twice as fast at anything but fetching; our loops have 256. */
bool td_gemm_is_few(const struct td_gemm *g)
{
#if defined(__x86_64__)
    const int64_t most = __builtin_cpu_supports("avx512f") ? 3 : ROWS;
#else
    const int64_t most = ROWS;
#endif
    bool large = g->n * g->k > 32 * 1024; /* libraries hold smaller weights in registers and first cache */
    return g->ta == TD_PLAIN && ((g->m <= most && large) || td_gemm_is_small(g));
}
