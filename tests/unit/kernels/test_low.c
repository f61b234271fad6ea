/* tests/unit/kernels/test_low.c - products with rounded operands: the numbers of the reference kernels on
 * operands that were rounded here, on one thread and on several, with what follows them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/cpu/bfloat16.h"
#include "kernels/dense/low.h"
#include "tests/unit/core/pool_make.h"
#include "tests/unit/kernels/run_make.h"

enum { ROUNDS = 8 }; /* the first ones pack weights and learn what the op takes */

static void check_close(const char *text, double within, const struct td_tensor *want,
                        const struct td_tensor *got)
{
    double largest = 0;
    CHECK(td_shape_equal(&want->shape, &got->shape));
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        largest = fmax(largest, fabs((double)TD_DATA(want, float)[i]));
    }
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        const float a = TD_DATA(want, float)[i], b = TD_DATA(got, float)[i];
        if (!(fabs((double)a - (double)b) <= within * largest)) {
            fprintf(stderr, "%s\nelement %lld: %g, not %g\n", text, (long long)i, (double)b, (double)a);
            exit(1);
        }
    }
}

/* ------------------------------------------------------------------ rounding, as kernels/dense/low.h says */

struct range {
    const char *precision;
    double min, max;
};

static float to_bfloat16(float v)
{
    int exponent;
    const double whole = frexp((double)v, &exponent) * 256.0; /* 8 bits */
    return (float)ldexp(rint(whole), exponent - 8);
}

static float to_steps(float v, double step, double least, double most)
{
    return (float)(fmin(fmax(rint((double)(v / (float)step)), least), most) * step);
}

/* Values of both signs without a pattern in their last digits, or of one sign. */
static struct td_tensor noise(const struct td_shape *s, double scale, bool negative)
{
    struct td_tensor t = ramp(s, 0, 0);
    uint32_t state = 7;
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        state = state * 1664525u + 1013904223u;
        const double u = (double)(state >> 8) / 16777216.0;
        TD_DATA(&t, float)[i] = (float)(scale * (negative ? 2 * u - 1 : u));
    }
    return t;
}

/* columns: along the last axis, or, transposed, the first. */
static struct td_tensor rounded_weights(const struct td_tensor *w, const struct range *r, bool transposed)
{
    struct td_tensor t = ramp(&w->shape, 0, 0);
    const int64_t n = td_tensor_count(w), last = w->shape.dim[w->shape.rank - 1];
    const int64_t columns = transposed ? w->shape.dim[0] : last, rows = n / columns;
    const float *from = w->data;
    float *to = t.data;
    for (int64_t c = 0; c < columns; c++) {
        float most = 0;
        for (int64_t i = 0; i < rows; i++) {
            most = fmaxf(most, fabsf(from[transposed ? c * rows + i : i * columns + c]));
        }
        const bool halved = r->min < 0 && !td_low_signed();
        const double levels = halved ? 63.5 : td_low_levels(r->min < 0), step = (double)most / levels;
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = transposed ? c * rows + i : i * columns + c;
            to[at] = strcmp(r->precision, "int8") != 0 ? to_bfloat16(from[at])
                     : step > 0                        ? to_steps(from[at], step, -ceil(levels), ceil(levels))
                                                       : 0;
        }
    }
    return t;
}

static struct td_tensor rounded_input(const struct td_tensor *x, const struct range *r)
{
    struct td_tensor t = ramp(&x->shape, 0, 0);
    const bool negative = r->min < 0;
    const double step = fmax(-r->min, r->max) / (negative ? 127 : 255);
    for (int64_t i = 0; i < td_tensor_count(x); i++) {
        const float v = TD_DATA(x, float)[i];
        TD_DATA(&t, float)
        [i] = strcmp(r->precision, "int8") != 0 ? to_bfloat16(v)
              : negative                        ? to_steps(v, step, -127, 127)
                                                : to_steps(v, step, 0, 255);
    }
    return t;
}

/* ------------------------------------------------------------------ a product */

struct product {
    const char *op, *attrs, *behind; /* behind: from c to r */
    struct td_shape x, y;
    struct range range;
    bool transposed;
    double noise;  /* of x: how far it reaches; beyond the range, too */
    double within; /* of the largest; 0: 2e-5 */
};

