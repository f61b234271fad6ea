/* server/base/latency.h - how long requests took, by model, version, signature, API, wire and outcome.
 *
 * A loaded version opens its counts once and keeps a row for each of its signatures, so that a request which
 * ends is two relaxed additions in a cell that its row leads to: no lock, no hash, and no other count of
 * requests. Everything else that is told of requests (TensorFlow Serving's request_count and
 * request_latency, which know no version) is summed from these when it is asked for.
 *
 * Labels are bounded: versions that are loaded, their first TD_LATENCY_SIGNATURES signatures, the enums. The
 * counts of a version go when nobody has it open any more, and its series with them; what they came to stays
 * in the sums of the model, which never fall. A version that is loaded again in place goes on counting where
 * it was.
 *
 * Threads: any. Opening, closing, the first request of a kind, and writing take a lock, which is the last in
 * the order of locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_LATENCY_H
#define TD_SERVER_BASE_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/base/metrics_text.h"

#define TD_LATENCY_SIGNATURES 64 /* of a version; the requests of further ones count under none */

/* What a request asked for, and how it came. TD_API_OTHER: status and metadata. */
enum td_api {
    TD_API_OTHER,
    TD_API_PREDICT,
    TD_API_CLASSIFY,
    TD_API_REGRESS,
    TD_API_MULTI,
    TD_API_INFER,
    TD_API_GRADIENT,
    TD_N_APIS
};
enum td_entry_point { TD_ENTRY_GRPC, TD_ENTRY_REST, TD_N_ENTRIES };
/* TensorFlow Serving's names of an API: "Predict" over gRPC, "predict" over REST. */
const char *td_latency_api(enum td_api api, enum td_entry_point entry);

struct td_latency_cell;
struct td_latency_row { /* of one signature */
    struct td_latency_row *next;
    char *signature; /* "": of none, or of several */
    _Atomic(struct td_latency_cell *) cells;
};

struct td_latency_version;
/* Of a model, or of the names that are no model's; begins as zeros but for the name, and stays for good. */
struct td_latency_model {
    const char *name;
    struct td_latency_row none; /* requests that reached no version */
    struct td_latency_row past; /* what versions that have gone came to */
    struct td_latency_version *versions;
};

/* The counts of a version, which others may have open too; NULL without memory. td_latency_close once. */
struct td_latency_version *td_latency_open(struct td_latency_model *m, int64_t version);
/* Its row of a signature, "" that of none: until it is closed. NULL only for v NULL. */
struct td_latency_row *td_latency_row(struct td_latency_version *v, const char *signature);
void td_latency_close(struct td_latency_version *v);

/* A request has been answered after us. Without memory for its cell, or a row, it stays uncounted. */
void td_latency_count(struct td_latency_row *r, enum td_api api, enum td_entry_point entry, enum td_code code,
                      int64_t us);

/* TensorFlow Serving's bounds, in microseconds. */
extern const struct td_bounds td_latency_bounds;
/* The samples of a model, by all labels; by API and wire, of those that went well; and how many by code. */
TD_MUST enum td_code td_latency_put(struct td_latency_model *m, struct td_sink *out, const char *name,
                                    struct td_err *err);
TD_MUST enum td_code td_latency_put_apis(struct td_latency_model *m, struct td_sink *out, const char *name,
                                         struct td_err *err);
TD_MUST enum td_code td_latency_put_counts(struct td_latency_model *m, struct td_sink *out, const char *name,
                                           struct td_err *err);
/* Its requests in all, of versions that have gone too. */
uint64_t td_latency_total(struct td_latency_model *m);

#endif
