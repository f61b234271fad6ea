/* server/request/infer_request.h - the Open Inference Protocol (KServe v2) behind its two wires: which model
 * version and signature a request means, in the words that clients of the protocol know.
 *
 * A name may be NAME:SIGNATURE: the model NAME as its other signature shows it. A request may also name a
 * signature in its parameter "signature_name".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_INFER_REQUEST_H
#define TD_SERVER_REQUEST_INFER_REQUEST_H

#include "proto/request/infer_pb.h"
#include "server/sched/request.h"
#include "server/request/shm.h"

/* What of the protocol's extensions is served: the i-th; NULL behind the last. */
const char *td_infer_extension(int i);

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
/* The counted servable, unless *out is one that was found before, and the key of the signature asked for (""
 * the default one; the name's text). NOT_FOUND "Request for unknown model: 'NAME' is not found";
 * INVALID_ARGUMENT when name and parameter disagree; UNAVAILABLE of a cold version, as td_registry_find. */
TD_MUST enum td_code td_infer_find(struct td_registry *reg, const struct td_infer_ref *ref,
                                   struct td_cold *cold, struct td_servable **out, const char **signature,
                                   struct td_err *err);
/* Whether requests to it are answered, be it after its load. Errors as td_infer_find, and
 * FAILED_PRECONDITION for a signature that it has not. */
TD_MUST enum td_code td_infer_ready(struct td_registry *reg, const struct td_infer_ref *ref,
                                    struct td_err *err);
/* The signature that metadata shows. NULL (and TD_OK): several signatures, none of them the default; a
 * request has to name one. FAILED_PRECONDITION for a name that the model has not. */
TD_MUST enum td_code td_infer_view(const struct td_servable *s, const char *signature,
                                   const struct td_signature **out, struct td_err *err);

/* Makes room for n inputs in q. */
TD_MUST enum td_code td_infer_room(struct td_request *q, int n, struct td_err *err);
/* Before inputs are decoded: q->in gets all n, with the names, datatypes and shapes that in(ctx, i) has, to
 * be given bytes in that order. Names and shapes as td_infer_check, equal names, datatypes that are unknown
 * or not the signature's: INVALID_ARGUMENT. (That their bytes came is looked at when each is decoded.) */
typedef const struct td_infer_in *td_infer_in_fn(void *ctx, int i);
TD_MUST enum td_code td_infer_expect(struct td_request *q, struct td_registry *reg, td_infer_in_fn *in,
                                     void *ctx, int n, struct td_err *err);
/* Adds an input; takes t. INVALID_ARGUMENT when the name is there already (t is then cleared). */
TD_MUST enum td_code td_infer_add(struct td_request *q, const char *name, struct td_tensor *takes,
                                  struct td_err *err);

/* Where tensors outside the message are: NULL shm: nowhere. local: the client is on this host. */
struct td_infer_shared {
    struct td_shm *shm;
    bool local;
    char owner[33]; /* whose regions those are; told where one is named */
    uint64_t taken; /* bytes that were fetched so far for this request */
};

/* Puts priority and time limit into q; own_limit is set when the time limit is the nearest deadline of q. */
void td_infer_limits(struct td_request *q, const struct td_infer_options *o);
/* The tensor of an input, from shared memory or from the message. */
TD_MUST enum td_code td_infer_fetch(struct td_infer_shared *from, const struct td_infer_in *in,
                                    uint64_t max_bytes, struct td_tensor *out, struct td_err *err);
/* Only the outputs of the list shall be made; none: all. */
TD_MUST enum td_code td_infer_filter(struct td_request *q, const struct td_infer_out *out, int n,
                                     struct td_err *err);
/* Whether a decoded request has the inputs of its signature and, where its model has a configuration, shapes
 * that it allows. INVALID_ARGUMENT in Triton's words. */
TD_MUST enum td_code td_infer_check(const struct td_request *q, struct td_err *err);
/* A decoded request is about to run. As td_infer_check; UNAVAILABLE, now and
 * after the run, when its own time limit is over. */
TD_MUST enum td_code td_infer_prepare(struct td_request *q, struct td_err *err);
/* Classes of outputs whose classes are wanted take their place; outputs that are to go to shared memory are
 * written there. asked: those of td_infer_filter. */
TD_MUST enum td_code td_infer_deliver(const struct td_infer_shared *to, struct td_request *q,
                                      const struct td_infer_out *asked, int n, struct td_err *err);

/* The k largest values of t, as texts "VALUE:INDEX" or "VALUE:INDEX:LABEL" where the class has one: of every
 * row of axis 0 when rows, into shape [rows, k], else of the whole tensor, into [k]. labels: NULL none.
 * INVALID_ARGUMENT for a dtype that has no order. */
TD_MUST enum td_code td_infer_top(const struct td_tensor *t, bool rows, int64_t k,
                                  const struct td_label_list *labels, struct td_tensor *out,
                                  struct td_err *err);

#endif
