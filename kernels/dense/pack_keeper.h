/* kernels/dense/pack_keeper.h - packed weights are kept in files for the next process, which maps them
 * instead of packing (kernels/dense/dnnl_pack.c asks; proto/bytes/packed_folder.h has the files).
 *
 *   file = td_pack_keeper_find(key, n)      what another process has packed, mapped; NULL
 *   wish = td_pack_keeper_wish(&w)          what has been packed here shall be written, some time
 *   td_pack_wish_drop(wish)                 before the packed bytes go
 *
 * A hit must never bring other weights than packing would. So a key says all that packed bytes follow from:
 * the plain weights, the scale, how they lie, the layout or transform, and where the code comes from: this
 * very build of ours, oneDNN's version, the processor. The plain weights are meant by
 *
 *   a mapped checkpoint's   the file and its state (device, inode, size, times of writing and change to the
 *                           nanosecond), where in it they lie, and the CRC-32C that their bytes had when they
 *                           were read at this start, as at every one: others pass for them only with one
 *                           checksum, in one inode, in one instant. That costs nothing, and who forges a
 *                           checksum deceives nobody but those who ask the model that is theirs to write
 *   others (constants,      their bytes, hashed by this user's own key (core/base/content_hash.h)
 *   copies)
 *
 * and what was packed from bytes that changed meanwhile (a mapped file that somebody wrote over) is not
 * written: checksum and file, or hash, are looked at again before. A copy of a model is another file, and
 * packed anew.
 *
 * Nobody waits for writing: it is one thread's that yields to all others, and begins when what it writes
 * has been there for a while. Without td_pack_keeper_start there are no files, and all is packed.
 *
 * Threads: any, once it is started; start and stop are the main thread's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_PACK_KEEPER_H
#define TD_KERNELS_CPU_PACK_KEEPER_H

#include "core/base/buffer.h"
#include "core/base/content_hash.h"
#include "proto/bytes/packed_folder.h"

enum { TD_PACK_QUIET_MS = 2000 /* from packing to writing at least */ };

struct td_pack_keeper_opts {
    const char *dir;     /* the state directory */
    uint64_t most_bytes; /* of all files; 0: none are kept */
    int quiet_ms;
};
/* Errors of td_packed_folder_open: nothing is kept then. FAILED_PRECONDITION also: this build has no id. */
TD_MUST enum td_code td_pack_keeper_start(const struct td_pack_keeper_opts *o, struct td_err *err);
/* Ends what is being written; what waits is not. All packed weights are gone by then. */
void td_pack_keeper_stop(void);
bool td_pack_keeper_is_on(void);

/* Of code and processor, the first part of a key; only while it is on, as what follows. */
struct td_content_hash td_pack_keeper_origin(void);
struct td_content_hash td_pack_keeper_hash(const void *bytes, size_t n);
/* Of n bytes in b, a plain weight. */
struct td_content_hash td_pack_keeper_plain(const struct td_buffer *b, const void *at, size_t n);
/* n: bytes of the file. The caller drops what it gets (td_packed_file_drop). */
struct td_packed_file *td_pack_keeper_find(const void *key, size_t n_key, size_t n);

struct td_pack_wish {
    const void *key;
    size_t n_key;
    struct td_buffer *source; /* a reference is taken while it is written */
    const void *plain;        /* in source, n_plain bytes, and what td_pack_keeper_plain said of them */
    size_t n_plain;
    struct td_content_hash hash;
    struct td_buffer *packed; /* likewise */
    const void *tail;         /* what is written behind; copied */
    size_t n_tail;
};
struct td_pack_kept;
/* Key and tail are copied, the rest borrowed until it is dropped. NULL: no memory, or nothing is kept. */
struct td_pack_kept *td_pack_keeper_wish(const struct td_pack_wish *w);
void td_pack_wish_drop(struct td_pack_kept *k); /* accepts NULL; never waits for a disk */

#endif
