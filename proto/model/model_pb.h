/* proto/model/model_pb.h - SignatureDefs and the metadata messages of TensorFlow Serving, written from what
 * was loaded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_MODEL_PB_H
#define TD_PROTO_MODEL_MODEL_PB_H

#include "proto/request/predict_pb.h"
#include "proto/model/saved_model.h"

/* GetModelMetadataRequest { model_spec = 1, metadata_field = 2 repeated }. */
struct td_metadata_pb {
    struct td_model_spec spec;
    const char **field;
    int n_field;
};
TD_MUST enum td_code td_metadata_read(struct td_wire w, struct td_arena *a, struct td_metadata_pb *out,
                                      struct td_err *err);
/* GetModelMetadataResponse: model_spec = 1, metadata = 2 { "signature_def": Any of SignatureDefMap }. */
TD_MUST enum td_code td_metadata_write(struct td_sink *s, const char *name, int64_t version,
                                       const struct td_saved_model *m, struct td_err *err);

#endif
