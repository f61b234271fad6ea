/* server/request/infer_run.c - an inference request of the Open Inference Protocol from its parts to its
 * outputs: limits, tensors from and to shared memory, batch size, classes. See infer_request.h.
 *
 * A tensor in shared memory is a place in a region: numbers are read straight into the tensor's own bytes,
 * strings are parsed from a copy, since a client may write there meanwhile. What all inputs of a request take
 * is counted against the limit of a request. Outputs are written the same way when the run is over.
 *
 * A time limit in the message holds when it is nearer than the server's. When it passes, clients of this
 * protocol are told UNAVAILABLE in Triton's words, which `ended` puts in place of the error; that is also
 * where a trace is written, to the file or the log.
 *
 * Does not: read either wire (server/http/rest_infer.c, server/grpc/grpc_infer.c), check inputs
 * (infer_check.c), or rank classes (infer_top.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/request/infer_request.h"
#include "server/base/trace.h"
#include "server/base/trace_file.h"

void td_infer_limits(struct td_request *q, const struct td_infer_options *o)
{
    int64_t ns, at;
    q->priority = o->priority;
    if (o->timeout_us == 0 || o->timeout_us > INT64_MAX || !td_i64_mul((int64_t)o->timeout_us, 1000, &ns) ||
        !td_i64_add(td_clock_ns(), ns, &at)) {
        return; /* none, or one beyond all clocks */
    }
    if (q->run.work.deadline_ns == 0 || at < q->run.work.deadline_ns) {
        q->run.work.deadline_ns = at;
        q->own_limit = true;
    }
}

/* ------------------------------------------------------------------ shared memory */

static enum td_code check_shared(const struct td_infer_shared *s, const char *name, struct td_err *err)
{
    TD_FAIL_IF(s->shm == NULL, err, UNIMPLEMENTED, "tensor '%s': shared memory is not served here", name);
    TD_FAIL_IF(!s->local, err, PERMISSION_DENIED,
               "tensor '%s': shared memory is for clients on this host only (--open_management changes that)",
               name);
    return TD_OK;
}

/* Strings are parsed from a copy of their bytes. */
static enum td_code fetch_strings(const struct td_infer_shared *from, const struct td_infer_in *in,
                                  uint64_t max_bytes, struct td_tensor *out, struct td_err *err)
{
    const struct td_infer_place *p = &in->place;
    char *bytes = td_calloc((size_t)p->bytes + 1, 1);
    if (bytes == NULL) {
        return td_no_memory(err, (size_t)p->bytes, in->name);
    }
    enum td_code rc = td_shm_read(from->shm, from->owner, p->region, p->offset, bytes, p->bytes, err);
    if (rc == TD_OK) {
        struct td_infer_in raw = *in;
        const struct td_seg seg = {(const uint8_t *)bytes, (size_t)p->bytes};
        raw.typed = false;
        td_wire_init(&raw.data, &seg, 1);
        rc = td_infer_tensor(&raw, max_bytes, out, err);
    }
    td_free(bytes);
    return rc;
}

static enum td_code fetch_numbers(const struct td_infer_shared *from, const struct td_infer_in *in,
                                  enum td_dtype dtype, struct td_tensor *out, struct td_err *err)
{
    const struct td_infer_place *p = &in->place;
    const int64_t n = td_shape_count(&in->shape);
    size_t bytes = 0;
    struct td_tensor t;
    TD_FAIL_IF(n < 0 || !td_size_mul((size_t)n, td_dtype_size(dtype), &bytes) || bytes != p->bytes, err,
               INVALID_ARGUMENT,
               "input byte size mismatch for input '%s': expected %zu bytes for shape %s of %s, got %llu",
               in->name, bytes, TD_SHAPE_STR(&in->shape), in->datatype, (unsigned long long)p->bytes);
    TD_TRY(td_tensor_new(&t, dtype, &in->shape, err));
    if (td_shm_read(from->shm, from->owner, p->region, p->offset, t.data, bytes, err)) {
        td_tensor_clear(&t);
        return err->code;
    }
    for (size_t i = 0; dtype == TD_BOOL && i < bytes; i++) {
        TD_DATA(&t, td_bool)[i] = TD_DATA(&t, td_bool)[i] != 0;
    }
    *out = t;
    return TD_OK;
}

enum td_code td_infer_fetch(struct td_infer_shared *from, const struct td_infer_in *in, uint64_t max_bytes,
                            struct td_tensor *out, struct td_err *err)
{
    const struct td_infer_place *p = &in->place;
    if (p->region == NULL) {
        return td_infer_tensor(in, max_bytes, out, err);
    }
    const enum td_dtype dtype = td_v2_dtype(in->datatype);
    TD_FAIL_IF(dtype == TD_DTYPE_NONE, err, INVALID_ARGUMENT, "input '%s': datatype '%s' is unknown",
               in->name, in->datatype);
    TD_TRY(check_shared(from, in->name, err));
    TD_TRY(td_shm_check(from->shm, from->owner, p->region, p->offset, p->bytes, err));
    from->taken += p->bytes; /* each is within the limit, and this is looked at each time: no overflow */
    TD_FAIL_IF(from->taken > td_shm_limit(from->shm), err, INVALID_ARGUMENT,
               "input '%s': the inputs in shared memory are larger than max_request_bytes (%llu)", in->name,
               (unsigned long long)td_shm_limit(from->shm));
    return dtype == TD_STRING ? fetch_strings(from, in, max_bytes, out, err)
                              : fetch_numbers(from, in, dtype, out, err);
}

