/* server/grpc/grpc_reflect.c - server reflection, v1 and v1alpha (the same messages): which services there
 * are, and their descriptors. Each request on the stream gets one answer; what cannot be found is an
 * error_response, not a status.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/descriptors.h"
#include "server/grpc/grpc_rpc.h"

td_rpc_fn td_rpc_reflect;

#define ARENA_BYTES ((size_t)64 << 10)

/* ServerReflectionRequest and -Response */
enum { BY_FILENAME = 3, BY_SYMBOL = 4, BY_EXTENSION = 5, EXTENSIONS_OF = 6, LIST = 7 };
enum { ORIGINAL = 2, FILES = 4, SERVICES = 6, ERROR = 7 };

struct ask {
    uint32_t what;
    const char *text;
};

static enum td_code read_ask(struct td_wire w, struct td_arena *a, struct ask *out, struct td_err *err)
{
    struct td_field f;
    *out = (struct ask){0, ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number >= BY_FILENAME && f.number <= LIST && f.type == TD_WIRE_BYTES) {
            out->what = f.number;
            TD_TRY(td_wire_text(f.sub, a, &out->text, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

/* ListServiceResponse { service = 1 { name = 1 } }; the methods of a service stand together in methods.def.
 */
static enum td_code write_services(struct td_sink *s, struct td_err *err)
{
    const char *last = "";
    size_t n_last = 0;
    const size_t list = td_put_mark(s);
    for (int i = 0; i < td_rpc_n_methods; i++) {
        const char *path = td_rpc_methods[i].path + 1;
        const size_t n = strcspn(path, "/");
        if (n == n_last && strncmp(path, last, n) == 0) {
            continue;
        }
        const size_t at = td_put_mark(s);
        TD_TRY(td_put_bytes(s, 1, path, n, err));
        TD_TRY(td_put_end(s, 1, at, err));
        last = path;
        n_last = n;
    }
    return td_put_end(s, SERVICES, list, err);
}

/* ErrorResponse { error_code = 1, error_message = 2 } */
static enum td_code write_error(struct td_sink *s, const struct td_err *why, struct td_err *err)
{
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_int(s, 1, why->code, err));
    TD_TRY(td_put_text(s, 2, why->msg, err));
    return td_put_end(s, ERROR, at, err);
}

static enum td_code answer(struct td_sink *s, const struct ask *ask, struct td_err *err)
{
    struct td_err why = {0};
    const size_t at = td_put_mark(s);
    switch (ask->what) {
    case LIST:
        return write_services(s, err);
    case BY_FILENAME:
        (void)!td_descriptors_file(ask->text, s, &why);
        break;
    case BY_SYMBOL:
        (void)!td_descriptors_symbol(ask->text, s, &why);
        break;
    default: /* proto3 files have no extensions */
        (void)td_fail(&why, TD_UNIMPLEMENTED, "reflection: extensions are not served");
    }
    if (why.code) {
        s->n = at;
        return write_error(s, &why, err);
    }
    return td_put_end(s, FILES, at, err);
}

static enum td_code reply(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct ask ask;
    const void *bytes;
    void *owned;
    TD_TRY(read_ask(r->in, a, &ask, err));
    TD_TRY(td_wire_gather(r->in, &bytes, &owned, err));
    enum td_code rc = td_put_bytes(&r->reply, ORIGINAL, bytes, (size_t)r->in.left, err);
    td_free(owned);
    rc = rc ? rc : answer(&r->reply, &ask, err);
    r->has_reply = rc == TD_OK;
    return rc;
}

enum td_code td_rpc_reflect(struct td_rpc *r, struct td_err *err)
{
    if (r->event != TD_RPC_MESSAGE) {
        return TD_OK;
    }
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    const enum td_code rc = reply(r, a, err);
    td_arena_free(a);
    return rc;
}
