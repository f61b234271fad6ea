/* server/grpc/grpc_methods.c - the tables that methods.def expands to.
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
