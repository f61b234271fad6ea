/* tests/unit/server/test_head.c - a new head on the bundled model: what is kept of it, what is new, what is
 * refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/head.h"

#include <math.h>

#include "core/run/variable.h"
#include "kernels/ops.h"
#include "proto/bytes/file_tree.h"
#include "proto/checkpoint/bundle.h"
#include "server/models/servable_run.h"
#include "server/models/variables.h"
#include "tests/unit/temp_dir.h"

enum { IMAGES = 3, FEATURES = 512 };

static struct td_op_table *ops;
static struct temp_dir scratch;

static struct td_servable *load(const char *dir)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    if (ops == NULL) {
        CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
        scratch = temp_dir_make();
    }
    CHECK_OK(td_servable_load("m", 1, dir, &(struct td_servable_opts){.ops = ops}, &s, &err));
    return s;
}

static void done(struct td_servable *s)
{
    struct td_err err = {0};
    td_servable_unref(s);
    CHECK_OK(td_tree_remove(scratch.path, &err));
    td_op_table_free(ops);
    ops = NULL;
}

static struct td_head_layer_spec layer(int64_t units, const char *initializer)
{
    return (struct td_head_layer_spec){.units = units,
                                       .activation = "linear",
                                       .kernel_initializer = initializer,
                                       .bias_initializer = "zeros",
                                       .use_bias = true};
}

static enum td_code put(struct td_servable *s, const char *at, struct td_head_layer_spec *layers, int n,
                        const char *dir, struct td_fault *f)
{
    const struct td_job_spec spec = {.seed = 7,
                                     .head = {.at = at, .output = "scores", .layer = layers, .n_layers = n}};
    return td_head_write(s, &spec, dir, f);
}

/* s with layers at `at`, written below the scratch directory and loaded again. */
static struct td_servable *with_head(struct td_servable *s, const char *at, struct td_head_layer_spec *layers,
                                     int n, const char *name)
{
    const struct temp_path dir = temp_dir_file(&scratch, name);
    struct td_fault f = {.param = ""};
    if (put(s, at, layers, n, dir.s, &f)) {
        fprintf(stderr, "%s (%s)\n", f.err.msg, f.param);
        exit(1);
    }
    return load(dir.s);
}

/* The output of that name for a few images; the caller's. */
static struct td_tensor ask(struct td_servable *s, const char *output)
{
    struct td_err err = {0};
    const struct td_shape shape = {.rank = 3, .dim = {IMAGES, 8, 8}};
    struct td_named given = {.name = "images"}, out[2] = {{0}};
    struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &given, .n_in = 1};
    struct td_tensor found = {0};
    int n = 0;
    CHECK_OK(td_tensor_new(&given.t, TD_FLOAT, &shape, &err));
    for (int i = 0; i < IMAGES * 64; i++) {
        TD_DATA(&given.t, float)[i] = (float)(i * 7 % 17);
    }
    CHECK_OK(td_servable_run(s, &call, out, &n, &err));
    for (int i = 0; i < n; i++) {
        if (strcmp(out[i].name, output) == 0) {
            found = out[i].t;
        } else {
            td_tensor_clear(&out[i].t);
        }
    }
    td_tensor_clear(&given.t);
    CHECK(found.dtype == TD_FLOAT);
    return found;
}

static struct td_tensor variable(struct td_servable *s, const char *name)
{
    struct td_err err = {0};
    struct td_tensor t = {0};
    struct td_obj *o = td_model_resource(td_servable_engine(s), &td_variable_type, name);
    CHECK(o != NULL);
    CHECK_OK(td_variable_read((struct td_variable *)o, &t, &err));
    return t;
}

static void check_close(const struct td_tensor *a, const struct td_tensor *b)
{
    CHECK(td_shape_equal(&a->shape, &b->shape));
    for (int64_t i = 0; i < td_tensor_count(a); i++) {
        CHECK(fabsf(TD_DATA(a, float)[i] - TD_DATA(b, float)[i]) < 1e-6F);
    }
}

