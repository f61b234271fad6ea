/* kernels/train/optimizers.c - updates as element-wise chains.
 *
 * What depends on the step alone is computed on scalars (and once for all variables, which the compiler sees
 * to); what is written, a slot or the variable, is then one chain of element-wise nodes over tensors of the
 * variable's shape; adam's, the most used, is one node for all three. Constants are rounded where Keras
 * rounds them: 1 - beta_2^t with beta_2 in float32 is off by 1e-5 at the first step, and the weights follow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/optimizers.h"

#include <string.h>

/* ------------------------------------------------------------------ the dtype at hand */

/* An update's operands in the dtype that it is computed in. */
struct math {
    struct td_emitter *e;
    enum td_dtype dtype;
    struct td_value w, g, rate, t;
};

static struct math opened(const struct td_update *u)
{
    const enum td_dtype dtype = td_update_dtype(u->w);
    return (struct math){.e = u->e,
                         .dtype = dtype,
                         .w = td_f_cast(u->e, u->w, dtype),
                         .g = td_f_cast(u->e, u->g, dtype),
                         .rate = td_f_cast(u->e, u->rate, dtype),
                         .t = td_f_cast(u->e, u->t, dtype)};
}

static void give(struct td_update *u, struct td_value new_w)
{
    u->new_w = td_f_cast(u->e, new_w, td_dtype_of(u->w));
}

static struct td_value number(const struct math *m, double v)
{
    return td_emit_number(m->e, m->dtype, v);
}

/* Keras casts some fields to the variable's dtype, and TensorFlow makes float32 of a bare number before. */
static double rounded(double v)
{
    return (double)(float)v;
}

static struct td_value root(const struct math *m, struct td_value x)
{
    return td_f_1(m->e, "Sqrt", x);
}

static struct td_value plus(const struct math *m, struct td_value x, double v)
{
    return td_f_add(m->e, x, number(m, v));
}

static struct td_value one_minus(const struct math *m, struct td_value x)
{
    return td_f_sub(m->e, number(m, 1), x);
}

/* base^t */
static struct td_value power(const struct math *m, double base)
{
    return td_f_2(m->e, "Pow", number(m, rounded(base)), m->t);
}

/* by * x + rest * y */
static struct td_value mixed(const struct math *m, double by, struct td_value x, double rest,
                             struct td_value y)
{
    return td_f_add(m->e, td_f_scale(m->e, x, by), td_f_scale(m->e, y, rest));
}

/* x + (y - x) * rest */
static struct td_value moved(const struct math *m, struct td_value x, struct td_value y, double rest)
{
    return td_f_add(m->e, x, td_f_scale(m->e, td_f_sub(m->e, y, x), rest));
}

static struct td_value times_rate(const struct math *m, struct td_value x)
{
    return td_f_mul(m->e, x, m->rate);
}

/* ------------------------------------------------------------------ sgd */

enum { SGD_MOMENTUM, NESTEROV };
static const struct td_field sgd_fields[] = {
    {.name = "momentum", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_BELOW_ONE},
    {.name = "nesterov", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = NULL},
};

static void sgd(struct td_update *u)
{
    const struct math m = opened(u);
    const double momentum = u->field.v[SGD_MOMENTUM];
    const struct td_value step = times_rate(&m, m.g);
    if (momentum == 0) {
        give(u, td_f_sub(m.e, m.w, step));
        return;
    }
    struct td_value move = td_f_sub(m.e, td_f_scale(m.e, u->slot[0], momentum), step);
    u->new_slot[0] = move;
    if (u->field.v[NESTEROV] != 0) {
        move = td_f_sub(m.e, td_f_scale(m.e, move, momentum), step);
    }
    give(u, td_f_add(m.e, m.w, move));
}

/* ------------------------------------------------------------------ rmsprop */

