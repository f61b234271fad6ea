/* core/base/device_nodes.h - what conditional nodes in recorded work go by, all of it on the device: the host
 * says where (core/base/device.h), and kernels look there (kernels/cuda/base/loop.cu). C and C++.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_DEVICE_NODES_H
#define TD_CORE_BASE_DEVICE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A loop. One in another may end for want of rounds, and with it the launch; the next launch goes on there.
 * */
struct td_device_loop {
    const void *go;       /* a bool: the condition */
    uint32_t *left;       /* [2]: rounds that may yet begin; and 1 where one ended for want of them, else 0 */
    const int32_t *fault; /* n_faults words of launches that judge their inputs: one that is set ends it */
    int n_faults;
    /* NULL: it is in no other. *paused: 1 where it has ended for want of rounds, or one in it has; *runs: 0
     * where it has no part in this launch, as the pass before it has found */
    uint32_t *paused;
    const uint32_t *runs;
};

/* Work that is left out where the launch has ended for want of rounds, or goes on further behind. */
struct td_device_pass {
    const uint32_t *left;  /* as struct td_device_loop has it */
    const uint32_t *later; /* n_later words: `paused` of loops behind it */
    int n_later;
    /* NULL, or of the loop that comes next: *runs: whether it goes round now; *fresh: and begins */
    const uint32_t *paused;
    uint32_t *runs, *fresh;
};

enum { TD_DEVICE_BODIES = 32 /* at most */ };

/* Which of several bodies is run. */
struct td_device_branch {
    const void *value; /* on the device, a number of so many bytes */
    size_t bytes;
    bool is_float;
    /* an int32: body `value`, or the last where there is none of that number; else body 0 where the value is
     * not zero, and body 1 where it is */
    bool by_number;
    int n;
};

#endif
