/* kernels/math/cluster.c - what a k-means estimator's graph is made of.
 *
 *   NearestNeighbors            points [N,D], centers [M,D], k -> indices and squared distances [N, min(k,
 *                               M)], nearest first, of equal ones the first
 *   KmeansPlusPlusInitialization  points [N,D] -> [S,D]: points drawn one after the other, each as likely
 *                               as its squared distance from those that are drawn already
 *   KMC2ChainInitialization     distances [N] -> the state that a chain through them ends in
 *
 * A squared distance is twice |p|^2 / 2 + (|c|^2 / 2 - p c), in float, as TensorFlow has it. Draws are of a
 * generator that a seed alone makes, in TensorFlow's order. Of the points that are tried for a place the
 * one that leaves the least sum of distances is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/work.h"
#include "core/graph/graph.h"
#include "kernels/math/philox.h"
#include "kernels/ops.h"

static enum td_code scalars(const struct td_infer *c, int from, int to, struct td_err *err)
{
    for (int i = from; i < to; i++) {
        TD_TRY(td_infer_rank(c, i, 0, err));
    }
    return TD_OK;
}

static enum td_code room(struct td_call *c, int64_t n, size_t size, void *out, struct td_err *err)
{
    return td_scratch(c, (size_t)n * size, (void **)out, err);
}

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Half the squared length of each row. */
static void half_norms(const float *x, int64_t rows, int64_t n, float *out)
{
    for (int64_t i = 0; i < rows; i++) {
        out[i] = 0.5f * dot(x + i * n, x + i * n, n);
    }
}

/* ------------------------------------------------------------------ nearest */

static enum td_code nearest_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *points = &c->in[0], *centers = &c->in[1];
    bool known;
    int64_t k;
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    TD_TRY(td_infer_int_value(c, 2, &known, &k, err));
    const int64_t n = points->rank < 0 ? -1 : points->dim[0], m = centers->rank < 0 ? -1 : centers->dim[0];
    const int64_t of_point = points->rank < 0 ? -1 : points->dim[1];
    const int64_t of_center = centers->rank < 0 ? -1 : centers->dim[1];
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Expected points.rows() > 0.", TD_NODE_STR(c->node));
    TD_FAIL_IF(of_point >= 0 && of_center >= 0 && of_point != of_center, err, INVALID_ARGUMENT,
               "%s: Expected point_dimensions == center_dimensions: %lld vs %lld.", TD_NODE_STR(c->node),
               (long long)of_point, (long long)of_center);
    TD_FAIL_IF(known && k < 0, err, INVALID_ARGUMENT, "%s: Expected k >= 0.", TD_NODE_STR(c->node));
    c->out[0] = c->out[1] = td_shape_matrix(n, !known || m < 0 ? -1 : k < m ? k : m);
    return TD_OK;
}

struct near {
    float distance; /* less half the point's squared length, and halved */
    int64_t index;
};

static int by_distance(const void *a, const void *b)
{
    const struct near *x = a, *y = b;
    return x->distance < y->distance   ? -1
           : x->distance > y->distance ? 1
           : x->index < y->index       ? -1
                                       : x->index > y->index;
}

static struct near nearest_of(const struct near *all, int64_t n)
{
    struct near best = all[0];
    for (int64_t i = 1; i < n; i++) {
        best = all[i].distance < best.distance ? all[i] : best;
    }
    return best;
}