TEST(a_head_that_does_nothing_shows_what_it_is_put_on)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec same = layer(10, "identity");
    struct td_servable *made = with_head(s, "Softmax", &same, 1, "a");
    struct td_tensor before = ask(s, "probabilities"), after = ask(made, "scores");
    check_close(&before, &after);
    td_tensor_clear(&before);
    td_tensor_clear(&after);
    td_servable_unref(made);
    done(s);
}

TEST(the_signature_has_the_same_inputs_and_the_new_output)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec layers[] = {layer(6, "glorot_uniform"), layer(4, "he_normal")};
    struct td_servable *made = with_head(s, "StatefulPartitionedCall/Reshape:0", layers, 2, "a");
    const struct td_signature *was = td_servable_signature(s, ""), *is = td_servable_signature(made, "");
    CHECK_INT(is->n_in, 1);
    CHECK_STR(is->key, was->key);
    CHECK_STR(is->in[0].key, was->in[0].key);
    CHECK(td_shape_equal(&is->in[0].shape, &was->in[0].shape));
    CHECK_INT(is->n_out, 1);
    CHECK_STR(is->out[0].key, "scores");
    CHECK_INT(is->out[0].shape.rank, 2);
    CHECK_INT(is->out[0].shape.dim[0], -1);
    CHECK_INT(is->out[0].shape.dim[1], 4);
    td_servable_unref(made);
    done(s);
}

/* Keys, names and values of what is kept; what only the old head read is gone, what is new is trainable. */
TEST(variables_that_are_still_read_keep_key_and_value)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_err err = {0};
    struct td_head_layer_spec layers[] = {layer(6, "glorot_uniform"), layer(4, "glorot_uniform")};
    struct td_servable *made = with_head(s, "Reshape", layers, 2, "a");
    struct td_variables *was, *is;
    int kept = 0, fresh = 0;
    CHECK_OK(td_variables_read(s, &was, &err));
    CHECK_OK(td_variables_read(made, &is, &err));
    for (int i = 0; i < td_variables_count(is); i++) {
        const struct td_variable_row row = td_variables_row(is, i);
        CHECK(row.trainable && row.key != NULL);
        bool found = false;
        for (int k = 0; k < td_variables_count(was); k++) {
            const struct td_variable_row old = td_variables_row(was, k);
            if (strcmp(old.key, row.key) == 0) {
                struct td_tensor a = variable(s, old.resources[0]), b = variable(made, row.resources[0]);
                CHECK_STR(row.resources[0], old.resources[0]); /* objects of one name */
                CHECK(td_tensor_same(&a, &b));
                td_tensor_clear(&a);
                td_tensor_clear(&b);
                found = true;
            }
        }
        kept += found;
        fresh += strncmp(row.key, "head/dense_", 11) == 0;
    }
    CHECK_INT(kept, 4); /* two convolutions, without the last product's kernel and bias */
    CHECK_INT(fresh, 4);
    CHECK_INT(td_variables_count(is), kept + fresh);
    td_variables_free(was);
    td_variables_free(is);
    td_servable_unref(made);
    done(s);
}

/* keras.initializers.GlorotUniform(seed=7)((512, 2)), which is layer 0's kernel of a job with seed 7. */
TEST(layers_start_with_what_keras_draws)
{
    static const float keras[] = {0.0533899516F, 0.0372055024F, -0.0955570787F, 0.031162262F};
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec two = layer(2, "glorot_uniform");
    struct td_servable *made = with_head(s, "Reshape", &two, 1, "a");
    struct td_tensor kernel = variable(made, "head/dense_0/kernel"),
                     bias = variable(made, "head/dense_0/bias");
    CHECK_INT(kernel.shape.dim[0], FEATURES);
    for (int i = 0; i < 4; i++) {
        CHECK(fabsf(TD_DATA(&kernel, float)[i] - keras[i]) < 1e-7F);
    }
    CHECK(TD_DATA(&bias, float)[0] == 0 && TD_DATA(&bias, float)[1] == 0);
    td_tensor_clear(&kernel);
    td_tensor_clear(&bias);
    td_servable_unref(made);
    done(s);
}

