/* tests/unit/proto/test_hlo_read.c - artifacts that JAX's writers left (tests/hlo/make.py), read in depth,
 * cut short and with each byte changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/hlo_read.h"

#include <dirent.h>

#include "proto/bytes/file.h"
#include "proto/stablehlo/vhlo_ops.h"
#include "tests/hlo/hlo_walk.h"
#include "tests/test.h"

enum { LIMIT = 1 << 24 };

static struct td_err err;

struct artifact {
    char *p;
    size_t n;
    struct td_arena *a;
    struct td_hlo_module m;
};

static struct artifact open_artifact(const char *name)
{
    struct artifact f = {.a = td_arena_new(LIMIT)};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", HLO_DIR, name);
    CHECK_OK(td_file_read(path, LIMIT, &f.p, &f.n, &err));
    CHECK(f.a != NULL);
    CHECK_OK(td_hlo_read(f.a, (struct td_bytes){f.p, f.n}, &f.m, &err));
    hlo_walk(&f.m, f.a);
    return f;
}

static void close_artifact(struct artifact *f)
{
    td_arena_free(f->a);
    td_free(f->p);
}

/* The n-th operation called name, from 0. */
static const struct td_hlo_op *find_op(const struct td_hlo_block *b, const char *name, int n)
{
    for (int i = 0; i < b->n_ops; i++) {
        if (strcmp(b->ops[i]->name, name) == 0 && n-- == 0) {
            return b->ops[i];
        }
    }
    fprintf(stderr, "no operation %s\n", name);
    exit(1);
}

static const struct td_hlo_attr *attr_of(const struct td_hlo_op *op, const char *name)
{
    const struct td_hlo_attr *a = td_hlo_attr_find(op->attrs, op->n_attrs, name);
    if (a == NULL) {
        fprintf(stderr, "%s has no %s\n", op->name, name);
        exit(1);
    }
    return a;
}