enum { RHO, RMS_MOMENTUM, RMS_EPSILON, CENTERED };
static const struct td_field rmsprop_fields[] = {
    {.name = "rho", .kind = TD_FIELD_NUMBER, .standard = 0.9, .range = TD_BELOW_ONE},
    {.name = "momentum", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_BELOW_ONE},
    {.name = "epsilon", .kind = TD_FIELD_NUMBER, .standard = 1e-7, .range = TD_NOT_NEGATIVE},
    {.name = "centered", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = NULL},
};

static void rmsprop(struct td_update *u)
{
    const struct math m = opened(u);
    const double rho = u->field.v[RHO], momentum = u->field.v[RMS_MOMENTUM];
    const struct td_value v = mixed(&m, rho, u->slot[0], 1 - rho, td_f_square(m.e, m.g));
    struct td_value spread = v;
    u->new_slot[0] = v;
    if (u->field.v[CENTERED] != 0) {
        u->new_slot[2] = mixed(&m, rho, u->slot[2], 1 - rho, m.g);
        spread = td_f_sub(m.e, v, td_f_square(m.e, u->new_slot[2]));
    }
    struct td_value step =
        td_f_div(m.e, times_rate(&m, m.g), root(&m, plus(&m, spread, u->field.v[RMS_EPSILON])));
    if (momentum > 0) {
        step = td_f_add(m.e, td_f_scale(m.e, u->slot[1], momentum), step);
        u->new_slot[1] = step;
    }
    give(u, td_f_sub(m.e, m.w, step));
}

/* ------------------------------------------------------------------ adam and its kin */

#define BETA_FIELDS(second)                                                                                  \
    {.name = "beta_1", .kind = TD_FIELD_NUMBER, .standard = 0.9, .range = TD_BELOW_ONE},                     \
    {                                                                                                        \
        .name = "beta_2", .kind = TD_FIELD_NUMBER, .standard = (second), .range = TD_BELOW_ONE               \
    }
#define EPSILON_FIELD                                                                                        \
    {                                                                                                        \
        .name = "epsilon", .kind = TD_FIELD_NUMBER, .standard = 1e-7, .range = TD_NOT_NEGATIVE               \
    }

enum { BETA_1, BETA_2, EPSILON, AMSGRAD };
static const struct td_field adam_fields[] = {
    BETA_FIELDS(0.999),
    EPSILON_FIELD,
    {.name = "amsgrad", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = NULL},
};
static const struct td_field beta_fields[] = {BETA_FIELDS(0.999), EPSILON_FIELD, {.name = NULL}};
static const struct td_field lion_fields[] = {BETA_FIELDS(0.99), {.name = NULL}};

/* m and v of adam and nadam, as the new slots 0 and 1. */
static void move_moments(struct td_update *u, const struct math *m, double rest_1, double rest_2)
{
    u->new_slot[0] = moved(m, u->slot[0], m->g, rest_1);
    u->new_slot[1] = moved(m, u->slot[1], td_f_square(m->e, m->g), rest_2);
}

/* As one node (kernels/train/adam.c): m, v and w move in one pass. */
static void adam_at_once(struct td_update *u, const struct math *m, struct td_value rate)
{
    const struct td_value w = td_emit(m->e, "_Adam", TD_IN(m->w, u->slot[0], u->slot[1], m->g, rate),
                                      TD_ATTRS(TD_ATTR_OF_FLOAT("rest_1", (float)(1 - u->field.v[BETA_1])),
                                               TD_ATTR_OF_FLOAT("rest_2", (float)(1 - u->field.v[BETA_2])),
                                               TD_ATTR_OF_FLOAT("epsilon", (float)u->field.v[EPSILON])));
    u->new_slot[0] = (struct td_value){w.node, w.node != NULL};
    u->new_slot[1] = (struct td_value){w.node, w.node != NULL ? 2 : 0};
    give(u, w);
}

