/* core/base/signal_stack.h - a stack of its own for the signal handlers of a thread that runs kernels.
 *
 * A library's kernel may use the stack pointer for itself while it computes (oneDNN's dnnl_sgemm for AVX2
 * has it
 * in the heap). A handler that runs where it points writes over what lies below; with SA_ONSTACK it runs
 * on the
 * stack that is made here. The only handler that meets kernels is that of files which shrink while they are
 * mapped (proto/bytes/mapping.h).
 *
 * Threads: each for itself; the stack goes with its thread. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_SIGNAL_STACK_H
#define TD_CORE_BASE_SIGNAL_STACK_H

/* Before kernels run on this thread: makes the stack at the first call, unless the thread has one (a
 * sanitizer's, the program's). Without memory for it handlers run as if this had not been called. */
void td_signal_stack_make(void);

#endif