static void run_text(const char *text, double within, enum td_kernel_choice kernels,
                     const struct td_tensor *in, const struct td_tensor *want, struct td_tensor *out)
{
    struct run r;
    struct made_pool pool;
    const struct td_run_opts together = {.pool = &pool.pool};
    open_run(&r, text, kernels);
    pool_start(&pool);
    for (int i = 0; i < (want == NULL ? 1 : ROUNDS); i++) {
        test_check_ok(__FILE__, __LINE__, text,
                      td_callable_run(r.f, in, out, i < 3 ? NULL : &together, &r.t.err), &r.t.err);
        if (want != NULL) {
            check_close(text, within, want, out);
            td_tensor_clear(out);
        }
    }
    pool_stop(&pool);
    close_run(&r);
}

/* Where oneDNN halves weights it may round twice. */
static double within_of(const struct product *p)
{
    const bool halved = strcmp(p->range.precision, "int8") == 0 && p->range.min < 0 && !td_low_signed();
    return halved ? 0.03 : p->within > 0 ? p->within : 2e-5;
}

static void check_product(const struct product *p)
{
    char low[2000], plain[2000];
    struct td_tensor in[2] = {noise(&p->x, p->noise, p->range.min < 0), noise(&p->y, 0.5, true)};
    struct td_tensor exact[2] = {rounded_input(&in[0], &p->range),
                                 rounded_weights(&in[1], &p->range, p->transposed)};
    struct td_tensor want, got;
    snprintf(low, sizeof low,
             XY "c = %s {T:type=float; %s _precision:string='%s'; _input_min:float=%g; _input_max:float=%g} "
                "(x, y)\n%s",
             p->op, p->attrs, p->range.precision, p->range.min, p->range.max, p->behind);
    snprintf(plain, sizeof plain, XY "c = %s {T:type=float; %s _a:int=0} (x, y)\n%s", p->op, p->attrs,
             p->behind);
    run_text(plain, 0, TD_KERNELS_REFERENCE, exact, NULL, &want);
    run_text(low, within_of(p), TD_KERNELS_FAST, in, &want, &got);
    td_tensor_clear(&want);
    for (int i = 0; i < 2; i++) {
        td_tensor_clear(&in[i]);
        td_tensor_clear(&exact[i]);
    }
}

#define RELU "r = Relu {T:type=float} (c)\n"
static const struct range positive = {"int8", 0, 3}, both_signs = {"int8", -2, 3},
                          sixteen = {"bfloat16", 0, 0};

static bool has(const struct range *r)
{
    return strcmp(r->precision, "int8") == 0 ? r->min >= 0 || td_low_signed()
                                             : td_bfloat16_way() == TD_BFLOAT16_NATIVE;
}

TEST(matrices)
{
    const struct range *all[] = {&positive, &both_signs, &sixteen};
    for (int i = 0; i < 3; i++) {
        if (has(all[i])) {
            check_product(&(struct product){.op = "MatMul",
                                            .attrs = "",
                                            .behind = RELU,
                                            .x = td_shape_matrix(200, 96),
                                            .y = td_shape_matrix(96, 130),
                                            .range = *all[i],
                                            .noise = 3.5});
            check_product(&(struct product){.op = "MatMul",
                                            .attrs = "",
                                            .behind = RELU,
                                            .x = td_shape_matrix(1, 64),
                                            .y = td_shape_matrix(64, 33),
                                            .range = *all[i],
                                            .noise = 3.5});
            check_product(&(struct product){.op = "MatMul",
                                            .attrs = "transpose_b:bool=true;",
                                            .behind = RELU,
                                            .x = td_shape_matrix(77, 96),
                                            .y = td_shape_matrix(130, 96),
                                            .range = *all[i],
                                            .transposed = true,
                                            .noise = 3.5});
        }
    }
}

#define NORM                                                                                                 \
    "n = FusedBatchNormV3 {T:type=float; U:type=float; is_training:bool=false} (c, float[4] 1 -2 0.5 3, "    \
    "float[4] 0.5 0 -1 2, float[4] 0 1 2 0, float[4] 1 4 9 0.5)\n"