static void adam(struct td_update *u)
{
    const struct math m = opened(u);
    const double beta_1 = u->field.v[BETA_1], beta_2 = u->field.v[BETA_2];
    const struct td_value up = times_rate(&m, root(&m, one_minus(&m, power(&m, beta_2))));
    const struct td_value rate = td_f_div(m.e, up, one_minus(&m, power(&m, beta_1)));
    if (m.dtype == TD_FLOAT && u->field.v[AMSGRAD] == 0) {
        adam_at_once(u, &m, rate);
        return;
    }
    move_moments(u, &m, 1 - beta_1, 1 - beta_2);
    struct td_value v = u->new_slot[1];
    if (u->field.v[AMSGRAD] != 0) {
        v = u->new_slot[2] = td_f_2(m.e, "Maximum", u->slot[2], v);
    }
    const struct td_value below = plus(&m, root(&m, v), u->field.v[EPSILON]);
    give(u, td_f_sub(m.e, m.w, td_f_div(m.e, td_f_mul(m.e, u->new_slot[0], rate), below)));
}

/* beta_1 * (1 - 0.96^t / 2) */
static struct td_value warm_beta(const struct math *m, double beta_1, struct td_value t)
{
    const struct td_value decay = td_f_2(m->e, "Pow", number(m, rounded(0.96)), t);
    return td_f_scale(m->e, one_minus(m, td_f_scale(m->e, decay, 0.5)), rounded(beta_1));
}

enum { PRODUCT = 2 };

static void nadam_shared(struct td_update *u)
{
    const struct math m = {.e = u->e, .dtype = TD_FLOAT, .t = u->t};
    u->new_slot[PRODUCT] = td_f_mul(m.e, u->slot[PRODUCT], warm_beta(&m, u->field.v[BETA_1], m.t));
}

static void nadam(struct td_update *u)
{
    const struct math m = opened(u);
    const double beta_1 = u->field.v[BETA_1], beta_2 = u->field.v[BETA_2];
    const struct td_value here = warm_beta(&m, beta_1, m.t);
    const struct td_value next = warm_beta(&m, beta_1, plus(&m, m.t, 1));
    const struct td_value product = td_f_cast(m.e, u->slot[PRODUCT], m.dtype);
    move_moments(u, &m, 1 - rounded(beta_1), 1 - rounded(beta_2));
    const struct td_value of_m = td_f_div(m.e, next, one_minus(&m, td_f_mul(m.e, product, next)));
    const struct td_value of_g = td_f_div(m.e, one_minus(&m, here), one_minus(&m, product));
    const struct td_value ahead =
        td_f_add(m.e, td_f_mul(m.e, u->new_slot[0], of_m), td_f_mul(m.e, m.g, of_g));
    const struct td_value v = td_f_div(m.e, u->new_slot[1], one_minus(&m, power(&m, beta_2)));
    const struct td_value below = plus(&m, root(&m, v), u->field.v[EPSILON]);
    give(u, td_f_sub(m.e, m.w, td_f_div(m.e, times_rate(&m, ahead), below)));
}

static void adamax(struct td_update *u)
{
    const struct math m = opened(u);
    const double beta_1 = u->field.v[BETA_1], beta_2 = u->field.v[BETA_2];
    u->new_slot[0] = moved(&m, u->slot[0], m.g, 1 - beta_1);
    u->new_slot[1] = td_f_2(m.e, "Maximum", td_f_scale(m.e, u->slot[1], beta_2), td_f_1(m.e, "Abs", m.g));
    const struct td_value below =
        td_f_mul(m.e, plus(&m, u->new_slot[1], u->field.v[EPSILON]), one_minus(&m, power(&m, beta_1)));
    give(u, td_f_sub(m.e, m.w, td_f_div(m.e, times_rate(&m, u->new_slot[0]), below)));
}

