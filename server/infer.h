/* server/infer.h - the Open Inference Protocol (KServe v2) behind its two wires: which model version and
 * signature a request means, in the words that clients of the protocol know.
 *
 * A name may be NAME:SIGNATURE: the model NAME as its other signature shows it. A request may also name a
 * signature in its parameter "signature_name".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_INFER_H
#define TD_SERVER_INFER_H

#include "server/request.h"

#define TD_INFER_PLATFORM "tensorflow_savedmodel"

/* What a request names. Texts are borrowed. */
struct td_infer_ref {
    const char *name; /* NAME or NAME:SIGNATURE */
    bool has_version;
    int64_t version;
    const char *label;     /* NULL none */
    const char *signature; /* of the parameter; "" none */
};

/* The version that the text names; "" is none. INVALID_ARGUMENT for other text than a number. */
TD_MUST enum td_code td_infer_version(const char *text, struct td_infer_ref *ref, struct td_err *err);
/* The counted servable, and the key of the signature asked for ("" the default one; the name's text).
 * NOT_FOUND "Request for unknown model: 'NAME' is not found"; INVALID_ARGUMENT when name and parameter
 * disagree. */
TD_MUST enum td_code td_infer_find(struct td_registry *reg, const struct td_infer_ref *ref,
                                   struct td_servable **out, const char **signature, struct td_err *err);
/* The signature that metadata shows. NULL (and TD_OK): several signatures, none of them the default; a
 * request has to name one. FAILED_PRECONDITION for a name that the model has not. */
TD_MUST enum td_code td_infer_view(const struct td_servable *s, const char *signature,
                                   const struct td_signature **out, struct td_err *err);

/* Makes room for n inputs in q. */
TD_MUST enum td_code td_infer_room(struct td_request *q, int n, struct td_err *err);
/* Adds an input; takes t. INVALID_ARGUMENT when the name is there already (t is then cleared). */
TD_MUST enum td_code td_infer_add(struct td_request *q, const char *name, struct td_tensor *takes,
                                  struct td_err *err);

/* The k largest values of t, as texts "VALUE:INDEX": of every row of axis 0 when rows, into shape [rows, k],
 * else of the whole tensor, into [k]. INVALID_ARGUMENT for a dtype that has no order. */
TD_MUST enum td_code td_infer_top(const struct td_tensor *t, bool rows, int64_t k, struct td_tensor *out,
                                  struct td_err *err);

#endif
