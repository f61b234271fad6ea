/* tests/unit/kernels/test_train_losses.c - kernels/train/losses.h: each loss and its gradient against Keras,
 * corners included.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/losses.h"

#include "tests/unit/kernels/train_make.h"

struct loss_case {
    const char *name;
    double field[3];
    enum td_dtype dtype; /* of the output */
    struct given y, p, w;
    enum td_reduction reduction;
    double loss;
    const double *gradient;
};

#include "tests/unit/kernels/train_losses.inc"

enum { CASES = sizeof losses / sizeof *losses };

static void run_case(int i, bool shapes_known)
{
    const struct loss_case *c = &losses[i];
    const struct td_loss *loss = td_loss_find(c->name);
    CHECK(loss != NULL);
    const bool classes = loss->target == TD_TARGET_CLASS, weighted = c->w.v != NULL;
    const enum td_dtype dtypes[] = {c->dtype, classes ? TD_INT64 : TD_FLOAT, TD_FLOAT};
    struct formula f;
    formula_open(&f, dtypes, weighted ? 3 : 2, shapes_known);
    formula_set(&f, 0, dtypes[0], &c->p);
    formula_set(&f, 1, dtypes[1], &c->y);
    if (weighted) {
        formula_set(&f, 2, dtypes[2], &c->w);
    }
    struct td_loss_args a = {.target = f.feed[1], .output = f.feed[0]};
    memcpy(a.field.v, c->field, sizeof c->field);
    const struct td_value counted = loss->counted == NULL ? td_no_value : loss->counted(&f.e, &a);
    f.fetch[0] = td_loss_reduce(&f.e, loss->values(&f.e, &a), weighted ? f.feed[2] : td_no_value, counted,
                                c->reduction, NULL);
    formula_differentiate(&f);
    CHECK(f.out[0].dtype == TD_FLOAT && f.out[1].dtype == c->dtype);
    check_number(c->name, i, -1, get_number(&f.out[0], 0), c->loss, 2e-6, 1e-7);
    const double rtol = c->dtype == TD_HALF ? 1e-3 : 1e-5;
    for (int64_t k = 0; k < td_tensor_count(&f.out[1]); k++) {
        check_number(c->name, i, k, get_number(&f.out[1], k), c->gradient[k], rtol, 1e-7);
    }
    formula_close(&f);
}

TEST(losses_and_gradients_are_keras_s)
{
    for (int i = 0; i < CASES; i++) {
        run_case(i, true);
        run_case(i, false);
    }
}

TEST(every_row_is_among_the_cases)
{
    for (int r = 0; td_loss_row(r) != NULL; r++) {
        int n = 0;
        for (int i = 0; i < CASES; i++) {
            n += strcmp(losses[i].name, td_loss_row(r)->name) == 0;
        }
        CHECK(n > 0);
    }
    CHECK(td_loss_find("none") == NULL && td_loss_row(-1) == NULL);
}

/* The mean loss of an output of zeros against target, both of these shapes. */
static double of_shapes(const char *name, enum td_dtype dtype, struct td_shape target, struct td_shape output,
                        bool shapes_known)
{
    static const double y[8] = {1, 0, 1, 1, 0, 1, 0, 0}, p[8] = {0.5, 0.25, 0.75, 0.5, 1, 0, 0.5, 2};
    const enum td_dtype dtypes[] = {TD_FLOAT, dtype};
    struct formula f;
    formula_open(&f, dtypes, 2, shapes_known);
    formula_set(&f, 0, TD_FLOAT, &(struct given){output, p});
    formula_set(&f, 1, dtype, &(struct given){target, y});
    const struct td_loss_args a = {
        .target = f.feed[1], .output = f.feed[0], .field = {.v = {1, dtype == TD_INT64 ? NAN : 0}}};
    const struct td_loss *loss = td_loss_find(name);
    f.fetch[f.n_fetches++] =
        td_loss_reduce(&f.e, loss->values(&f.e, &a), td_no_value, td_no_value, TD_SUM_OVER_BATCH_SIZE, NULL);
    formula_run(&f);
    const double v = get_number(&f.out[0], 0);
    formula_close(&f);
    return v;
}

