/* core/run/engine.c - an engine is its parts: see engine.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/engine.h"

#include "core/base/timings.h"

enum td_code td_engine_init(struct td_engine *e, const struct td_op *const *families, struct td_err *err)
{
    *e = (struct td_engine){0};
    return td_op_table_new(families, &e->ops, err);
}

void td_engine_fini(struct td_engine *e)
{
    td_op_table_free(e->ops);
    td_timings_close(e->timings);
    *e = (struct td_engine){0};
}

enum td_code td_engine_add_ops(struct td_engine *e, const struct td_op *rows, struct td_err *err)
{
    return td_op_table_add(e->ops, rows, err);
}

enum td_code td_engine_add_kernels(struct td_engine *e, const char *op, const struct td_kernel *rows,
                                   struct td_err *err)
{
    return td_op_table_add_kernels(e->ops, op, rows, err);
}
