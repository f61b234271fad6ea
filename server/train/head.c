/* server/train/head.c - layers onto a graft (server/train/graft.h).
 *
 * A layer is what Keras's Dense is in TensorFlow: MatMul and BiasAdd for inputs of rank 2; for higher ranks
 * the product goes along the last axis, which is the one that must be known. Inputs of less than 32 bits are
 * widened first: a head is float32, or float64 on a model of that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/head.h"

#include <stdio.h>
#include <string.h>

#include "kernels/train/activations.h"
#include "kernels/train/initializers.h"
#include "server/train/graft.h"

enum { SEEDS_A_LAYER = 3, KERNEL = 0, BIAS = 1, DROPOUT = 2, NAME_BYTES = 200 };

struct builder {
    struct td_graft *g;
    const struct td_job_spec *spec;
    const char *scope; /* "head" */
    struct td_emitter *e;
    struct td_value x;
    struct td_shape shape; /* of x */
    struct td_err *err;
};

static int64_t seed_of(const struct builder *b, int layer, int what)
{
    return (int64_t)((uint64_t)b->spec->seed + (uint64_t)SEEDS_A_LAYER * (uint64_t)layer + (uint64_t)what);
}

static void drop(struct builder *b, const struct td_head_layer_spec *l, int i)
{
    if (l->dropout > 0) {
        b->x = td_emit(b->e, "Identity", TD_IN(b->x),
                       TD_ATTRS(TD_ATTR_OF_FLOAT(TD_DROPOUT_RATE, (float)l->dropout),
                                TD_ATTR_OF_INT(TD_DROPOUT_SEED, SEEDS_A_LAYER * i + DROPOUT)));
    }
}

static enum td_code variable(struct builder *b, int layer, const char *what, const char *initializer,
                             const struct td_shape *shape, struct td_value *read)
{
    char scope[NAME_BYTES], name[NAME_BYTES];
    const struct td_initializer *row = td_initializer_find(initializer);
    const bool kernel = strcmp(what, "kernel") == 0;
    snprintf(name, sizeof name, "%s/dense_%d/%s", b->scope, layer, what);
    snprintf(scope, sizeof scope, "%s/dense_%d/%s/Initializer", b->scope, layer, what);
    TD_FAIL_IF(row == NULL, b->err, INVALID_ARGUMENT, "there is no initializer '%.100s'", initializer);
    td_graft_emitter(b->g, scope);
    const struct td_value drawn =
        td_initializer_draw(b->e, row, shape, seed_of(b, layer, kernel ? KERNEL : BIAS));
    const struct td_graft_variable v = {
        .name = name, .shape = *shape, .start = td_f_cast(b->e, drawn, td_dtype_of(b->x))};
    const enum td_code rc = td_graft_variable(b->g, &v, read, b->err);
    td_graft_emitter(b->g, "");
    return rc;
}

static struct td_value product(struct builder *b, struct td_value kernel)
{
    return b->shape.rank == 2 ? td_f_matmul(b->e, b->x, kernel, false, false)
                              : td_f_batch_matmul(b->e, b->x, kernel, false, false);
}

static enum td_code add_layer(struct builder *b, int i)
{
    const struct td_head_layer_spec *l = &b->spec->head.layer[i];
    const struct td_activation *activation = td_activation_find(l->activation);
    const struct td_shape matrix = td_shape_matrix(b->shape.dim[b->shape.rank - 1], l->units);
    const struct td_shape vector = td_shape_vector(l->units);
    struct td_value kernel, bias;
    char scope[NAME_BYTES];
    TD_FAIL_IF(activation == NULL, b->err, INVALID_ARGUMENT, "there is no activation '%.100s'",
               l->activation);
    TD_FAIL_IF(td_shape_count(&matrix) < 0 || td_shape_count(&matrix) > INT32_MAX, b->err, INVALID_ARGUMENT,
               "layer %d has a kernel of shape %s: too large", i, TD_SHAPE_STR(&matrix));
    TD_TRY(variable(b, i, "kernel", l->kernel_initializer, &matrix, &kernel));
    TD_TRY(l->use_bias ? variable(b, i, "bias", l->bias_initializer, &vector, &bias) : TD_OK);
    snprintf(scope, sizeof scope, "%s/dense_%d", b->scope, i);
    td_graft_emitter(b->g, scope);
    drop(b, l, i);
    b->x = product(b, kernel);
    b->x = l->use_bias ? td_f_2(b->e, "BiasAdd", b->x, bias) : b->x;
    b->x = activation->apply(b->e, b->x);
    b->shape.dim[b->shape.rank - 1] = l->units;
    td_graft_emitter(b->g, "");
    return b->e->rc;
}

static enum td_code check_cut(const struct builder *b)
{
    const char *at = b->spec->head.at;
    const enum td_dtype dtype = td_dtype_of(b->x);
    TD_FAIL_IF(!td_dtype_in(dtype, TD_SET_FLOATS), b->err, INVALID_ARGUMENT,
               "'%.200s' is of %s; a head is put on floating point values", at, td_dtype_name(dtype));
    TD_FAIL_IF(b->shape.rank < 2 || b->shape.dim[b->shape.rank - 1] < 1, b->err, INVALID_ARGUMENT,
               "'%.200s' has shape %s; a head needs values of rank 2 or more whose last dimension is known",
               at, TD_SHAPE_STR(&b->shape));
    return TD_OK;
}

static enum td_code build(struct builder *b)
{
    TD_TRY(td_graft_cut(b->g, b->spec->head.at, &b->x, &b->shape, b->err));
    TD_TRY(check_cut(b));
    b->scope = td_graft_scope(b->g, "head");
    TD_TRY(b->scope == NULL ? td_no_memory(b->err, 1, "a new head") : TD_OK);
    b->e = td_graft_emitter(b->g, b->scope);
    if (td_dtype_of(b->x) != TD_DOUBLE) {
        b->x = td_f_cast(b->e, b->x, TD_FLOAT);
    }
    for (int i = 0; i < b->spec->head.n_layers; i++) {
        TD_TRY(add_layer(b, i));
    }
    td_graft_emitter(b->g, b->scope);
    return td_graft_close(b->g, b->spec->head.output, b->x, &b->shape, b->err);
}

enum td_code td_head_write(struct td_servable *s, const struct td_job_spec *spec, const char *dir,
                           struct td_fault *f)
{
    struct builder b = {.spec = spec, .err = &f->err};
    const struct td_signature *sig = td_servable_signature(s, spec->signature);
    if (sig == NULL) {
        return TD_FAULT(f, "invalid_value", "tensord.signature", "model '%.100s' has no signature '%.100s'",
                        td_servable_name(s), spec->signature == NULL ? "serving_default" : spec->signature);
    }
    TD_TRY(td_fault_of(f, td_graft_open(s, sig, &b.g, &f->err), "invalid_value", "tensord.head"));
    enum td_code rc = td_fault_of(f, build(&b), "invalid_value", "tensord.head.at");
    rc = rc ? rc : td_fault_of(f, td_graft_write(b.g, dir, &f->err), "server_error", NULL);
    td_graft_free(b.g);
    return rc;
}
