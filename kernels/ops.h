/* kernels/ops.h - all op families: declarations expanded from ops.def, and the list given to the engine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_H
#define TD_KERNELS_OPS_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

#define FAMILY(name) extern const struct td_op td_ops_##name[];
#include "kernels/ops.def"
#undef FAMILY

/* NULL-terminated, for td_op_table_new. */
extern const struct td_op *const td_op_families[];

/* Does what oneDNN else does at the first product it is asked for: writes the machine code of all its
 * products, 15 ms. */
void td_kernels_warm(void);
/* From now on ICU's memory counts towards the budget: before anybody in the process uses ICU. */
void td_kernels_charge(void);
/* Lets go of the machine code that oneDNN keeps for shapes it has met, but for what is in use. */
void td_kernels_trim(void);
/* From now on packed weights are kept in files below dir (the state directory), most_bytes of them at most,
 * for the next process to map (kernels/dense/pack_keeper.h). Before the first model. */
TD_MUST enum td_code td_kernels_keep_packed(const char *dir, uint64_t most_bytes, struct td_err *err);
void td_kernels_keep_packed_no_more(void); /* all models are gone */
/* What the times of kernels depend on, in one line: the processor and the libraries. */
void td_kernels_machine(char *text, size_t bytes);

#endif
