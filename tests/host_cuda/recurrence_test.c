/* tests/host_cuda/recurrence_test.c - the steps of recurrent cells as kernels/cuda/nn/recurrence.cu makes
 * them, against the formulas in double, one number after the other: each cell, sizes that are less than a
 * block, one and several, rows that are left out, and no steps or rows at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/nn/recurrence.h"
#include "tests/test.h"

enum { TENSORS = 16, GUARD = 8 };

static uint64_t drawn = 11;

static double draw(void)
{
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(drawn >> 40) / (double)(1 << 23) - 1;
}

/* A case: the description with pointers to the host's numbers, and the same on the device. */
struct both {
    struct td_cuda_recurrence here, there;
    struct td_cuda_stream *stream;
    void *host[TENSORS], *device[TENSORS];
    int64_t n[TENSORS];
    int n_tensors;
};

static void *add(struct both *b, const void *numbers, size_t bytes, void **there)
{
    const int i = b->n_tensors++;
    CHECK(i < TENSORS);
    b->host[i] = malloc(bytes + GUARD * sizeof(float));
    CHECK(b->host[i] != NULL);
    memcpy(b->host[i], numbers, bytes);
    for (size_t k = bytes; k < bytes + GUARD * sizeof(float); k++) { /* what nobody may write */
        ((unsigned char *)b->host[i])[k] = 0x5a;
    }
    b->n[i] = (int64_t)bytes;
    CHECK_INT(td_cuda_allocate(0, b->stream, bytes + GUARD * sizeof(float), &b->device[i]), 0);
    CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_DEVICE, b->device[i], b->host[i],
                           bytes + GUARD * sizeof(float)),
              0);
    *there = b->device[i];
    return b->host[i];
}

static float *add_floats(struct both *b, int64_t n, double by, float **there)
{
    float *numbers = calloc((size_t)n + 1, sizeof *numbers);
    void *at;
    CHECK(numbers != NULL);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (float)(by * draw());
    }
    float *mine = add(b, numbers, (size_t)n * sizeof *numbers, &at);
    free(numbers);
    *there = at;
    return mine;
}

#define FLOATS(member, n, by)                                                                                \
    do {                                                                                                     \
        float *at_device;                                                                                    \
        b->here.member = add_floats(b, n, by, &at_device);                                                   \
        b->there.member = at_device;                                                                         \
    } while (0)

/* ------------------------------------------------------------------ the formulas */

static double squash(const struct td_cuda_recurrence *s, int how, double x)
{
    const double line = (double)s->slope * x + (double)s->offset;
    switch (how) {
    case TD_CUDA_SQUASH_SIGMOID:
        return 1 / (1 + exp(-x));
    case TD_CUDA_SQUASH_TANH:
        return tanh(x);
    case TD_CUDA_SQUASH_RELU:
        return x > 0 ? x : 0;
    case TD_CUDA_SQUASH_SOFTSIGN:
        return x / (1 + fabs(x));
    case TD_CUDA_SQUASH_ELU:
        return x < 0 ? expm1(x) : x;
    default:
        return line > 1 ? 1 : line < 0 ? 0 : line;
    }
}

static double dot(const float *a, const float *u, int64_t units, int64_t width)
{
    double sum = 0;
    for (int64_t k = 0; k < units; k++) {
        sum += (double)a[k] * (double)u[k * width];
    }
    return sum;
}

static double or_zero(const float *p, int64_t i)
{
    return p == NULL ? 0 : (double)p[i];
}

static bool counts(const struct td_cuda_recurrence *s, int64_t t, int64_t row)
{
    if (s->mask != NULL) {
        return s->mask[t * s->rows + row] != 0;
    }
    return s->lengths == NULL ||
           s->first + t < (s->long_lengths ? ((const int64_t *)s->lengths)[row]
                                           : (int64_t)((const int32_t *)s->lengths)[row]);
}

