/* proto/model/signature_pb.h - SignatureDef messages (as in proto/schema/loader.proto) into the td_signature
 * rows of proto/model/saved_model.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_SIGNATURE_PB_H
#define TD_PROTO_MODEL_SIGNATURE_PB_H

#include "proto/schema/loader.pb-c.h"
#include "proto/model/saved_model.h"

/* Fills in m->signatures, sorted by key, each with its inputs and outputs sorted by key. Everything is copied
 * to the arena. INVALID_ARGUMENT names signature and tensor. tensor_bytes bounds each default value. */
TD_MUST enum td_code td_signatures_from_proto(const Tensord__Loader__MetaGraphDef *p, uint64_t tensor_bytes,
                                              struct td_saved_model *m, struct td_err *err);

#endif
