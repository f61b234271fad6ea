/* proto/model/signature_write.h - a td_signature as a SignatureDef message: the other way round of
 * proto/model/signature_pb.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_SIGNATURE_WRITE_H
#define TD_PROTO_MODEL_SIGNATURE_WRITE_H

#include "proto/bytes/sink.h"
#include "proto/model/saved_model.h"

/* Appends sig under its key, as an entry of the map that is field `field` of a message. */
TD_MUST enum td_code td_signature_write(struct td_sink *s, uint32_t field, const struct td_signature *sig,
                                        struct td_err *err);

#endif
