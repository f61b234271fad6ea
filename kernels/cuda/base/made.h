/* kernels/cuda/base/made.h - kernels that were made at run time, shared by all plans that want the same
 * source.
 *
 *   source --memory--> there    or --files (made_files.h)--> loaded    or --NVRTC--> loaded, and kept
 *
 * Whoever asks for a source that another thread is making waits for it. A source that could not be made is
 * remembered, too. What nobody uses stays, up to TD_CUDA_MADE_MOST sources.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_MADE_H
#define TD_KERNELS_CUDA_BASE_MADE_H

#include <stdint.h>

#include "core/base/status.h"
#include "kernels/cuda/base/runtime.h"

enum { TD_CUDA_MADE_MOST = 1024 };
/* What a source calls its two kernels. */
#define TD_CUDA_MADE_ONE "fused_one"
#define TD_CUDA_MADE_MANY "fused_many"

struct td_cuda_makers; /* of one GPU */

/* dir: below it lie the files; copied; NULL: there are none. capability: 80 is 8.0. Returns new; NULL without
 * memory. */
struct td_cuda_makers *td_cuda_makers_new(int device, int capability, const char *dir);
void td_cuda_makers_free(struct td_cuda_makers *m); /* nothing of it may be in use; accepts NULL */
/* What could not be made may be tried again: the device was lost, and works now. Accepts NULL. */
void td_cuda_makers_retry(struct td_cuda_makers *m);

/* Two kernels of one source. */
struct td_cuda_made {
    struct td_cuda_function *one, *many;
};
/* Counted; NULL: it cannot be made here, and *why is a text that stays. */
const struct td_cuda_made *td_cuda_made_get(struct td_cuda_makers *m, const char *source, const char **why);
void td_cuda_made_put(const struct td_cuda_made *made); /* accepts NULL */

/* How many were compiled, and how many were read from files. */
struct td_cuda_made_counts {
    int64_t compiled, read;
};
struct td_cuda_made_counts td_cuda_made_count(struct td_cuda_makers *m);

#endif
