/* kernels/cpu/strided.c - strided copies by element size.
 *
 * The loops are first simplified: those of size 1 go, neighbours that are one run in both views merge. What
 * is left ends in one of four inner loops: a run (memcpy), short runs in a row (a call each would take longer
 * than what it copies), a line (strides of its own; stride 0 repeats), or, when the source's unit stride
 * belongs to another loop than the destination's, a tiled 2-D transposition. Only the size of an element
 * matters, except for counted objects, which go through td_elems_copy one by one. Long ones are cut short
 * when the work at hand is over (core/base/work.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/strided.h"

#include <string.h>

#include "core/base/work.h"

typedef struct {
    uint64_t word[2];
} elem16;

#define EACH_SIZE(X)                                                                                         \
    X(1, uint8_t)                                                                                            \
    X(2, uint16_t)                                                                                           \
    X(4, uint32_t)                                                                                           \
    X(8, uint64_t)                                                                                           \
    X(16, elem16)

enum { TILE = 16 };     /* a tile row of 4-byte elements is one cache line */
enum { RUN = 1 << 16 }; /* elements of a run or line between two looks at the clock */
enum { SHORT = 256 };   /* bytes of a run */

void td_strided_row_major(const struct td_shape *s, int64_t *stride)
{
    int64_t step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s->dim[i];
    }
}

/* False when there is nothing to copy. */
static bool simplify(const struct td_strided *in, struct td_strided *out)
{
    out->rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (in->dim[i] <= 0) { /* before any product: those of the other dims need not fit */
            return false;
        }
    }
    for (int i = 0; i < in->rank; i++) {
        if (in->dim[i] == 1) {
            continue;
        }
        int last = out->rank - 1;
        if (last >= 0 && out->dst[last] == in->dst[i] * in->dim[i] &&
            out->src[last] == in->src[i] * in->dim[i]) {
            out->dim[last] *= in->dim[i];
            out->dst[last] = in->dst[i];
            out->src[last] = in->src[i];
            continue;
        }
        td_strided_push(out, in->dim[i], in->dst[i], in->src[i]);
    }
    return true;
}

#define LINE(size, T)                                                                                        \
    static void line_##size(T *restrict dst, int64_t ds, const T *restrict src, int64_t ss, int64_t n)       \
    {                                                                                                        \
        if (ss == 0 && ds == 1) {                                                                            \
            const T value = *src;                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                \
                dst[i] = value;                                                                              \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n && ss == -1 && ds == 1; i++) {                                             \
            dst[i] = src[-i];                                                                                \
        }                                                                                                    \
        if (ss == -1 && ds == 1) {                                                                           \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            dst[i * ds] = src[i * ss];                                                                       \
        }                                                                                                    \
    }
EACH_SIZE(LINE)
#undef LINE

static void line(enum td_dtype dtype, void *dst, int64_t ds, const void *src, int64_t ss, int64_t n)
{
    if (td_dtype_is_object(dtype)) {
        for (int64_t i = 0; i < n; i++) {
            td_elems_copy(dtype, (td_objp *)dst + i * ds, (const td_objp *)src + i * ss, 1);
        }
        return;
    }
    switch (td_dtype_size(dtype)) {
#define CASE(size, T)                                                                                        \
    case size:                                                                                               \
        line_##size(dst, ds, src, ss, n);                                                                    \
        break;
        EACH_SIZE(CASE)
#undef CASE
    default:
        break;
    }
}

/* dst[i*ds + j] = src[i + j*ss], i in [0,n), j in [0,m): what does not fill a tile. */
#define EDGE(size, T)                                                                                        \
    static void edge_##size(T *restrict dst, int64_t ds, const T *restrict src, int64_t ss, int64_t n,       \
                            int64_t m)                                                                       \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            for (int64_t j = 0; j < m; j++) {                                                                \
                dst[i * ds + j] = src[i + j * ss];                                                           \
            }                                                                                                \
        }                                                                                                    \
    }
EACH_SIZE(EDGE)
#undef EDGE

/* tile[i][j] = src[i + j*ss] of a whole tile: rows of the source are read in one run each, and what jumps
 * about is a tile that stays in the first cache. */
#define TRANSPOSE(size, T)                                                                                   \
    static void flip_##size(T(*restrict tile)[TILE], const T *restrict src, int64_t ss)                      \
    {                                                                                                        \
        for (int j = 0; j < TILE; j++) {                                                                     \
            for (int i = 0; i < TILE; i++) {                                                                 \
                tile[i][j] = src[i + j * ss];                                                                \
            }                                                                                                \
        }                                                                                                    \
    }
TRANSPOSE(1, uint8_t)
TRANSPOSE(2, uint16_t)
TRANSPOSE(8, uint64_t)
TRANSPOSE(16, elem16)
#undef TRANSPOSE

typedef uint32_t four __attribute__((vector_size(16)));

