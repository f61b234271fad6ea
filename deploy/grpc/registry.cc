/* deploy/grpc/registry.cc - the parts of gRPC's C core that a server of ours has: takes the place of
 * src/core/plugin_registry/grpc_plugin_registry.cc, which names all there are and so links all of them.
 *
 * The order is theirs. Left out, next to xDS, RLS and ALTS: proxies, gRPC-LB, injected faults, backend
 * metrics and load balancers other than pick_first. What a client channel needs stays, because the core's own
 * start asks for it.
 *
 * EventEngine, the core's own way of polling, is left out where it can be: a call costs three quarters more
 * with it, and its listener ends the process when a connection is gone before it is looked at
 * (HandleExternalConnection). GRPC_EXPERIMENTS cannot bring it back.
 *
 * Does not: belong to the daemon; deploy/grpc.sh compiles it into the library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <grpc/grpc.h>

#include "src/core/config/core_configuration.h"
#include "src/core/handshaker/endpoint_info/endpoint_info_handshaker.h"
#include "src/core/handshaker/tcp_connect/tcp_connect_handshaker.h"
#include "src/core/lib/experiments/config.h"
#include "src/core/lib/surface/channel_stack_type.h"
#include "src/core/lib/surface/lame_client.h"
#include "src/core/server/server.h"
#include "src/core/server/server_call_tracer_filter.h"

namespace grpc_event_engine::experimental
{
extern void RegisterEventEngineChannelArgPreconditioning(grpc_core::CoreConfiguration::Builder *builder);
}

namespace grpc_core
{

#define PART(name) extern void name(CoreConfiguration::Builder *builder);
#include "parts.def"
#undef PART

/* Before main, for experiments are settled at their first look-up. */
static const bool without_event_engine = [] {
    for (const char *name : {"event_engine_listener", "event_engine_client",
                             "event_engine_for_all_other_endpoints", "event_engine_callback_cq"}) {
        ForceEnableExperiment(name, false);
    }
    return true;
}();

static void RegisterBuiltins(CoreConfiguration::Builder *builder)
{
    RegisterServerCallTracerFilter(builder);
    builder->channel_init()->RegisterV2Filter<LameClientFilter>(GRPC_CLIENT_LAME_CHANNEL).Terminal();
    builder->channel_init()
        ->RegisterFilter(GRPC_SERVER_CHANNEL, &Server::kServerTopFilter)
        .SkipV3()
        .BeforeAll();
}

void BuildCoreConfiguration(CoreConfiguration::Builder *builder)
{
    (void)without_event_engine;
    grpc_event_engine::experimental::RegisterEventEngineChannelArgPreconditioning(builder);
    RegisterEndpointInfoHandshaker(builder);
    RegisterTCPConnectHandshaker(builder); /* the last handshaker: it then comes first */
#define PART(name) name(builder);
#include "parts.def"
#undef PART
    RegisterBuiltins(builder);
}

} // namespace grpc_core
