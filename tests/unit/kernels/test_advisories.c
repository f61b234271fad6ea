/* tests/unit/kernels/test_advisories.c - TensorFlow's published vulnerabilities of ops, replayed against
 * ours.
 *
 * A row names the class (and the CVE where there is one), the graph (notation: tests/fuzz/op_graph.h) whose
 * last node is the op, and the code that must come back. Each row runs four times: its values fed and
 * constant, optimised and node by node. Advisories on files are in test_advisory_files.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_graph.h"
#include "tests/test.h"

const char *__asan_default_options(void);

/* Allocations past the limit come back as NULL, as they would from a C library that is short of memory. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

/* Codes, as the table names them. */
#define OK TD_OK
#define INVALID TD_INVALID_ARGUMENT
#define EXHAUSTED TD_RESOURCE_EXHAUSTED
#define UNIMPL TD_UNIMPLEMENTED
#define RANGE TD_OUT_OF_RANGE
#define DENIED TD_PERMISSION_DENIED
#define PRECONDITION TD_FAILED_PRECONDITION
#define MISSING TD_NOT_FOUND

struct advisory {
    const char *what;
    const char *graph;
    enum td_code code;
};

static const struct advisory rows[] = {
#include "tests/unit/kernels/advisories.inc"
};

static int run_row(const struct td_op_table *ops, const struct advisory *row, bool constant, bool eager)
{
    static struct op_graph g;
    struct td_err err = {0};
    CHECK(op_graph_open(&g));
    g.eager = eager;
    CHECK_OK(op_graph_read(&g, row->graph, constant, &err));
    const enum td_code rc = op_graph_run(&g, ops, &err);
    op_graph_close(&g);
    if (rc == row->code && (rc == TD_OK || err.msg[0] != '\0')) {
        return 0;
    }
    fprintf(stderr, "%s: %s, %s: want %s, got %s %s\n", row->what, constant ? "constant" : "fed",
            eager ? "node by node" : "optimised", td_code_name(row->code), td_code_name(rc), err.msg);
    return 1;
}

TEST(every_row_ends_as_it_should)
{
    struct td_op_table *ops;
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    td_log_setup(TD_LOG_ERROR, false);
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int how = 0; how < 4; how++) {
            alarm(30);
            bad += run_row(ops, &rows[i], (how & 1) != 0, (how & 2) != 0);
        }
    }
    td_op_table_free(ops);
    CHECK_INT(bad, 0);
}

TEST_MAIN(RUN(every_row_ends_as_it_should))
