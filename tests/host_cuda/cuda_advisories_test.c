/* tests/host_cuda/cuda_advisories_test.c - the rows of tests/unit/kernels/test_advisories.c on the host-run
 * device: a kernel there refuses what the host's does, with the same code, and touches nothing outside of its
 * tensors. Values are fed, or constant.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"
#include "kernels/cuda/base/device.h"
#include "tests/fuzz/op_graph.h"
#include "tests/host_cuda/device_ops.h"
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

enum { MIB = 1 << 20 };

static struct td_device *device;

static int run_row(const struct td_op_table *ops, const struct advisory *row, bool constant)
{
    static struct op_graph g;
    struct td_err err = {0};
    CHECK(op_graph_open(&g));
    g.device = device;
    CHECK_OK(op_graph_read(&g, row->graph, constant, &err));
    const enum td_code rc = op_graph_run(&g, ops, &err);
    op_graph_close(&g);
    if (rc == row->code && (rc == TD_OK || err.msg[0] != '\0')) {
        return 0;
    }
    fprintf(stderr, "%s: %s: want %s, got %s %s\n", row->what, constant ? "constant" : "fed",
            td_code_name(row->code), td_code_name(rc), err.msg);
    return 1;
}

static void open_engine(struct td_engine *e)
{
    struct td_err err = {0};
    device_engine(e);
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.limit = 256 * MIB}, &device, &err));
}

TEST(every_row_ends_as_it_does_on_the_host)
{
    struct td_engine engine;
    struct td_device_counts c;
    int bad = 0;
    td_log_setup(TD_LOG_ERROR, false);
    open_engine(&engine);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int how = 0; how < 2; how++) {
            alarm(30);
            bad += run_row(engine.ops, &rows[i], how > 0);
        }
    }
    td_cuda_device_count(device, &c);
    CHECK(c.launches > 0);
    CHECK(!c.lost);
    td_engine_fini(&engine);
    td_cuda_device_close(device);
    CHECK_INT(bad, 0);
}

TEST_MAIN(RUN(every_row_ends_as_it_does_on_the_host))
