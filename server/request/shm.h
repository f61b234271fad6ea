/* server/request/shm.h - shared memory regions that clients on this host registered: tensors in them do not
 * travel.
 *
 * A region is bytes [offset, offset + byte_size) of a POSIX shared memory object (shm_open). Its bytes are
 * read and written through the object's file descriptor, never through a mapping: whatever the client does to
 * the object meanwhile, a short read is all that comes of it, and what a run sees does not change under it.
 * Or it is memory on a GPU (server/request/cuda_ipc.h), which the driver copies. Names are of both kinds
 * together.
 *
 * owner: who sent the request ("" without tokens, else server/base/access.h's). A region is its owner's:
 * others neither see nor use nor unregister it, and may give one of their own the same name.
 *
 * Threads: any. A region that is unregistered stays until those that use it are done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_SHM_H
#define TD_SERVER_REQUEST_SHM_H

#include <stdint.h>

#include "core/base/status.h"

struct td_shm;

enum td_shm_kind { TD_SHM_SYSTEM, TD_SHM_CUDA };

#define TD_SHM_MAX_REGIONS 4096

/* Returns new. max_bytes bounds what a tensor, and what the inputs of a request may have. */
TD_MUST enum td_code td_shm_new(uint64_t max_bytes, struct td_shm **out, struct td_err *err);
void td_shm_free(struct td_shm *s);            /* accepts NULL */
uint64_t td_shm_limit(const struct td_shm *s); /* max_bytes */

/* ALREADY_EXISTS for a name in use; INVALID_ARGUMENT for a name that is no UTF-8, a key that cannot be
 * opened, or sizes beyond the object's; RESOURCE_EXHAUSTED. */
TD_MUST enum td_code td_shm_register(struct td_shm *s, const char *owner, const char *name, const char *key,
                                     uint64_t offset, uint64_t byte_size, struct td_err *err);
/* The same for memory on a GPU. UNIMPLEMENTED without one; INVALID_ARGUMENT for what is no handle of n
 * bytes. */
struct td_shm_handle {
    const void *bytes; /* n of them */
    size_t n;
    int64_t device;
};
TD_MUST enum td_code td_shm_register_cuda(struct td_shm *s, const char *owner, const char *name,
                                          const struct td_shm_handle *handle, uint64_t byte_size,
                                          struct td_err *err);
/* Names that are not there, or of the other kind, are no error; "": all of the kind. */
void td_shm_unregister(struct td_shm *s, const char *owner, enum td_shm_kind kind, const char *name);
/* All regions on a GPU that is about to be reset, whoever's. Returns how many. */
int td_shm_forget_device(struct td_shm *s, int device);

struct td_shm_row {
    const char *name, *key;
    uint64_t offset, byte_size;
    int device; /* of a GPU's memory, which has no key and no offset */
};
typedef enum td_code td_shm_row_fn(void *ctx, const struct td_shm_row *row, struct td_err *err);
/* The region of that kind and name, NOT_FOUND without; "": all. */
TD_MUST enum td_code td_shm_each(struct td_shm *s, const char *owner, enum td_shm_kind kind, const char *name,
                                 td_shm_row_fn *fn, void *ctx, struct td_err *err);

/* n bytes from offset on. NOT_FOUND "Unable to find shared memory region: 'NAME'"; INVALID_ARGUMENT beyond
 * the region's end, or the object's, should that have shrunk; UNAVAILABLE when a GPU fails. */
TD_MUST enum td_code td_shm_read(struct td_shm *s, const char *owner, const char *name, uint64_t offset,
                                 void *to, uint64_t n, struct td_err *err);
TD_MUST enum td_code td_shm_write(struct td_shm *s, const char *owner, const char *name, uint64_t offset,
                                  const void *from, uint64_t n, struct td_err *err);
/* Whether n bytes from offset on could be read, as far as the region's size tells. */
TD_MUST enum td_code td_shm_check(struct td_shm *s, const char *owner, const char *name, uint64_t offset,
                                  uint64_t n, struct td_err *err);

#endif
