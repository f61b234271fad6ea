/* tests/sim/sim_pinned.c - blocks in a list. Making one takes no time: the device keeps them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_pinned.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/base/runtime.h"
#include "tests/sim/sim_clock.h"

struct block {
    struct block *next;
    size_t bytes;
    char data[];
};

static struct block *blocks; /* guarded by the clock's lock */
static double bytes_per_ns;

void sim_pinned_open(const struct sim_gpu_costs *costs)
{
    bytes_per_ns = costs->stage_bytes_per_ns;
}

bool sim_pinned_stages(const void *here)
{
    const char *p = here;
    bool pinned = false;
    sim_enter();
    for (const struct block *b = blocks; b != NULL && !pinned; b = b->next) {
        pinned = p >= b->data && p < b->data + b->bytes;
    }
    sim_leave();
    return bytes_per_ns > 0 && !pinned;
}

void sim_pinned_stage(size_t bytes)
{
    sim_sleep(bytes_per_ns > 0 ? (int64_t)((double)bytes / bytes_per_ns) : 0);
}

int td_cuda_host_allocate(int device, size_t bytes, void **out)
{
    struct block *b = malloc(sizeof *b + bytes);
    if (b == NULL) {
        return 2; /* cudaErrorMemoryAllocation */
    }
    b->bytes = bytes;
    sim_enter();
    b->next = blocks;
    blocks = b;
    sim_leave();
    *out = b->data;
    return device;
}

int td_cuda_host_free(int device, void *p)
{
    sim_enter();
    struct block **at = &blocks;
    while ((*at)->data != p) {
        at = &(*at)->next;
    }
    struct block *b = *at;
    *at = b->next;
    sim_leave();
    free(b);
    return device;
}

void td_cuda_host_fill(void *pinned, const void *from, size_t bytes)
{
    memcpy(pinned, from, bytes);
    sim_pinned_stage(bytes);
}
