/* core/compile/placer.h - which device a node asks for, and which it gets.
 *
 * There is the host, /device:CPU:0, and at most one more (core/run/device_run.h). A node that asks for one of
 * them gets it where it has a kernel; one that asks for none goes to the device if it can, else stays on the
 * host. A node that asks for what is not here, another device, another job's, or a device that has no kernel
 * for it, is placed as if it had not asked (soft placement), or is refused with TensorFlow's words when its
 * model is loaded without soft placement.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PLACER_H
#define TD_CORE_COMPILE_PLACER_H

#include "core/compile/ir.h"
#include "core/run/plan.h"
#include "core/run/select.h"

/* The kernels that n may run on the model's device, in order; returns how many: 0 when it stays on the
 * host. */
int td_placer_device_rows(const struct td_model_opts *o, const struct td_node *n,
                          const struct td_kernel *rows[TD_KERNEL_MOST]);
/* Gives the step its rows on the model's device, and says which of its inputs stay on the host; none when its
 * node does not run there. */
TD_MUST enum td_code td_placer_step(struct td_plan *p, struct td_step *s, struct td_err *err);
bool td_placer_on_device(const struct td_model_opts *o, const struct td_node *n);
/* What n asked for in vain: "asks for /device:GPU:0, which is not here"; "" when it got what it asked for.
 * Cut to bytes. */
void td_placer_note(const struct td_model_opts *o, const struct td_node *n, char *text, size_t bytes);
/* The number of "/device:GPU:1", of a device's name or of a node's; -1: it is none, or says none. */
int td_placer_device_number(const char *name);
/* The number of the first GPU that a node of the graph or of a function asks for; -1: none does. */
int td_placer_asked_for(const struct td_graph *graph, const struct td_library *lib);
/* Refuses nodes that asked in vain, unless placement is soft; logs where each node goes when asked to. */
TD_MUST enum td_code td_placer_run(const struct td_model_opts *o, const struct td_ir *ir, bool log,
                                   struct td_err *err);

#endif