/* The new h and c of a unit; *reset_h of GRU_BEFORE is that of all units. */
static double step(const struct td_cuda_recurrence *s, int64_t t, int64_t row, int64_t unit, const float *h,
                   const float *reset_h, double *c)
{
    const int gates = td_cuda_recurrence_gates(s, 0);
    const int64_t width = gates * s->units;
    const float *x = s->x + t * s->x_step + row * s->x_row;
    double in[4] = {0}, of[4] = {0};
    for (int k = 0; k < gates; k++) {
        const int64_t column = s->place[k] * s->units + unit;
        in[k] = (double)x[column] + or_zero(s->bx, column) + (double)s->add[k];
        of[k] = dot(h, s->u + column, s->units, width) + or_zero(s->bh, column);
    }
    const double z = squash(s, s->gate, in[0] + of[0]), r = squash(s, s->gate, in[1] + of[1]);
    if (s->cell == TD_CUDA_CELL_LSTM) {
        *c = r * *c + z * squash(s, s->state, in[2] + of[2]); /* r is f, z is i */
        return squash(s, s->gate, in[3] + of[3]) * squash(s, s->state, *c);
    }
    if (s->cell == TD_CUDA_CELL_PLAIN) {
        return squash(s, s->state, in[0] + of[0]);
    }
    double fresh = squash(s, s->state, in[2] + r * of[2]);
    if (s->cell == TD_CUDA_CELL_GRU_BEFORE) {
        if (reset_h == NULL) {
            return r * (double)h[unit];
        }
        fresh = squash(s, s->state,
                       (double)s->x2[t * s->x2_step + row * s->x2_row + unit] + or_zero(s->b2, unit) +
                           dot(reset_h, s->u2 + unit, s->units, s->units));
    }
    return z * (double)h[unit] + (1 - z) * fresh;
}

static void run_row(const struct td_cuda_recurrence *s, int64_t t, int64_t row)
{
    const int64_t size = s->rows * s->units, from = row * s->units;
    const float *h = (t == 0 ? s->h0 : s->h + (t - 1) % s->h_kept * size) + from;
    float *to = s->h + t % s->h_kept * size + from, *reset_h = s->reset_h == NULL ? NULL : s->reset_h + from;
    const bool count = counts(s, t, row);
    for (int64_t k = 0; reset_h != NULL && k < s->units; k++) {
        reset_h[k] = (float)step(s, t, row, k, h, NULL, NULL);
    }
    for (int64_t k = 0; k < s->units; k++) {
        const float was = s->c == NULL ? 0 : t == 0 ? s->c0[from + k] : s->c[from + k];
        double c = (double)was;
        const float now = (float)step(s, t, row, k, h, reset_h, &c);
        to[k] = count ? now : h[k];
        if (s->c != NULL) {
            s->c[from + k] = count ? (float)c : was;
        }
        if (s->o != NULL) {
            const float *other = s->z != NULL ? s->z : t == 0 ? s->o0 : s->o + (t - 1) % s->o_kept * size;
            s->o[t % s->o_kept * size + from + k] = count ? now : other[from + k];
        }
    }
}

static void run_here(const struct td_cuda_recurrence *s)
{
    for (int64_t t = 0; t < s->steps; t++) {
        for (int64_t row = 0; row < s->rows; row++) {
            run_row(s, t, row);
        }
    }
}

/* ------------------------------------------------------------------ cases */

struct sizes {
    int64_t steps, rows, units;
};
enum { PLAIN_ROWS, MASK, LENGTHS, LONG_LENGTHS, WAYS };

static void add_rows_that_count(struct both *b, int way)
{
    struct td_cuda_recurrence *s = &b->here;
    unsigned char mask[4096] = {0};
    int32_t lengths[128];
    int64_t long_lengths[128];
    void *there = NULL;
    CHECK(s->steps * s->rows <= 4096 && s->rows <= 128);
    for (int64_t i = 0; i < s->steps * s->rows; i++) {
        mask[i] = draw() > -0.3;
    }
    for (int64_t i = 0; i < s->rows; i++) {
        long_lengths[i] = (int64_t)((draw() + 1) / 2 * (double)(s->steps + 3));
        lengths[i] = (int32_t)long_lengths[i];
    }
    s->first = b->there.first = 2;
    s->long_lengths = b->there.long_lengths = way == LONG_LENGTHS;
    if (way == MASK) {
        s->mask = add(b, mask, (size_t)(s->steps * s->rows), &there);
        b->there.mask = there;
    } else if (way != PLAIN_ROWS) {
        const bool wide = way == LONG_LENGTHS;
        s->lengths = add(b, wide ? (const void *)long_lengths : (const void *)lengths,
                         (size_t)s->rows * (wide ? sizeof(int64_t) : sizeof(int32_t)), &there);
        b->there.lengths = there;
    }
}

