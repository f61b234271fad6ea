/* server/request/cuda_ipc.h - memory on a GPU that another process of this host shares by its CUDA IPC
 * handle.
 *
 * NVIDIA's driver library is looked for when first asked. Without it, or without a GPU, there are no devices
 * and nothing can be opened.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_CUDA_IPC_H
#define TD_SERVER_REQUEST_CUDA_IPC_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#define TD_CUDA_HANDLE_BYTES 64 /* of a cudaIpcMemHandle_t */

struct td_cuda_block {
    uint64_t at; /* on the device; 0 none */
    int device;
};

int td_cuda_devices(void);

/* Opens a handle of n bytes; td_cuda_close it. UNIMPLEMENTED without devices; INVALID_ARGUMENT for what is no
 * handle of that device, or one of fewer than byte_size bytes. */
TD_MUST enum td_code td_cuda_open(const void *handle, size_t n, int64_t device, uint64_t byte_size,
                                  struct td_cuda_block *out, struct td_err *err);
/* The device is about to be reset, and is made ready again when it is used next. */
void td_cuda_forget(int device);
void td_cuda_close(const struct td_cuda_block *b); /* accepts one that is not open */

/* n bytes at an offset that lies in the block; false: the driver refused. */
bool td_cuda_read(const struct td_cuda_block *b, uint64_t offset, void *to, uint64_t n);
bool td_cuda_write(const struct td_cuda_block *b, uint64_t offset, const void *from, uint64_t n);

#endif
