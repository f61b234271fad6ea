/* server/grpc_shm.c - GRPCInferenceService: shared memory regions, system ones and the refusal of CUDA ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/mem.h"
#include "server/grpc_rpc.h"
#include "server/shm.h"

td_rpc_fn td_rpc_shm_status, td_rpc_shm_register, td_rpc_shm_unregister, td_rpc_cuda_status,
    td_rpc_cuda_register, td_rpc_cuda_unregister;

#define ARENA_BYTES ((size_t)1 << 20)

/* SystemSharedMemoryRegisterRequest { name = 1, key = 2, offset = 3, byte_size = 4 }; the other requests
 * begin with a name too. */
struct region {
    const char *name, *key;
    uint64_t offset, byte_size;
};

static enum td_code read_region(struct td_wire w, struct td_arena *a, struct region *out, struct td_err *err)
{
    struct td_field f;
    *out = (struct region){.name = "", .key = ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->name, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->key, err));
        } else if (f.number == 3 && f.type == TD_WIRE_VARINT) {
            out->offset = f.value;
        } else if (f.number == 4 && f.type == TD_WIRE_VARINT) {
            out->byte_size = f.value;
        }
    } while (f.number != 0);
    return TD_OK;
}

typedef enum td_code region_fn(struct td_rpc *r, const struct region *q, struct td_err *err);

static enum td_code with_region(struct td_rpc *r, region_fn *body, struct td_err *err)
{
    TD_FAIL_IF(r->opts->shm == NULL, err, UNIMPLEMENTED, "shared memory is not served here");
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    struct region q;
    enum td_code rc = read_region(r->in, a, &q, err);
    rc = rc ? rc : body(r, &q, err);
    td_arena_free(a);
    return rc;
}

/* SystemSharedMemoryStatusResponse { map regions = 1: name -> { name = 1, key = 2, offset = 3, byte_size = 4
 * } } */
static enum td_code write_row(void *sink, const struct td_shm_row *row, struct td_err *err)
{
    struct td_sink *s = sink;
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, row->name, err));
    const size_t value = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, row->name, err));
    TD_TRY(td_put_text(s, 2, row->key, err));
    TD_TRY(td_put_int(s, 3, (int64_t)row->offset, err));
    TD_TRY(td_put_int(s, 4, (int64_t)row->byte_size, err));
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, 1, entry, err);
}

static enum td_code status(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    return td_shm_each(r->opts->shm, q->name, write_row, &r->reply, err);
}

static enum td_code add(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    return td_shm_register(r->opts->shm, q->name, q->key, q->offset, q->byte_size, err);
}

static enum td_code drop(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    (void)err;
    td_shm_unregister(r->opts->shm, q->name);
    return TD_OK;
}

enum td_code td_rpc_shm_status(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, status, err);
}

enum td_code td_rpc_shm_register(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, add, err);
}

enum td_code td_rpc_shm_unregister(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, drop, err);
}

/* ---- CUDA: there are never any ---- */

static enum td_code cuda_status(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    (void)r;
    TD_FAIL_IF(*q->name != '\0', err, NOT_FOUND, "Unable to find cuda shared memory region: '%s'", q->name);
    return TD_OK;
}

static enum td_code cuda_add(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    (void)r;
    TD_FAIL(err, UNIMPLEMENTED, "failed to register CUDA shared memory region: '%s', GPUs not supported",
            q->name);
}

enum td_code td_rpc_cuda_status(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, cuda_status, err);
}

enum td_code td_rpc_cuda_register(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, cuda_add, err);
}

enum td_code td_rpc_cuda_unregister(struct td_rpc *r, struct td_err *err)
{
    (void)r;
    (void)err;
    return TD_OK;
}
