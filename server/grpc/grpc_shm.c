/* server/grpc/grpc_shm.c - GRPCInferenceService: shared memory regions, of the host and of its GPUs.
 *
 * All requests are read by one function, as their fields have the same numbers; the second is a key, or a
 * handle of a GPU's memory, and the third an offset, or a device. Rows of a status are written to the reply
 * as the list is walked.
 *
 * Does not: open or read memory (server/request/shm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "server/grpc/grpc_rpc.h"
#include "server/request/shm.h"

td_rpc_fn td_rpc_shm_status, td_rpc_shm_register, td_rpc_shm_unregister, td_rpc_cuda_status,
    td_rpc_cuda_register, td_rpc_cuda_unregister;

/* SystemSharedMemoryRegisterRequest { name = 1, key = 2, offset = 3, byte_size = 4 }; the other requests
 * begin with a name too. */
struct region {
    const char *name, *key;
    struct td_wire
        /* CudaSharedMemoryRegisterRequest { name = 1, raw_handle = 2, device_id = 3, byte_size = 4 } */
        handle;
    uint64_t offset, byte_size; /* device_id in place of offset */
};

static enum td_code read_region(struct td_rpc *r, struct td_arena *a, enum td_shm_kind kind,
                                struct region *out, struct td_err *err)
{
    struct td_wire w = r->in;
    struct td_field f;
    TD_FAIL_IF(r->opts->shm == NULL, err, UNIMPLEMENTED, "shared memory is not served here");
    *out = (struct region){.name = "", .key = ""};
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

static enum td_code status(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    TD_TRY(read_region(r, a, TD_SHM_SYSTEM, &q, err));
    return td_shm_each(r->opts->shm, TD_SHM_SYSTEM, q.name, write_row, &r->reply, err);
}

static enum td_code add(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    TD_TRY(read_region(r, a, TD_SHM_SYSTEM, &q, err));
    return td_shm_register(r->opts->shm, q.name, q.key, q.offset, q.byte_size, err);
}

static enum td_code drop(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    TD_TRY(read_region(r, a, TD_SHM_SYSTEM, &q, err));
    td_shm_unregister(r->opts->shm, TD_SHM_SYSTEM, q.name);
    return TD_OK;
}

enum td_code td_rpc_shm_status(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, status, err);
}

enum td_code td_rpc_shm_register(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, add, err);
}

enum td_code td_rpc_shm_unregister(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, drop, err);
}

/* ---- memory on GPUs ---- */

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

static enum td_code cuda_status(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    TD_TRY(read_region(r, a, TD_SHM_CUDA, &q, err));
    return td_shm_each(r->opts->shm, TD_SHM_CUDA, q.name, write_cuda_row, &r->reply, err);
}

static enum td_code cuda_add(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    const void *handle = NULL;
    void *owned = NULL;
    TD_TRY(read_region(r, a, TD_SHM_CUDA, &q, err));
    TD_TRY(td_wire_gather(q.handle, &handle, &owned, err));
    const enum td_code rc = td_shm_register_cuda(r->opts->shm, q.name, handle, (size_t)q.handle.left,
                                                 (int64_t)q.offset, q.byte_size, err);
    td_free(owned);
    return rc;
}

static enum td_code cuda_drop(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct region q;
    TD_TRY(read_region(r, a, TD_SHM_CUDA, &q, err));
    td_shm_unregister(r->opts->shm, TD_SHM_CUDA, q.name);
    return TD_OK;
}

enum td_code td_rpc_cuda_status(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, cuda_status, err);
}

enum td_code td_rpc_cuda_register(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, cuda_add, err);
}

enum td_code td_rpc_cuda_unregister(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, cuda_drop, err);
}
