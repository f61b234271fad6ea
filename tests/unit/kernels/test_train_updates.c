/* tests/unit/kernels/test_train_updates.c - kernels/train/optimizers.h, schedules.h, constraints.h, clip.h
 * against Keras: optimizers over four updates, schedules at steps around their corners.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/optimizers.h"

#include "kernels/train/schedules.h"
#include "tests/unit/kernels/train_make.h"

enum { STEPS = 4, WIDTH = 5 };

struct optimizer_case {
    const char *name;
    double field[6];
    double rate;
    enum td_dtype dtype;
    double decay;
    enum td_clip_kind clip;
    double clip_at, ema;
    const double *w, *g, *want; /* [WIDTH], [STEPS, WIDTH], [STEPS, WIDTH] */
    const double *average;      /* after the last step; NULL: none is kept */
};
struct schedule_case {
    const char *name;
    double field[4];
    const double *list[2];
    int n_list[2];
    double first;
    int n;
    const double *steps, *want;
};
struct constraint_case {
    const char *name;
    double field[4];
    const double *axes;
    int n_axes;
    struct given w;
    const double *want;
};

#include "tests/unit/kernels/train_updates.inc"

enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };
enum { SCHEDULES = sizeof schedules / sizeof *schedules };
enum { CONSTRAINTS = sizeof constraints / sizeof *constraints };

/* Feeds w, g, rate, t, the slots, the average; fetches what they become. */
enum { W, G, RATE, T, SLOT, AVERAGE = SLOT + TD_MOST_SLOTS, FEEDS };

static const struct td_shape row = {.rank = 1, .dim = {WIDTH}}, scalar = {0};

static bool is_shared(const struct td_optimizer *o, int slot)
{
    return o->slots[slot].name != NULL && o->slots[slot].shared;
}

/* The slots of a variable, their start, and what step makes of all. */
static void emit_update(struct formula *f, const struct optimizer_case *c, const struct td_optimizer *o,
                        const struct td_field_values *v)
{
    struct td_update u = {.e = &f->e, .g = f->feed[G], .rate = f->feed[RATE], .t = f->feed[T], .field = *v};
    memcpy(u.slot, &f->feed[SLOT], sizeof u.slot);
    if (o->update_shared != NULL) {
        o->update_shared(&u);
        for (int i = 0; i < TD_MOST_SLOTS; i++) {
            u.slot[i] = is_shared(o, i) ? u.new_slot[i] : u.slot[i];
        }
    }
    td_clip(&f->e, &u.g, 1, c->clip, c->clip_at);
    u.w = c->decay == 0 ? f->feed[W] : td_decayed(&f->e, f->feed[W], c->decay, u.rate);
    o->update(&u);
    f->fetch[0] = u.new_w;
    for (int i = 0; i < TD_MOST_SLOTS; i++) {
        f->fetch[1 + i] = u.new_slot[i].node != NULL ? u.new_slot[i] : f->feed[SLOT + i];
    }
    f->fetch[4] = td_averaged(&f->e, f->feed[AVERAGE], u.new_w, u.t, c->ema);
    f->n_fetches = 5;
}

static void feed_number(struct formula *f, int i, double v)
{
    formula_set(f, i, TD_FLOAT, &(struct given){scalar, &v});
}

static void feed_start(struct formula *f, const struct optimizer_case *c, const struct td_optimizer *o,
                       enum td_dtype wide)
{
    formula_set(f, W, c->dtype, &(struct given){row, c->w});
    const double zeros[WIDTH] = {0};
    formula_set(f, AVERAGE, wide, &(struct given){row, zeros});
    for (int i = 0; i < TD_MOST_SLOTS; i++) {
        const struct td_slot *s = &o->slots[i];
        const double start = s->name == NULL || s->start_field < 0 ? 0 : c->field[s->start_field];
        const double all[WIDTH] = {start, start, start, start, start};
        if (is_shared(o, i)) {
            feed_number(f, SLOT + i, s->start);
        } else {
            formula_set(f, SLOT + i, wide, &(struct given){row, all});
        }
    }
}

