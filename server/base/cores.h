/* server/base/cores.h - how many processors this process may use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_CORES_H
#define TD_SERVER_BASE_CORES_H

/* At least 1: the processors of the affinity mask (a cpuset narrows it), but no more than the CPU quota of
 * the control group and those around it, rounded up (cpu.max of cgroup v2, cpu.cfs_quota_us of v1). root is
 * "" outside tests: a folder put before /proc and /sys. */
int td_cores_usable(const char *root);

#endif
