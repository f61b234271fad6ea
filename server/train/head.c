/* server/train/head.c - layers onto a graft (server/graft/graft.h).
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
#include "server/graft/graft.h"
#include "server/train/layout.h"
#include "server/base/glob.h"

enum { SEEDS_A_LAYER = 3, KERNEL = 0, BIAS = 1, DROPOUT = 2, NAME_BYTES = 200 };

struct builder {
    struct td_graft *g;
    const struct td_job_spec *spec;
    char scope[TD_GRAFT_SCOPE]; /* "head" */
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

/* The closed graft; *out is the caller's. */
static enum td_code graft(struct td_servable *s, const struct td_job_spec *spec, struct td_graft **out,
                          struct td_fault *f)
{
    struct builder b = {.spec = spec, .err = &f->err};
    struct td_variables *names;
    const struct td_signature *sig = td_servable_signature(s, spec->signature);
    if (sig == NULL) {
        return TD_FAULT(f, "invalid_value", "tensord.signature", "model '%.100s' has no signature '%.100s'",
                        td_servable_name(s), spec->signature == NULL ? "serving_default" : spec->signature);
    }
    TD_TRY(td_fault_of(f, td_variables_read(s, &names, &f->err), "invalid_value", "model"));
    td_graft_scope(names, "head", b.scope);
    td_variables_free(names);
    TD_TRY(td_fault_of(f, td_graft_open(s, sig, &b.g, &f->err), "invalid_value", "tensord.head"));
    const enum td_code rc = td_fault_of(f, build(&b), "invalid_value", "tensord.head.at");
    if (rc) {
        td_graft_free(b.g);
        return rc;
    }
    *out = b.g;
    return TD_OK;
}

enum td_code td_head_write(struct td_servable *s, const struct td_job_spec *spec, const char *dir,
                           struct td_fault *f)
{
    struct td_graft *g;
    TD_TRY(graft(s, spec, &g, f));
    const enum td_code rc = td_fault_of(f, td_graft_write(g, dir, &f->err), "server_error", NULL);
    td_graft_free(g);
    return rc;
}

/* ------------------------------------------------------------------ what can be told beforehand */

static enum td_code check_pattern(const struct td_graft *g, const char *pattern, const char *param,
                                  struct td_fault *f)
{
    static const char tail[] = "/.ATTRIBUTES/VARIABLE_VALUE";
    for (int i = 0; td_graft_variable_key(g, i) != NULL; i++) {
        char stem[1024];
        snprintf(stem, sizeof stem, "%s", td_graft_variable_key(g, i));
        const size_t n = strlen(stem), m = sizeof tail - 1;
        if (n > m && strcmp(stem + n - m, tail) == 0) {
            stem[n - m] = 0;
        }
        if (td_glob(pattern, stem) || td_glob(pattern, td_graft_variable_name(g, i))) {
            return TD_OK;
        }
    }
    return TD_FAULT(f, "invalid_value", param,
                    "%s: pattern '%.200s' matches no variable of the model with its head", param, pattern);
}

static enum td_code check_patterns(const struct td_graft *g, const struct td_job_spec *spec,
                                   struct td_fault *f)
{
    char param[80];
    for (int i = 0; i < spec->trainable.n; i++) {
        TD_TRY(check_pattern(g, spec->trainable.pattern[i], "tensord.trainable", f));
    }
    for (int i = 0; i < spec->frozen.n; i++) {
        TD_TRY(check_pattern(g, spec->frozen.pattern[i], "tensord.frozen", f));
    }
    for (int i = 0; i < spec->n_penalties; i++) {
        snprintf(param, sizeof param, "tensord.regularizers.%d.pattern", i);
        TD_TRY(check_pattern(g, spec->penalty[i].pattern, param, f));
    }
    for (int i = 0; i < spec->n_constraints; i++) {
        snprintf(param, sizeof param, "tensord.constraints.%d.pattern", i);
        TD_TRY(check_pattern(g, spec->constraint[i].pattern, param, f));
    }
    for (int i = 0; i < spec->n_optimizers; i++) {
        snprintf(param, sizeof param, "tensord.optimizers.%d.pattern", i);
        const char *pattern = spec->optimizer[i].pattern;
        TD_TRY(pattern == NULL ? TD_OK : check_pattern(g, pattern, param, f));
    }
    return TD_OK;
}

enum td_code td_head_check(struct td_servable *s, const struct td_job_spec *spec, struct td_fault *f)
{
    struct td_graft *g;
    struct td_row_layout *layout = NULL;
    TD_TRY(graft(s, spec, &g, f));
    enum td_code rc = td_row_layout_new(spec, td_graft_signature(g), &layout, f);
    rc = rc ? rc : check_patterns(g, spec, f);
    td_row_layout_free(layout);
    td_graft_free(g);
    return rc;
}

enum td_code td_head_spec(struct td_servable *s, const struct td_job_spec *spec, struct td_job_spec *out,
                          struct td_fault *f)
{
    struct td_variables *names;
    char scope[TD_GRAFT_SCOPE];
    *out = *spec;
    out->head = (struct td_head_spec){.at = NULL};
    TD_TRY(td_fault_of(f, td_variables_read(s, &names, &f->err), "invalid_value", "model"));
    td_graft_scope(names, "head", scope);
    td_variables_free(names);
    out->penalty = td_arena_alloc(spec->arena, (size_t)(spec->n_penalties + spec->head.n_layers) + 1,
                                  sizeof *out->penalty);
    char *text = td_arena_alloc(spec->arena, (size_t)spec->head.n_layers + 1, NAME_BYTES);
    if (out->penalty == NULL || text == NULL) {
        return td_fault_of(f, td_no_memory(&f->err, 1, "a new head"), "server_error", NULL);
    }
    for (int i = 0; i < spec->n_penalties; i++) {
        out->penalty[i] = spec->penalty[i];
    }
    for (int i = 0; i < spec->head.n_layers; i++) {
        const struct td_head_layer_spec *l = &spec->head.layer[i];
        if (l->l1 > 0 || l->l2 > 0) {
            char *pattern = text + (size_t)i * NAME_BYTES;
            snprintf(pattern, NAME_BYTES, "%s/dense_%d/kernel", scope, i);
            out->penalty[out->n_penalties++] =
                (struct td_penalty_spec){.pattern = pattern, .l1 = l->l1, .l2 = l->l2};
        }
    }
    return TD_OK;
}
