/* kernels/cuda/base/pinned.h - pinned memory of the host, kept: making it takes long, and halts the GPU.
 *
 *   td_cuda_pinned_take   a block of at least so many bytes, given back before or new; NULL past the limit
 *   td_cuda_pinned_give   and back again
 *
 * Blocks have sizes of a few classes. Past the limit those that idle are freed for others; what is in use
 * stays. All of it is charged to the process's budget, and what idles is freed when that was short.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_PINNED_H
#define TD_KERNELS_CUDA_BASE_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct td_cuda_pinned;

struct td_cuda_pinned_counts {
    uint64_t limit, held, used; /* bytes: that may be, that are pinned, and that somebody has */
    uint64_t given, refused;    /* times that there was a block, and that there was none */
};

/* limit: bytes; 0: none are pinned. Returns new. */
TD_MUST enum td_code td_cuda_pinned_new(int device, uint64_t limit, struct td_cuda_pinned **out,
                                        struct td_err *err);
/* No more will be taken. Blocks may be given back later: the last one calls gone(ctx), as this does when all
 * are back. */
void td_cuda_pinned_close(struct td_cuda_pinned *p, void (*gone)(void *ctx), void *ctx);
void *td_cuda_pinned_take(struct td_cuda_pinned *p, size_t bytes);
/* bytes: as many as were asked for. lost: the GPU is, so that nobody can wait for copies that are queued: the
 * block stays as it is until the process ends or td_cuda_pinned_forget, and counts towards the limit. */
void td_cuda_pinned_give(struct td_cuda_pinned *p, void *block, size_t bytes, bool lost);
/* No block is given out from now on, and CUDA is not called: before the context goes that all of them are of.
 * False: somebody has one, or calls CUDA for one, and nothing has changed. td_cuda_pinned_forget, behind that
 * alone: the context is gone, and there is another. */
TD_MUST bool td_cuda_pinned_stop(struct td_cuda_pinned *p);
void td_cuda_pinned_forget(struct td_cuda_pinned *p);
struct td_cuda_pinned_counts td_cuda_pinned_count(struct td_cuda_pinned *p);

#endif
