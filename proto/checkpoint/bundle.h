/* proto/checkpoint/bundle.h - TensorBundle checkpoints: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN.
 *
 *   .index    a LevelDB-style table, blocks optionally snappy-compressed, each followed by type byte and
 *             masked CRC-32C:
 *             [data blocks][metaindex][index block][48-byte footer, magic 0xdb4775248b80fb57]
 *             key "" -> BundleHeaderProto, key name -> BundleEntryProto, sorted bytewise
 *   .data     raw little-endian elements; strings as varint lengths, masked CRC of them, then bytes
 *
 * Numeric tensors come back mapped from the file (read-only, counted) where their offset suits their element
 * size, else copied; every CRC is verified. Partitioned variables are put together from their slices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_CHECKPOINT_BUNDLE_H
#define TD_PROTO_CHECKPOINT_BUNDLE_H

#include "core/base/tensor.h"
#include "core/base/thread_pool.h"
#include "proto/bytes/sink.h"

struct td_bundle;

/* NOT_FOUND when PREFIX.index does not exist; DATA_LOSS for a damaged one. Returns new. */
TD_MUST enum td_code td_bundle_open(const char *prefix, struct td_bundle **out, struct td_err *err);
/* Likewise, with all its files opened beneath the folder `root` (core/base/beneath.h); NULL: anywhere. */
TD_MUST enum td_code td_bundle_open_beneath(const char *root, const char *prefix, struct td_bundle **out,
                                            struct td_err *err);
void td_bundle_close(struct td_bundle *b); /* tensors read from it stay valid */
/* Whether the data files that the index names are there, each as long as its entries say: they are looked at,
 * not read. NOT_FOUND, or DATA_LOSS for one that is too short, with its name. */
TD_MUST enum td_code td_bundle_survey(const struct td_bundle *b, struct td_err *err);
/* Entry i in key order (header left out): name borrowed until close; bytes = stored size. Returns false past
 * the end. */
bool td_bundle_entry(const struct td_bundle *b, int i, const char **name, enum td_dtype *dtype,
                     struct td_shape *shape, uint64_t *bytes);
bool td_bundle_has(const struct td_bundle *b, const char *name);
/* slice: "" for the whole tensor, else RestoreV2's "dims... start,length:start,length:-". *out is the
 * caller's. NOT_FOUND "Key X not found in checkpoint". */
TD_MUST enum td_code td_bundle_read(struct td_bundle *b, const char *name, const char *slice,
                                    struct td_tensor *out, struct td_err *err);
/* Of n tensors that are going to be read whole: their bytes are read through, and their checksums worked out,
 * by all threads that idle; td_bundle_read compares. What cannot be read is left to it. pool NULL: none. */
void td_bundle_read_ahead(struct td_bundle *b, const char *const *names, int n, struct td_thread_pool *pool);
/* How many slices `name` is stored in; 0: it is stored whole, or not there. */
int td_bundle_n_slices(const struct td_bundle *b, const char *name);
/* Appends slice i of them, a NUL behind it, as td_bundle_read and td_bundle_add_slice take it. */
TD_MUST enum td_code td_bundle_slice(const struct td_bundle *b, const char *name, int i, struct td_sink *out,
                                     struct td_err *err);

struct td_bundle_writer;
TD_MUST enum td_code td_bundle_create(const char *prefix, struct td_bundle_writer **out, struct td_err *err);
TD_MUST enum td_code td_bundle_add(struct td_bundle_writer *w, const char *name, const struct td_tensor *t,
                                   struct td_err *err);
/* Adds the part of a partitioned variable that slice_spec ("full dims start,len:...") describes. */
TD_MUST enum td_code td_bundle_add_slice(struct td_bundle_writer *w, const char *name, const char *slice_spec,
                                         const struct td_tensor *t, struct td_err *err);
/* Writes index and data aside, fsyncs, renames. Frees w, also on failure (nothing is left behind). */
TD_MUST enum td_code td_bundle_finish(struct td_bundle_writer *w, struct td_err *err);
void td_bundle_abandon(struct td_bundle_writer *w);
/* MergeV2Checkpoints: the tensors of n bundles into one at `prefix`; sources deleted when asked. */
TD_MUST enum td_code td_bundle_merge(const char *const *prefixes, int n, const char *prefix,
                                     bool delete_sources, struct td_err *err);

#endif