TEST(a_head_on_a_head_has_names_of_its_own)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec first = layer(6, "glorot_uniform"), second = layer(6, "identity");
    struct td_servable *one = with_head(s, "Reshape", &first, 1, "a");
    struct td_servable *two = with_head(one, "head/dense_0/BiasAdd", &second, 1, "b");
    struct td_tensor a = ask(one, "scores"), b = ask(two, "scores"),
                     kernel = variable(two, "head_1/dense_0/kernel");
    check_close(&a, &b);
    td_tensor_clear(&a);
    td_tensor_clear(&b);
    td_tensor_clear(&kernel);
    td_servable_unref(one);
    td_servable_unref(two);
    done(s);
}

/* Dropout is no node of a served graph but one that shows its input; the mark is for a later training. */
TEST(dropout_is_a_mark_and_changes_no_answer)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec same = layer(10, "identity");
    same.dropout = 0.5;
    struct td_servable *made = with_head(s, "Softmax", &same, 1, "a");
    struct td_tensor before = ask(s, "probabilities"), after = ask(made, "scores");
    const struct td_graph *g = td_model_graph(td_servable_engine(made));
    int marks = 0;
    check_close(&before, &after);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct td_node *n = g->nodes[i];
        const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, TD_DROPOUT_RATE);
        if (a != NULL) {
            CHECK_STR(n->op_name, "Identity");
            CHECK(a->kind == TD_ATTR_FLOAT && a->f[0] == 0.5F);
            marks++;
        }
    }
    CHECK_INT(marks, 1);
    td_tensor_clear(&before);
    td_tensor_clear(&after);
    td_servable_unref(made);
    done(s);
}

TEST(what_cannot_be_is_refused_in_words)
{
    static const struct {
        const char *at, *text;
    } cases[] = {
        {"Sigmoid", "signature 'serving_default' has no node 'Sigmoid'; near its outputs are "},
        {"ArgMax", "'ArgMax' is of int64; a head is put on floating point values"},
        {"Relu:3", "Relu' has 1 outputs, not one of number 3"},
        {"BiasAdd_2/ReadVariableOp", "' has shape [10]; a head needs values of rank 2 or more"},
        {"ReadVariableOp", "several nodes of signature 'serving_default' are called 'ReadVariableOp': "},
    };
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec one = layer(2, "zeros");
    const struct temp_path dir = temp_dir_file(&scratch, "never");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_fault f = {.param = ""};
        CHECK_INT(put(s, cases[i].at, &one, 1, dir.s, &f), TD_INVALID_ARGUMENT);
        if (strstr(f.err.msg, cases[i].text) == NULL) {
            fprintf(stderr, "%s: %s\n", cases[i].at, f.err.msg);
            exit(1);
        }
        CHECK_STR(f.code, "invalid_value");
        CHECK_STR(f.param, "tensord.head.at");
    }
    CHECK(access(dir.s, F_OK) != 0);
    done(s);
}

/* Higher ranks: along the last axis, as Keras's Dense. */
TEST(a_head_on_an_image_goes_along_its_channels)
{
    struct td_servable *s = load(DIGITS_DIR);
    struct td_head_layer_spec layers[] = {layer(32, "identity"), layer(5, "ones")};
    layers[1].activation = "relu";
    struct td_servable *made = with_head(s, "Relu_1", layers, 2, "a");
    struct td_tensor t = ask(made, "scores");
    CHECK_INT(t.shape.rank, 4);
    CHECK_INT(t.shape.dim[1], 4);
    CHECK_INT(t.shape.dim[3], 5);
    CHECK(TD_DATA(&t, float)[0] == TD_DATA(&t, float)[4]);
    td_tensor_clear(&t);
    td_servable_unref(made);
    done(s);
}

TEST_MAIN(RUN(a_head_that_does_nothing_shows_what_it_is_put_on)
              RUN(the_signature_has_the_same_inputs_and_the_new_output)
                  RUN(variables_that_are_still_read_keep_key_and_value)
                      RUN(layers_start_with_what_keras_draws) RUN(a_head_on_a_head_has_names_of_its_own)
                          RUN(dropout_is_a_mark_and_changes_no_answer) RUN(what_cannot_be_is_refused_in_words)
                              RUN(a_head_on_an_image_goes_along_its_channels))
