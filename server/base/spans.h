/* server/base/spans.h - traces of requests for OpenTelemetry: W3C trace context in, spans out, over OTLP/HTTP
 * as JSON to the collector of --otlp_endpoint.
 *
 *   td_trace_begin    a request's headers -> its context, and whether it is sampled: as its caller says, or
 *                     drawn by --trace_sampling where it has none
 *   td_spans_put      at its end: the request's span and its phases', queued
 *
 * A request never waits for the collector: past TD_SPANS_QUEUE requests that wait they are dropped, and
 * counted (tensord_spans_total). Without an endpoint there are no spans; log lines of a request carry the ids
 * of its caller's trace all the same.
 *
 * Threads: any; start and stop are the main thread's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_SPANS_H
#define TD_SERVER_BASE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/log.h"
#include "server/base/metrics.h"
#include "server/base/stats.h"

#define TD_SPANS_QUEUE 2048 /* requests */
#define TD_SPANS_BATCH 256  /* of them in a message at most */

/* Carried by a request. Zeroed: not traced. */
struct td_trace_context {
    const char *operation; /* constant text; NULL: it has no spans */
    struct td_log_trace
        ids; /* for log lines, without spans too: of its trace, and of its span if it has one */
    uint8_t parent_id[8];
    bool has_parent;
    char *state; /* tracestate; owned; NULL none */
};

/* endpoint: "http://HOST[:PORT][/BASE]", where /v1/traces is asked; "": that of OTEL_EXPORTER_OTLP_TRACES_
 * ENDPOINT, as it is, or OTEL_EXPORTER_OTLP_ENDPOINT; none: off. sampling: from 0 to 1. INVALID_ARGUMENT for
 * another scheme: a collector beside the daemon speaks TLS with the world. */
TD_MUST enum td_code td_spans_start(const char *endpoint, double sampling, struct td_err *err);
/* Sends what waits, for a second at most, and ends the thread. */
void td_spans_stop(void);
bool td_spans_on(void);

/* A text of n bytes; p NULL: none was sent. */
struct td_header {
    const char *p;
    size_t n;
};
/* Of a header that is not as W3C has it a new trace is begun where spans are on. operation: a method's path,
 * or a route; NULL: what has no spans. */
void td_trace_begin(struct td_trace_context *c, struct td_header traceparent, struct td_header tracestate,
                    const char *operation);
void td_trace_end(struct td_trace_context *c); /* frees what it owns */

/* A request that is over; texts are copied. */
struct td_spans_request {
    const struct td_trace_context *context;
    enum td_entry_point entry;
    int http_status; /* of TD_ENTRY_REST */
    enum td_code code;
    const char *message; /* of an error */
    const char *model, *signature, *id;
    int64_t version;
    int64_t opened_ns, started_ns, ended_ns; /* of td_clock_ns; started_ns 0: it was not run */
    struct td_times times;
};
void td_spans_put(const struct td_spans_request *r);

#endif
