/* kernels/train/activations.c - Keras's activations, with the defaults of their parameters.
 *
 * Those that are one op of TensorFlow's are that op, so that a loaded result is what TensorFlow would have
 * built, and fuses as any other graph does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/activations.h"

#include <string.h>

#define ONE_OP(fn, op)                                                                                       \
    static struct td_value fn(struct td_emitter *e, struct td_value x)                                       \
    {                                                                                                        \
        return td_f_1(e, op, x);                                                                             \
    }
ONE_OP(elu, "Elu")
ONE_OP(exponential, "Exp")
ONE_OP(log_softmax, "LogSoftmax")
ONE_OP(relu, "Relu")
ONE_OP(relu6, "Relu6")
ONE_OP(selu, "Selu")
ONE_OP(sigmoid, "Sigmoid")
ONE_OP(softmax, "Softmax")
ONE_OP(softplus, "Softplus")
ONE_OP(softsign, "Softsign")
ONE_OP(tanh_, "Tanh")

static struct td_value linear(struct td_emitter *e, struct td_value x)
{
    (void)e;
    return x;
}

static struct td_value plus(struct td_emitter *e, struct td_value x, double v)
{
    return td_f_add(e, x, td_f_number(e, x, v));
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static struct td_value gelu(struct td_emitter *e, struct td_value x)
{
    const double sqrt_2 = 1.4142135623730951;
    const struct td_value erf = td_f_1(e, "Erf", td_f_div(e, x, td_f_number(e, x, sqrt_2)));
    return td_f_mul(e, td_f_scale(e, x, 0.5), plus(e, erf, 1));
}

static struct td_value hard_sigmoid(struct td_emitter *e, struct td_value x)
{
    return td_f_div(e, relu6(e, plus(e, x, 3)), td_f_number(e, x, 6));
}

static struct td_value hard_silu(struct td_emitter *e, struct td_value x)
{
    return td_f_mul(e, x, hard_sigmoid(e, x));
}

static struct td_value hard_tanh(struct td_emitter *e, struct td_value x)
{
    return td_f_2(e, "Maximum", td_f_2(e, "Minimum", x, td_f_number(e, x, 1)), td_f_number(e, x, -1));
}

static struct td_value leaky_relu(struct td_emitter *e, struct td_value x)
{
    return td_emit(e, "LeakyRelu", TD_IN(x), TD_ATTRS(TD_ATTR_OF_FLOAT("alpha", 0.2F)));
}

static struct td_value log_sigmoid(struct td_emitter *e, struct td_value x)
{
    return td_f_neg(e, softplus(e, td_f_neg(e, x)));
}

static struct td_value mish(struct td_emitter *e, struct td_value x)
{
    return td_f_mul(e, x, tanh_(e, softplus(e, x)));
}

static struct td_value silu(struct td_emitter *e, struct td_value x)
{
    return td_f_mul(e, x, sigmoid(e, x));
}

/* (x + sqrt(x^2 + 4)) / 2 */
static struct td_value squareplus(struct td_emitter *e, struct td_value x)
{
    const struct td_value root = td_f_1(e, "Sqrt", plus(e, td_f_square(e, x), 4));
    return td_f_scale(e, td_f_add(e, x, root), 0.5);
}

static struct td_value tanh_shrink(struct td_emitter *e, struct td_value x)
{
    return td_f_sub(e, x, tanh_(e, x));
}

static const struct td_activation rows[] = {
    {"celu", elu}, /* the same for alpha 1 */
    {"elu", elu},
    {"exponential", exponential},
    {"gelu", gelu},
    {"hard_sigmoid", hard_sigmoid},
    {"hard_silu", hard_silu},
    {"hard_swish", hard_silu},
    {"hard_tanh", hard_tanh},
    {"leaky_relu", leaky_relu},
    {"linear", linear},
    {"log_sigmoid", log_sigmoid},
    {"log_softmax", log_softmax},
    {"mish", mish},
    {"relu", relu},
    {"relu6", relu6},
    {"selu", selu},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"softmax", softmax},
    {"softplus", softplus},
    {"softsign", softsign},
    {"squareplus", squareplus},
    {"swish", silu},
    {"tanh", tanh_},
    {"tanh_shrink", tanh_shrink},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const struct td_activation *td_activation_row(int i)
{
    return i >= 0 && i < N_ROWS ? &rows[i] : NULL;
}

const struct td_activation *td_activation_find(const char *name)
{
    for (int i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}
