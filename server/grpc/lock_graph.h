/* server/grpc/lock_graph.h - turns off the record of lock orders that Debian's abseil keeps.
 *
 * gRPC's locks are abseil's mutexes, and Debian builds these without NDEBUG: each lock then enters one graph
 * of which was taken under which, in search of cycles. The graph has a lock of its own for all threads, and
 * never gives memory back: some 64 KiB a thousand connections. A build with NDEBUG (deploy/grpc.sh) has no
 * such graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_LOCK_GRAPH_H
#define TD_SERVER_GRPC_LOCK_GRAPH_H

#ifdef __cplusplus
extern "C" {
#endif

/* For the process; before gRPC starts, since what was recorded stays. */
void td_lock_graph_off(void);

#ifdef __cplusplus
}
#endif
#endif