TEST(a_last_dimension_of_1_may_be_left_out)
{
    const struct td_shape flat = {.rank = 1, .dim = {8}}, column = {.rank = 2, .dim = {8, 1}};
    const struct td_shape steps = {.rank = 2, .dim = {2, 4}}, step_columns = {.rank = 3, .dim = {2, 4, 1}};
    const struct td_shape pair = {.rank = 2, .dim = {4, 2}}, classes = {.rank = 1, .dim = {4}};
    const struct td_shape class_column = {.rank = 2, .dim = {4, 1}};
    for (int known = 0; known < 2; known++) {
        const double want = of_shapes("mae", TD_FLOAT, flat, flat, known);
        CHECK(of_shapes("mae", TD_FLOAT, column, flat, known) == want);
        CHECK(of_shapes("mae", TD_FLOAT, flat, column, known) == want);
        CHECK(of_shapes("mae", TD_FLOAT, steps, step_columns, known) == want);
        const char *sparse = "sparse_categorical_crossentropy";
        CHECK(of_shapes(sparse, TD_INT64, classes, pair, known) ==
              of_shapes(sparse, TD_INT64, class_column, pair, known));
    }
}

/* The loss of one row with one output, and its gradient. */
static void at(const char *name, double logits, double y, double p, double *loss, double *gradient)
{
    const enum td_dtype dtypes[] = {TD_FLOAT, TD_FLOAT};
    const struct td_shape shape = {.rank = 2, .dim = {1, 1}};
    const struct given target = {shape, &y}, output = {shape, &p};
    struct formula f;
    formula_open(&f, dtypes, 2, true);
    formula_set(&f, 0, TD_FLOAT, &output);
    formula_set(&f, 1, TD_FLOAT, &target);
    const struct td_loss_args a = {.target = f.feed[1], .output = f.feed[0], .field = {.v = {logits}}};
    f.fetch[0] =
        td_loss_reduce(&f.e, td_loss_find(name)->values(&f.e, &a), td_no_value, td_no_value, TD_SUM, NULL);
    formula_differentiate(&f);
    *loss = get_number(&f.out[0], 0);
    *gradient = get_number(&f.out[1], 0);
    formula_close(&f);
}

/* Adam divides by the root of squares: what is tiny still counts. */
TEST(a_sure_logit_keeps_its_tiny_gradient)
{
    double loss, gradient;
    at("binary_crossentropy", 1, 1, 20, &loss, &gradient);
    check_number("loss", 0, 0, loss, exp(-20), 1e-4, 0);
    check_number("gradient", 0, 0, gradient, -exp(-20), 1e-4, 0);
    at("binary_crossentropy", 1, 0, -20, &loss, &gradient);
    check_number("loss", 0, 0, loss, exp(-20), 1e-4, 0);
    check_number("gradient", 0, 0, gradient, exp(-20), 1e-4, 0);
    at("binary_crossentropy", 1, 1, 0, &loss, &gradient);
    check_number("gradient", 0, 0, gradient, -0.5, 0, 1e-7);
}

TEST(a_direction_of_length_0_has_a_gradient)
{
    double loss, gradient;
    at("cosine_similarity", 0, 1, 0, &loss, &gradient);
    CHECK(loss == 0 && isfinite(gradient));
}

TEST_MAIN(RUN(a_last_dimension_of_1_may_be_left_out) RUN(losses_and_gradients_are_keras_s)
              RUN(every_row_is_among_the_cases) RUN(a_sure_logit_keeps_its_tiny_gradient)
                  RUN(a_direction_of_length_0_has_a_gradient))