TEST(convolutions_and_what_follows)
{
    static const char conv[] = "strides:list(int)=[1,1,1,1]; padding:string='SAME';";
    static const char half[] = "strides:list(int)=[1,2,2,1]; padding:string='SAME';";
    const struct range *all[] = {&positive, &both_signs, &sixteen};
    for (int i = 0; i < 3; i++) {
        if (strcmp(all[i]->precision, "int8") != 0 && !has(all[i])) {
            continue;
        }
        struct product p = {.op = "Conv2D",
                            .attrs = conv,
                            .behind = RELU,
                            .x = shape4(2, 14, 14, 16),
                            .y = shape4(3, 3, 16, 32),
                            .range = *all[i],
                            .noise = 3.5};
        check_product(&p);
        p.attrs = half;
        check_product(&p);
        p.y = shape4(1, 1, 16, 40);
        check_product(&p);
        p.y = shape4(3, 3, 16, 4);
        p.behind = NORM "r = Relu6 {T:type=float} (n)\n";
        p.within = i == 2 ? 0.03 : 0; /* a scale goes into the weights before these are rounded to bfloat16 */
        check_product(&p);
        p.within = 0;
        p.behind = "b = BiasAdd {T:type=float} (c, float[4] 1 2 -3 4)\ns = Sigmoid {T:type=float} (b)\n"
                   "r = Mul {T:type=float} (b, s)\n";
        check_product(&p);
    }
}

/* Weights that are constants are packed when the kernel is prepared; x that is no number is 0 in bytes. */
TEST(constants_and_no_numbers)
{
    struct td_shape s = td_shape_matrix(40, 3);
    struct td_tensor in[2] = {ramp(&s, 0, 0), ramp(&s, 0, 0)}, got;
    TD_DATA(&in[0], float)[0] = NAN;
    TD_DATA(&in[0], float)[1] = INFINITY;
    TD_DATA(&in[0], float)[2] = -5;
    struct run r;
    open_run(&r,
             XY
             "r = MatMul {T:type=float; _precision:string='int8'; _input_min:float=0; _input_max:float=255} "
             "(x, float[3,2] 127 0 63.5 127 -127 127)\n",
             TD_KERNELS_FAST);
    if (td_low_levels(false) == 127) {
        test_check_ok(__FILE__, __LINE__, "r", td_callable_run(r.f, in, &got, NULL, &r.t.err), &r.t.err);
        CHECK(TD_DATA(&got, float)[0] == 255.0f * 64.0f); /* 63.5 steps round to even */
        CHECK(TD_DATA(&got, float)[1] == 255.0f * 127.0f);
        td_tensor_clear(&got);
    }
    close_run(&r);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

/* A range that is none leaves the product in floats. */
TEST(ranges_that_are_none)
{
    const struct range bad[] = {{"int8", 2, 1}, {"int8", 0, 0}, {"int4", 0, 1}, {"", 0, 1}};
    for (int i = 0; i < 4; i++) {
        char text[500];
        struct run r;
        struct td_shape s = td_shape_matrix(2, 2);
        struct td_tensor in[2] = {ramp(&s, 0.1f, 0.3f), ramp(&s, 0.2f, 0.7f)}, got;
        snprintf(
            text, sizeof text,
            XY
            "r = MatMul {T:type=float; _precision:string='%s'; _input_min:float=%g; _input_max:float=%g} (x, "
            "y)\n",
            bad[i].precision, bad[i].min, bad[i].max);
        open_run(&r, text, TD_KERNELS_FAST);
        test_check_ok(__FILE__, __LINE__, text, td_callable_run(r.f, in, &got, NULL, &r.t.err), &r.t.err);
        CHECK(fabs((double)TD_DATA(&got, float)[0] - (0.1 * 0.2 + 2.2 * 10.0)) < 1e-5);
        td_tensor_clear(&got);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
        close_run(&r);
    }
}

TEST_MAIN(RUN(matrices) RUN(convolutions_and_what_follows) RUN(constants_and_no_numbers)
              RUN(ranges_that_are_none))
