/* server/base/trace_file.h - the file of --trace_file: traces as Triton writes them.
 *
 *   [ {"id": 1, "model_name": "m", "model_version": 1, "request_id": "r"},
 *     {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 5}, ...]},  level TIMESTAMPS
 *     {"id": 1, "activity": "TENSOR_QUEUE_INPUT",                                             level TENSORS
 *      "tensor": {"name": "x", "data": "1.0,2.0", "shape": "1,2", "dtype": "FP32"}}, ... ]
 *
 * The file is whole JSON after each trace. With a log_frequency of N > 0 each N traces get a file of their
 * own, path.0, path.1 and so on. Bounded: a tensor's text, and all that is written.
 *
 * Threads: any, one at a time; whoever writes waits for the disk.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_TRACE_FILE_H
#define TD_SERVER_BASE_TRACE_FILE_H

#include "core/base/tensor.h"
#include "server/base/stats.h"

#define TD_TRACE_TENSOR_BYTES                                                                                \
    ((size_t)1 << 20)                  /* of a tensor's data as text; more is left out ("truncated": true) */
#define TD_TRACE_TENSOR_ELEMENTS 65536 /* of them at most, the first ones */
#define TD_TRACE_FILE_BYTES ((int64_t)1 << 30) /* of all that a process writes */

/* Called once, before requests. "": no file. Fails when it cannot be made. */
TD_MUST enum td_code td_trace_file_open(const char *path, struct td_err *err);
const char *td_trace_file_path(void); /* "" none */
void td_trace_file_close(void);

struct td_trace_record {
    const char *model, *request_id;
    int64_t version;
    bool timestamps, tensors;
    int64_t start_ns, end_ns;     /* of td_clock_ns */
    const struct td_times *times; /* between them */
    const struct td_named *in, *out;
    int n_in, n_out;
    int64_t log_frequency;
};
/* RESOURCE_EXHAUSTED beyond the limit. */
TD_MUST enum td_code td_trace_file_write(const struct td_trace_record *r, struct td_err *err);

#endif
