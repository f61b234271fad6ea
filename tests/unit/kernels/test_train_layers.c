/* tests/unit/kernels/test_train_layers.c - kernels/train/activations.h and initializers.h against Keras: what
 * a layer does to its values, and the very draws that its variables start with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/activations.h"
#include "kernels/train/initializers.h"

#include "tests/unit/kernels/train_make.h"

struct activation_case {
    const char *name;
    struct given x;
    const double *y;
};
struct initializer_case {
    const char *name;
    int64_t seed;
    struct given w;
};

#include "tests/unit/kernels/train_layers.inc"

enum {
    ACTIVATIONS = sizeof activations / sizeof *activations,
    INITIALIZERS = sizeof initializers / sizeof *initializers
};

TEST(activations_are_keras_s)
{
    const enum td_dtype dtype = TD_FLOAT;
    for (int i = 0; i < ACTIVATIONS; i++) {
        const struct activation_case *c = &activations[i];
        const struct td_activation *row = td_activation_find(c->name);
        struct formula f;
        CHECK(row != NULL);
        formula_open(&f, &dtype, 1, true);
        formula_set(&f, 0, dtype, &c->x);
        f.fetch[f.n_fetches++] = row->apply(&f.e, f.feed[0]);
        formula_run(&f);
        for (int64_t k = 0; k < td_tensor_count(&f.out[0]); k++) {
            check_number(c->name, i, k, get_number(&f.out[0], k), c->y[k], 2e-6, 3e-7);
        }
        formula_close(&f);
    }
}

TEST(initializers_draw_what_keras_draws)
{
    for (int i = 0; i < INITIALIZERS; i++) {
        const struct initializer_case *c = &initializers[i];
        const struct td_initializer *row = td_initializer_find(c->name);
        struct formula f;
        CHECK(row != NULL);
        formula_open(&f, NULL, 0, false);
        f.fetch[f.n_fetches++] = td_initializer_draw(&f.e, row, &c->w.shape, c->seed);
        formula_run(&f);
        CHECK(f.out[0].dtype == TD_FLOAT && td_shape_equal(&f.out[0].shape, &c->w.shape));
        for (int64_t k = 0; k < td_tensor_count(&f.out[0]); k++) {
            check_number(c->name, i, k, get_number(&f.out[0], k), c->w.v[k], 3e-6, 1e-7);
        }
        formula_close(&f);
    }
}

/* A square variable of rank 1 is none; a matrix is asked for. */
TEST(an_initializer_of_matrices_refuses_a_vector)
{
    const struct td_shape vector = td_shape_vector(3);
    struct formula f;
    formula_open(&f, NULL, 0, false);
    (void)td_initializer_draw(&f.e, td_initializer_find("orthogonal"), &vector, 1);
    CHECK_INT(td_emit_close(&f.e), TD_INVALID_ARGUMENT);
    CHECK_STR(f.err.msg, "initializer 'orthogonal' is of matrices, not of shape [3]");
    formula_close(&f);
}

TEST(every_row_is_among_the_cases)
{
    for (int i = 0; td_activation_row(i) != NULL; i++) {
        bool found = false;
        for (int k = 0; k < ACTIVATIONS; k++) {
            found = found || strcmp(activations[k].name, td_activation_row(i)->name) == 0;
        }
        CHECK(found);
    }
    for (int i = 0; td_initializer_row(i) != NULL; i++) {
        bool found = false;
        for (int k = 0; k < INITIALIZERS; k++) {
            found = found || strcmp(initializers[k].name, td_initializer_row(i)->name) == 0;
        }
        CHECK(found);
    }
}

TEST_MAIN(RUN(activations_are_keras_s) RUN(initializers_draw_what_keras_draws)
              RUN(an_initializer_of_matrices_refuses_a_vector) RUN(every_row_is_among_the_cases))
