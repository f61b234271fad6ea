/* server/grpc/grpc_message.c - messages as gRPC gives and takes them: the blocks of bytes that a handler
 * reads, and an answer's.
 *
 * A compressed message is unpacked here, when its turn has come and its token was looked at, and never by
 * gRPC (grpc_limits.c): within the bound of every request, whatever it claims to hold. Its blocks are then
 * one. Both of gRPC's encodings, gzip and deflate (which is zlib's), are told apart by their first bytes.
 *
 * Does not: decompress answers' counterpart: what is sent is compressed by gRPC itself, where a channel
 * argument asks for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/gzip.h"
#include "server/base/clock.h"
#include "server/grpc/grpc_audit.h"
#include "server/grpc/grpc_impl.h"

#define LONGEST_S 1000000000 /* of a call's deadline: a client may say 99,999,999 hours */

bool td_payload_is_packed(const grpc_byte_buffer *buffer)
{
    return buffer != NULL && buffer->type == GRPC_BB_RAW &&
           buffer->data.raw.compression != GRPC_COMPRESS_NONE;
}

size_t td_payload_bytes(const struct td_payload *p)
{
    return p->plain.p != NULL ? p->plain.n : p->buffer != NULL ? grpc_byte_buffer_length(p->buffer) : 0;
}

enum td_code td_payload_hold(struct td_payload *p, struct td_err *err)
{
    const size_t bytes = p->buffer != NULL ? grpc_byte_buffer_length(p->buffer) : 0;
    if (!td_budget_take(bytes)) {
        return td_budget_error(err, bytes, "the message of the request");
    }
    p->held = bytes;
    td_budget_note(TD_MEMORY_BODIES, (int64_t)bytes);
    return TD_OK;
}

enum td_code td_payload_charge(struct td_payload *p, struct td_account *a, struct td_err *err)
{
    if (p->plain.p != NULL) {
        return td_sink_charge(&p->plain, a, err);
    }
    TD_TRY(td_account_take(a, p->held, "its message", err));
    p->account = a;
    return TD_OK;
}

static void drop_buffer(struct td_payload *p)
{
    if (p->buffer != NULL) {
        grpc_byte_buffer_destroy(p->buffer);
    }
    td_budget_give(p->held);
    td_budget_note(TD_MEMORY_BODIES, -(int64_t)p->held);
    td_account_give(p->account, p->held);
    p->buffer = NULL;
    p->held = 0;
    p->account = NULL;
}

static bool next_slice(void *reader, const void **bytes, size_t *n)
{
    grpc_slice *slice;
    if (!grpc_byte_buffer_reader_peek(reader, &slice)) {
        return false;
    }
    *bytes = GRPC_SLICE_START_PTR(*slice);
    *n = GRPC_SLICE_LENGTH(*slice);
    return true;
}

enum td_code td_payload_unpack(struct td_payload *p, size_t limit, struct td_err *err)
{
    grpc_byte_buffer_reader reader;
    if (!td_payload_is_packed(p->buffer) || grpc_byte_buffer_length(p->buffer) == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(!grpc_byte_buffer_reader_init(&reader, p->buffer), err, INTERNAL,
               "the message's bytes cannot be read");
    p->plain.kind = TD_MEMORY_BODIES;
    const enum td_code rc = td_gzip_unpack_blocks(next_slice, &reader, limit, &p->plain, err);
    grpc_byte_buffer_reader_destroy(&reader);
    drop_buffer(p);
    return rc;
}

/* The blocks of a message that is not packed. */
static enum td_code open_slices(struct td_payload *p, struct td_err *err)
{
    TD_FAIL_IF(!grpc_byte_buffer_reader_init(&p->reader, p->buffer), err, INTERNAL,
               "the message's bytes cannot be read");
    p->reading = true;
    size_t cap = sizeof p->few / sizeof p->few[0];
    grpc_slice *slice;
    while (grpc_byte_buffer_reader_peek(&p->reader, &slice)) {
        if (p->n_seg == cap) {
            struct td_seg *more = td_realloc(p->seg == p->few ? NULL : p->seg, 4 * cap, sizeof *more);
            if (more == NULL) {
                return td_no_memory(err, 4 * cap * sizeof *more, "a request");
            }
            if (p->seg == p->few) {
                memcpy(more, p->few, sizeof p->few);
            }
            p->seg = more;
            cap *= 4;
        }
        p->seg[p->n_seg++] = (struct td_seg){GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice)};
    }
    return TD_OK;
}