static void lion(struct td_update *u)
{
    const struct math m = opened(u);
    const double beta_1 = rounded(u->field.v[BETA_1]), beta_2 = rounded(u->field.v[BETA_2]);
    const struct td_value toward = td_f_1(m.e, "Sign", mixed(&m, beta_1, u->slot[0], 1 - beta_1, m.g));
    u->new_slot[0] = mixed(&m, beta_2, u->slot[0], 1 - beta_2, m.g);
    give(u, td_f_sub(m.e, m.w, times_rate(&m, toward)));
}

/* ------------------------------------------------------------------ adagrad, adadelta, ftrl */

enum { ADAGRAD_START, ADAGRAD_EPSILON };
static const struct td_field adagrad_fields[] = {
    {.name = "initial_accumulator_value", .kind = TD_FIELD_NUMBER, .standard = 0.1, .range = TD_NOT_NEGATIVE},
    EPSILON_FIELD,
    {.name = NULL},
};

static void adagrad(struct td_update *u)
{
    const struct math m = opened(u);
    u->new_slot[0] = td_f_add(m.e, u->slot[0], td_f_square(m.e, m.g));
    const struct td_value below = root(&m, plus(&m, u->new_slot[0], u->field.v[ADAGRAD_EPSILON]));
    give(u, td_f_sub(m.e, m.w, td_f_div(m.e, times_rate(&m, m.g), below)));
}

enum { DELTA_RHO, DELTA_EPSILON };
static const struct td_field adadelta_fields[] = {
    {.name = "rho", .kind = TD_FIELD_NUMBER, .standard = 0.95, .range = TD_BELOW_ONE},
    EPSILON_FIELD,
    {.name = NULL},
};

static void adadelta(struct td_update *u)
{
    const struct math m = opened(u);
    const double rho = u->field.v[DELTA_RHO], epsilon = u->field.v[DELTA_EPSILON];
    u->new_slot[0] = mixed(&m, rho, u->slot[0], 1 - rho, td_f_square(m.e, m.g));
    const struct td_value moves = root(&m, plus(&m, u->slot[1], epsilon));
    const struct td_value step =
        td_f_div(m.e, td_f_mul(m.e, moves, m.g), root(&m, plus(&m, u->new_slot[0], epsilon)));
    u->new_slot[1] = mixed(&m, rho, u->slot[1], 1 - rho, td_f_square(m.e, step));
    give(u, td_f_sub(m.e, m.w, times_rate(&m, step)));
}

enum { FTRL_POWER, FTRL_START, L1, L2, L2_SHRINKAGE, FTRL_BETA };
static const struct td_field ftrl_fields[] = {
    {.name = "learning_rate_power", .kind = TD_FIELD_NUMBER, .standard = -0.5, .range = TD_NOT_POSITIVE},
    {.name = "initial_accumulator_value", .kind = TD_FIELD_NUMBER, .standard = 0.1, .range = TD_NOT_NEGATIVE},
    {.name = "l1", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = "l2", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = "l2_shrinkage", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = "beta", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = NULL},
};

/* n^-p, by the square root where it is one. */
static struct td_value ftrl_power(const struct math *m, struct td_value n, double p)
{
    return p == -0.5 ? root(m, n) : td_f_2(m->e, "Pow", n, number(m, -p));
}

static void ftrl(struct td_update *u)
{
    const struct math m = opened(u);
    const double p = u->field.v[FTRL_POWER], l1 = u->field.v[L1], shrink = u->field.v[L2_SHRINKAGE];
    const struct td_value g = shrink == 0 ? m.g : td_f_add(m.e, m.g, td_f_scale(m.e, m.w, 2 * shrink));
    u->new_slot[0] = td_f_add(m.e, u->slot[0], td_f_square(m.e, m.g));
    const struct td_value now = ftrl_power(&m, u->new_slot[0], p), before = ftrl_power(&m, u->slot[0], p);
    const struct td_value pull = td_f_mul(m.e, td_f_div(m.e, td_f_sub(m.e, now, before), m.rate), m.w);
    const struct td_value z = td_f_add(m.e, u->slot[1], td_f_sub(m.e, g, pull));
    u->new_slot[1] = z;
    /* 2 (l2 + beta / (2 rate)) */
    const struct td_value beta = td_f_div(m.e, number(&m, u->field.v[FTRL_BETA]), td_f_scale(m.e, m.rate, 2));
    const struct td_value flat = td_f_scale(m.e, plus(&m, beta, u->field.v[L2]), 2);
    const struct td_value below = td_f_add(m.e, td_f_div(m.e, now, m.rate), flat);
    const struct td_value capped =
        td_f_2(m.e, "Maximum", td_f_2(m.e, "Minimum", z, number(&m, l1)), number(&m, -l1));
    give(u, td_f_div(m.e, td_f_sub(m.e, capped, z), below));
}

