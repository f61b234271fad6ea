/* tests/host_cuda/host_cuda.h - CUDA on the host: a CUDA device made of nothing but the CPU, for tests. Users
 * are never offered it.
 *
 * The .cu sources that nvcc compiles are compiled as host C++ (CMake: td_host_cuda_sources) and linked with
 * the library `host_cuda`. Device code is launched by cudaLaunchKernel; there is no <<< >>>. A grid runs
 * block by block on its stream's thread; a block's threads are fibers of that one, and whoever waits at a
 * barrier or for its warp yields to the others. A thread that spins until another one writes spins for ever.
 *
 *   HOST_CUDA_DEVICES=1      how many devices there are
 *   HOST_CUDA_DRIVER=12040   CUDA's version that the driver says it serves; the default is the toolkit's
 *   HOST_CUDA_MEMORY=BYTES   each one's memory (4 GiB); beyond it cudaMalloc* says cudaErrorMemoryAllocation
 *   HOST_CUDA_FAIL_AT=0      which of the first one's pieces of work, from 1, fails for good; 0: none
 *   HOST_CUDA_OLD=99         the number of one that has compute capability 7.0
 *   HOST_CUDA_NO_STREAMS=99  the number of one where no stream can be made
 *   HOST_CUDA_RESETS=1       0: cudaDeviceReset does not help a device that has an error that stays
 *   HOST_CUDA_CONDITIONS=1   0: graphs have no conditional nodes (cudaErrorNotSupported)
 *   HOST_CUDA_SWITCHES=1     0: those that they have are While and If without another body, as before CUDA
 * 12.8
 *   HOST_CUDA_WORKERS=1      OS threads that share a grid's blocks
 *   HOST_CUDA_DEBUG=0        1: the debugging mode
 *   HOST_CUDA_SEED=1         what the debugging mode draws from
 *   HOST_CUDA_DELAY_US=200   at most so long a stream waits before each piece of work in the debugging mode
 *
 * The debugging mode
 *   - fills fresh device memory, shared memory at each block's start, freed memory, and host memory that a
 *     queued copy will write, with 0xFF (NaN, -1);
 *   - draws the order of a block's threads between barriers, that of a graph's independent nodes, and delays;
 *   - reports two pieces of work on one memory, one of which writes, when nothing orders them: neither a
 *     stream, nor an event, nor a wait of the host. Copies and memsets are known to the byte, a kernel by the
 *     first element behind each pointer that it is given (kernel_call.h). Host threads count as one;
 *   - reports work on freed memory when it is queued, and a write to it when the device is next waited for;
 *   - denies host threads the device's memory, where the processor has protection keys.
 * Always reported: an overwritten red zone around an allocation (when it is freed) or behind dynamic shared
 * memory, a barrier that not all threads come to, a shuffle from a thread that is not in the mask, and what
 * is wrong with a graph's conditions (condition.cc).
 *
 * cudaDeviceReset ends what there is of the device: streams, events, graphs that were instantiated, memory,
 * and pinned memory that was allocated while the device was the thread's. Whoever uses one of these
 * afterwards is reported (a kernel or a host thread that touches the memory stops the process). Code that was
 * loaded at run time stays, as a cudaLibrary_t belongs to no context.
 *
 * A report goes to stderr as "host_cuda: ..." and is a sticky error of the device, as CUDA's are: every later
 * call returns it.
 *
 * With ASan, device and dynamic shared memory have poisoned red zones and freed memory is poisoned: a kernel
 * that leaves its bounds is stopped where it does. With TSan every thread of a block is one to it, ordered by
 * barriers and __syncwarp alone, and streams are ordered as CUDA orders them: it reports what two threads of
 * a block, two streams, or a stream and the host do to one place at once. Blocks that one OS thread runs are
 * ordered (shared memory is one to them); HOST_CUDA_WORKERS=2 finds what blocks do to each other.
 *
 * Static shared variables are told from others by the program's symbols: a thread_local variable in a
 * function that a host callback reads would be filled as well.
 *
 * Left out: textures, IPC handles, graph edits, allocation under capture, dynamic parallelism, cooperative
 * groups, cudaMemcpyToSymbol. Asynchronous copies between pageable host memory and the device read the source
 * at the call; into pageable memory they return when they are done.
 *
 * Threads: as CUDA's, any call from any thread. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_H
#define TD_TESTS_HOST_CUDA_H

#include <cuda_runtime.h>

extern "C" {
void host_cuda_fail(cudaError_t error);  /* the current device's next piece of work fails with it */
void host_cuda_fail_record(void);        /* the next cudaEventRecord records nothing and fails */
void host_cuda_reset(void);              /* the current device's sticky error and delayed failure are gone */
int host_cuda_reports(void);             /* how many so far */
const char *host_cuda_last_report(void); /* "" before the first; until the next one */
void host_cuda_set(const char *variable, const char *value); /* setenv; before the first call of CUDA's */
}

#endif
