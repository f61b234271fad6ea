/* server/grpc/grpc_methods.c - the tables that methods.def expands to.
 *
 * A row is a path, a kind, a handler and who may call it. Handlers are declared from the same rows, so a
 * method without a handler does not link. Nothing else lists methods: the server registers these
 * (server/grpc/grpc.c), and reflection names their services (server/grpc/grpc_reflect.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/grpc/grpc_rpc.h"

#define RPC(service, method, kind, name, ...) td_rpc_fn td_rpc_##name;
#include "server/grpc/methods.def"
#undef RPC

const struct td_rpc_method td_rpc_methods[] = {
#define RPC(service, method, kind, name, ...)                                                                \
    {"/" service "/" method, TD_RPC_##kind, td_rpc_##name, {__VA_ARGS__}},
#include "server/grpc/methods.def"
#undef RPC
};

const int td_rpc_n_methods = (int)(sizeof td_rpc_methods / sizeof td_rpc_methods[0]);
