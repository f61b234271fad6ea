/* proto/request/logged_pb.c - which request a PredictionLog holds, and its bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/logged_pb.h"

static enum td_code request_of(struct td_wire log, struct td_wire *out, struct td_err *err)
{
    struct td_field f;
    *out = (struct td_wire){0};
    do {
        TD_TRY(td_wire_next(&log, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            *out = f.sub;
        }
    } while (f.number != 0);
    return TD_OK;
}

enum td_code td_logged_read(struct td_wire record, struct td_logged *out, struct td_err *err)
{
    struct td_field f;
    struct td_wire log = {0};
    *out = (struct td_logged){0};
    do {
        TD_TRY(td_wire_next(&record, &f, err));
        if (f.number >= TD_LOGGED_CLASSIFY && f.number <= TD_LOGGED_PREDICT_STREAMED &&
            f.type == TD_WIRE_BYTES) {
            out->kind = (enum td_logged_kind)f.number;
            log = f.sub;
        }
    } while (f.number != 0);
    return request_of(log, &out->request, err);
}
