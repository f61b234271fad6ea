/* server/request/request_span.h - a request that is over, as spans (server/base/spans.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_REQUEST_SPAN_H
#define TD_SERVER_REQUEST_REQUEST_SPAN_H

#include "server/sched/request.h"

/* Before it is dropped, by the front end; nothing is done for one that is not sampled. http_status: over
 * REST, else 0. */
void td_request_span(const struct td_request *q, enum td_entry_point entry, int http_status,
                     const struct td_err *err);

#endif
