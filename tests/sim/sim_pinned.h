/* tests/sim/sim_pinned.h - the host's pinned memory beneath the simulated GPU (sim_gpu.h), in the place of
 * CUDA's, and the time that the host takes for copies from and to other memory.
 *
 * Threads: any; the clock's lock is not held. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SIM_PINNED_H
#define TD_TESTS_SIM_PINNED_H

#include "tests/sim/sim_gpu.h"

void sim_pinned_open(const struct sim_gpu_costs *costs);
/* Whether a copy from or to there takes the calling thread's time. */
bool sim_pinned_stages(const void *here);
void sim_pinned_stage(size_t bytes); /* takes it */

#endif