static void check_list(const struct td_hlo_op *op, const char *name, int n, const int64_t *want)
{
    const struct td_hlo_attr *a = attr_of(op, name);
    CHECK_INT(a->kind, TD_HLO_DENSE);
    CHECK_INT(a->type.dtype, TD_INT64);
    CHECK_INT(td_shape_count(&a->type.shape), n);
    for (int i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, a->raw.p + (a->splat ? 0 : i) * (int)sizeof v, sizeof v);
        CHECK_INT(v, want[i]);
    }
}
#define CHECK_LIST(op, name, ...)                                                                            \
    check_list(op, name, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static void check_type(const struct td_hlo_type *t, enum td_dtype dtype, const char *shape)
{
    CHECK_INT(t->kind, TD_HLO_TENSOR);
    CHECK_INT(t->dtype, dtype);
    CHECK_STR(TD_SHAPE_STR(&t->shape), shape);
}

static void check_mlp(const char *file, const char *version)
{
    struct artifact f = open_artifact(file);
    CHECK_STR(f.m.version, version);
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    CHECK(main != NULL && !main->is_private);
    CHECK_INT(main->body.n_args, 3);
    check_type(&main->body.args[1]->type, TD_FLOAT, "[3,4]");
    CHECK_INT(main->n_results, 1);
    check_type(&main->results[0], TD_FLOAT, "[2,4]");
    const struct td_hlo_op *dot = find_op(&main->body, "dot_general", 0);
    CHECK(dot->in[0] == main->body.args[0] && dot->in[1] == main->body.args[1]);
    CHECK_LIST(dot, "lhs_contracting_dimensions", 1);
    CHECK_LIST(dot, "rhs_contracting_dimensions", 0);
    CHECK_INT(attr_of(dot, "precision_config")->n, 2);
    CHECK_STR(attr_of(dot, "precision_config")->items[1].str.p, "DEFAULT");
    CHECK_INT(dot->n_attrs, 5); /* no algorithm */
    const struct td_hlo_op *call = find_op(&main->body, "call", 0);
    CHECK_STR(attr_of(call, "callee")->str.p, "relu");
    const struct td_hlo_function *relu = td_hlo_function_find(&f.m, "relu");
    CHECK(relu != NULL && relu->is_private);
    CHECK_STR(relu->body.ops[relu->body.n_ops - 1]->name, "return");
    close_artifact(&f);
}

TEST(a_layer_is_read_whatever_version_wrote_it)
{
    check_mlp("mlp_1.15.0", "1.15.0");
    check_mlp("mlp_0.9.0", "0.9.0");
}

TEST(a_loop_has_its_condition_and_its_body)
{
    struct artifact f = open_artifact("while_loop_1.15.0");
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    const struct td_hlo_op *loop = find_op(&main->body, "while", 0);
    CHECK_INT(loop->n_regions, 2);
    const struct td_hlo_block *cond = &loop->regions[0], *body = &loop->regions[1];
    CHECK_INT(cond->n_args, loop->n_in);
    const struct td_hlo_op *less = find_op(cond, "compare", 0);
    CHECK_STR(attr_of(less, "comparison_direction")->str.p, "LT");
    CHECK_STR(attr_of(less, "compare_type")->str.p, "SIGNED");
    check_type(&cond->ops[cond->n_ops - 1]->in[0]->type, TD_BOOL, "[]");
    CHECK(cond->ops[cond->n_ops - 1]->in[0] == less->out[0]);
    CHECK_INT(body->ops[body->n_ops - 1]->n_in, loop->n_out);
    CHECK(find_op(body, "multiply", 0)->in[1]->op != NULL);
    close_artifact(&f);
}

TEST(a_branch_may_use_what_is_around_it)
{
    struct artifact f = open_artifact("cond_1.0.0");
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    const struct td_hlo_op *branch = find_op(&main->body, "case", 0);
    CHECK_INT(branch->n_regions, 2);
    CHECK_INT(branch->regions[0].n_args, 0);
    const struct td_hlo_op *sum = find_op(&branch->regions[0], "reduce", 0);
    CHECK(sum->in[0] == main->body.args[1]);
    CHECK_LIST(sum, "dimensions", 0);
    CHECK_INT(sum->regions[0].n_args, 2);
    close_artifact(&f);
}

TEST(constants_are_their_bytes)
{
    struct artifact f = open_artifact("constants_1.15.0");
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    int n_bool = 0, n_splat = 0;
    for (int i = 0; i < main->body.n_ops; i++) {
        const struct td_hlo_op *op = main->body.ops[i];
        if (strcmp(op->name, "constant") != 0) {
            continue;
        }
        const struct td_hlo_attr *v = attr_of(op, "value");
        check_type(&v->type, op->out[0]->type.dtype, TD_SHAPE_STR(&op->out[0]->type.shape));
        n_splat += v->splat;
        n_bool += v->type.dtype == TD_BOOL;
        if (v->type.dtype == TD_BOOL && v->type.shape.dim[0] == 11) {
            CHECK(!v->splat && v->raw.len == 2);
            CHECK_INT((unsigned char)v->raw.p[0], 0x49); /* each third */
            CHECK_INT((unsigned char)v->raw.p[1], 0x02);
        }
        if (v->type.dtype == TD_FLOAT && v->raw.len == 160) {
            float last;
            memcpy(&last, v->raw.p + 156, sizeof last);
            CHECK_INT((int)last, 39);
        }
    }
    CHECK_INT(n_bool, 4);
    CHECK(n_splat >= 2);
    close_artifact(&f);
}

TEST(an_older_gather_says_what_a_newer_one_says)
{
    static const char *const files[] = {"gather_rows_0.17.0", "gather_rows_1.15.0"};
    for (int i = 0; i < 2; i++) {
        struct artifact f = open_artifact(files[i]);
        const struct td_hlo_op *gather = NULL;
        for (int k = 0; k < f.m.n_functions && gather == NULL; k++) {
            const struct td_hlo_block *b = &f.m.functions[k].body;
            for (int j = 0; j < b->n_ops && gather == NULL; j++) {
                gather = strcmp(b->ops[j]->name, "gather") == 0 ? b->ops[j] : NULL;
            }
        }
        CHECK(gather != NULL);
        CHECK_LIST(gather, "offset_dims", 1);
        CHECK_LIST(gather, "collapsed_slice_dims", 0);
        CHECK_LIST(gather, "slice_sizes", 1, 4);
        check_list(gather, "operand_batching_dims", 0, NULL);
        check_list(gather, "start_indices_batching_dims", 0, NULL);
        CHECK_INT(attr_of(gather, "index_vector_dim")->i, 1);
        CHECK_INT(attr_of(gather, "indices_are_sorted")->kind, TD_HLO_BOOL);
        close_artifact(&f);
    }
}

TEST(a_convolution_has_its_dimensions)
{
    struct artifact f = open_artifact("conv_1.15.0");
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    const struct td_hlo_op *conv = find_op(&main->body, "convolution", 0);
    CHECK_LIST(conv, "window_strides", 2, 1);
    CHECK_LIST(conv, "padding", 0, 1, 1, 1);
    CHECK_LIST(conv, "input_spatial_dimensions", 1, 2);
    CHECK_INT(attr_of(conv, "kernel_output_feature_dimension")->i, 3);
    CHECK_INT(attr_of(conv, "window_reversal")->type.dtype, TD_BOOL);
    const struct td_hlo_op *pool = find_op(&main->body, "reduce_window", 0);
    CHECK_LIST(pool, "window_dimensions", 1, 2, 2, 1);
    CHECK_STR(pool->regions[0].ops[0]->name, "maximum");
    close_artifact(&f);
}

TEST(a_dimension_may_not_be_known)
{
    struct artifact f = open_artifact("dynamic_batch_1.8.0");
    const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
    check_type(&main->body.args[0]->type, TD_FLOAT, "[?,8]");
    check_type(&main->results[0], TD_FLOAT, "[?,5]");
    close_artifact(&f);
}

TEST(each_version_of_the_bytecode_says_the_same)
{
    for (int version = 1; version <= 5; version++) {
        char name[32];
        snprintf(name, sizeof name, "scan_b%d", version);
        struct artifact f = open_artifact(name);
        CHECK_INT((f.p[4] & 0xff) >> 1, version);
        CHECK_STR(f.m.version, "");
        const struct td_hlo_function *main = td_hlo_function_find(&f.m, "main");
        const struct td_hlo_op *loop = find_op(&main->body, "while", 0);
        CHECK_INT(loop->n_regions, 2);
        CHECK_STR(attr_of(find_op(&loop->regions[0], "compare", 0), "comparison_direction")->str.p, "LT");
        const struct td_hlo_op *call = find_op(&loop->regions[1], "call", 0);
        const struct td_hlo_function *row = td_hlo_function_find(&f.m, attr_of(call, "callee")->str.p);
        CHECK(row != NULL && row->body.n_args == call->n_in);
        CHECK_LIST(find_op(&row->body, "dynamic_slice", 0), "slice_sizes", 1, 3);
        close_artifact(&f);
    }
}

/* Reads the first n bytes of f, which may be anything; returns how often that was a module. */
static int try_bytes(const struct artifact *f, size_t n)
{
    /* a copy of its own, so that a byte too far is noticed */
    char *copy = malloc(n + 1);
    struct td_arena *a = td_arena_new(LIMIT);
    struct td_hlo_module m;
    CHECK(copy != NULL && a != NULL);
    memcpy(copy + 1, f->p, n); /* and odd, as in a message */
    err = (struct td_err){0};
    int ok = td_hlo_read(a, (struct td_bytes){copy + 1, n}, &m, &err) == TD_OK;
    if (ok) {
        hlo_walk(&m, a);
    } else {
        CHECK(strncmp(err.msg, "StableHLO module", 16) == 0);
    }
    td_arena_free(a);
    free(copy);
    return ok;
}

static void for_each_artifact(void (*fn)(struct artifact *f))
{
    DIR *dir = opendir(HLO_DIR);
    CHECK(dir != NULL);
    int n = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strchr(e->d_name, '_') != NULL) {
            struct artifact f = open_artifact(e->d_name);
            fn(&f);
            close_artifact(&f);
            n++;
        }
    }
    closedir(dir);
    CHECK(n >= 10);
}

