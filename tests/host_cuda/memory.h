/* tests/host_cuda/memory.h - allocations of device memory and of pinned host memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_MEMORY_H
#define TD_TESTS_HOST_CUDA_MEMORY_H

#include "tests/host_cuda/device.h"

namespace host_cuda
{

struct allocation {
    uintptr_t at;
    size_t bytes;
    int device; /* -1: pinned host memory */
    int owner;  /* the device that it goes with when that is reset */
    char *map;  /* with red zones on both sides */
    size_t map_bytes;
    bool freed, emptied; /* freed: the program may not use it; emptied: what was queued before that is done */
    std::vector<past_use> past;
};

/* The caller holds mu. NULL: in no allocation; a freed one is found as long as it is kept. */
allocation *find_allocation(uintptr_t at);
/* Whether the memory may be used: in no allocation, or within a living one. */
bool within_bounds(const void *at, size_t bytes);
enum class residence { PAGEABLE, PINNED, DEVICE };
residence where_is(const void *at);
/* Memory that the host has for itself, which no GPU reads: mapped, and no allocation's. */
bool is_the_hosts(uintptr_t at);

/* Checks work's uses against what else uses the memory (in the debugging mode), and keeps them. The caller
 * holds mu. */
void check_uses(const op &o, int device, const moment &when, const vector_clock &before);
void check_freed(int device); /* reports writes to what was freed */
/* Device or, with device -1, pinned memory. cudaErrorMemoryAllocation: there is no more. */
cudaError_t allocate(int device, size_t bytes, void **out);
void retire(allocation *a);       /* all work with it is done */
void end_allocations(int device); /* of a device that is reset */
/* Whether it lies in what an earlier context had. */
bool is_gone(uintptr_t at);
bool in_use(const void *at, size_t bytes); /* by queued work that the host does not know to be done */

/* Opens device memory to a stream's thread; and to a host thread of the runtime for a while. */
void open_device_memory();
struct device_memory_open {
    device_memory_open();
    ~device_memory_open();
    int rights;
};

vector_clock &host_clock(); /* under mu */

} // namespace host_cuda

#endif