/* What was fetched is fed next. */
static void feed_back(struct formula *f)
{
    static const int to[] = {W, SLOT, SLOT + 1, SLOT + 2, AVERAGE};
    for (int i = 0; i < 5; i++) {
        td_tensor_clear(&f->in[to[i]]);
        f->in[to[i]] = f->out[i];
        f->out[i] = (struct td_tensor){0};
    }
}

static void run_optimizer(int i)
{
    const struct optimizer_case *c = &optimizers[i];
    const struct td_optimizer *o = td_optimizer_find(c->name);
    CHECK(o != NULL);
    const enum td_dtype wide = c->dtype == TD_DOUBLE ? TD_DOUBLE : TD_FLOAT;
    enum td_dtype dtypes[FEEDS] = {c->dtype, c->dtype, TD_FLOAT, TD_FLOAT, wide, wide, wide, wide};
    for (int k = 0; k < TD_MOST_SLOTS; k++) {
        dtypes[SLOT + k] = is_shared(o, k) ? TD_FLOAT : wide;
    }
    struct formula f;
    struct td_field_values v = {0};
    memcpy(v.v, c->field, sizeof c->field);
    formula_open(&f, dtypes, FEEDS, false);
    emit_update(&f, c, o, &v);
    feed_start(&f, c, o, wide);
    for (int s = 0; s < STEPS; s++) {
        formula_set(&f, G, c->dtype, &(struct given){row, c->g + (ptrdiff_t)s * WIDTH});
        feed_number(&f, RATE, c->rate);
        feed_number(&f, T, s + 1);
        formula_run(&f);
        CHECK(f.out[0].dtype == c->dtype);
        feed_back(&f);
        for (int k = 0; k < WIDTH; k++) {
            check_number(c->name, i, (int64_t)s * WIDTH + k, get_number(&f.in[W], k), c->want[s * WIDTH + k],
                         3e-6, 3e-7);
        }
    }
    for (int k = 0; c->average != NULL && k < WIDTH; k++) {
        check_number("average", i, k, get_number(&f.in[AVERAGE], k), c->average[k], 2e-6, 2e-7);
    }
    formula_close(&f);
}

TEST(optimizers_are_keras_s)
{
    for (int i = 0; i < OPTIMIZERS; i++) {
        run_optimizer(i);
    }
}

TEST(schedules_are_keras_s)
{
    for (int i = 0; i < SCHEDULES; i++) {
        const struct schedule_case *c = &schedules[i];
        const struct td_schedule *s = td_schedule_find(c->name);
        CHECK(s != NULL);
        struct td_field_values v = {0};
        memcpy(v.v, c->field, sizeof c->field);
        for (int k = 0; k < 2; k++) {
            v.list[k] = c->list[k];
            v.n_list[k] = c->n_list[k];
        }
        CHECK(s->wrong == NULL || s->wrong(&v) == NULL);
        for (int k = 0; k < c->n; k++) {
            check_number(c->name, i, (int64_t)c->steps[k], s->rate(c->first, c->steps[k], &v), c->want[k],
                         1e-5, 1e-8);
        }
    }
}

TEST(constraints_are_keras_s)
{
    for (int i = 0; i < CONSTRAINTS; i++) {
        const struct constraint_case *c = &constraints[i];
        const struct td_constraint *r = td_constraint_find(c->name);
        CHECK(r != NULL && r->axis_field < TD_MOST_FIELDS);
        struct td_field_values v = {0};
        memcpy(v.v, c->field, sizeof c->field);
        if (r->axis_field >= 0) {
            v.list[r->axis_field] = c->axes;
            v.n_list[r->axis_field] = c->n_axes;
        }
        const enum td_dtype dtype = TD_FLOAT;
        struct formula f;
        formula_open(&f, &dtype, 1, false);
        formula_set(&f, 0, TD_FLOAT, &c->w);
        f.fetch[f.n_fetches++] = r->project(&f.e, f.feed[0], &v);
        formula_run(&f);
        for (int64_t k = 0; k < td_tensor_count(&f.out[0]); k++) {
            check_number(c->name, i, k, get_number(&f.out[0], k), c->want[k], 1e-6, 1e-7);
        }
        formula_close(&f);
    }
}