static void cut(struct artifact *f)
{
    for (size_t n = 0; n < f->n; n++) {
        CHECK_INT(try_bytes(f, n), 0);
    }
    CHECK_INT(try_bytes(f, f->n), 1);
}

TEST(every_prefix_is_an_error)
{
    for_each_artifact(cut);
}

static void change(struct artifact *f)
{
    for (size_t i = 0; i < f->n; i++) {
        char was = f->p[i];
        static const unsigned char masks[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
        for (size_t k = 0; k < sizeof masks; k++) {
            f->p[i] = (char)(was ^ masks[k]);
            try_bytes(f, f->n);
        }
        f->p[i] = was;
    }
}

TEST(every_changed_byte_is_an_error_or_a_module)
{
    for_each_artifact(change);
}

TEST(the_table_of_operations_is_in_order)
{
    static const char *const names[] = {
#define X(name, ...) name,
#include "proto/stablehlo/vhlo_ops.def"
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(i == 0 || strcmp(names[i - 1], names[i]) < 0);
        CHECK(td_vhlo_ops_find(names[i]) != NULL);
        CHECK_STR(td_vhlo_ops_find(names[i])->name, names[i]);
    }
    CHECK(td_vhlo_ops_find("add") == NULL);
    CHECK_STR(td_vhlo_ops_find("slice_v1")->properties[2], "strides");
}

TEST_MAIN(RUN(a_layer_is_read_whatever_version_wrote_it) RUN(a_loop_has_its_condition_and_its_body)
              RUN(a_branch_may_use_what_is_around_it) RUN(constants_are_their_bytes)
                  RUN(an_older_gather_says_what_a_newer_one_says) RUN(a_convolution_has_its_dimensions)
                      RUN(a_dimension_may_not_be_known) RUN(each_version_of_the_bytecode_says_the_same)
                          RUN(every_prefix_is_an_error) RUN(every_changed_byte_is_an_error_or_a_module)
                              RUN(the_table_of_operations_is_in_order))
