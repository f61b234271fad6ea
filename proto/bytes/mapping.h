/* proto/bytes/mapping.h - counted read-only mappings of files, and what happens when such a file shrinks
 * under us.
 *
 * Reading a page of a mapped file that has been truncated raises SIGBUS. With td_mapping_install_handler
 * called once at start, the handler puts pages of zeros over the whole mapping, marks it as damaged, and the
 * reader goes on; who depends on the values asks td_mapping_damaged or td_mapping_damaged_below afterwards
 * and answers DATA_LOSS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_MAPPING_H
#define TD_PROTO_BYTES_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct td_mapping;

/* Maps a whole regular file. Returns new. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (no regular file),
 * RESOURCE_EXHAUSTED. An empty file has size 0. */
TD_MUST enum td_code td_mapping_open(const char *path, struct td_mapping **out, struct td_err *err);
/* Likewise, opened beneath the folder `root` (core/base/beneath.h); NULL: anywhere. */
TD_MUST enum td_code td_mapping_open_beneath(const char *root, const char *path, struct td_mapping **out,
                                             struct td_err *err);
/* Likewise what fd, which stays the caller's, is open on. of_all: runs of any model may read it
 * (td_mapping_damaged_of_all). */
TD_MUST enum td_code td_mapping_of(int fd, const char *path, bool of_all, struct td_mapping **out,
                                   struct td_err *err);
struct td_mapping *td_mapping_ref(struct td_mapping *m);
void td_mapping_unref(void *m); /* unmaps with the last reference; takes void * so that buffers can call it */
const unsigned char *td_mapping_data(const struct td_mapping *m, size_t *n);

/* Which file, and which state of it: all that the system changes when somebody writes to it. */
struct td_file_identity {
    uint64_t dev, ino, size;
    int64_t modified_ns, changed_ns;
    uint64_t offset; /* of the address asked about */
};
/* Of the mapping that holds this address, which lasts meanwhile, when it was opened. False: none does. */
bool td_mapping_identity(const void *address, struct td_file_identity *out);
/* Whether the path that it was opened as still leads to that file in that state. */
bool td_mapping_is_current(const void *address);

/* True once the file of the mapping that holds this address has shrunk. Cheap; any thread. */
bool td_mapping_damaged(const void *address);
/* True while a file that is mapped has shrunk that was opened as dir/NAME or dir/NAME/NAME: what was read
 * from it may be zeros. Cheap while nothing is damaged; any thread. */
bool td_mapping_damaged_below(const char *dir);
/* Likewise a file that was mapped as one of all. */
bool td_mapping_damaged_of_all(void);
/* Number of mappings damaged so far: 0 means that no reader has been given zeros. */
unsigned long td_mapping_damages(void);
/* Installs the SIGBUS handler. Faults elsewhere go to the handler that was there before. */
void td_mapping_install_handler(void);

#endif
