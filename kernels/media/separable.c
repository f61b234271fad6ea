/* kernels/media/separable.c - separable resampling: weighted sums down the rows, then across
 * (separable_plain.inc), and linear interpolation.
 *
 * Linear interpolation goes across first. Neighbouring output rows read the same source rows when an image
 * grows: the two rows interpolated last are kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/media/separable.h"

#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/vecmath.h"

enum td_code td_separable_axis_new(struct td_call *c, int64_t in, int64_t out, int64_t most,
                                   struct td_separable_axis *a, struct td_err *err)
{
    *a = (struct td_separable_axis){.in = in, .out = out, .most = most};
    size_t cells, bytes;
    TD_FAIL_IF(!td_size_mul((size_t)most, (size_t)out, &cells) ||
                   !td_size_mul(cells, sizeof(int64_t), &bytes),
               err, RESOURCE_EXHAUSTED, "%s: weights do not fit the address space", TD_NODE_STR(c->node));
    TD_TRY(td_scratch(c, bytes, (void **)&a->at, err));
    TD_TRY(td_scratch(c, cells * sizeof(float), (void **)&a->weight, err));
    return td_scratch(c, (size_t)out * sizeof(int64_t), (void **)&a->count, err);
}

enum { CHANNELS = 16 };

#define R float
#define NAME(x) x##_float
#include "kernels/media/separable_plain.inc"
#undef R
#undef NAME
#define R double
#define NAME(x) x##_double
#include "kernels/media/separable_plain.inc"
#undef R
#undef NAME

/* ------------------------------------------------------------------ linear */

TD_INLINE void lerp_few(const struct td_separable_axis *a, const float *x, int64_t step, int channels,
                        float *y)
{
    for (int64_t o = 0; o < a->out; o++, y += step) {
        const float *left = x + a->at[2 * o] * step, *right = x + a->at[2 * o + 1] * step;
        float w = a->weight[2 * o + 1];
        for (int c = 0; c < channels; c++) {
            y[c] = left[c] + (right[c] - left[c]) * w;
        }
    }
}

TD_CLONES static void lerp_across(const struct td_separable_axis *a, const float *x, int64_t channels,
                                  float *restrict y)
{
    if (channels == 1) {
        lerp_few(a, x, channels, 1, y);
        return;
    }
    if (channels == 3) {
        lerp_few(a, x, channels, 3, y);
        return;
    }
    for (int64_t o = 0; o < a->out; o++, y += channels) {
        const float *left = x + a->at[2 * o] * channels, *right = x + a->at[2 * o + 1] * channels;
        float w = a->weight[2 * o + 1];
        for (int64_t c = 0; c < channels; c++) {
            y[c] = left[c] + (right[c] - left[c]) * w;
        }
    }
}

TD_CLONES static void lerp_down(const float *top, const float *bottom, float w, int64_t n, float *restrict y)
{
    for (int64_t e = 0; e < n; e++) {
        y[e] = top[e] + (bottom[e] - top[e]) * w;
    }
}

/* Source rows interpolated across, kept until others are needed. */
struct kept {
    int64_t row[2];
    float *line[2];
};

/* Source row `row` across; not in the place that holds `other`. */
static const float *kept_row(struct kept *k, const struct td_separable *b, const float *x, int64_t row,
                             int64_t other)
{
    for (int i = 0; i < 2; i++) {
        if (k->row[i] == row) {
            return k->line[i];
        }
    }
    int place = k->row[0] == other ? 1 : 0;
    k->row[place] = row;
    lerp_across(&b->col, x + row * b->col.in * b->channels, b->channels, k->line[place]);
    return k->line[place];
}

enum td_code td_separable_lerp(struct td_call *c, const struct td_separable *b, const float *x, float *y,
                               struct td_err *err)
{
    int64_t line = b->col.out * b->channels, image = b->row.in * b->col.in * b->channels;
    struct kept k;
    for (int i = 0; i < 2; i++) { /* a row of the output, which has memory: no overflow */
        TD_TRY(td_scratch(c, (size_t)line * sizeof(float), (void **)&k.line[i], err));
    }
    for (int64_t i = 0; i < b->images; i++, x += image) {
        k.row[0] = k.row[1] = -1;
        for (int64_t o = 0; o < b->row.out; o++, y += line) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            const int64_t *at = b->row.at + 2 * o;
            const float *top = kept_row(&k, b, x, at[0], at[1]), *bottom = kept_row(&k, b, x, at[1], at[0]);
            lerp_down(top, bottom, b->row.weight[2 * o + 1], line, y);
        }
    }
    return TD_OK;
}