static enum td_code nearest_run(struct td_call *c, struct td_err *err)
{
    const float *points = c->in[0]->data, *centers = c->in[1]->data;
    const int64_t n = c->in[0]->shape.dim[0], d = c->in[0]->shape.dim[1], m = c->in[1]->shape.dim[0];
    struct td_tensor *indices, *distances;
    float *half;
    struct near *all;
    TD_TRY(td_out(c, 0, NULL, &indices, err));
    TD_TRY(td_out(c, 1, NULL, &distances, err));
    const int64_t k = indices->shape.dim[1];
    TD_TRY(room(c, m, sizeof *half, &half, err));
    TD_TRY(room(c, m, sizeof *all, &all, err));
    half_norms(centers, m, d, half);
    for (int64_t i = 0; k > 0 && i < n && !td_work_spent(m * (d + (k > 1 ? 32 : 1))); i++) {
        const float *p = points + i * d, own = 0.5f * dot(p, p, d);
        for (int64_t j = 0; j < m; j++) {
            all[j] = (struct near){half[j] - dot(p, centers + j * d, d), j};
        }
        if (k == 1) {
            all[0] = nearest_of(all, m);
        } else {
            qsort(all, (size_t)m, sizeof *all, by_distance);
        }
        for (int64_t j = 0; j < k; j++) {
            TD_DATA(indices, int64_t)[i * k + j] = all[j].index;
            TD_DATA(distances, float)[i * k + j] = 2.0f * (own + all[j].distance);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ draws */

static float draw_float(struct td_philox_words *w)
{
    return td_philox_float(td_philox_word(w));
}

static uint64_t draw_64(struct td_philox_words *w)
{
    const uint64_t low = td_philox_word(w);
    return low | (uint64_t)td_philox_word(w) << 32;
}

/* Below n > 0, each as likely. */
static int64_t draw_below(struct td_philox_words *w, uint64_t n)
{
    if ((n & (n - 1)) == 0) {
        return (int64_t)(draw_64(w) & (n - 1));
    }
    const uint64_t unfair = UINT64_MAX % n + 1;
    uint64_t v = draw_64(w);
    while (v < unfair) {
        v = draw_64(w);
    }
    return (int64_t)(v % n);
}

/* ------------------------------------------------------------------ k-means++ */

static enum td_code spread_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *points = &c->in[0];
    bool known;
    int64_t s;
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(scalars(c, 1, 4, err));
    TD_TRY(td_infer_int_value(c, 1, &known, &s, err));
    const int64_t n = points->rank < 0 ? -1 : points->dim[0];
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Expected points.rows() > 0.", TD_NODE_STR(c->node));
    TD_FAIL_IF(known && s <= 0, err, INVALID_ARGUMENT, "%s: Expected num_to_sample > 0.",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(known && n >= 0 && s > n, err, INVALID_ARGUMENT,
               "%s: Expected num_to_sample <= points.rows(). %lld vs %lld.", TD_NODE_STR(c->node),
               (long long)s, (long long)n);
    c->out[0] = td_shape_matrix(known ? s : -1, points->rank < 0 ? -1 : points->dim[1]);
    return TD_OK;
}

enum { MOST_DRAWS = 1 << 20 };

struct spread {
    const float *points, *half;
    int64_t n, d, taken;
    float *least, *sums, *tried, *best; /* distances from the nearest point that is drawn; their sums */
    unsigned char *is_taken;
    struct td_philox_words words;
};

/* The first whose sum is above v. */
static int64_t first_above(const float *sums, int64_t n, float v)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t at = low + (high - low) / 2;
        if (v < sums[at]) {
            high = at;
        } else {
            low = at + 1;
        }
    }
    return low < n ? low : n - 1;
}

static int64_t draw_point(struct spread *s)
{
    for (int i = 0; s->taken > 0 && i < MOST_DRAWS && !td_work_spent(64); i++) {
        const float total = s->sums[s->n - 1];
        const int64_t at = !(total > 0) ? draw_below(&s->words, (uint64_t)s->n)
                                        : first_above(s->sums, s->n, draw_float(&s->words) * total);
        if (!s->is_taken[at]) {
            return at;
        }
    }
    if (s->taken == 0) {
        return draw_below(&s->words, (uint64_t)s->n);
    }
    int64_t at = 0; /* what is left is as good as never drawn */
    while (s->is_taken[at]) {
        at++;
    }
    return at;
}

/* What the distances are when point `at` is drawn, too; their sum. */
static float distances_with(const struct spread *s, int64_t at, float *to)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const float inner = dot(s->points + i * s->d, s->points + at * s->d, s->d);
        const float distance = s->half[i] - inner + s->half[at];
        to[i] = distance < s->least[i] ? distance : s->least[i];
        sum += (double)to[i];
    }
    return (float)sum;
}

