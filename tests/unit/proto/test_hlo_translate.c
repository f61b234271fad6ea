/* tests/unit/proto/test_hlo_translate.c - functions made of JAX's artifacts (tests/hlo/make.py), as they are
 * and with each byte changed, and of the model that tests/hlo/bundled.py wrote.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_translate.h"

#include <dirent.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "proto/bytes/file.h"
#include "proto/model/saved_model.h"
#include "proto/stablehlo/hlo_read.h"
#include "tests/hlo/hlo_build.h"
#include "tests/test.h"

enum { LIMIT = 1 << 24 };

static struct td_err err;
static struct td_op_table *ops;

static void open_ops(void)
{
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
}

/* Reads and translates; every value that a function made reads is there. */
static enum td_code translate(const char *p, size_t n, struct td_err *e)
{
    struct td_arena *a = td_arena_new(LIMIT), *scratch = td_arena_new(LIMIT);
    struct td_library lib = {.arena = a};
    struct td_hlo_module m;
    struct td_function *made = NULL;
    const struct td_hlo_opts opts = {.prefix = "hlo", .ops = ops};
    CHECK(a != NULL && scratch != NULL);
    enum td_code rc = td_hlo_read(scratch, (struct td_bytes){p, n}, &m, e);
    rc = rc ? rc : td_hlo_translate(&m, &opts, &lib, &made, e);
    td_arena_free(scratch);
    for (int i = 0; rc == TD_OK && i < lib.n_functions; i++) {
        const struct td_function *f = lib.functions[i];
        CHECK(f->resolved);
        CHECK(td_library_find(&lib, f->name) == f);
        for (int k = 0; k < f->body.n_nodes; k++) {
            for (int j = 0; j < f->body.nodes[k]->n_in; j++) {
                CHECK(f->body.nodes[k]->in[j].port < f->body.nodes[k]->in[j].node->n_out);
            }
        }
    }
    CHECK(rc != TD_OK || td_library_find(&lib, "hlo/main") == made);
    td_arena_free(a);
    return rc;
}

static void with_artifacts(void (*act)(const char *name, char *p, size_t n))
{
    DIR *d = opendir(HLO_DIR);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[4096], *p;
        size_t n;
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", HLO_DIR, e->d_name);
            CHECK_OK(td_file_read(path, LIMIT, &p, &n, &err));
            act(e->d_name, p, n);
            td_free(p);
        }
    }
    closedir(d);
}

static void check_whole(const char *name, char *p, size_t n)
{
    struct td_err e = {0};
    if (translate(p, n, &e) != TD_OK) {
        fprintf(stderr, "%s: %s\n", name, e.msg);
        CHECK_OK(e.code);
    }
}

TEST(artifacts_become_functions)
{
    open_ops();
    with_artifacts(check_whole);
    td_op_table_free(ops);
}

static void check_changed(const char *name, char *p, size_t n)
{
    (void)name;
    for (size_t i = 0; i < n; i++) {
        const char was = p[i];
        for (int k = 0; k < 3; k++) {
            struct td_err e = {0};
            p[i] = (char)(k == 0 ? was ^ 1 : k == 1 ? was + 2 : ~was);
            const enum td_code rc = translate(p, n, &e);
            CHECK(rc == TD_OK || e.msg[0] != 0);
        }
        p[i] = was;
    }
}

TEST(changed_bytes_are_an_error_or_another_function)
{
    open_ops();
    with_artifacts(check_changed);
    td_op_table_free(ops);
}

static void check_memory(const char *name, char *p, size_t n)
{
    enum td_code rc = TD_RESOURCE_EXHAUSTED;
    (void)name;
    for (long at = 1; rc != TD_OK; at++) {
        struct td_err e = {0};
        struct td_arena *a = td_arena_new(LIMIT), *scratch = td_arena_new(LIMIT);
        struct td_library lib = {.arena = a};
        struct td_hlo_module m;
        struct td_function *made;
        const struct td_hlo_opts opts = {.prefix = "hlo", .ops = ops};
        CHECK_OK(td_hlo_read(scratch, (struct td_bytes){p, n}, &m, &e));
        td_mem_fail_at(at);
        rc = td_hlo_translate(&m, &opts, &lib, &made, &e);
        td_mem_fail_at(0);
        CHECK(rc == TD_OK || rc == TD_RESOURCE_EXHAUSTED);
        td_arena_free(scratch);
        td_arena_free(a);
    }
}

TEST(lack_of_memory_is_an_error)
{
    open_ops();
    with_artifacts(check_memory);
    td_op_table_free(ops);
}

TEST(a_result_that_is_no_tensor_is_refused)
{
    struct hlo_parts p = hlo_parts_new();
    struct td_err e = {0};
    const int token = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(22));
    hlo_op(&p.body, HLO_CONVERT, HLO_RESULTS | HLO_OPERANDS);
    struct hlo_out rest = HLO_NUMBERS(1, (uint64_t)token, 1, 0);
    hlo_append(&p.body, &rest);
    free(rest.p);
    p.n_ops++;
    p.n_values++;
    hlo_return(&p, 0);
    struct hlo_out bytes = hlo_bytes(&p);
    open_ops();
    CHECK(translate((const char *)bytes.p, bytes.n, &e) == TD_UNIMPLEMENTED);
    CHECK_STR(e.msg, "function 'main', stablehlo.convert: result 0 is no tensor");
    td_op_table_free(ops);
    free(bytes.p);
}

static int count_calls(const struct td_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        CHECK(strncmp(g->nodes[i]->op_name, "XlaCallModule", 13) != 0);
        n += td_is_op(g->nodes[i], "PartitionedCall") &&
             strncmp(td_attr_func(g->nodes[i], "f", 0)->name, "StableHLO_", 10) == 0;
    }
    return n;
}

TEST(nodes_of_a_model_become_calls)
{
    struct td_saved_model *m;
    open_ops();
    CHECK_OK(td_saved_model_read(BUNDLED_DIR, NULL, ops, &m, &err));
    int calls = count_calls(m->graph), functions = 0;
    for (int i = 0; i < m->lib->n_functions; i++) {
        const struct td_function *f = m->lib->functions[i];
        const bool made = strncmp(f->name, "StableHLO_", 10) == 0;
        functions += made;
        calls += made ? 0 : count_calls(&f->body);
    }
    CHECK_INT(calls, 6);
    CHECK(functions > 12);
    td_saved_model_free(m);
    td_op_table_free(ops);
}

TEST_MAIN(RUN(artifacts_become_functions) RUN(changed_bytes_are_an_error_or_another_function)
              RUN(lack_of_memory_is_an_error) RUN(a_result_that_is_no_tensor_is_refused)
                  RUN(nodes_of_a_model_become_calls))
