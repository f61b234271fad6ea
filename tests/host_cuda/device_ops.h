/* tests/host_cuda/device_ops.h - the ops with the device's kernels: of a process's graphs, or of an engine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_DEVICE_OPS_H
#define TD_TESTS_HOST_CUDA_DEVICE_OPS_H

#include "core/run/engine.h"
#include "kernels/cuda/rows.h"
#include "kernels/ops.h"
#include "tests/test.h"

static inline void add_device_kernels(struct td_op_table *ops)
{
    struct td_err err = {0};
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            CHECK_OK(td_op_table_add_kernels(ops, r->op, r->rows, &err));
        }
    }
}

/* One table for all of a process's graphs, for ever. */
static inline struct td_op_table *device_ops(void)
{
    static struct td_op_table *ops;
    struct td_err err = {0};
    if (ops == NULL) {
        CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
        add_device_kernels(ops);
    }
    return ops;
}

static inline void device_engine(struct td_engine *e)
{
    struct td_err err = {0};
    CHECK_OK(td_engine_init(e, td_op_families, &err));
    add_device_kernels(e->ops);
}

#endif
