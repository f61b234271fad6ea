/* core/graph/sig.h - parses the signature text of an op row ("(a:T) -> (b:T) {T:type}") into a td_op_def.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_SIG_H
#define TD_CORE_GRAPH_SIG_H

#include "core/base/arena.h"
#include "core/graph/op.h"

/* Everything of *def hangs on the arena. INTERNAL names the op and the place in the text. */
TD_MUST enum td_code td_sig_parse(struct td_arena *a, const char *name, const char *text,
                                  struct td_op_def *def, struct td_err *err);

#endif