static void add_inputs(struct both *b, bool biases)
{
    const struct td_cuda_recurrence *s = &b->here;
    const int gates = td_cuda_recurrence_gates(s, 0);
    const int64_t size = s->rows * s->units, width = gates * s->units;
    const double scale = 1 / sqrt((double)s->units);
    FLOATS(x, s->steps * s->x_step, 1);
    FLOATS(u, s->units * width, scale);
    FLOATS(h0, size, 1);
    if (biases) {
        FLOATS(bx, width, 0.5);
        FLOATS(bh, width, 0.5);
        FLOATS(b2, s->units, 0.5);
    }
    if (s->cell == TD_CUDA_CELL_GRU_BEFORE) {
        b->here.x2 = b->here.x + width;
        b->there.x2 = b->there.x + width;
        FLOATS(u2, s->units * s->units, scale);
        FLOATS(reset_h, size, 1);
        FLOATS(update, size, 1);
    } else if (s->cell == TD_CUDA_CELL_LSTM) {
        FLOATS(c0, size, 1);
        FLOATS(c, size, 1);
    }
    FLOATS(h, s->h_kept * size, 1);
}

static void make(struct both *b, int cell, struct sizes z, int how)
{
    static const int places[][4] = {{2, 0, 3, 1}, {2, 0, 1, 0}, {1, 0, 2, 0}, {0, 0, 0, 0}};
    struct td_cuda_recurrence *s = &b->here;
    memset(b, 0, sizeof *b);
    CHECK_INT(td_cuda_stream_new(0, &b->stream), 0);
    *s = (struct td_cuda_recurrence){.cell = cell,
                                     .gate = how % 2 == 0 ? TD_CUDA_SQUASH_SIGMOID : TD_CUDA_SQUASH_HARD,
                                     .state = TD_CUDA_SQUASH_TANH + how % 4,
                                     .slope = 0.2F,
                                     .offset = 0.5F,
                                     .steps = z.steps,
                                     .rows = z.rows,
                                     .units = z.units,
                                     .h_kept = how % 3 == 0 || z.steps < 2 ? 2 : z.steps,
                                     .o_kept = how % 3 != 0 || z.steps < 2 ? 2 : z.steps};
    memcpy(s->place, places[cell], sizeof s->place);
    s->add[1] = cell == TD_CUDA_CELL_LSTM ? 1 : 0;
    s->x_row = (td_cuda_recurrence_gates(s, 0) + (cell == TD_CUDA_CELL_GRU_BEFORE)) * z.units;
    s->x2_row = s->x_row;
    s->x_step = s->x2_step = z.rows * s->x_row;
    b->there = *s;
    add_inputs(b, how % 2 == 0);
    add_rows_that_count(b, how % WAYS);
    if (how % WAYS != PLAIN_ROWS) {
        FLOATS(o, s->o_kept * z.rows * z.units, 1);
        if (how % 2 == 0) {
            FLOATS(o0, z.rows * z.units, 1);
        } else {
            FLOATS(z, z.rows * z.units, 1);
        }
    }
}

/* All that the device has, what it may not write included. */
static void compare(const struct both *b)
{
    for (int i = 0; i < b->n_tensors; i++) {
        const size_t bytes = (size_t)b->n[i] + GUARD * sizeof(float);
        unsigned char *got = malloc(bytes);
        CHECK(got != NULL);
        CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_HOST, got, b->device[i], bytes), 0);
        CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
        const bool inner = b->host[i] == b->here.reset_h || b->host[i] == b->here.update;
        const bool same = memcmp(got, b->host[i], bytes) == 0;
        for (int64_t k = 0; !same && !inner && k + 4 <= (int64_t)bytes; k += 4) {
            float want, is;
            memcpy(&want, (unsigned char *)b->host[i] + k, sizeof want);
            memcpy(&is, got + k, sizeof is);
            CHECK(fabsf(want - is) <= 2e-5F + 2e-5F * fabsf(want));
        }
        free(got);
        free(b->host[i]);
        CHECK_INT(td_cuda_free(0, b->stream, b->device[i]), 0);
    }
    CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
    CHECK_INT(td_cuda_stream_free(b->stream), 0);
}

