/* server/base/statm.h - what this process has of memory, as the kernel counts it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_STATM_H
#define TD_SERVER_BASE_STATM_H

#include <stdint.h>

/* Bytes. Zeros: it cannot be read. */
struct td_statm {
    uint64_t mapped;   /* of address space */
    uint64_t resident; /* of it, */
    uint64_t of_files; /* and of that, what is of files or shared */
    uint64_t data;     /* data and stacks, as RLIMIT_DATA counts them */
};
/* On any thread. */
struct td_statm td_statm(void);

#endif
