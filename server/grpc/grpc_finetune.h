/* server/grpc/grpc_finetune.h - what the unary and the streaming methods of tensord.v1.FineTuning share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_FINETUNE_H
#define TD_SERVER_GRPC_GRPC_FINETUNE_H

#include "server/grpc/grpc_document.h"
#include "server/grpc/grpc_rpc.h"
#include "server/jobs/job_access.h"

/* The texts and whole numbers of a request by field number; "" and 0 where there is none. */
enum { TD_FINETUNE_FIELDS = 5 };
struct td_finetune_ask {
    const char *text[TD_FINETUNE_FIELDS];
    int64_t number[TD_FINETUNE_FIELDS];
};
TD_MUST enum td_code td_finetune_read(struct td_wire in, struct td_arena *a, struct td_finetune_ask *out,
                                      struct td_err *err);
/* Of a call that gave rc: the status that f means, explained in the trailing metadata. TD_OK when rc is. */
TD_MUST enum td_code td_finetune_fault(struct td_rpc *r, enum td_code rc, const struct td_fault *f,
                                       struct td_err *err);
/* UNAVAILABLE when this server has no jobs. */
TD_MUST enum td_code td_finetune_ready(const struct td_rpc *r, struct td_err *err);
/* What judges models for the caller's token, while its handler runs. */
struct td_job_judge td_finetune_judge(struct td_rpc *r);
/* Takes doc: the reply, of type d. */
TD_MUST enum td_code td_finetune_reply(struct td_rpc *r, const ProtobufCMessageDescriptor *d, json_t *doc,
                                       struct td_err *err);

#endif
