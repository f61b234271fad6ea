/* server/grpc/lock_graph.cc - abseil's switch for its search for deadlocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/lock_graph.h"

#ifndef TD_GRPC_SOURCE
#include <absl/synchronization/mutex.h>
#endif

void td_lock_graph_off(void)
{
#ifndef TD_GRPC_SOURCE
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}
