/* deploy/grpc/grpc_core_log.h - where the log lines of a gRPC core go that has no gpr_set_log_function any
 * more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GRPC_CORE_LOG_H
#define GRPC_CORE_LOG_H
#ifdef __cplusplus
extern "C" {
#endif

/* Hands every line to `line`, on any thread, instead of to stderr. The first call counts. */
void grpc_core_log_to(void (*line)(const char *message));

#ifdef __cplusplus
}
#endif
#endif