static enum td_code store(const struct td_infer_shared *to, const struct td_named *o,
                          const struct td_infer_place *p, struct td_err *err)
{
    const size_t n = td_v2_raw_size(&o->t);
    TD_TRY(check_shared(to, o->name, err));
    TD_FAIL_IF(
        n > p->bytes, err, INVALID_ARGUMENT,
        "shared memory size specified with the request for output '%s' (%llu bytes) should be at least %zu "
        "bytes to hold the results",
        o->name, (unsigned long long)p->bytes, n);
    if (o->t.dtype != TD_STRING) {
        return td_shm_write(to->shm, to->owner, p->region, p->offset, o->t.data, n, err);
    }
    struct td_sink s = {0};
    enum td_code rc = td_v2_raw_write(&o->t, &s, err);
    rc = rc ? rc : td_shm_write(to->shm, to->owner, p->region, p->offset, s.p, s.n, err);
    td_sink_fini(&s);
    return rc;
}

/* ------------------------------------------------------------------ running */

enum td_code td_infer_filter(struct td_request *q, const struct td_infer_out *out, int n, struct td_err *err)
{
    const char **names = td_arena_alloc(q->arena, (size_t)n + 1, sizeof *names);
    if (names == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *names, "a request's outputs");
    }
    for (int i = 0; i < n; i++) {
        names[i] = out[i].name;
    }
    q->filter = names;
    q->n_filter = n;
    return TD_OK;
}

static enum td_code write_trace(const struct td_request *q, struct td_err *err)
{
    const struct td_trace_record r = {
        .model = td_servable_name(q->servable),
        .version = td_servable_version(q->servable),
        .request_id = q->id,
        .timestamps = (q->traced & TD_TRACE_TIMESTAMPS) != 0,
        .tensors = (q->traced & TD_TRACE_TENSORS) != 0,
        .start_ns = q->started_ns,
        .end_ns = td_clock_ns(),
        .times = &q->times,
        .in = q->in,
        .n_in = q->n_in,
        .out = q->out,
        .n_out = q->n_out,
        .log_frequency = td_trace_frequency(td_servable_name(q->servable)),
    };
    return td_trace_file_write(&r, err);
}

/* To the file, or a line in the log when there is none. */
static void trace(const struct td_request *q, enum td_code outcome)
{
    const struct td_log_about about = {.model = td_servable_name(q->servable),
                                       .version = td_servable_version(q->servable),
                                       .request_id = q->id,
                                       .trace = &q->trace.ids};
    struct td_err why = {0};
    if (*td_trace_file_path() == '\0') {
        td_log(TD_LOG_INFO, &about, "trace: signature %s, %d inputs, %s after %.1f us", q->sig->key, q->n_in,
               td_code_name(outcome), (double)td_clock_us_since(q->started_ns));
    } else if (write_trace(q, &why)) {
        td_log(TD_LOG_WARNING, &about, "%s", why.msg);
    }
    td_metrics_logged(td_metrics_model(about.model), why.code);
}

/* What a client of this protocol is told, and the trace. */
static void ended(struct td_request *q, struct td_err *err)
{
    if (q->traced) {
        trace(q, err->code);
    }
    const bool policy = q->run.work.deadline_ns == 0 ||
                        td_clock_ns() < q->run.work.deadline_ns; /* the model's queue gave up */
    if ((q->own_limit || policy) && err->code == TD_DEADLINE_EXCEEDED) {
        static const char known[] = "Request timeout expired"; /* Triton's words */
        const struct td_err was = *err;
        const bool said = strncmp(was.msg, known, sizeof known - 1) == 0;
        *err = (struct td_err){0}; /* the first failure is kept otherwise */
        (void)td_fail(err, TD_UNAVAILABLE, "%s%s%s", said ? "" : known, said ? "" : ": ", was.msg);
    }
}

enum td_code td_infer_prepare(struct td_request *q, struct td_err *err)
{
    if (td_infer_check(q, err)) {
        td_stats_request(td_servable_stats(q->servable), false, 0, 0, &q->times);
        return err->code;
    }
    if (q->own_limit && td_clock_ns() >= q->run.work.deadline_ns) {
        td_stats_request(td_servable_stats(q->servable), false, 0, 0, &q->times);
        TD_FAIL(err, UNAVAILABLE, "Request timeout expired: it had passed before the request was read");
    }
    q->traced = td_trace_due(td_servable_name(q->servable));
    q->ended = ended;
    return TD_OK;
}

/* Has the output rows, each with classes of its own: where its declared first size is open. */
static bool has_rows(const struct td_request *q, const char *output)
{
    bool rows = false;
    for (int i = 0; i < q->sig->n_out; i++) {
        const struct td_tensor_info *info = &q->sig->out[i];
        if (info->key == output) {
            rows = info->shape.rank < 0 || (info->shape.rank > 0 && info->shape.dim[0] < 0);
        }
    }
    return rows;
}

static enum td_code classify(struct td_request *q, struct td_named *o, int64_t k, struct td_err *err)
{
    struct td_tensor top;
    const struct td_label_list *labels = td_model_config_labels(td_servable_settings(q->servable), o->name);
    TD_TRY(td_infer_top(&o->t, has_rows(q, o->name), k, labels, &top, err));
    td_tensor_clear(&o->t);
    o->t = top;
    return TD_OK;
}

enum td_code td_infer_deliver(const struct td_infer_shared *to, struct td_request *q,
                              const struct td_infer_out *asked, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct td_infer_place *p = &asked[i].place;
        TD_TRY(p->classes > 0 ? classify(q, &q->out[i], p->classes, err) : TD_OK);
        TD_TRY(p->region != NULL ? store(to, &q->out[i], p, err) : TD_OK);
    }
    return TD_OK;
}