/* The same for the size that matters most, in blocks of 4 x 4 held in registers. */
static void flip_4(uint32_t (*restrict tile)[TILE], const uint32_t *restrict src, int64_t ss)
{
    for (int j = 0; j < TILE; j += 4) {
        for (int i = 0; i < TILE; i += 4) {
            four r[4], t[4];
            for (int k = 0; k < 4; k++) {
                memcpy(&r[k], src + i + (j + k) * ss, sizeof r[k]);
            }
            for (int k = 0; k < 2; k++) {
                t[k] = __builtin_shufflevector(r[k], r[k + 2], 0, 4, 1, 5);
                t[k + 2] = __builtin_shufflevector(r[k], r[k + 2], 2, 6, 3, 7);
            }
            for (int k = 0; k < 4; k += 2) {
                const four low = __builtin_shufflevector(t[k], t[k + 1], 0, 4, 1, 5);
                const four high = __builtin_shufflevector(t[k], t[k + 1], 2, 6, 3, 7);
                memcpy(&tile[i + k][j], &low, sizeof low);
                memcpy(&tile[i + k + 1][j], &high, sizeof high);
            }
        }
    }
}

/* dst[i*ds + j] = src[i + j*ss], i in [0,n), j in [0,m), in tiles: a tile is turned in place of its own
 * and then written in whole rows, so that strides of a power of two do not push each other out of the
 * cache. */
