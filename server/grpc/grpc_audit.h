/* server/grpc/grpc_audit.h - calls in the audit log (server/base/audit.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_AUDIT_H
#define TD_SERVER_GRPC_GRPC_AUDIT_H

#include "server/base/audit.h"
#include "server/grpc/grpc_impl.h"

#define TD_AUDITED_NAME 128 /* bytes of a model's name */

/* Whether the method does something that is to be told, the model's name that a message of it
 * holds ("" none), and the line. */
bool td_grpc_is_act(int method);
void td_grpc_audit_name(int method, struct td_wire message, char *out, size_t n);
void td_grpc_audit(int method, const grpc_metadata_array *sent, grpc_call *call, const char *model,
                   const struct td_err *err);

#endif
