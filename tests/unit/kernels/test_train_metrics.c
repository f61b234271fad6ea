/* tests/unit/kernels/test_train_metrics.c - kernels/train/metrics.h: each metric of two batches, with and
 * without weights, against Keras.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/metrics.h"

#include "tests/unit/kernels/train_make.h"

struct metric_case {
    const char *name;
    double field[2];
    bool classes;
    struct batch {
        struct given y, p, w;
    } batch[2];
    double want[2]; /* without and with weights */
};

#include "tests/unit/kernels/train_metrics.inc"

enum { CASES = sizeof metrics / sizeof *metrics, MOST_SUMS = 512 };
enum { WEIGHTED = 1, SHAPES_KNOWN = 2 };

/* The sums of a batch are added to total; their number. */
static int add_batch(const struct metric_case *c, const struct td_metric *m, int k, int how, double *total)
{
    const bool weighted = how & WEIGHTED;
    const enum td_dtype dtypes[] = {TD_FLOAT, c->classes ? TD_INT64 : TD_FLOAT, TD_FLOAT};
    struct formula f;
    formula_open(&f, dtypes, weighted ? 3 : 2, how & SHAPES_KNOWN);
    formula_set(&f, 0, dtypes[0], &c->batch[k].p);
    formula_set(&f, 1, dtypes[1], &c->batch[k].y);
    if (weighted) {
        formula_set(&f, 2, dtypes[2], &c->batch[k].w);
    }
    struct td_metric_args a = {.target = f.feed[1],
                               .output = f.feed[0],
                               .weights = weighted ? f.feed[2] : td_no_value,
                               .classes = c->classes};
    memcpy(a.field.v, c->field, sizeof c->field);
    f.fetch[f.n_fetches++] = m->sums(&f.e, &a);
    formula_run(&f);
    CHECK(f.out[0].dtype == TD_FLOAT && f.out[0].shape.rank == 1);
    const int n = (int)f.out[0].shape.dim[0];
    for (int i = 0; i < n; i++) {
        total[i] += get_number(&f.out[0], i);
    }
    formula_close(&f);
    return n;
}

static void run_case(int i, int how)
{
    const struct metric_case *c = &metrics[i];
    const struct td_shape *p = &c->batch[0].p.shape;
    const struct td_metric *m = td_metric_find(c->name, c->classes, p->rank == 1 ? 1 : p->dim[p->rank - 1]);
    CHECK(m != NULL);
    double total[MOST_SUMS] = {0};
    struct td_field_values v = {0};
    memcpy(v.v, c->field, sizeof c->field);
    int n = 0;
    for (int k = 0; k < 2; k++) {
        n = add_batch(c, m, k, how, total);
    }
    check_number(c->name, i, 0, m->result(total, n, &v), c->want[how & WEIGHTED], 2e-6, 1e-7);
}

TEST(metrics_are_keras_s)
{
    for (int i = 0; i < CASES; i++) {
        for (int how = 0; how < 4; how++) {
            run_case(i, how);
        }
    }
}

TEST(every_row_is_among_the_cases)
{
    for (int r = 0; td_metric_row(r) != NULL; r++) {
        int n = 0;
        for (int i = 0; i < CASES; i++) {
            n += strcmp(metrics[i].name, td_metric_row(r)->name) == 0;
        }
        CHECK(n > 0);
        CHECK(td_metric_find(td_metric_row(r)->name, false, 3) != NULL);
    }
    CHECK(td_metric_find("none", false, 3) == NULL);
}

TEST(an_epoch_without_rows_is_0)
{
    const double none[400] = {0};
    const struct td_field_values v = {0};
    CHECK(td_metric_find("mse", false, 3)->result(none, 2, &v) == 0);
    CHECK(td_metric_find("precision", false, 3)->result(none, 2, &v) == 0);
    CHECK(td_metric_find("auc", false, 3)->result(none, 400, &v) == 0);
}

TEST_MAIN(RUN(metrics_are_keras_s) RUN(every_row_is_among_the_cases) RUN(an_epoch_without_rows_is_0))
