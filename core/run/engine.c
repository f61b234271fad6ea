/* core/run/engine.c - the parts of an engine, made and freed together.
 *
 * The table of ops is core/graph/op.c's, and what is added to it goes straight there; the memory of times is
 * opened by whoever knows the state directory (server/main.c) and put in. An engine is filled on one thread,
 * before the first model is loaded, and only read from then on, but for the times, which lock themselves.
 *
 * Does not: load modules (server/op_library.c), or models (core/run/model.c).
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
