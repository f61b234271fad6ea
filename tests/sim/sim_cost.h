/* tests/sim/sim_cost.h - what a kernel takes on the simulated GPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SIM_COST_H
#define TD_TESTS_SIM_COST_H

#include "core/run/device_run.h"
#include "tests/sim/sim_gpu.h"

struct sim_kernel_cost {
    double ns, share; /* with its share of the processors, 0 to 1, to itself */
};
struct sim_kernel_cost sim_kernel_cost(const struct sim_gpu_costs *c, const struct td_launch *l);

#endif