static void close_slices(struct td_payload *p)
{
    if (p->reading) {
        grpc_byte_buffer_reader_destroy(&p->reader);
    }
    p->reading = false;
    if (p->seg != p->few) {
        td_free(p->seg);
    }
    p->seg = NULL;
}

enum td_code td_payload_open(struct td_payload *p, size_t limit, struct td_wire *in, struct td_err *err)
{
    *in = (struct td_wire){0};
    close_slices(p); /* of a message that has waited for its model */
    p->seg = p->few;
    p->n_seg = 0;
    TD_TRY(td_payload_unpack(p, limit, err));
    TD_FAIL_IF(p->buffer == NULL && p->plain.p == NULL, err, INVALID_ARGUMENT, "the call carries no message");
    if (p->buffer != NULL) {
        TD_TRY(open_slices(p, err));
    } else {
        p->few[p->n_seg++] = (struct td_seg){(const uint8_t *)p->plain.p, p->plain.n};
    }
    td_wire_init(in, p->seg, p->n_seg);
    return TD_OK;
}

void td_payload_close(struct td_payload *p)
{
    close_slices(p);
    drop_buffer(p);
    td_sink_fini(&p->plain);
    *p = (struct td_payload){0};
}

enum td_code td_grpc_handle(const struct td_grpc *g, int method, const grpc_metadata_array *sent,
                            struct td_payload *p, struct td_rpc *r, struct td_err *err)
{
    char model[TD_AUDITED_NAME] = "";
    const bool act = td_grpc_is_act(method) && r->state == NULL; /* of a stream its first message */
    TD_TRY(td_payload_open(p, g->opts.max_request_bytes, &r->in, err));
    if (act) {
        td_grpc_audit_name(method, r->in, model, sizeof model);
    }
    const struct td_rpc_caller caller = {g, sent, method};
    const struct td_work *before = td_work_enter(&r->q.run.work);
    enum td_code rc = td_grpc_admit_message(g, method, sent, r->in, err);
    if (rc == TD_OK) {
        r->caller = &caller;
        r->payload = p;
        rc = td_rpc_methods[method].fn(r, err);
        r->caller = NULL;
        r->payload = NULL;
    }
    if ((act || td_audit_refused(rc)) && !td_request_is_cold(&r->q)) {
        td_grpc_audit(method, sent, r->carrier->call(r), model, rc ? err : &(struct td_err){0});
    }
    td_work_enter(before);
    return rc;
}

enum td_code td_rpc_open(struct td_rpc *r, struct td_err *err)
{
    if (r->q.resumed) { /* it is open */
        return TD_OK;
    }
    TD_TRY(td_request_open(&r->q, err));
    return r->payload != NULL ? td_payload_charge(r->payload, r->q.run.work.account, err) : TD_OK;
}

static void free_message(void *p, size_t n)
{
    td_tsan_acquire(p);
    td_budget_note(TD_MEMORY_ANSWERS, -(int64_t)n);
    td_free(p);
}

grpc_byte_buffer *td_grpc_message(struct td_sink *takes)
{
    grpc_slice slice = grpc_empty_slice();
    const size_t n = takes->n;
    char *bytes = td_sink_take(takes);
    if (n > 0) {
        td_tsan_release(bytes);
        td_budget_note(TD_MEMORY_ANSWERS, (int64_t)n);
        slice = grpc_slice_new_with_len(bytes, n, free_message);
    } else {
        td_free(bytes);
    }
    *takes = (struct td_sink){0};
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return b;
}

grpc_slice td_grpc_status_text(const struct td_err *err)
{
    return err->code ? grpc_slice_from_copied_string(err->msg) : grpc_empty_slice();
}

int64_t td_grpc_deadline_ns(const struct td_grpc *g, gpr_timespec deadline)
{
    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
        return g->opts.deadline_ns == 0 ? 0 : td_clock_ns() + g->opts.deadline_ns;
    }
    const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    const int64_t s = left.tv_sec < -LONGEST_S  ? -LONGEST_S
                      : left.tv_sec > LONGEST_S ? LONGEST_S
                                                : left.tv_sec;
    const int64_t at = td_clock_ns() + s * 1000000000 + left.tv_nsec;
    return at > 0 ? at : 1; /* 0 would mean none */
}
