/* tests/second_device_kernel.h - a kernel that only the tests' second device has: MatMul of floats.
 *
 * It is added to an op that is there, as a device's module adds its own (core/run/engine.h), and uses all
 * that a kernel row may ask for: a state made for the shapes, a workspace, a bias as epilogue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SECOND_DEVICE_KERNEL_H
#define TD_TESTS_SECOND_DEVICE_KERNEL_H

#include "core/run/engine.h"

#define SECOND_DEVICE_MATMUL "matmul.second_device"

TD_MUST enum td_code td_second_device_add_kernels(struct td_engine *e, struct td_err *err);
/* Calls so far, and those of them that added a bias; states that are alive. */
struct second_device_kernel_counts {
    long calls, biases, states;
};
struct second_device_kernel_counts td_second_device_kernel_counts(void);

#endif
