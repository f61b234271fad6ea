/* proto/request/infer_param.h - parameters of the Open Inference Protocol: of a request, and of its tensors.
 *
 * Both wires read a parameter into a td_infer_param and hand it to one of the two functions below, which know
 * the names that mean something and the types their values must have. Other names are accepted and ignored.
 *
 * Requests stand alone here: sequence_id, sequence_start and sequence_end must have their types and change
 * nothing, which is what Triton does for a model without a sequence batcher.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_INFER_PARAM_H
#define TD_PROTO_REQUEST_INFER_PARAM_H

#include "proto/pb/wire.h"

enum td_param_kind {
    TD_PARAM_OTHER, /* nothing, a real number, null, a list, an object */
    TD_PARAM_FLAG,
    TD_PARAM_INT,  /* i */
    TD_PARAM_UINT, /* u: of gRPC's uint64_param, and JSON numbers too large for i */
    TD_PARAM_TEXT,
};
struct td_infer_param {
    const char *key;
    enum td_param_kind kind;
    bool flag;
    int64_t i;
    uint64_t u;
    const char *text;
    bool json;        /* what error texts say */
    const char *sent; /* of JSON: the n_sent bytes of the value, for error texts */
    int n_sent;
};

/* A map entry of InferParameter { bool_param = 1, int64_param = 2, string_param = 3, double_param = 4,
 * uint64_param = 5 }. Texts are the arena's. */
TD_MUST enum td_code td_infer_param_read(struct td_wire entry, struct td_arena *a, struct td_infer_param *out,
                                         struct td_err *err);

/* Of a request. Zeroed but for signature "". */
struct td_infer_options {
    const char *signature; /* "" none */
    bool binary_output;    /* of outputs that do not say */
    int priority;          /* 0 none */
    uint64_t timeout_us;   /* 0 none */
};
TD_MUST enum td_code td_infer_option_set(struct td_infer_options *o, const struct td_infer_param *p,
                                         struct td_err *err);

/* Of a tensor: where it is, or is to go. */
struct td_infer_place {
    const char *region; /* of shared memory; NULL: in the message */
    uint64_t offset, bytes;
    bool sized;   /* bytes is given */
    bool in_body; /* of JSON: body_bytes are given */
    uint64_t body_bytes;
    bool told, binary; /* of JSON outputs: told whether to be binary */
    int64_t classes;   /* of outputs: the largest so many, as texts; 0: the tensor itself */
};
/* Of an input or output of this name. */
TD_MUST enum td_code td_infer_place_set(struct td_infer_place *place, const char *name,
                                        const struct td_infer_param *p, struct td_err *err);
/* Once all are set: INVALID_ARGUMENT for those that need or exclude each other. */
TD_MUST enum td_code td_infer_place_check(const struct td_infer_place *place, const char *name,
                                          struct td_err *err);

#endif
