/* server/request/request_span.c - what of a request its spans tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/request_span.h"

#include "server/base/clock.h"
#include "server/base/spans.h"

void td_request_span(const struct td_request *q, enum td_entry_point entry, int http_status,
                     const struct td_err *err)
{
    if (q->trace.operation == NULL) {
        return;
    }
    td_spans_put(&(struct td_spans_request){
        .context = &q->trace,
        .entry = entry,
        .http_status = http_status,
        .code = err->code,
        .message = err->code != TD_OK ? err->msg : "",
        .model = q->servable != NULL ? td_servable_name(q->servable) : q->model,
        .signature = q->sig != NULL         ? q->sig->key
                     : q->signature != NULL ? q->signature
                                            : "",
        .id = q->id,
        .version = q->servable != NULL ? td_servable_version(q->servable) : 0,
        .opened_ns = q->opened_ns,
        .started_ns = q->started_ns,
        .ended_ns = td_clock_ns(),
        .times = q->times,
    });
}