TEST(every_row_is_among_the_cases)
{
    for (int r = 0, n = 0; td_optimizer_row(r) != NULL; r++, n = 0) {
        for (int i = 0; i < OPTIMIZERS; i++) {
            n += strcmp(optimizers[i].name, td_optimizer_row(r)->name) == 0;
        }
        CHECK(n > 0);
    }
    for (int r = 0, n = 0; td_schedule_row(r) != NULL; r++, n = 0) {
        for (int i = 0; i < SCHEDULES; i++) {
            n += strcmp(schedules[i].name, td_schedule_row(r)->name) == 0;
        }
        CHECK(n > 0);
    }
    for (int r = 0, n = 0; td_constraint_row(r) != NULL; r++, n = 0) {
        for (int i = 0; i < CONSTRAINTS; i++) {
            n += strcmp(constraints[i].name, td_constraint_row(r)->name) == 0;
        }
        CHECK(n > 0);
    }
}

TEST(a_schedule_that_does_not_fit_together_says_why)
{
    const double two[] = {1, 2}, down[] = {2, 1}, three[] = {1, 2, 3};
    const struct td_schedule *s = td_schedule_find("piecewise");
    CHECK(
        strstr(s->wrong(&(struct td_field_values){.list = {two, two}, .n_list = {2, 2}}), "one number more"));
    CHECK_STR(s->wrong(&(struct td_field_values){.list = {down, three}, .n_list = {2, 3}}),
              "boundaries must ascend");
}

/* Of two variables, one of them half: its update is made in float32 and rounded once. */
TEST(a_norm_over_all_and_a_half_variable)
{
    const enum td_dtype dtypes[] = {TD_HALF, TD_HALF, TD_DOUBLE, TD_FLOAT, TD_FLOAT};
    const double w[] = {1, 2}, g[] = {3, 0}, other[] = {0, 4};
    const struct td_shape pair = {.rank = 1, .dim = {2}};
    struct formula f;
    formula_open(&f, dtypes, 5, false);
    formula_set(&f, 0, TD_HALF, &(struct given){pair, w});
    formula_set(&f, 1, TD_HALF, &(struct given){pair, g});
    formula_set(&f, 2, TD_DOUBLE, &(struct given){pair, other});
    feed_number(&f, 3, 0.5);
    feed_number(&f, 4, 1);
    struct td_value all[] = {f.feed[1], f.feed[2]};
    f.fetch[0] = td_global_norm(&f.e, all, 2);
    td_clip(&f.e, all, 2, TD_CLIP_GLOBAL_NORM, 1);
    struct td_update u = {.e = &f.e, .w = f.feed[0], .g = all[0], .rate = f.feed[3], .t = f.feed[4]};
    td_optimizer_find("sgd")->update(&u);
    f.fetch[1] = u.new_w;
    f.fetch[2] = all[1];
    f.fetch[3] = td_penalty(&f.e, f.feed[0], 0.5, 0.25);
    f.n_fetches = 4;
    formula_run(&f);
    check_number("norm", 0, 0, get_number(&f.out[0], 0), 5, 1e-6, 0);
    CHECK(f.out[1].dtype == TD_HALF && f.out[2].dtype == TD_DOUBLE && f.out[3].dtype == TD_FLOAT);
    check_number("w", 0, 0, get_number(&f.out[1], 0), 0.7, 5e-4, 0);
    check_number("g", 0, 1, get_number(&f.out[2], 1), 0.8, 1e-6, 0);
    check_number("penalty", 0, 0, get_number(&f.out[3], 0), 0.5 * 3 + 0.25 * 5, 1e-6, 0);
    CHECK(td_penalty(&f.e, f.feed[0], 0, 0).node == NULL);
    formula_close(&f);
}

TEST_MAIN(RUN(optimizers_are_keras_s) RUN(schedules_are_keras_s) RUN(constraints_are_keras_s)
              RUN(every_row_is_among_the_cases) RUN(a_schedule_that_does_not_fit_together_says_why)
                  RUN(a_norm_over_all_and_a_half_variable))
