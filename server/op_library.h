/* server/op_library.h - ops from shared objects (--op_library), as rows of the engine's op table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_OP_LIBRARY_H
#define TD_SERVER_OP_LIBRARY_H

#include "core/run/engine.h"

struct td_op_libraries;

/* Opens the comma-separated shared objects (NULL or "": none, *out is NULL) and adds their ops and kernels to
 * the engine. Returns new; it must outlive the table and every model. INVALID_ARGUMENT names the library and
 * what is wrong with it: no such file, no entry point, another ABI, a bad row, a name that is taken, a
 * signature that does not parse; the table may then only be freed. */
TD_MUST enum td_code td_op_libraries_open(const char *paths, struct td_engine *engine,
                                          struct td_op_libraries **out, struct td_err *err);
void td_op_libraries_close(struct td_op_libraries *l); /* accepts NULL */

#endif
