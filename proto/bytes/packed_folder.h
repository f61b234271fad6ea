/* proto/bytes/packed_folder.h - a folder of files, each a block of bytes that took work to make (packed
 * weights), found again by a key in the next process and mapped there.
 *
 *   DIR/packed/key                              random words (core/base/content_hash.h)
 *   DIR/packed/0123456789abcdef0123456789abcdef the hash of a file's key: head with the key, then the bytes
 *   DIR/packed/NAME.tempstatePID-N              being written
 *
 * What the caller puts into a key is all that the bytes depend on; a file counts when its whole key is the
 * one that is asked for, its length is right and its bytes have the checksum that was written. All else
 * is as good as none: it is made anew, and written over.
 *
 * Folder and files are this user's alone (0700, 0600); what others own or may write is not read.
 *
 * A file that somebody holds is not cleared out by this process. A mapped one that is truncated all the
 * same reads as zeros from then on, and td_mapping_damaged says so (proto/bytes/mapping.h).
 *
 * Threads: any; several processes may use one folder.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_PACKED_FOLDER_H
#define TD_PROTO_BYTES_PACKED_FOLDER_H

#include "core/base/content_hash.h"
#include "core/base/status.h"

enum { TD_PACKED_HEAD = 4096, TD_PACKED_KEY = 3072 /* bytes of a key at most */ };

struct td_packed_folder;
struct td_packed_file;

/* most_bytes: that all files may take together. Returns new. FAILED_PRECONDITION: the folder is
 * another's, or others may write to it; UNAVAILABLE: it cannot be made or read. */
TD_MUST enum td_code td_packed_folder_open(const char *dir, uint64_t most_bytes,
                                           struct td_packed_folder **out, struct td_err *err);
void td_packed_folder_close(struct td_packed_folder *f); /* accepts NULL; nobody holds a file of it */
/* By the folder's key: to be put into keys. */
struct td_content_hash td_packed_folder_hash(const struct td_packed_folder *f, const void *bytes, size_t n);

/* The file of that key with n bytes, mapped; NULL: there is none that counts. The caller drops it. */
struct td_packed_file *td_packed_folder_find(struct td_packed_folder *f, const void *key, size_t n_key,
                                             size_t n);
/* Of one that was found: its n bytes, page-aligned. */
const void *td_packed_file_data(const struct td_packed_file *p);
void td_packed_file_drop(void *p); /* accepts NULL */

/* Bytes that are written one behind the other. */
struct td_packed_part {
    const void *at;
    size_t n;
};
/* Writes a file, on disk when this returns, and clears out what has not been used for the longest time
 * where the limit asks for it. Returns new, the file being held though not mapped. RESOURCE_EXHAUSTED: no
 * room for it beside what is held; UNAVAILABLE. Nothing is left behind on failure. */
TD_MUST enum td_code td_packed_folder_write(struct td_packed_folder *f, const void *key, size_t n_key,
                                            const struct td_packed_part *part, int n_parts,
                                            struct td_packed_file **out, struct td_err *err);

#endif