/* ------------------------------------------------------------------ the table */

#define ZEROS(slot_name)                                                                                     \
    {                                                                                                        \
        .name = (slot_name), .start_field = -1                                                               \
    }
#define ZEROS_IF(slot_name, field)                                                                           \
    {                                                                                                        \
        .name = (slot_name), .start_field = -1, .if_field = true, .only_field = (field)                      \
    }
#define ADAM_SLOTS                                                                                           \
    {                                                                                                        \
        ZEROS("momentum"), ZEROS("velocity"), ZEROS_IF("velocity_hat", AMSGRAD)                              \
    }

static const struct td_optimizer rows[] = {
    {.name = "sgd",
     .rate = 0.01,
     .fields = sgd_fields,
     .slots = {ZEROS_IF("momentum", SGD_MOMENTUM)},
     .update = sgd},
    {.name = "rmsprop",
     .rate = 0.001,
     .fields = rmsprop_fields,
     .slots = {ZEROS("velocity"), ZEROS_IF("momentum", RMS_MOMENTUM), ZEROS_IF("average_gradient", CENTERED)},
     .update = rmsprop},
    {.name = "adam", .rate = 0.001, .fields = adam_fields, .slots = ADAM_SLOTS, .update = adam},
    {.name = "adamw",
     .rate = 0.001,
     .weight_decay = 0.004,
     .fields = adam_fields,
     .slots = ADAM_SLOTS,
     .update = adam},
    {.name = "nadam",
     .rate = 0.001,
     .fields = beta_fields,
     .slots = {ZEROS("momentum"),
               ZEROS("velocity"),
               {.name = "u_product", .start_field = -1, .shared = true, .start = 1}},
     .update = nadam,
     .update_shared = nadam_shared},
    {.name = "adamax",
     .rate = 0.001,
     .fields = beta_fields,
     .slots = {ZEROS("momentum"), ZEROS("norm")},
     .update = adamax},
    {.name = "adagrad",
     .rate = 0.001,
     .fields = adagrad_fields,
     .slots = {{.name = "accumulator", .start_field = ADAGRAD_START}},
     .update = adagrad},
    {.name = "adadelta",
     .rate = 0.001,
     .fields = adadelta_fields,
     .slots = {ZEROS("accumulated_grad"), ZEROS("accumulated_delta_var")},
     .update = adadelta},
    {.name = "ftrl",
     .rate = 0.001,
     .fields = ftrl_fields,
     .slots = {{.name = "accumulator", .start_field = FTRL_START}, ZEROS("linear")},
     .update = ftrl},
    {.name = "lion", .rate = 0.001, .fields = lion_fields, .slots = {ZEROS("momentum")}, .update = lion},
};

const struct td_optimizer *td_optimizer_row(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL;
}

const struct td_optimizer *td_optimizer_find(const char *name)
{
    int i = 0;
    while (td_optimizer_row(i) != NULL && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return td_optimizer_row(i);
}

bool td_optimizer_keeps(const struct td_optimizer *o, int slot, const struct td_field_values *v)
{
    return !o->slots[slot].if_field || v->v[o->slots[slot].only_field] != 0;
}
