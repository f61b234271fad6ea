/* server/grpc/grpc_v2.h - what handlers of GRPCInferenceService share: the model that a request names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_V2_H
#define TD_SERVER_GRPC_GRPC_V2_H

#include "server/grpc/grpc_rpc.h"

/* { name = 1, version = 2 }, as most of its requests begin. */
struct td_grpc_v2_name {
    const char *name, *version; /* "" none */
};
TD_MUST enum td_code td_grpc_v2_model(struct td_rpc *r, struct td_arena *a, struct td_grpc_v2_name *out,
                                      struct td_err *err);

/* td_infer_find of r->q, with the version as text. */
TD_MUST enum td_code td_grpc_v2_find(struct td_rpc *r, const char *model, const char *version,
                                     const char *asked, const char **signature, struct td_err *err);

#endif
