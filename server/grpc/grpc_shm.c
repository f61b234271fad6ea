/* server/grpc/grpc_shm.c - GRPCInferenceService: shared memory regions, of the host and of its GPUs.
 *
 * All requests are read by one function, as their fields have the same numbers; the second is a key, or a
 * handle of a GPU's memory, and the third an offset, or a device. Rows of a status are written to the reply
 * as the list is walked.
 *
 * Does not: open or read memory (server/request/shm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_rpc.h"
#include "server/request/shm.h"

#define ARENA_BYTES ((size_t)1 << 20) /* of names and keys */

td_rpc_fn td_rpc_shm_status, td_rpc_shm_register, td_rpc_shm_unregister, td_rpc_cuda_status,
    td_rpc_cuda_register, td_rpc_cuda_unregister;

/* SystemSharedMemoryRegisterRequest { name = 1, key = 2, offset = 3, byte_size = 4 }; the other requests
 * begin with a name too. */
struct region {
    enum td_shm_kind kind;
    char owner[33];
    const char *name, *key;
    /* CudaSharedMemoryRegisterRequest { name = 1, raw_handle = 2, device_id = 3, byte_size = 4 } */
    struct td_wire handle;
    uint64_t offset, byte_size; /* device_id in place of offset */
};

static enum td_code read_region(struct td_rpc *r, struct td_arena *a, enum td_shm_kind kind,
                                struct region *out, struct td_err *err)
{
    struct td_wire w = r->in;
    struct td_field f;
    TD_FAIL_IF(r->opts->shm == NULL, err, UNIMPLEMENTED, "shared memory is not served here");
    *out = (struct region){.kind = kind, .name = "", .key = ""};
    td_rpc_owner(r, out->owner);
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->name, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES && kind == TD_SHM_CUDA) {
            out->handle = f.sub;
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

/* CudaSharedMemoryStatusResponse { map regions = 1: name -> { name = 1, device_id = 2, byte_size = 3 } } */
static enum td_code write_cuda_row(void *sink, const struct td_shm_row *row, struct td_err *err)
{
    struct td_sink *s = sink;
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, row->name, err));
    const size_t value = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, row->name, err));
    TD_TRY(td_put_int(s, 2, row->device, err));
    TD_TRY(td_put_int(s, 3, (int64_t)row->byte_size, err));
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, 1, entry, err);
}

static enum td_code status(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    td_shm_row_fn *const write = q->kind == TD_SHM_CUDA ? write_cuda_row : write_row;
    return td_shm_each(r->opts->shm, q->owner, q->kind, q->name, write, &r->reply, err);
}

static enum td_code add_cuda(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    const void *handle = NULL;
    void *owned = NULL;
    TD_TRY(td_wire_gather(q->handle, &handle, &owned, err));
    const struct td_shm_handle h = {handle, (size_t)q->handle.left, (int64_t)q->offset};
    const enum td_code rc = td_shm_register_cuda(r->opts->shm, q->owner, q->name, &h, q->byte_size, err);
    td_free(owned);
    return rc;
}

static enum td_code add(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    return q->kind == TD_SHM_CUDA
               ? add_cuda(r, q, err)
               : td_shm_register(r->opts->shm, q->owner, q->name, q->key, q->offset, q->byte_size, err);
}

static enum td_code drop(struct td_rpc *r, const struct region *q, struct td_err *err)
{
    (void)err;
    td_shm_unregister(r->opts->shm, q->owner, q->kind, q->name);
    return TD_OK;
}

typedef enum td_code region_fn(struct td_rpc *r, const struct region *q, struct td_err *err);

/* What a message says of a region goes to body. */
static enum td_code with_region(struct td_rpc *r, enum td_shm_kind kind, region_fn *body, struct td_err *err)
{
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    struct region q;
    const enum td_code rc = read_region(r, a, kind, &q, err);
    err->code = rc ? rc : body(r, &q, err);
    td_arena_free(a);
    return err->code;
}

enum td_code td_rpc_shm_status(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_SYSTEM, status, err);
}

enum td_code td_rpc_shm_register(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_SYSTEM, add, err);
}

enum td_code td_rpc_shm_unregister(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_SYSTEM, drop, err);
}

enum td_code td_rpc_cuda_status(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_CUDA, status, err);
}

enum td_code td_rpc_cuda_register(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_CUDA, add, err);
}

enum td_code td_rpc_cuda_unregister(struct td_rpc *r, struct td_err *err)
{
    return with_region(r, TD_SHM_CUDA, drop, err);
}
