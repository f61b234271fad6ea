/* proto/bytes/sink.h - a growing byte string with a limit, for encoders.
 *
 * A zeroed struct is an empty sink; limit 0 means no limit. proto/pb/wire.h writes protobuf fields to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_SINK_H
#define TD_PROTO_BYTES_SINK_H

#include <stddef.h>

#include "core/base/budget.h"
#include "core/base/status.h"

struct td_sink {
    char *p;
    size_t n, cap, limit;
    enum td_memory_kind kind;   /* what its bytes are noted as */
    struct td_account *account; /* cap is charged to it: that of the work at hand when it began; NULL: none */
};

void td_sink_fini(struct td_sink *s);
/* Takes the bytes out of it, charged to no account any more; td_free them. */
char *td_sink_take(struct td_sink *s);
/* Charges what it holds, and will hold, to a instead. RESOURCE_EXHAUSTED: it is charged to nobody. */
TD_MUST enum td_code td_sink_charge(struct td_sink *s, struct td_account *a, struct td_err *err);
/* RESOURCE_EXHAUSTED past the limit, naming it. */
TD_MUST enum td_code td_sink_put(struct td_sink *s, const void *bytes, size_t n, struct td_err *err);
/* Room for n more bytes at *out, already counted in s->n; valid until the next call. */
TD_MUST enum td_code td_sink_grow(struct td_sink *s, size_t n, char **out, struct td_err *err);

#endif