static void run_case(int cell, struct sizes z, int how)
{
    struct both b;
    make(&b, cell, z, how);
    run_here(&b.here);
    CHECK_INT(td_cuda_recurrence_run(&b.there, b.stream), 0);
    compare(&b);
}

TEST(cells_give_what_their_formulas_give)
{
    static const struct sizes few[] = {{1, 1, 1}, {5, 3, 7}, {4, 9, 33}, {3, 8, 32}, {2, 17, 65}};
    for (int cell = 0; cell <= TD_CUDA_CELL_PLAIN; cell++) {
        for (size_t k = 0; k < sizeof few / sizeof *few; k++) {
            for (int how = 0; how < 4; how++) {
                run_case(cell, few[k], how + (int)k);
            }
        }
    }
}

TEST(cells_of_many_weights_have_a_launch_a_step)
{
    for (int how = 0; how < 2; how++) {
        run_case(TD_CUDA_CELL_LSTM, (struct sizes){3, 10, 97}, how);
        run_case(TD_CUDA_CELL_GRU, (struct sizes){3, 2, 129}, how);
        run_case(TD_CUDA_CELL_GRU_BEFORE, (struct sizes){3, 9, 130}, how);
        run_case(TD_CUDA_CELL_PLAIN, (struct sizes){3, 1, 190}, how);
    }
}

TEST(no_steps_and_no_rows)
{
    for (int cell = 0; cell <= TD_CUDA_CELL_PLAIN; cell++) {
        run_case(cell, (struct sizes){0, 3, 5}, 0);
        run_case(cell, (struct sizes){3, 0, 5}, 0);
    }
}

/* ------------------------------------------------------------------ behind other products */

static void multiply(const struct td_cuda_recurrence *s, const float *a, const float *u, int gates, float *p)
{
    const int64_t width = gates * s->units;
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t k = 0; k < width; k++) {
            p[row * width + k] = (float)dot(a + row * s->units, u + k, s->units, width);
        }
    }
}

/* One step: its products by the host. */
static void step_behind(struct both *b, int64_t t)
{
    const struct td_cuda_recurrence *s = &b->here;
    const int64_t size = s->rows * s->units;
    float *p = malloc((size_t)(4 * size) * sizeof *p);
    void *there;
    CHECK(p != NULL);
    CHECK_INT(td_cuda_allocate(0, b->stream, (size_t)(4 * size) * sizeof *p, &there), 0);
    const float *h = t == 0 ? s->h0 : s->h + (t - 1) % s->h_kept * size; /* of the step before */
    for (int64_t row = 0; row < s->rows; row++) {
        run_row(s, t, row);
    }
    for (int k = 0; k < td_cuda_recurrence_products(s); k++) {
        const int gates = td_cuda_recurrence_gates(s, k);
        multiply(s, k == 0 ? h : s->reset_h, k == 0 ? s->u : s->u2, gates, p);
        CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_DEVICE, there, p, (size_t)(gates * size) * sizeof *p),
                  0);
        CHECK_INT(td_cuda_recurrence_behind(&b->there, t, k, there, b->stream), 0);
        CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
    }
    CHECK_INT(td_cuda_free(0, b->stream, there), 0);
    free(p);
}

TEST(steps_behind_products)
{
    for (int cell = 0; cell <= TD_CUDA_CELL_PLAIN; cell++) {
        for (int how = 0; how < 4; how++) {
            struct both b;
            make(&b, cell, (struct sizes){3, 5 + 60 * (how % 2), 9}, how);
            for (int64_t t = 0; t < 3; t++) {
                step_behind(&b, t);
            }
            compare(&b);
        }
    }
}

TEST_MAIN(RUN(cells_give_what_their_formulas_give) RUN(cells_of_many_weights_have_a_launch_a_step)
              RUN(no_steps_and_no_rows) RUN(steps_behind_products))
