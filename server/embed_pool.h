/* server/embed_pool.h - threads of an embedded model: help for its runs (core/base/thread_pool.h).
 *
 * The daemon's runs borrow its workers; a program that links the library has none, so a model that was loaded
 * with `threads` has these.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_EMBED_POOL_H
#define TD_SERVER_EMBED_POOL_H

#include "core/base/status.h"
#include "core/base/thread_pool.h"

struct td_embed_pool;

/* A pool of so many threads, the caller's own included: threads - 1 are started. Returns new. INTERNAL names
 * what the system refuses. */
TD_MUST enum td_code td_embed_pool_new(int threads, struct td_embed_pool **out, struct td_err *err);
struct td_thread_pool *td_embed_pool_of(struct td_embed_pool *p); /* NULL for NULL */
/* No run may use it any more. NULL is fine. */
void td_embed_pool_free(struct td_embed_pool *p);

#endif
