/* tests/unit/server/test_op_library.c - op libraries in process: the example's ops run, bad libraries are
 * refused with a sentence. Models come from tests/op_library/make_model.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"
#include "server/op_library.h"
#include "server/models/servable_run.h"
#include "tests/test.h"

#define MODEL OP_LIBRARY_DIR "/model/1"
#define LIBRARY(name) OP_LIBRARY_BUILT "/" name ".so"

struct made {
    struct td_engine engine;
    struct td_op_libraries *libraries;
    struct td_servable *s;
};

static struct made load(const char *libraries)
{
    struct made m = {0};
    struct td_err err = {0};
    CHECK_OK(td_engine_init(&m.engine, td_op_families, &err));
    CHECK_OK(td_op_libraries_open(libraries, &m.engine, &m.libraries, &err));
    struct td_servable_opts opts = {.ops = m.engine.ops};
    CHECK_OK(td_servable_load("model", 1, MODEL, &opts, &m.s, &err));
    return m;
}

static void unload(struct made *m)
{
    td_servable_unref(m->s);
    td_engine_fini(&m->engine);
    td_op_libraries_close(m->libraries);
}

static enum td_code run(struct made *m, const char *signature, const char *name, const struct td_tensor *in,
                        struct td_named *out, int *n, struct td_err *err)
{
    struct td_named named = {name, *in};
    struct td_servable_call call = {.sig = td_servable_signature(m->s, signature), .in = &named, .n_in = 1};
    CHECK(call.sig != NULL);
    return td_servable_run(m->s, &call, out, n, err);
}

static const struct td_tensor *named(const struct td_named *out, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(out[i].name, name) == 0) {
            return &out[i].t;
        }
    }
    return NULL;
}

static void clear(struct td_named *out, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&out[i].t);
    }
}

TEST(clips_and_finds)
{
    struct made m = load(LIBRARY("example_ops"));
    struct td_err err = {0};
    struct td_named out[4] = {{0}};
    int n;
    for (int64_t count = 5; count >= 0; count -= 5) { /* and once more without elements */
        float x[5] = {-3, 0.5f, 1, 1.5f, 9};
        struct td_tensor in = {.data = x, .dtype = TD_FLOAT, .shape = td_shape_vector(count)};
        CHECK_OK(run(&m, "serving_default", "x", &in, out, &n, &err));
        const struct td_tensor *y = named(out, n, "y"), *v = named(out, n, "values"),
                               *i = named(out, n, "indices");
        CHECK_INT(td_tensor_count(y), count);
        CHECK_INT(td_tensor_count(v), count == 0 ? 0 : 2);
        CHECK(count == 0 ||
              (TD_DATA(y, float)[0] == -10 && TD_DATA(y, float)[1] == 5 && TD_DATA(y, float)[4] == 20));
        CHECK(count == 0 || (TD_DATA(v, float)[1] == 1 && TD_DATA(i, int64_t)[1] == 2));
        clear(out, n);
    }
    int64_t k[2] = {-7, 1};
    struct td_tensor in = {.data = k, .dtype = TD_INT64, .shape = td_shape_vector(2)};
    CHECK_OK(run(&m, "ints", "n", &in, out, &n, &err));
    CHECK(TD_DATA(&out[0].t, int64_t)[0] == -1 &&
          TD_DATA(&out[0].t, int64_t)[1] == 1); /* scale's default is 1 */
    clear(out, n);
    unload(&m);
}