/* The best of so many that are drawn. */
static int64_t next_point(struct spread *s, int64_t tries)
{
    float least = INFINITY;
    int64_t best = -1;
    for (int64_t i = 0; i < tries && (best < 0 || !td_work_spent(s->n * (s->d + 2))); i++) {
        const int64_t at = draw_point(s);
        const float sum = distances_with(s, at, s->tried);
        if (best < 0 || sum < least) {
            float *swap = s->best;
            s->best = s->tried;
            s->tried = swap;
            least = sum;
            best = at;
        }
    }
    memcpy(s->least, s->best, (size_t)s->n * sizeof *s->least);
    return best;
}

static enum td_code spread_room(struct td_call *c, struct spread *s, struct td_err *err)
{
    float **rooms[] = {&s->least, &s->sums, &s->tried, &s->best}, *half;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        TD_TRY(room(c, s->n, sizeof(float), rooms[i], err));
    }
    TD_TRY(room(c, s->n, sizeof *half, &half, err));
    TD_TRY(room(c, s->n, 1, &s->is_taken, err));
    half_norms(s->points, s->n, s->d, half);
    s->half = half;
    memset(s->is_taken, 0, (size_t)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        s->least[i] = INFINITY;
    }
    return TD_OK;
}

static enum td_code spread_run(struct td_call *c, struct td_err *err)
{
    const int64_t wanted = td_tensor_int(c->in[1], 0), retries = td_tensor_int(c->in[3], 0);
    const int64_t more = retries >= 0 ? retries : 2 + (int64_t)log((double)wanted);
    struct td_philox g = td_philox_make((uint64_t)td_tensor_int(c->in[2], 0), 0, 0);
    struct spread s = {.points = c->in[0]->data,
                       .n = c->in[0]->shape.dim[0],
                       .d = c->in[0]->shape.dim[1],
                       .words = {.g = &g}};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(spread_room(c, &s, err));
    for (; s.taken < wanted && !td_work_spent(s.n); s.taken++) {
        float sum = 0;
        for (int64_t i = 0; s.taken > 0 && i < s.n; i++) {
            s.sums[i] = sum += s.least[i];
        }
        const int64_t at = next_point(&s, more < INT32_MAX ? more + 1 : INT32_MAX);
        s.is_taken[at] = 1;
        memcpy(TD_DATA(y, float) + s.taken * s.d, s.points + at * s.d, (size_t)s.d * sizeof(float));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ a chain */

static enum td_code chain_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(scalars(c, 1, 2, err));
    TD_FAIL_IF(c->in[0].rank == 1 && c->in[0].dim[0] == 0, err, INVALID_ARGUMENT,
               "%s: Expected distances_tensor.size() > 0.", TD_NODE_STR(c->node));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code chain_run(struct td_call *c, struct td_err *err)
{
    struct td_philox g = td_philox_make((uint64_t)td_tensor_int(c->in[1], 0), 0, 0);
    struct td_philox_words words = {.g = &g};
    const float *distance = c->in[0]->data;
    struct td_tensor *y;
    int64_t at = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 1; i < c->in[0]->shape.dim[0]; i++) {
        at = distance[i] > draw_float(&words) * distance[at] ? i : at;
    }
    TD_DATA(y, int64_t)[0] = at;
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_cluster[] = {
    {.name = "NearestNeighbors",
     .sig = "(points:float, centers:float, k:int64) -> (nearest_center_indices:int64, "
            "nearest_center_distances:float) {}",
     .flags = TD_OP_HEAVY,
     .host_in = 4,
     .infer = nearest_infer,
     .kernels = TD_KERNEL("cluster.cpu", nearest_run, {NULL, 0})},
    {.name = "KmeansPlusPlusInitialization",
     .sig = "(points:float, num_to_sample:int64, seed:int64, num_retries_per_sample:int64) -> "
            "(samples:float) {}",
     .host_in = 14,
     .infer = spread_infer,
     .kernels = TD_KERNEL("cluster.cpu", spread_run, {NULL, 0})},
    {.name = "KMC2ChainInitialization",
     .sig = "(distances:float, seed:int64) -> (index:int64) {}",
     .host_in = 2,
     .infer = chain_infer,
     .kernels = TD_KERNEL("cluster.cpu", chain_run, {NULL, 0})},
    {.name = NULL},
};
