/* server/grpc/call_authority.h - the :authority of a call, HTTP/2's Host. gRPC's C API tells it for methods
 * alone that are not registered; its C++ API asks a function of the core for it, and so does this.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_CALL_AUTHORITY_H
#define TD_SERVER_GRPC_CALL_AUTHORITY_H

#include <stddef.h>

struct grpc_call;

#ifdef __cplusplus
extern "C" {
#endif

/* n bytes at *p, without a NUL behind them; 0: none was sent. Borrowed from the call. */
size_t td_call_authority(const struct grpc_call *call, const char **p);

#ifdef __cplusplus
}
#endif
#endif