TEST(strings_pass_through)
{
    struct made m = load(LIBRARY("example_ops"));
    struct td_err err = {0};
    struct td_tensor in;
    struct td_shape two = td_shape_vector(2);
    struct td_named out[1];
    int n;
    size_t len;
    CHECK_OK(td_tensor_new(&in, TD_STRING, &two, &err));
    CHECK_OK(td_tensor_set_str(&in, 1, "word", 4, &err));
    CHECK_OK(run(&m, "text", "s", &in, out, &n, &err));
    CHECK_STR(td_tensor_str(&out[0].t, 0, &len), "#");
    CHECK_STR(td_tensor_str(&out[0].t, 1, &len), "#word");
    CHECK_INT(len, 5);
    clear(out, n);
    char long_text[1001];
    memset(long_text, 'a', sizeof long_text);
    CHECK_OK(td_tensor_set_str(&in, 0, long_text, sizeof long_text, &err));
    CHECK_INT(run(&m, "text", "s", &in, out, &n, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg,
              "node 'tag' (TensordExampleTag): string 0 has 1001 bytes, with its tag at most 1000 fit");
    td_tensor_clear(&in);
    unload(&m);
}

static void check_failure(struct made *m, const char *signature, const char *input, enum td_dtype dtype,
                          enum td_code code, const char *words)
{
    struct td_err err = {0};
    float x[2] = {1, 2};
    struct td_tensor in = {.data = x, .dtype = dtype, .shape = td_shape_vector(2)};
    struct td_named out[1];
    int n;
    CHECK_INT(run(m, signature, input, &in, out, &n, &err), code);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
}

TEST(what_an_op_says_comes_back)
{
    struct made m = load(LIBRARY("example_ops") "," LIBRARY("bad_ops_8"));
    check_failure(&m, "bad_range", "x", TD_FLOAT, TD_INVALID_ARGUMENT,
                  "node 'bad_range' (TensordExampleClipScale): low is 2, must not exceed high, -1");
    check_failure(&m, "matrix", "x", TD_FLOAT, TD_INVALID_ARGUMENT, "x has 2 dimensions, must be a vector");
    check_failure(&m, "wrong_type", "h", TD_HALF, TD_UNIMPLEMENTED, "T=DT_HALF is not supported");
    check_failure(&m, "broken", "x", TD_FLOAT, TD_INTERNAL,
                  "output 7, of 1, must be asked for by run, and once");
    unload(&m);
}

TEST(without_the_library_only_its_signatures_fail)
{
    struct made m = load("");
    check_failure(&m, "broken", "x", TD_FLOAT, TD_UNIMPLEMENTED, "Op type not registered 'TensordBad'");
    unload(&m);
}

TEST(bad_libraries_are_refused)
{
    static const struct {
        const char *path, *words;
    } rows[] = {
        {LIBRARY("bad_ops_1"), "it was built for ABI 2, this program has 1"},
        {LIBRARY("bad_ops_2"), "signature of op 'TensordBad': expected '(' at \"y:T {T:type}\""},
        {LIBRARY("bad_ops_3"),
         "op 'TensordBad': types speak of 'U', which is no type attribute of its signature"},
        {LIBRARY("bad_ops_4"), "op 'MatMul' is there already: a library cannot replace it"},
        {LIBRARY("bad_ops_5"), "op 'TensordBad' is there already"},
        {LIBRARY("bad_ops_6"), "it has no function tensord_op_library"},
        {LIBRARY("bad_ops_7"), "it refuses to work with this program (ABI 1)"},
        {"no/such/file.so", "it cannot be loaded: "},
        {"no_such_file.so", "it cannot be loaded: "},
        {LIBRARY("example_ops") "," LIBRARY("example_ops"), "op 'TensordExampleClipScale' is there already"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct td_err err = {0};
        struct td_engine engine;
        struct td_op_libraries *l;
        CHECK_OK(td_engine_init(&engine, td_op_families, &err));
        CHECK_INT(td_op_libraries_open(rows[i].path, &engine, &l, &err), TD_INVALID_ARGUMENT);
        if (strstr(err.msg, rows[i].words) == NULL || strstr(err.msg, "op library '") == NULL) {
            CHECK_STR(err.msg, rows[i].words);
        }
        td_engine_fini(&engine);
    }
}

static void note_kernel(void *ctx, const struct td_observed *o)
{
    char *seen = ctx;
    snprintf(seen + strlen(seen), 900 - strlen(seen), "%s ", o->kernel);
}

/* Ten classes of so many images; the kernels that ran are appended to seen. */
static void classify(const char *libraries, int rows, float *p, char *seen)
{
    struct td_err err = {0};
    struct made m = {0};
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    const struct td_shape shape = {.rank = 3, .dim = {rows, 8, 8}};
    int n;
    CHECK_OK(td_engine_init(&m.engine, td_op_families, &err));
    CHECK_OK(td_op_libraries_open(libraries, &m.engine, &m.libraries, &err));
    const struct td_servable_opts opts = {.ops = m.engine.ops};
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &m.s, &err));
    CHECK_OK(td_tensor_new(&in.t, TD_FLOAT, &shape, &err));
    for (int i = 0; i < rows * 64; i++) {
        TD_DATA(&in.t, float)[i] = (float)(i * 7 % 17);
    }
    const struct td_run_opts watch = {.observe = note_kernel, .ctx = seen};
    const struct td_servable_call call = {
        .sig = td_servable_signature(m.s, ""), .in = &in, .n_in = 1, .run = &watch};
    CHECK_OK(td_servable_run(m.s, &call, out, &n, &err));
    memcpy(p, out[1].t.data, (size_t)rows * 10 * sizeof *p);
    clear(out, n);
    td_tensor_clear(&in.t);
    unload(&m);
}

TEST(a_library_brings_a_kernel_for_an_op_that_is_there)
{
    float want[30], got[30];
    char plain[900] = "", seen[900] = "", lone[900] = "";
    classify(NULL, 3, want, plain);
    classify(LIBRARY("kernel_ops"), 3, got, seen);
    classify(LIBRARY("kernel_ops"), 1, got + 29 - 9, lone); /* refused: a single row */
    CHECK(strstr(plain, "MatMul.library") == NULL && strstr(lone, "MatMul.library") == NULL);
    CHECK(strstr(seen, "fused(MatMul.library)") != NULL);
    for (int i = 0; i < 20; i++) {
        CHECK(got[i] - want[i] < 1e-5f && want[i] - got[i] < 1e-5f);
    }
}

TEST_MAIN(RUN(clips_and_finds) RUN(a_library_brings_a_kernel_for_an_op_that_is_there)
              RUN(strings_pass_through) RUN(what_an_op_says_comes_back)
                  RUN(without_the_library_only_its_signatures_fail) RUN(bad_libraries_are_refused))
