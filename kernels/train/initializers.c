/* kernels/train/initializers.c - draws by TensorFlow's stateless ops, with the seeds that Keras gives them.
 *
 * Keras draws with [seed, 0], each number modulo 2^31 - 2, so that the same seed gives the same bytes here
 * and there. A variable of rank 2 is [fan in, fan out]; of rank 1 both are its length.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/initializers.h"

#include <math.h>
#include <string.h>

enum fan { NO_FAN, FAN_IN, FAN_AVERAGE };
#define TRUNCATED_STDDEV 0.87962566103423978 /* of a standard normal distribution cut at 2 */
#define SEED_RANGE ((int64_t)INT32_MAX - 1)

int64_t td_seed_number(int64_t seed)
{
    const int64_t rest = seed % SEED_RANGE;
    return rest < 0 ? rest + SEED_RANGE : rest;
}

struct td_value td_seed_of(struct td_emitter *e, int64_t seed, int64_t count)
{
    return td_f_ints(e, td_seed_number(seed), td_seed_number(count));
}

static struct td_value shape_of(struct td_emitter *e, const struct td_shape *shape)
{
    return td_emit_ints(e, TD_INT32, shape->dim, shape->rank);
}

/* The row's scale over the fan it goes by. */
static double scale_over_fan(const struct td_initializer *row, const struct td_shape *shape)
{
    const double in = (double)shape->dim[0], out = (double)shape->dim[shape->rank - 1];
    const double fan = row->fan == FAN_IN ? in : (in + out) / 2;
    return row->fan == NO_FAN ? row->scale : row->scale / fmax(1, fan);
}

static struct td_value draw(struct td_emitter *e, const char *op, const struct td_shape *shape,
                            struct td_value seed)
{
    return td_emit(e, op, TD_IN(shape_of(e, shape), seed), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", TD_FLOAT)));
}

/* u (limit - -limit) + -limit, in the order in which TensorFlow rounds. */
static struct td_value between(struct td_emitter *e, const struct td_shape *shape, struct td_value seed,
                               double limit)
{
    const struct td_value u = draw(e, "StatelessRandomUniform", shape, seed);
    const float low = -(float)limit, width = (float)limit - low;
    return td_f_add(e, td_f_scale(e, u, (double)width), td_f_number(e, u, (double)low));
}

static struct td_value uniform(struct td_emitter *e, const struct td_initializer *row,
                               const struct td_shape *shape, struct td_value seed)
{
    return between(e, shape, seed, row->scale);
}

static struct td_value normal(struct td_emitter *e, const struct td_initializer *row,
                              const struct td_shape *shape, struct td_value seed)
{
    return td_f_scale(e, draw(e, "StatelessRandomNormal", shape, seed), row->scale);
}

static struct td_value truncated(struct td_emitter *e, const struct td_initializer *row,
                                 const struct td_shape *shape, struct td_value seed)
{
    return td_f_scale(e, draw(e, "StatelessTruncatedNormal", shape, seed), row->scale);
}

static struct td_value scaled_uniform(struct td_emitter *e, const struct td_initializer *row,
                                      const struct td_shape *shape, struct td_value seed)
{
    return between(e, shape, seed, sqrt(3 * scale_over_fan(row, shape)));
}

static struct td_value scaled_normal(struct td_emitter *e, const struct td_initializer *row,
                                     const struct td_shape *shape, struct td_value seed)
{
    const struct td_value z = draw(e, "StatelessTruncatedNormal", shape, seed);
    return td_f_scale(e, z, sqrt(scale_over_fan(row, shape)) / TRUNCATED_STDDEV);
}

static struct td_value constant(struct td_emitter *e, const struct td_initializer *row,
                                const struct td_shape *shape, struct td_value seed)
{
    (void)seed;
    return td_f_fill(e, shape_of(e, shape), td_emit_number(e, TD_FLOAT, row->scale));
}

static struct td_value must_be_matrix(struct td_emitter *e, const struct td_initializer *row,
                                      const struct td_shape *shape)
{
    return td_emit_fail(e, TD_INVALID_ARGUMENT, "initializer '%s' is of matrices, not of shape %s", row->name,
                        TD_SHAPE_STR(shape));
}

static struct td_value identity(struct td_emitter *e, const struct td_initializer *row,
                                const struct td_shape *shape, struct td_value seed)
{
    (void)seed;
    if (shape->rank != 2) {
        return must_be_matrix(e, row, shape);
    }
    const struct td_value row_of = td_f_range(e, td_f_int(e, 0), td_f_int(e, shape->dim[0]));
    const struct td_value column = td_f_range(e, td_f_int(e, 0), td_f_int(e, shape->dim[1]));
    return td_f_cast(e, td_f_2(e, "Equal", td_f_expand(e, row_of, 1), column), TD_FLOAT);
}

/* Q of a normal draw with as many rows as the longer side, its columns turned so that R's diagonal is
 * positive; transposed back when the variable is wide. */
static struct td_value orthogonal(struct td_emitter *e, const struct td_initializer *row,
                                  const struct td_shape *shape, struct td_value seed)
{
    if (shape->rank != 2) {
        return must_be_matrix(e, row, shape);
    }
    const bool wide = shape->dim[0] < shape->dim[1];
    const struct td_shape tall = td_shape_matrix(shape->dim[wide], shape->dim[!wide]);
    const struct td_value q = td_f_1(e, "Qr", draw(e, "StatelessRandomNormal", &tall, seed));
    const struct td_value d = td_f_1(e, "MatrixDiagPart", td_f_port(q, 1));
    const struct td_value signed_q = td_f_mul(e, q, td_f_1(e, "Sign", d));
    return wide ? td_f_transpose(e, signed_q, td_f_ints(e, 1, 0)) : signed_q;
}

static const struct td_initializer rows[] = {
    {"glorot_normal", scaled_normal, 1, FAN_AVERAGE},
    {"glorot_uniform", scaled_uniform, 1, FAN_AVERAGE},
    {"he_normal", scaled_normal, 2, FAN_IN},
    {"he_uniform", scaled_uniform, 2, FAN_IN},
    {"identity", identity, 1, NO_FAN},
    {"lecun_normal", scaled_normal, 1, FAN_IN},
    {"lecun_uniform", scaled_uniform, 1, FAN_IN},
    {"ones", constant, 1, NO_FAN},
    {"orthogonal", orthogonal, 1, NO_FAN},
    {"random_normal", normal, 0.05, NO_FAN},
    {"random_uniform", uniform, 0.05, NO_FAN},
    {"truncated_normal", truncated, 0.05, NO_FAN},
    {"variance_scaling", scaled_normal, 1, FAN_IN},
    {"zeros", constant, 0, NO_FAN},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const struct td_initializer *td_initializer_row(int i)
{
    return i >= 0 && i < N_ROWS ? &rows[i] : NULL;
}

const struct td_initializer *td_initializer_find(const char *name)
{
    for (int i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

struct td_value td_initializer_draw(struct td_emitter *e, const struct td_initializer *row,
                                    const struct td_shape *shape, int64_t seed)
{
    if (shape->rank < 1 || shape->rank > 2) {
        return must_be_matrix(e, row, shape);
    }
    return row->draw(e, row, shape, td_seed_of(e, seed, 0));
}