#define TRANSPOSE(size, T)                                                                                   \
    static void transpose_##size(T *restrict dst, int64_t ds, const T *restrict src, int64_t ss, int64_t n,  \
                                 int64_t m)                                                                  \
    {                                                                                                        \
        T tile[TILE][TILE];                                                                                  \
        for (int64_t i0 = 0; i0 < n && !td_work_spent(TILE * m); i0 += TILE) {                               \
            for (int64_t j0 = 0; j0 < m; j0 += TILE) {                                                       \
                const int64_t rows = n - i0 < TILE ? n - i0 : TILE, cols = m - j0 < TILE ? m - j0 : TILE;    \
                T *to = dst + i0 * ds + j0;                                                                  \
                const T *from = src + i0 + j0 * ss;                                                          \
                if (rows < TILE || cols < TILE) {                                                            \
                    edge_##size(to, ds, from, ss, rows, cols);                                               \
                    continue;                                                                                \
                }                                                                                            \
                flip_##size(tile, from, ss);                                                                 \
                for (int i = 0; i < TILE; i++) {                                                             \
                    memcpy(to + i * ds, tile[i], sizeof tile[i]);                                            \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
EACH_SIZE(TRANSPOSE)
#undef TRANSPOSE

static void transpose(size_t size, void *dst, int64_t ds, const void *src, int64_t ss, int64_t n, int64_t m)
{
    switch (size) {
#define CASE(bytes, T)                                                                                       \
    case bytes:                                                                                              \
        transpose_##bytes(dst, ds, src, ss, n, m);                                                           \
        break;
        EACH_SIZE(CASE)
#undef CASE
    default:
        break;
    }
}

/* Runs of `bytes`, so many bytes apart: in parts of 16, 8 or 4 bytes, the last of which overlaps the one
 * before. */
#define RUNS(part)                                                                                           \
    static void runs_##part(char *restrict dst, int64_t ds, const char *restrict src, int64_t ss, int64_t n, \
                            int64_t bytes)                                                                   \
    {                                                                                                        \
        for (int64_t k = 0; k < n; k++, dst += ds, src += ss) {                                              \
            for (int64_t i = 0; i + (part) <= bytes; i += (part)) {                                          \
                memcpy(dst + i, src + i, part);                                                              \
            }                                                                                                \
            memcpy(dst + bytes - (part), src + bytes - (part), part);                                        \
        }                                                                                                    \
    }
RUNS(16)
RUNS(8)
RUNS(4)
#undef RUNS

static void short_runs(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, int64_t bytes)
{
    (bytes >= 16 ? runs_16 : bytes >= 8 ? runs_8 : runs_4)(dst, ds, src, ss, n, bytes);
}

static bool has_short_runs(enum td_dtype dtype, int64_t size, const struct td_strided *w)
{
    const int k = w->rank - 1;
    return w->rank > 1 && !td_dtype_is_object(dtype) && w->dst[k] == 1 && w->src[k] == 1 &&
           w->dim[k] * size >= 4 && w->dim[k] * size <= SHORT && w->dim[k - 1] <= RUN / w->dim[k];
}

/* Moves the loop with unit source stride next to the innermost one. True when a transposition remains. */
static bool make_transposable(enum td_dtype dtype, struct td_strided *w)
{
    const int last = w->rank - 1;
    if (w->rank < 2 || td_dtype_is_object(dtype) || w->dst[last] != 1 || w->src[last] <= 1) {
        return false;
    }
    for (int i = 0; i < last; i++) {
        if (w->src[i] != 1 || w->dst[i] <= 0) {
            continue;
        }
        const int64_t dim = w->dim[i], dst = w->dst[i];
        for (int k = i; k + 1 < last; k++) {
            w->dim[k] = w->dim[k + 1];
            w->dst[k] = w->dst[k + 1];
            w->src[k] = w->src[k + 1];
        }
        w->dim[last - 1] = dim;
        w->dst[last - 1] = dst;
        w->src[last - 1] = 1;
        return true;
    }
    return false;
}

enum innermost { ONE_LOOP, SHORT_RUNS, TRANSPOSED };

/* n elements of the innermost loop. */
static void run(enum td_dtype dtype, const struct td_strided *w, void *dst, const void *src, int64_t n)
{
    const int64_t ds = w->dst[w->rank - 1], ss = w->src[w->rank - 1];
    if (ds == 1 && ss == 1) {
        td_elems_copy(dtype, dst, src, n);
    } else {
        line(dtype, dst, ds, src, ss, n);
    }
}

/* The innermost loop at the given starts, where it is long: looked at in parts. */
static void long_run(enum td_dtype dtype, int64_t size, const struct td_strided *w, char *dst,
                     const char *src)
{
    const int k = w->rank - 1;
    for (int64_t i = 0; i < w->dim[k]; i += RUN) {
        const int64_t n = w->dim[k] - i < RUN ? w->dim[k] - i : RUN;
        if (td_work_spent(n)) {
            return;
        }
        run(dtype, w, dst + i * w->dst[k] * size, src + i * w->src[k] * size, n);
    }
}

/* Copies the innermost loops (one, or two: short runs, or to transpose) at the given starts. */
static void inner(enum td_dtype dtype, int64_t size, const struct td_strided *w, enum innermost what,
                  char *dst, const char *src)
{
    const int k = w->rank - 1;
    if (what == SHORT_RUNS) {
        short_runs(dst, w->dst[k - 1] * size, src, w->src[k - 1] * size, w->dim[k - 1], w->dim[k] * size);
    } else if (what == TRANSPOSED) {
        transpose((size_t)size, dst, w->dst[k - 1], src, w->src[k], w->dim[k - 1], w->dim[k]);
    } else if (w->dim[k] > RUN) {
        long_run(dtype, size, w, dst, src);
    } else {
        run(dtype, w, dst, src, w->dim[k]);
    }
}

void td_strided_copy(enum td_dtype dtype, const struct td_strided *in, void *dst, const void *src)
{
    struct td_strided w;
    if (!simplify(in, &w)) {
        return;
    }
    if (w.rank == 0) {
        td_elems_copy(dtype, dst, src, 1);
        return;
    }
    const int64_t size = (int64_t)td_dtype_size(dtype);
    const enum innermost what = make_transposable(dtype, &w)      ? TRANSPOSED
                                : has_short_runs(dtype, size, &w) ? SHORT_RUNS
                                                                  : ONE_LOOP;
    const int outer = w.rank - (what == ONE_LOOP ? 1 : 2);
    const int64_t run_of = w.dim[w.rank - 1] * (what == SHORT_RUNS ? w.dim[w.rank - 2] : 1);
    const int64_t each = what == TRANSPOSED || run_of > RUN ? 0 : run_of; /* 0: inner tells */
    int64_t index[TD_STRIDED_RANK] = {0}, untold = 0;
    char *d = dst;
    const char *s = src;
    for (;;) {
        inner(dtype, size, &w, what, d, s);
        untold += each;
        if (untold >= RUN) {
            (void)td_work_spent(untold);
            untold = 0;
        }
        if (td_work_cut) {
            return;
        }
        int axis = outer - 1;
        for (; axis >= 0; axis--) {
            if (++index[axis] < w.dim[axis]) {
                d += w.dst[axis] * size;
                s += w.src[axis] * size;
                break;
            }
            index[axis] = 0;
            d -= w.dst[axis] * (w.dim[axis] - 1) * size;
            s -= w.src[axis] * (w.dim[axis] - 1) * size;
        }
        if (axis < 0) {
            (void)td_work_spent(untold);
            return;
        }
    }
}

void td_strided_fill(enum td_dtype dtype, void *dst, const void *value, int64_t n)
{
    const size_t size = td_dtype_size(dtype);
    for (int64_t i = 0; i < n && !td_work_spent(n - i < RUN ? n - i : RUN); i += RUN) {
        line(dtype, (char *)dst + (size_t)i * size, 1, value, 0, n - i < RUN ? n - i : RUN);
    }
}

void td_strided_zero(enum td_dtype dtype, void *dst, int64_t n)
{
    const size_t size = td_dtype_size(dtype);
    for (int64_t i = 0; i < n && !td_dtype_is_object(dtype) && !td_work_spent(n - i < RUN ? n - i : RUN);
         i += RUN) {
        memset((char *)dst + (size_t)i * size, 0, (size_t)(n - i < RUN ? n - i : RUN) * size);
    }
}
